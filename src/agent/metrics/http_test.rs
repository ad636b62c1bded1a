// SPDX-License-Identifier: GPL-2.0-only
//! What clients may do to the server, by mistake or not.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::http;
use super::snapshot::Snapshot;
use super::source::{self, Exporter};

/// A server whose main loop has nothing else to do, and is attached or not.
fn start(is_attached: bool) -> SocketAddr {
    let (exporter, mut source) = source::channel();
    source.patience = FOR_EVER;
    if is_attached {
        exporter.attached();
    }
    thread::spawn(move || answer_all(&exporter));
    http::serve(SocketAddr::from(([127, 0, 0, 1], 0)), source).unwrap()
}

fn answer_all(exporter: &Exporter) {
    for asked in exporter.requests() {
        exporter.answer(&asked, Ok(Snapshot::default()));
    }
}

/// What has not come by then does not.
const FOR_EVER: Duration = Duration::from_secs(60);

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(FOR_EVER)).unwrap();
    stream
}

/// What is answered to this, which may not all be listened to.
fn say(server: SocketAddr, text: &[u8]) -> String {
    let mut stream = connect(server);
    let _ = stream.write_all(text);
    hear(&mut stream)
}

fn hear(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(server: SocketAddr, path: &str) -> String {
    say(server, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
}

#[test]
fn each_path_has_its_answer() {
    let server = start(true);
    let metrics = get(server, "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"));
    assert!(metrics.contains("avxspec_scrapes_total 1\n") && metrics.ends_with("# EOF\n"));
    assert!(get(server, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(get(server, "/readyz").starts_with("HTTP/1.1 200 "));
    for path in ["/", "/metrics/", "/../etc/passwd", "/METRICS"] {
        let answer = get(server, path);
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("there are"), "{answer}");
    }
    let classic = say(server, b"GET /metrics HTTP/1.1\r\nAccept: */*\r\n\r\n");
    assert!(classic.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{classic}");
    assert!(!classic.contains("# EOF"));
}

#[test]
fn before_a_scheduler_is_attached_it_is_not_ready() {
    let server = start(false);
    assert!(get(server, "/healthz").starts_with("HTTP/1.1 200 "));
    let answer = get(server, "/readyz");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("no scheduler is attached"));
}

#[test]
fn other_methods_are_refused() {
    let server = start(true);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = say(server, format!("{method} /metrics HTTP/1.1\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("only GET"), "{answer}");
    }
    let answer = say(server, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 405 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn what_is_no_request_is_told_so() {
    let server = start(true);
    for garbage in [vec![0u8; 1 << 20], vec![0xff; 1 << 20]] {
        let answer = say(server, &garbage);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    for endless in [vec![b'x'; 1 << 20], b"GET / HTTP/1.1\r\nA: ".repeat(1 << 16)] {
        let answer = say(server, &endless);
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(1 << 20));
    assert!(say(server, endless.as_bytes()).starts_with("HTTP/1.1 431 "));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    assert!(say(server, many.as_bytes()).starts_with("HTTP/1.1 400 "));
    assert!(get(server, "/metrics").starts_with("HTTP/1.1 200 "));
}

#[test]
fn half_a_request_holds_up_nobody_and_is_cut_off() {
    let server = start(true);
    let mut halves: Vec<TcpStream> = (0..20).map(|_| connect(server)).collect();
    for half in &mut halves {
        half.write_all(b"GET /metrics HTT").unwrap();
    }
    assert!(get(server, "/metrics").starts_with("HTTP/1.1 200 "));
    // They are not cut off yet, so that nobody can have waited for that.
    halves[0].set_nonblocking(true).unwrap();
    assert!(halves[0].peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    halves[0].set_nonblocking(false).unwrap();
    for half in &mut halves {
        assert!(hear(half).starts_with("HTTP/1.1 408 "));
    }

    let mut ended = connect(server);
    ended.write_all(b"GET /metrics HTT").unwrap();
    ended.shutdown(Shutdown::Write).unwrap();
    assert!(hear(&mut ended).starts_with("HTTP/1.1 400 "));
}

/// A byte now and then is no way to stay.
#[test]
fn a_slow_writer_is_cut_off() {
    let server = start(true);
    let mut slow = connect(server);
    let mut writer = slow.try_clone().unwrap();
    thread::spawn(move || {
        while writer.write_all(b"G").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    assert!(hear(&mut slow).starts_with("HTTP/1.1 408 "));
}

#[test]
fn a_slow_reader_holds_up_nobody() {
    let server = start(true);
    let slow: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = connect(server);
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert!(get(server, "/metrics").starts_with("HTTP/1.1 200 "));
    drop(slow);
}

#[test]
fn a_hundred_at_once_are_answered_and_those_too_many_are_told() {
    let server = start(true);
    let open: Vec<TcpStream> = (0..100).map(|_| connect(server)).collect();
    let clients: Vec<_> = open
        .into_iter()
        .map(|mut stream| {
            thread::spawn(move || {
                let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
                hear(&mut stream)
            })
        })
        .collect();
    let answers: Vec<String> = clients.into_iter().map(|it| it.join().unwrap()).collect();
    let with = |status: &str| answers.iter().filter(|it| it.starts_with(status)).count();
    let (served, refused) = (with("HTTP/1.1 200 "), with("HTTP/1.1 503 "));
    assert!(served >= 64 && served + refused == 100, "{served} were served, {refused} refused");
    let counted = format!("avxspec_refused_connections_total {refused}\n");
    wait_until(|| get(server, "/metrics").contains(&counted));
}

#[test]
fn more_than_there_is_room_for_are_told_to_come_back() {
    let server = start(true);
    let mut open: Vec<TcpStream> = (0..64).map(|_| connect(server)).collect();
    assert!(hear(&mut connect(server)).contains("at most 64 connections"));
    let mut left = open.pop().unwrap();
    left.shutdown(Shutdown::Write).unwrap();
    hear(&mut left);
    drop(left);
    wait_until(|| get(server, "/healthz").starts_with("HTTP/1.1 200 "));
}

/// Who left is gone a moment later.
fn wait_until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < FOR_EVER, "that does not come");
        thread::sleep(Duration::from_millis(10));
    }
}
