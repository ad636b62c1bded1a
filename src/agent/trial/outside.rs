// SPDX-License-Identifier: GPL-2.0-only
//! Reads what programs get done that do not say so themselves. It is a number that somebody counts,
//! in a file or behind a URL.
//!
//! A thread for each number asks for it again and again while anything is measured, and keeps what
//! it was told last and when. So nobody waits for a server that answers late or never. What that
//! server told before is all that is known of its program.

use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, ensure};
use tracing::warn;

use crate::bpf::intf::avx_name;
use crate::bpf::names::{name_of, printable, text_of};
use crate::files;
use crate::trials::Sum;

const EVERY: Duration = Duration::from_millis(20);

/// The timeout of a request, in seconds.
const PATIENCE: u64 = 2;

const LARGEST_KIB: u64 = 4096;

/// Where the number is that a program is measured by.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    program: avx_name,
    of: Of,
    /// The name that Prometheus has for it. Without one there is nothing but the number.
    series: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Of {
    File(PathBuf),
    Url(String),
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (program, place) = text
            .split_once('=')
            .context("give PROGRAM=FILE or PROGRAM=http://..., with #SERIES behind it, if any")?;
        let (place, series) = match place.split_once('#') {
            Some((place, series)) => (place, Some(series.to_owned())),
            None => (place, None),
        };
        ensure!(
            !place.is_empty() && series.as_deref() != Some(""),
            "there is nothing behind a sign"
        );
        let of = match place.split_once("://") {
            Some(("http", _)) => Of::Url(place.to_owned()),
            Some(_) => return Err(anyhow!("a URL has to begin with http://")),
            None => Of::File(place.into()),
        };
        let program = name_of(program).filter(|name| name.words[0] != 0);
        let program = program.context("a program has a name of 1 to 15 bytes, as ps shows it")?;
        Ok(Self { program, of, series })
    }
}

impl Place {
    fn read(&self) -> Result<f64> {
        let text = match &self.of {
            Of::File(path) => files::read_text(path, LARGEST_KIB)?,
            Of::Url(url) => get(url)?,
        };
        let number = match &self.series {
            Some(series) => sum_of(&text, series),
            None => text.trim().parse().ok(),
        };
        let number = number.context("there is no such number")?;
        ensure!(number.is_finite() && number >= 0.0, "{number} is nothing that can be done");
        Ok(number)
    }

    fn name(&self) -> String {
        match &self.of {
            Of::File(path) => printable(&path.to_string_lossy()),
            Of::Url(url) => printable(url),
        }
    }
}

fn get(url: &str) -> Result<String> {
    let response = minreq::get(url).with_timeout(PATIENCE).with_follow_redirects(false);
    let response = response.send_lazy()?;
    ensure!(response.status_code == 200, "the answer is {}", response.status_code);
    let mut text = String::new();
    response.take(LARGEST_KIB * 1024).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the sum of all series of this name, or the number of the one with these labels.
fn sum_of(text: &str, series: &str) -> Option<f64> {
    let number = |line: &str| {
        let (labels, rest) = match line.strip_prefix(series)? {
            rest if rest.starts_with('{') => rest.rsplit_once('}')?,
            rest => ("", rest),
        };
        // A name that goes on is another name.
        let is_it = !labels.is_empty() || rest.starts_with([' ', '\t']);
        rest.split_whitespace().next().filter(|_| is_it)?.parse::<f64>().ok()
    };
    text.lines().filter_map(number).reduce(|sum, number| sum + number)
}

/// A place, what it told, and when.
struct Watched {
    place: Place,
    state: Mutex<State>,
    is_needed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many need the number.
    needed: usize,
    last: Option<f64>,
    /// What was done while this was asked for, and when that was last told.
    done: Sum,
    /// True if it was said that there is no such number, so that it is not said again and again.
    is_said: bool,
}

impl State {
    /// Notes a number. A number that is less than before says from where it counts again.
    fn note(&mut self, number: f64, now_ns: f64) {
        self.done.work += self.last.map_or(0.0, |last| (number - last).max(0.0));
        self.done.awake_ns = now_ns;
        self.last = Some(number);
    }
}

impl Watched {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let began = Instant::now();
        loop {
            let idles = |state: &mut State| state.needed == 0;
            drop(self.is_needed.wait_while(self.state(), idles));
            let told = self.place.read();
            let mut state = self.state();
            match told {
                Ok(number) => state.note(number, began.elapsed().as_nanos() as f64),
                Err(error) if !state.is_said => {
                    state.is_said = true;
                    let (program, place) = (text_of(&self.place.program), self.place.name());
                    warn!("nobody knows what {program} gets done, in {place}: {error:#}");
                }
                Err(_) => {}
            }
            drop(state);
            thread::sleep(EVERY);
        }
    }
}

/// All numbers that can be asked for.
#[derive(Clone, Default)]
pub struct Outside(Arc<[Arc<Watched>]>);

