//! Queries to a DNS server (RFC 1035; RFC 5452 against forged answers).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::dns::{Query, answers, is_truncated, set_id};
use crate::random;
use crate::socket::receive_from;
use crate::wire::{encode_frame, read_frame};

/// Time after which a query over UDP is repeated.
const REPEAT: Duration = Duration::from_millis(1500);

/// Asks the server. Returns its answer: over UDP, and over TCP if it is truncated there. Each query
/// has a random number and a port of its own. Waits for as long as it is polled.
///
/// # Errors
/// If the server cannot be reached, or the answer over TCP is not one to this query.
pub async fn ask(server: SocketAddr, query: &[u8], parsed: &Query<'_>) -> io::Result<Vec<u8>> {
    let asked = Query {
        id: u16::from_ne_bytes(random()),
        ..*parsed
    };
    let mut query = query.to_vec();
    set_id(&mut query, asked.id);
    let mut answer = over_udp(server, &query, &asked).await?;
    if is_truncated(&answer) {
        answer = over_tcp(server, &query, &asked).await?;
    }
    let mut answer = Vec::from(answer);
    set_id(&mut answer, parsed.id);
    Ok(answer)
}

async fn over_udp(server: SocketAddr, query: &[u8], asked: &Query<'_>) -> io::Result<Bytes> {
    let unspecified: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((unspecified, 0)).await?;
    socket.connect(server).await?;
    loop {
        socket.send(query).await?;
        let answer = async {
            loop {
                let (answer, _) = receive_from(&socket).await?;
                if answers(&answer, asked) {
                    return Ok(answer);
                }
            }
        };
        if let Ok(answer) = timeout(REPEAT, answer).await {
            return answer;
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &[u8], asked: &Query<'_>) -> io::Result<Bytes> {
    let mut socket = TcpStream::connect(server).await?;
    let frame = encode_frame(&[query]).ok_or(io::ErrorKind::InvalidData)?;
    socket.write_all(&frame).await?;
    let answer = read_frame(&mut socket).await?.unwrap_or_default();
    answers(&answer, asked)
        .then_some(answer)
        .ok_or(io::ErrorKind::InvalidData.into())
}
