//! The server's side of HTTP CONNECT (RFC 9110, section 9.3.6), at the port of SOCKS5.

use std::io;

use httparse::{EMPTY_HEADER, Error, Status};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::wire::{Destination, Reply};

/// Longest head of a request, bytes, and most of its fields.
const MAX_HEAD: usize = 8 << 10;
const MAX_FIELDS: usize = 64;

const MALFORMED: &str = "400 not a request of HTTP";
const TARGET: &str = "400 expected a host and a port, such as example.org:443";
const METHOD: &str = "405 expected SOCKS5 or the method CONNECT";
const TOO_LARGE: &str = "431 the head is too large";

/// Reads the head of a request that begins with this byte, and no byte beyond it. Returns its
/// destination, or the status for its client.
///
/// # Errors
/// Errors of the reader.
pub async fn read(
    client: &mut (impl AsyncRead + Unpin),
    first: u8,
) -> io::Result<Result<Destination, &'static str>> {
    let mut head = vec![first];
    // An empty line ends it. Clients of one connection send few bytes: no buffer is needed.
    while !head.ends_with(b"\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() == MAX_HEAD {
            return Ok(Err(TOO_LARGE));
        }
        head.push(client.read_u8().await?);
    }
    Ok(parse(&head))
}

/// Destination of a request, or the status for its client.
fn parse(head: &[u8]) -> Result<Destination, &'static str> {
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(Status::Complete(_)) => {}
        Err(Error::TooManyHeaders) => return Err(TOO_LARGE),
        Ok(Status::Partial) | Err(_) => return Err(MALFORMED),
    }
    if request.method != Some("CONNECT") {
        return Err(METHOD);
    }
    let to: Option<Destination> = request.path.and_then(|path| path.parse().ok());
    to.filter(|to| to.port > 0).ok_or(TARGET)
}

/// Status of a reply: the reason is for people.
pub fn status(reply: Reply) -> &'static str {
    match reply {
        Reply::Succeeded => "200 Connection established",
        Reply::NotAllowed => "403 a rule or the allow-list refuses this destination",
        Reply::NetworkUnreachable => "503 no tunnel, or no route to the destination",
        Reply::HostUnreachable => "502 the destination does not answer",
        Reply::ConnectionRefused => "502 the destination refuses the connection",
        Reply::TtlExpired => "504 the destination does not answer in time",
        _ => "502 the destination cannot be reached",
    }
}

/// Bytes of a response with this status.
pub fn response(status: &str) -> Vec<u8> {
    // A response that establishes a tunnel has no content.
    let fields = match status.split_at(3).0 {
        "200" => "",
        "405" => "Allow: CONNECT\r\nContent-Length: 0\r\nConnection: close\r\n",
        _ => "Content-Length: 0\r\nConnection: close\r\n",
    };
    format!("HTTP/1.1 {status}\r\n{fields}\r\n").into_bytes()
}