impl Outside {
    pub fn new(places: &[Place]) -> Result<Self> {
        let start = |place: &Place| {
            let watched = Arc::new(Watched {
                place: place.clone(),
                state: Mutex::default(),
                is_needed: Condvar::new(),
            });
            let watches = watched.clone();
            let thread = thread::Builder::new().name("progress".to_owned());
            thread.spawn(move || watches.watch()).context("cannot start a thread")?;
            Ok(watched)
        };
        Ok(Self(places.iter().map(start).collect::<Result<_>>()?))
    }

    /// Has all numbers asked for as long as the returned value exists.
    pub fn ask(&self) -> Asked {
        for it in self.0.iter() {
            let mut state = it.state();
            if state.needed == 0 {
                // What was done while nobody asked does not count.
                *state = State { done: state.done, ..State::default() };
            }
            state.needed += 1;
            it.is_needed.notify_all();
        }
        Asked(self.clone())
    }

    /// Returns what each program has done of which anything is known. In place of the time awake,
    /// which is not known, there is the time at which that was told.
    pub fn sums(&self) -> Vec<(avx_name, Sum)> {
        let sum = |it: &Arc<Watched>| {
            let state = it.state();
            state.last.map(|_| (it.place.program, state.done))
        };
        self.0.iter().filter_map(sum).collect()
    }
}

pub struct Asked(Outside);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.0.iter().for_each(|it| it.state().needed -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    const TEXT: &str = "# HELP a_total of all\n# TYPE a_total counter\n\
        a_total{x=\"}\"} 3\na_total{x=\"2\"} 4.5 1700000000\na_total_more 100\nb 7e1\nc nan\n";

    #[test]
    fn a_series_is_found_by_its_name_or_with_its_labels() {
        let sum = |series| sum_of(TEXT, series);
        assert_eq!(sum("a_total"), Some(7.5));
        assert_eq!(sum("a_total{x=\"2\"}"), Some(4.5));
        assert_eq!((sum("b"), sum("a"), sum("d")), (Some(70.0), None, None));
        assert!(sum("c").unwrap().is_nan());
    }

    #[test]
    fn places_are_read_and_refused_in_a_sentence() {
        let place: Place = "nginx=http://127.0.0.1:1/m?a=b#x{y=\"z\"}".parse().unwrap();
        assert_eq!(place.of, Of::Url("http://127.0.0.1:1/m?a=b".to_owned()));
        assert_eq!(place.series.as_deref(), Some("x{y=\"z\"}"));
        assert_eq!(text_of(&place.program), "nginx");
        let of = "a b=/run/b".parse::<Place>().unwrap().of;
        assert_eq!(of, Of::File("/run/b".into()));
        for (wrong, why) in [
            ("nginx", "give PROGRAM=FILE"),
            ("=/run/b", "1 to 15 bytes"),
            ("a-name-of-16-byte=/run/b", "1 to 15 bytes"),
            ("nginx=", "nothing behind"),
            ("nginx=/run/b#", "nothing behind"),
            ("nginx=https://a/", "begin with http://"),
        ] {
            let error = wrong.parse::<Place>().unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_number_that_goes_back_counts_from_there() {
        let mut state = State::default();
        for (number, done) in [(5.0, 0.0), (7.0, 2.0), (1.0, 2.0), (4.0, 5.0), (4.0, 5.0)] {
            state.note(number, 1.0);
            assert_eq!(state.done.work, done, "{number}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        let read = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            format!("a={}", path.display()).parse::<Place>().unwrap().read()
        };
        assert_eq!(read(b" 42\n").unwrap(), 42.0);
        for wrong in [&b"many"[..], b"", b"-1", b"nan", b"inf", b"\xff", b"1 2"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["/dev/zero", "/no/file", "/"] {
            assert!(format!("a={wrong}").parse::<Place>().unwrap().read().is_err(), "{wrong}");
        }
    }

    /// A server that never answers keeps nobody waiting, and one that answers is heard.
    #[test]
    fn whoever_answers_is_heard_and_nobody_waits_for_others() {
        let [hangs, answers] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let url = |of: &TcpListener| format!("http://{}/metrics#b", of.local_addr().unwrap());
        let url_of_answers = url(&answers);
        thread::spawn(move || {
            for (n, stream) in (1..).zip(answers.incoming().take(100)) {
                let mut stream = stream.unwrap();
                // A server that closes before it has read everything resets the connection, and the
                // answer is lost.
                assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                stream.write_all(format!("{head}b {n}\n").as_bytes()).unwrap();
            }
        });
        let place = |name: &str, of| format!("{name}={}", of).parse::<Place>().unwrap();
        let places = [place("slow", url(&hangs)), place("quick", url_of_answers)];
        let outside = Outside::new(&places).unwrap();
        assert!(outside.sums().is_empty());
        let asked = outside.ask();
        let heard = (0..1000).find_map(|_| {
            thread::sleep(EVERY);
            Some(outside.sums()).filter(|sums| sums.iter().any(|(_, sum)| sum.work >= 2.0))
        });
        let heard: Vec<_> = heard.unwrap().iter().map(|(program, _)| text_of(program)).collect();
        assert_eq!(heard, ["quick"]);
        drop(asked);
        assert!(outside.0.iter().all(|it| it.state().needed == 0));
    }
}
