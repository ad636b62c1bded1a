// SPDX-License-Identifier: GPL-2.0-only
//! Where the threads that serve HTTP get their numbers: from the main loop, which answers when
//! it has time, and keeps what was counted before the scheduler was loaded anew.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, bounded};

use super::shown::{Row, Shown};
use super::snapshot::{Snapshot, Sums};
use crate::agent::cgroups;

/// A client that asks this soon gets the answer that the one before it got.
const SHARED_FOR: Duration = Duration::from_millis(200);

/// How long to wait for the main loop, which looks around more often, unless it loads the
/// scheduler.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request for a snapshot.
pub struct Asked(Sender<Result<Snapshot>>);

/// The end of the main loop.
pub struct Exporter {
    asked: Receiver<Asked>,
    /// This keeps the channel open, even where nothing listens for clients.
    _asking: Sender<Asked>,
    is_attached: Arc<AtomicBool>,
    earlier: Sums,
    restarts: u64,
}

/// The end of the threads that serve HTTP, of which there may be any number.
pub struct Source {
    asking: Sender<Asked>,
    pub(super) patience: Duration,
    is_attached: Arc<AtomicBool>,
    last: Mutex<Last>,
}

/// What was answered the last time, which may be why there was no answer.
struct Last {
    at: Option<Instant>,
    view: Result<Arc<View>, String>,
    shown: Shown,
}

/// What text is made of.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub snapshot: Snapshot,
    pub cgroups: Vec<Row>,
}

pub fn channel() -> (Exporter, Source) {
    let (asking, asked) = bounded(0);
    let is_attached = Arc::new(AtomicBool::new(false));
    let last = Last { at: None, view: Err(String::new()), shown: Shown::default() };
    let source = Source {
        asking: asking.clone(),
        patience: PATIENCE,
        is_attached: is_attached.clone(),
        last: Mutex::new(last),
    };
    let earlier = Sums::default();
    (Exporter { asked, _asking: asking, is_attached, earlier, restarts: 0 }, source)
}

impl Exporter {
    pub fn requests(&self) -> &Receiver<Asked> {
        &self.asked
    }

    pub fn answer(&self, asked: &Asked, snapshot: Result<Snapshot>) {
        let whole = snapshot.map(|mut snapshot| {
            snapshot.sums.go_on_from(&self.earlier);
            snapshot.restarts = self.restarts;
            snapshot
        });
        // The thread that asked may have stopped waiting. There is room for one answer, so nothing
        // waits here.
        let _ = asked.0.send(whole);
    }

    pub fn attached(&self) {
        self.is_attached.store(true, Ordering::Relaxed);
    }

    pub fn detached(&self) {
        self.is_attached.store(false, Ordering::Relaxed);
    }

    /// Keeps the sums of a scheduler that ends. The kernel's counters begin at zero when the
    /// scheduler is loaded anew. Ours do not.
    pub fn keep(&mut self, mut sums: Sums) {
        sums.go_on_from(&self.earlier);
        sums.forget_small_cgroups();
        self.earlier = sums;
    }

    pub fn restarted(&mut self) {
        self.restarts += 1;
    }
}

impl Source {
    pub fn is_attached(&self) -> bool {
        self.is_attached.load(Ordering::Relaxed)
    }

    /// Returns what text is made of. One thread at a time asks, for all that wait meanwhile. That
    /// there was no answer is shared like an answer, because otherwise each would wait for its
    /// whole timeout, one after the other.
    pub fn view(&self) -> Result<Arc<View>, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.at.is_none_or(|at| at.elapsed() >= SHARED_FOR) {
            let snapshot = self.ask().map_err(|error| format!("{error:#}"));
            last.view = snapshot.map(|snapshot| Arc::new(last.shown.view(snapshot)));
            last.at = Some(Instant::now());
        }
        last.view.clone()
    }

    fn ask(&self) -> Result<Snapshot> {
        let (answers, answer) = bounded(1);
        let nobody = "the scheduler does not answer, it may be starting again: try once more";
        self.asking.send_timeout(Asked(answers), self.patience).ok().context(nobody)?;
        answer.recv_timeout(self.patience).context(nobody)?
    }
}

impl Shown {
    fn view(&mut self, snapshot: Snapshot) -> View {
        let work = &snapshot.sums.cgroups;
        // Looking for names takes long where there are many cgroups.
        let names = if work.is_empty() { BTreeMap::new() } else { cgroups::paths() };
        let cgroups = self.look(work, &names);
        View { snapshot, cgroups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn those_who_ask_at_once_share_an_answer() {
        let (exporter, mut source) = channel();
        source.patience = Duration::from_secs(60);
        let begun = Instant::now();
        let mut answered = 0;
        thread::scope(|scope| {
            let askers: Vec<_> = (0..50).map(|_| scope.spawn(|| source.view().is_ok())).collect();
            while !askers.iter().all(|asker| asker.is_finished()) {
                if let Ok(asked) = exporter.requests().recv_timeout(Duration::from_millis(10)) {
                    answered += 1;
                    exporter.answer(&asked, Ok(Snapshot::default()));
                }
            }
            assert!(askers.into_iter().all(|asker| asker.join().unwrap()));
        });
        // There is more than one only if starting 50 threads took longer than an answer is shared
        // for.
        assert!(answered <= 1 + begun.elapsed().as_millis() / SHARED_FOR.as_millis());
    }

    #[test]
    fn who_gets_no_answer_is_told_so() {
        let (_exporter, source) = channel();
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| assert!(source.view().unwrap_err().contains("does not answer")));
            }
        });
    }

    #[test]
    fn sums_go_on_where_an_earlier_life_ended() {
        let (mut exporter, _) = channel();
        let sums = |ns| Sums { as_avx_core_ns: [(0, ns)].into(), ..Sums::default() };
        exporter.keep(sums(5));
        exporter.keep(sums(3));
        exporter.restarted();
        let (answers, answer) = bounded(1);
        exporter.answer(&Asked(answers), Ok(Snapshot { sums: sums(1), ..Snapshot::default() }));
        let snapshot = answer.recv().unwrap().unwrap();
        assert_eq!((snapshot.sums.as_avx_core_ns[&0], snapshot.restarts), (9, 1));
    }
}
