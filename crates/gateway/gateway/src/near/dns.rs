//! DNS for clients: `far`'s resolver answers, over the tunnel. The rules do not count.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use socket2::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::clients::{ClientId, identify};
use super::request::{encoded, tunnel};
use super::{Permit, Shared};
use crate::carrier::Tunnel;
use crate::config::services::Service;
use crate::names::dns::{
    Query, REFUSED, SERVFAIL, TIMEOUT, answers, failure, parse_query, truncated,
};
use crate::socket::receive_from;
use crate::traffic::limits::{Party, Purpose};
use crate::traffic::relay::Connection;
use crate::wire::{Head, Reply, encode_frame, read_frame};

/// Time that a TCP connection without a query stays open (RFC 7766, section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// Pause after an error of the socket.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers queries over UDP, each in a task of its own.
pub async fn serve_udp(shared: &Arc<Shared>, service: &Service, socket: UdpSocket) {
    let socket = Arc::new(socket);
    loop {
        match receive_from(&socket).await {
            Ok((_, client)) if !service.serves(client.ip()) => {
                shared.counters.refused_client.increment();
            }
            Ok((query, client)) => {
                let to = socket.local_addr().unwrap_or(service.listen);
                let owner = identify(service, Protocol::UDP, client, to);
                answer_udp(shared, &socket, query, client, owner);
            }
            Err(error) => {
                debug!("DNS: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

fn answer_udp(
    shared: &Arc<Shared>,
    socket: &Arc<UdpSocket>,
    query: Bytes,
    client: SocketAddr,
    owner: ClientId,
) {
    let counters = &shared.counters;
    counters.accepted_dns.increment();
    let party = Party { owner, part: 0 };
    let Some(permit) = shared.limiter.admit(Purpose::Query, &party) else {
        counters.refused_limit.increment();
        return;
    };
    let (this, socket) = (shared.clone(), socket.clone());
    shared.tasks.spawn(async move {
        let Some(parsed) = parse_query(&query) else {
            return this.counters.refused_malformed.increment();
        };
        let mut answer = resolve(&this, &query, &parsed, &permit).await;
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
pub async fn serve_tcp(shared: &Arc<Shared>, mut local: Connection, permit: &Permit) {
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
        let answer = resolve(shared, &query, &parsed, permit).await;
        let Some(frame) = encode_frame(&[&answer]) else {
            return;
        };
        let written = timeout(TIMEOUT, local.write_all(&frame)).await;
        if !matches!(written, Ok(Ok(()))) {
            return;
        }
    }
}

/// Asks far. Returns its answer; REFUSED if far says that the name is not allowed, or SERVFAIL.
async fn resolve(shared: &Arc<Shared>, query: &[u8], parsed: &Query<'_>, permit: &Permit) -> Bytes {
    let counters = &shared.counters;
    let asked = permit
        .lost
        .run_until_cancelled(ask(shared, query, permit.client));
    let code = match timeout(TIMEOUT, asked).await {
        Ok(Some(Ok(Ok(answer)))) if answers(&answer, parsed) => {
            counters.dns_answered.increment();
            return answer;
        }
        Ok(Some(Ok(Err(Reply::NotAllowed)))) => REFUSED,
        _ => SERVFAIL,
    };
    counters.dns_failed.increment();
    failure(query, parsed, code).into()
}

/// Asks far for a client. Returns its answer, or the reply with which it refuses.
async fn ask(shared: &Arc<Shared>, query: &[u8], client: u32) -> io::Result<Result<Bytes, Reply>> {
    let tunnel = tunnel(shared, None, None).await;
    let tunnel = tunnel.map_err(|_| io::ErrorKind::NetworkUnreachable)?;
    let (head, is_known) = encoded(shared, &Head::Dns, client);
    let asked = ask_in(&tunnel, &head, query).await;
    match asked {
        // Perhaps far is of an earlier version, see `request_in`.
        Err(_) if !is_known => ask_in(&tunnel, &Head::Dns.encode(None), query).await,
        Err(_) => asked,
        Ok(_) => {
            shared.far_is_old.lock().get_or_insert(false);
            asked
        }
    }
}

async fn ask_in(tunnel: &Tunnel, head: &[u8], query: &[u8]) -> io::Result<Result<Bytes, Reply>> {
    let mut stream = tunnel.open().await.map_err(io::Error::other)?;
    let frame = encode_frame(&[query]).ok_or(io::ErrorKind::InvalidData)?;
    stream.writer.write_all(head).await?;
    stream.writer.write_all(&frame).await?;
    let answer = async {
        match Reply::from_code(stream.reader.read_u8().await?) {
            Reply::Succeeded => {
                let answer = read_frame(&mut stream.reader).await?;
                Ok(Ok(answer.unwrap_or_default()))
            }
            refused => Ok(Err(refused)),
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
