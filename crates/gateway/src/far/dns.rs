//! DNS: passes queries on to the configured resolver.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::{Shared, refuse};
use crate::carrier::Stream;
use crate::traffic::dns::{Query, TIMEOUT, answers, is_truncated, parse_query, set_id};
use crate::traffic::udp::receive_from;
use crate::wire::{Reply, encode_frame, read_frame};

/// When a query over UDP is repeated.
const REPEAT: Duration = Duration::from_millis(1500);

/// Answers one query.
pub async fn serve(shared: &Shared, mut stream: Stream) -> io::Result<()> {
    let counters = &shared.counters;
    let Some(resolver) = shared.config().resolver else {
        counters.dns_failed.increment();
        return refuse(stream, Reply::NotAllowed).await;
    };
    let query = timeout(TIMEOUT, read_frame(&mut stream.reader)).await??;
    let query = query.unwrap_or_default();
    let Some(parsed) = parse_query(&query) else {
        counters.refused_malformed.increment();
        return refuse(stream, Reply::GeneralFailure).await;
    };
    let answer = timeout(TIMEOUT, ask(resolver, &query, &parsed)).await;
    match answer.unwrap_or_else(|late| Err(late.into())) {
        Ok(frame) => {
            counters.dns_answered.increment();
            stream.writer.write_all(&[Reply::Succeeded as u8]).await?;
            stream.writer.write_all(&frame).await?;
            stream.writer.shutdown().await
        }
        Err(error) => {
            counters.dns_failed.increment();
            refuse(stream, Reply::from_error(&error)).await
        }
    }
}

/// The resolver's answer, as a frame: over UDP, and over TCP if it is truncated there. Each query
/// has a random number and a port of its own, against forged answers.
async fn ask(resolver: SocketAddr, query: &[u8], parsed: &Query<'_>) -> io::Result<Bytes> {
    let asked = Query {
        id: random_id()?,
        ..*parsed
    };
    let mut query = query.to_vec();
    set_id(&mut query, asked.id);
    let mut answer = over_udp(resolver, &query, &asked).await?;
    if is_truncated(&answer) {
        answer = over_tcp(resolver, &query, &asked).await?;
    }
    let mut answer = Vec::from(answer);
    set_id(&mut answer, parsed.id);
    encode_frame(&[&answer]).ok_or(io::ErrorKind::InvalidData.into())
}

async fn over_udp(resolver: SocketAddr, query: &[u8], asked: &Query<'_>) -> io::Result<Bytes> {
    let unspecified: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((unspecified, 0)).await?;
    socket.connect(resolver).await?;
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

async fn over_tcp(resolver: SocketAddr, query: &[u8], asked: &Query<'_>) -> io::Result<Bytes> {
    let mut socket = TcpStream::connect(resolver).await?;
    let frame = encode_frame(&[query]).ok_or(io::ErrorKind::InvalidData)?;
    socket.write_all(&frame).await?;
    let answer = read_frame(&mut socket).await?.unwrap_or_default();
    answers(&answer, asked)
        .then_some(answer)
        .ok_or(io::ErrorKind::InvalidData.into())
}

fn random_id() -> io::Result<u16> {
    let mut id = [0; 2];
    let random = rustls::crypto::ring::default_provider().secure_random;
    let filled = random.fill(&mut id);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(u16::from_ne_bytes(id))
}
