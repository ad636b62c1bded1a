// SPDX-License-Identifier: GPL-2.0-only
//! Events over the control socket. After the request there is a line of JSON for each event, until
//! one of the two ends goes. An empty line now and then says that nothing happened.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::client::begin;
use super::protocol::{Answer, Request, write_line};
use crate::agent::events::hub::Following;
use crate::agent::events::{Event, Wanted};
use crate::agent::peers::is_timeout;

/// How often at least there is a line.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// A client that does not read for this long is dropped. A client waits this long for a line.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends events to a client. Returns when the client goes, or is let go.
pub fn serve(mut stream: &UnixStream, following: &Following) -> Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    loop {
        match following.next(SIGN_OF_LIFE) {
            Some(event) => write_line(&mut stream, &event)?,
            None if following.is_over() => return Ok(()),
            None => stream.write_all(b"\n")?,
        }
    }
}

/// The events of the scheduler that runs in another process.
pub struct Followed {
    lines: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Followed {
    pub fn begin(wanted: Wanted) -> Result<Self> {
        let stream = begin(&Request::Follow(wanted))?;
        let mut it = Self { lines: BufReader::new(stream), line: Vec::new() };
        it.lines.read_until(b'\n', &mut it.line).context("the scheduler gave no answer")?;
        let answer = serde_json::from_slice(&std::mem::take(&mut it.line));
        match answer.context("the scheduler's answer is not understood")? {
            Answer::Following => Ok(it),
            Answer::Refused(why) => bail!("{why}"),
            other => bail!("this is no answer to who wants to follow: {other:?}"),
        }
    }

    /// Returns the next event, or none if `end` or a sign of life comes first.
    pub fn next(&mut self, end: Option<Instant>) -> Result<Option<Event>> {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.unwrap_or(PATIENCE);
        if left.is_zero() {
            return Ok(None);
        }
        self.lines.get_ref().set_read_timeout(Some(left))?;
        match self.lines.read_until(b'\n', &mut self.line) {
            // What was read of a line is kept.
            Err(error) if is_timeout(&error) => return Ok(None),
            Err(error) => return Err(error).context("cannot hear from the scheduler"),
            Ok(_) if !self.line.ends_with(b"\n") => {
                bail!(
                    "the scheduler has ended, cannot read what happens, or was not listened to for \
                     a minute"
                )
            }
            Ok(_) => {}
        }
        let line = std::mem::take(&mut self.line);
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).context("an event is not understood")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::events::Kind;
    use crate::agent::events::hub::Hub;
    use std::thread;

    fn listen(stream: UnixStream) -> Followed {
        Followed { lines: BufReader::new(stream), line: Vec::new() }
    }

    #[test]
    fn events_arrive_until_who_listens_goes() {
        let (near, far) = UnixStream::pair().unwrap();
        let hub = Hub::new();
        let following = hub.follow(Wanted::default()).unwrap();
        hub.welcome(7);
        hub.publish_missed(5);
        let served = thread::spawn(move || serve(&near, &following));
        let mut followed = listen(far);
        let first = followed.next(None).unwrap().unwrap();
        assert_eq!((first.kind, first.policy), (Kind::Policy, Some(7)));
        assert_eq!(followed.next(None).unwrap().unwrap().count, Some(5));
        // Nothing happens: there is a sign of life, and nobody takes it for an event.
        assert_eq!(followed.next(None).unwrap(), None);

        drop(followed);
        assert!(served.join().unwrap().is_err());
        assert_eq!(hub.newest(), None);
    }

    #[test]
    fn who_cannot_be_told_anything_is_let_go() {
        let (near, far) = UnixStream::pair().unwrap();
        let hub = Hub::new();
        let following = hub.follow(Wanted::default()).unwrap();
        hub.welcome(7);
        hub.dismiss();
        let served = thread::spawn(move || serve(&near, &following));
        let mut followed = listen(far);
        assert_eq!(followed.next(None).unwrap().unwrap().policy, Some(7));
        let why = followed.next(None).unwrap_err().to_string();
        assert!(why.contains("cannot read what happens"), "{why}");
        served.join().unwrap().unwrap();
    }

    #[test]
    fn half_a_line_is_kept_until_the_rest_comes() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut followed = listen(far);
        let soon = || Some(Instant::now() + Duration::from_millis(1));
        let line = br#"{"at_s":1.0,"kind":"loaded","why":"x"}"#;
        near.write_all(&line[..10]).unwrap();
        assert_eq!(followed.next(soon()).unwrap(), None);
        near.write_all(&line[10..]).unwrap();
        near.write_all(b"\n").unwrap();
        assert_eq!(followed.next(None).unwrap().unwrap().kind, Kind::Loaded);
        drop(near);
        assert!(followed.next(None).unwrap_err().to_string().contains("has ended"));
    }
}
