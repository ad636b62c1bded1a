// SPDX-License-Identifier: GPL-2.0-only
//! The control socket: the policy is shown and changed while the scheduler runs. A line of JSON
//! asks, another one answers, and that was the connection.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use crossbeam::channel::{Receiver, Sender, bounded};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::explain::Explanation;
use super::policy::Setting;
use super::status::Status;

const SOCKET: &str = "/run/scx_avxspec/control";

/// No request is longer.
const REQUEST_MAX: u64 = 64 * 1024;

/// Nobody else waits for a peer that is slower.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What is in force?
    Show,
    /// Turn these knobs, each as KNOB=VALUE, all at once.
    Set(Vec<String>),
    /// What is the scheduler doing?
    Status,
    /// What does it think of this thread?
    Explain(i32),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// This is, from now on.
    InForce {
        generation: u64,
        settings: Vec<Setting>,
    },
    Status(Box<Status>),
    Explanation(Box<Explanation>),
    /// Nothing has changed, for this reason.
    Refused(String),
}

/// A request that waits for its answer.
pub struct Pending {
    pub request: Request,
    answers: Sender<Answer>,
}

impl Pending {
    pub fn answer(self, answer: Answer) {
        // Who asked may have gone meanwhile.
        let _ = self.answers.send(answer);
    }
}

/// Opens the socket. It outlives the restarts of the scheduler.
pub fn serve() -> Result<Receiver<Pending>> {
    serve_at(Path::new(SOCKET))
}

fn serve_at(path: &Path) -> Result<Receiver<Pending>> {
    let listener = listen(path).with_context(|| format!("cannot listen at {}", path.display()))?;
    let (pending, requests) = bounded(0);
    thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || accept_all(&listener, &pending))
        .context("cannot start the thread that listens for requests")?;
    Ok(requests)
}

/// For root alone. What a killed agent left behind is in nobody's way.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn accept_all(listener: &UnixListener, pending: &Sender<Pending>) {
    for stream in listener.incoming() {
        let pending = pending.clone();
        let served = stream.and_then(|stream| {
            thread::Builder::new().name("control-peer".to_owned()).spawn(move || {
                // A peer that does not listen to its answer has itself to blame.
                let _ = serve_one(&stream, &pending);
            })
        });
        if let Err(error) = served {
            warn!("cannot serve a request: {error}");
        }
    }
}

fn serve_one(stream: &UnixStream, pending: &Sender<Pending>) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let answer = match read_line(stream).and_then(|line| parse(&line)) {
        Ok(request) => ask_scheduler(request, pending)?,
        Err(error) => Answer::Refused(format!("{error:#}")),
    };
    write_line(stream, &answer)
}

fn ask_scheduler(request: Request, pending: &Sender<Pending>) -> Result<Answer> {
    let (answers, answer) = bounded(1);
    pending.send(Pending { request, answers })?;
    Ok(answer.recv()?)
}

fn parse(line: &str) -> Result<Request> {
    serde_json::from_str(line).context("this is no request")
}

fn read_line(stream: &UnixStream) -> Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_MAX)).read_line(&mut line).context("cannot read a line")?;
    if !line.ends_with('\n') {
        bail!("a line of at most {REQUEST_MAX} bytes was expected");
    }
    Ok(line)
}

fn write_line(mut stream: &UnixStream, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(stream.write_all(&line)?)
}

/// Asks the scheduler that runs in another process. That it refuses is an error.
pub fn ask(request: &Request) -> Result<Answer> {
    match ask_at(Path::new(SOCKET), request)? {
        Answer::Refused(why) => bail!("{why}"),
        answer => Ok(answer),
    }
}

fn ask_at(path: &Path, request: &Request) -> Result<Answer> {
    let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!("only root may ask the scheduler: run it again with sudo")
        }
        _ => anyhow::anyhow!("no scheduler listens at {}: start it first", path.display()),
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write_line(&stream, request).context("cannot ask the scheduler")?;
    let line = read_line(&stream).context("the scheduler gave no answer")?;
    serde_json::from_str(&line).context("the scheduler's answer is not understood")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A socket behind which each request is answered by its own text.
    fn echo() -> (TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/control");
        let requests = serve_at(&path).unwrap();
        thread::spawn(move || {
            for pending in requests {
                let text = format!("{:?}", pending.request);
                pending.answer(Answer::Refused(text));
            }
        });
        (dir, path)
    }

    fn say(path: &Path, text: &[u8]) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        // The server may have heard enough before the end.
        let _ = stream.write_all(text);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn a_request_arrives_and_is_answered() {
        let (_dir, path) = echo();
        let request = Request::Set(vec!["sizing=static".to_owned()]);
        assert_eq!(ask_at(&path, &request).unwrap(), Answer::Refused(format!("{request:?}")));
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_reason() {
        let (_dir, path) = echo();
        for bad in ["{}", "\"hide\"", "{\"set\":1}", "\u{0}\u{1}"] {
            let answer = say(&path, format!("{bad}\n").as_bytes());
            assert!(answer.contains("this is no request"), "{bad}: {answer}");
        }
        assert!(say(&path, b"\"show\"").contains("a line of at most"));
        assert!(say(&path, &[0xff; 100]).contains("cannot read a line"));
    }

    #[test]
    fn a_request_without_end_is_cut_off_and_the_next_one_is_served() {
        let (_dir, path) = echo();
        say(&path, &vec![b'x'; 1 << 20]);
        assert!(ask_at(&path, &Request::Show).is_ok());
    }

    #[test]
    fn what_a_killed_agent_left_behind_is_in_nobodys_way() {
        let (_dir, path) = echo();
        drop(listen(&path).unwrap());
        assert!(listen(&path).is_ok());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn without_a_scheduler_one_is_told_to_start_it() {
        let dir = tempfile::tempdir().unwrap();
        let error = ask_at(&dir.path().join("control"), &Request::Show).unwrap_err();
        assert!(format!("{error:#}").contains("start it first"), "{error:#}");
    }
}
