//! DNS for clients: `far`'s resolver answers, over the tunnel. The rules do not count.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::Shared;
use super::request::tunnel;
use crate::names::dns::{Query, TIMEOUT, answers, failure, parse_query, truncated};
use crate::socket::receive_from;
use crate::traffic::limits::{Purpose, client_of};
use crate::traffic::relay::Connection;
use crate::wire::{Head, Reply, encode_frame, read_frame};

/// Time that a TCP connection without a query stays open (RFC 7766, section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// Pause after an error of the socket.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers queries over UDP, each in a task of its own.
pub async fn serve_udp(shared: &Arc<Shared>, socket: UdpSocket, serves: impl Fn(IpAddr) -> bool) {
    let socket = Arc::new(socket);
    loop {
        match receive_from(&socket).await {
            Ok((_, client)) if !serves(client.ip()) => {
                shared.counters.refused_client.increment();
            }
            Ok((query, client)) => answer_udp(shared, &socket, query, client),
            Err(error) => {
                debug!("DNS: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

fn answer_udp(shared: &Arc<Shared>, socket: &Arc<UdpSocket>, query: Bytes, client: SocketAddr) {
    let counters = &shared.counters;
    counters.accepted_dns.increment();
    let Some(permit) = shared
        .limiter
        .admit(Purpose::Query, &client_of(client.ip()))
    else {
        counters.refused_limit.increment();
        return;
    };
    let (this, socket) = (shared.clone(), socket.clone());
    shared.tasks.spawn(async move {
        let _permit = permit;
        let Some(parsed) = parse_query(&query) else {
            return this.counters.refused_malformed.increment();
        };
        let mut answer = resolve(&this, &query, &parsed).await;
        if answer.len() > parsed.udp_size.into() {
            this.counters.dns_truncated.increment();
            answer = truncated(&query, &parsed).into();
        }
        if socket.send_to(&answer, client).await.is_err() {
            this.counters.dropped_unsendable.increment();
        }
    });
}

/// Answers the queries of a TCP connection one after the other.
pub async fn serve_tcp(shared: &Arc<Shared>, mut local: Connection) {
    let counters = &shared.counters;
    loop {
        let query = match timeout(IDLE, read_frame(&mut *local)).await {
            Ok(Ok(Some(query))) => query,
            Ok(Ok(None)) => return local.complete(),
            Ok(Err(_)) => return counters.refused_malformed.increment(),
            Err(_) => return local.complete(),
        };
        let Some(parsed) = parse_query(&query) else {
            return counters.refused_malformed.increment();
        };
        let answer = resolve(shared, &query, &parsed).await;
        let Some(frame) = encode_frame(&[&answer]) else {
            return;
        };
        let written = timeout(TIMEOUT, local.write_all(&frame)).await;
        if !matches!(written, Ok(Ok(()))) {
            return;
        }
    }
}

/// Asks far. Returns its answer, or SERVFAIL.
async fn resolve(shared: &Arc<Shared>, query: &[u8], parsed: &Query<'_>) -> Bytes {
    let counters = &shared.counters;
    match timeout(TIMEOUT, ask(shared, query)).await {
        Ok(Ok(answer)) if answers(&answer, parsed) => {
            counters.dns_answered.increment();
            answer
        }
        _ => {
            counters.dns_failed.increment();
            failure(query, parsed).into()
        }
    }
}

async fn ask(shared: &Arc<Shared>, query: &[u8]) -> io::Result<Bytes> {
    let tunnel = tunnel(shared, None, None).await;
    let tunnel = tunnel.map_err(|_| io::ErrorKind::NetworkUnreachable)?;
    let mut stream = tunnel.open().await.map_err(io::Error::other)?;
    let frame = encode_frame(&[query]).ok_or(io::ErrorKind::InvalidData)?;
    stream.writer.write_all(&Head::Dns.encode()).await?;
    stream.writer.write_all(&frame).await?;
    let answer = async {
        match Reply::from_code(stream.reader.read_u8().await?) {
            Reply::Succeeded => Ok(read_frame(&mut stream.reader).await?.unwrap_or_default()),
            refused => Err(io::Error::other(format!("refused by far: {refused:?}"))),
        }
    };
    let end = async {
        // far may answer, and stop reading, before the end arrives: that is no failure.
        let _ = stream.writer.shutdown().await;
        std::future::pending().await
    };
    tokio::select! {
        answer = answer => answer,
        never = end => never,
    }
}
