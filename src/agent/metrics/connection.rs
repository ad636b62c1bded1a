// SPDX-License-Identifier: GPL-2.0-only
//! One connection, which has one request and one answer. A slow client is cut off, and no other
//! client ever waits for it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::exposition::Format;
use crate::agent::peers::{Until, is_timeout, refusal};

/// How long a whole request may take, and a whole answer.
const PATIENCE: Duration = Duration::from_secs(5);

const HEAD_MAX: usize = 8 * 1024;

/// No client of metrics sends more headers.
const HEADERS_MAX: usize = 64;

/// For how long, and for how many bytes, a client that still sends is listened to after the answer.
/// It could not read the answer if the connection were reset.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES: usize = 4 << 20;

pub struct Request {
    pub method: String,
    /// The path without what follows a question mark.
    pub path: String,
    pub format: Format,
}

pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: String,
}

impl Answer {
    pub fn sentence(status: u16, text: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{text}\n") }
    }
}

pub fn serve(stream: &TcpStream, answer: impl FnOnce(&Request) -> Answer) {
    let request = read_request(stream);
    let is_head = request.as_ref().is_ok_and(|request| request.method == "HEAD");
    let answer = match request {
        Ok(request) => answer(&request),
        Err(Bad::Request(answer)) => answer,
        Err(Bad::Connection) => return,
    };
    // If a client does not read its answer, nothing else can be done for it.
    if write(stream, &answer, is_head).is_ok() {
        linger(stream);
    }
}

/// Refuses a connection, and waits for nothing: a new one has room for an answer.
pub fn refuse(stream: &TcpStream, most: usize) {
    let answer = Answer::sentence(503, &refusal(most));
    let _ = stream.set_nonblocking(true);
    let _ = (&mut &*stream).write(text_of(&answer, false).as_bytes());
    let _ = stream.shutdown(Shutdown::Write);
}

enum Bad {
    /// The request is wrong, and the client gets this answer.
    Request(Answer),
    /// There is no client any more that could get an answer.
    Connection,
}

fn read_request(stream: &TcpStream) -> Result<Request, Bad> {
    let mut stream = Until::after(PATIENCE, stream);
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        let length = match stream.read(&mut part) {
            Ok(0) => return Err(bad(400, "the request has no end")),
            Ok(length) => length,
            Err(error) if is_timeout(&error) => {
                return Err(bad(408, "the request took longer than 5 seconds"));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(Bad::Connection),
        };
        head.extend(part.iter().take(length));
        if let Some(request) = parse(&head)? {
            return Ok(request);
        }
        if head.len() > HEAD_MAX {
            return Err(bad(431, "the head of the request is longer than 8 KiB"));
        }
    }
}

fn bad(status: u16, why: &str) -> Bad {
    Bad::Request(Answer::sentence(status, why))
}

/// Parses the head of a request. Returns none as long as it has no end.
fn parse(head: &[u8]) -> Result<Option<Request>, Bad> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let status = parsed.parse(head).map_err(|_| bad(400, "this is no HTTP request"))?;
    if status.is_partial() {
        return Ok(None);
    }
    let target = parsed.path.unwrap_or_default();
    Ok(Some(Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        format: format_for(parsed.headers),
    }))
}

/// Returns the format for a client. One that accepts something, but not the newer format, gets the
/// older one.
fn format_for(headers: &[httparse::Header<'_>]) -> Format {
    let mut accepted =
        headers.iter().filter(|it| it.name.eq_ignore_ascii_case("accept")).peekable();
    let says_nothing = accepted.peek().is_none();
    let names_it = accepted.any(|it| {
        let value = String::from_utf8_lossy(it.value).to_ascii_lowercase();
        value.contains("application/openmetrics-text")
    });
    if says_nothing || names_it { Format::OpenMetrics } else { Format::Classic }
}

fn text_of(answer: &Answer, is_head: bool) -> String {
    let reason = match answer.status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let allow = if answer.status == 405 { "Allow: GET\r\n" } else { "" };
    format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}\
         Connection: close\r\n\r\n{}",
        answer.status,
        answer.content_type,
        answer.body.len(),
        if is_head { "" } else { &answer.body },
    )
}

fn write(stream: &TcpStream, answer: &Answer, is_head: bool) -> io::Result<()> {
    Until::after(PATIENCE, stream).write_all(text_of(answer, is_head).as_bytes())?;
    stream.shutdown(Shutdown::Write)
}

fn linger(stream: &TcpStream) {
    let mut stream = Until::after(LINGER, stream);
    let mut heard = 0;
    let mut part = [0; 16 * 1024];
    while heard < LINGER_BYTES {
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return,
            Ok(length) => heard += length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_of(headers: &str) -> Format {
        let head = format!("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        let request = parse(head.as_bytes()).ok().flatten().unwrap();
        assert_eq!(request.path, "/metrics");
        request.format
    }

    #[test]
    fn who_does_not_read_is_cut_off() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let long = "x".repeat(64 << 20);
        serve(&listener.accept().unwrap().0, |_| Answer::sentence(200, &long));
    }

    #[test]
    fn the_older_format_is_for_those_who_do_not_name_the_newer() {
        assert_eq!(format_of(""), Format::OpenMetrics);
        let prometheus = "ACCEPT: Application/OpenMetrics-Text;version=1.0.0,*/*;q=0.1\r\n";
        assert_eq!(format_of(prometheus), Format::OpenMetrics);
        assert_eq!(format_of("Accept: */*\r\n"), Format::Classic);
        assert_eq!(format_of("Accept: text/plain\r\n"), Format::Classic);
    }
}
