// SPDX-License-Identifier: GPL-2.0-only
//! Decides whether what happens is read, which it is while clients follow.

use anyhow::{Context, Result, anyhow};
use tracing::warn;

/// A reader, which is there as long as any client follows.
pub trait Reads {
    /// Returns true if it reads nothing any more, although it was not told to end.
    fn has_ended(&self) -> bool;
}

const NOT_NOW: &str = "nobody can follow for now, try again later";

pub struct Audience<R> {
    reader: Option<R>,
    /// The client that came last when there could be no reader, and why there could be none.
    failed: Option<(u64, String)>,
}

impl<R> Default for Audience<R> {
    fn default() -> Self {
        Self { reader: None, failed: None }
    }
}

impl<R: Reads> Audience<R> {
    /// Makes sure that there is a reader while any client follows, of which the newest has this
    /// number. `tell` turns on or off that there is anything to read. What failed is not tried
    /// again until another client comes: trying is expensive where resources are short, and the
    /// client that was refused does not need it any more.
    pub fn look_after(
        &mut self,
        newest: Option<u64>,
        mut tell: impl FnMut(bool) -> Result<()>,
        start: impl FnOnce() -> Result<R>,
    ) -> Result<()> {
        let Some(newest) = newest else {
            self.failed = None;
            // A reader that stops reads what is left first.
            return if self.reader.is_some() { tell(false).map(|()| self.end()) } else { Ok(()) };
        };
        if self.reader.as_ref().is_some_and(R::has_ended) {
            self.end();
            self.failed = Some((newest, format!("{NOT_NOW}: what happens cannot be read")));
            tell(false)?;
        }
        if self.reader.is_some() {
            return Ok(());
        }
        if let Some((_, why)) = self.failed.as_ref().filter(|(failed, _)| *failed == newest) {
            return Err(anyhow!("{why}"));
        }
        let started = start().and_then(|reader| tell(true).map(|()| reader));
        let started = started.context(NOT_NOW);
        self.reader = Some(started.inspect_err(|error| {
            warn!("{error:#}");
            self.failed = Some((newest, format!("{error:#}")));
        })?);
        Ok(())
    }

    pub fn end(&mut self) {
        self.reader = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// What a reader shares with the stage.
    impl Reads for Rc<Cell<bool>> {
        fn has_ended(&self) -> bool {
            self.get()
        }
    }

    struct Stage {
        audience: Audience<Rc<Cell<bool>>>,
        has_ended: Rc<Cell<bool>>,
        is_short: Cell<bool>,
        tries: Cell<u32>,
        is_told: Cell<bool>,
    }

    impl Stage {
        fn look(&mut self, newest: Option<u64>) -> Result<(), String> {
            let start = || {
                self.tries.set(self.tries.get() + 1);
                match self.is_short.get() {
                    true => Err(anyhow!("too many open files")),
                    false => Ok(self.has_ended.clone()),
                }
            };
            let tell = |is_told| {
                self.is_told.set(is_told);
                Ok(())
            };
            let looked = self.audience.look_after(newest, tell, start);
            looked.map_err(|error| format!("{error:#}"))
        }
    }

    fn stage_that_is_short() -> Stage {
        Stage {
            audience: Audience::default(),
            has_ended: Rc::default(),
            is_short: Cell::new(true),
            tries: Cell::new(0),
            is_told: Cell::new(false),
        }
    }

    #[test]
    fn what_failed_is_tried_again_for_somebody_else_alone() {
        let mut it = stage_that_is_short();
        for _ in 0..3 {
            let why = it.look(Some(7)).unwrap_err();
            assert!(why.ends_with("try again later: too many open files"), "{why}");
        }
        assert_eq!((it.tries.get(), it.is_told.get()), (1, false));
        it.is_short.set(false);
        assert!(it.look(Some(7)).is_err());
        assert!(it.look(Some(8)).is_ok() && it.look(Some(7)).is_ok());
        assert_eq!((it.tries.get(), it.is_told.get()), (2, true));
        it.look(None).unwrap();
        assert!(!it.is_told.get());
    }

    #[test]
    fn a_reader_that_ends_is_noticed() {
        let mut it = stage_that_is_short();
        it.is_short.set(false);
        assert!(it.look(Some(7)).is_ok() && it.is_told.get());
        it.has_ended.set(true);
        for _ in 0..2 {
            let why = it.look(Some(7)).unwrap_err();
            assert!(why.ends_with("try again later: what happens cannot be read"), "{why}");
            assert_eq!((it.tries.get(), it.is_told.get()), (1, false));
        }
        it.has_ended.set(false);
        assert!(it.look(Some(8)).is_ok());
        assert_eq!((it.tries.get(), it.is_told.get()), (2, true));
    }

    #[test]
    fn who_leaves_takes_the_failure_along() {
        let mut it = stage_that_is_short();
        assert!(it.look(Some(0)).is_err() && it.look(None).is_ok());
        it.is_short.set(false);
        assert!(it.look(Some(0)).is_ok());
        assert_eq!(it.tries.get(), 2);
    }
}
