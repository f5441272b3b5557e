//! Requests to far: streams in a tunnel.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{Shared, TunnelId};
use crate::carrier::{Stream, Tunnel};
use crate::traffic::relay::ESTABLISH;
use crate::wire::{Head, Reply};

/// Longest time to open a stream, while far has as many as it allows.
const OPEN: Duration = Duration::from_secs(5);

/// Time within which a tunnel is closed whose stream has failed because its peer was killed.
const GRACE: Duration = Duration::from_millis(100);

/// Failure to open a stream in a tunnel.
pub enum Failure {
    /// The reply for the client.
    Refused(Reply),
    /// The tunnel has failed.
    Lost,
}

/// The tunnel over all paths, or over this one, other than the `lost` one; waits a while for it.
pub async fn tunnel(
    shared: &Arc<Shared>,
    path: Option<&str>,
    lost: Option<&Tunnel>,
) -> Result<Tunnel, Reply> {
    let established = match shared.connector(TunnelId::over(path)) {
        Some(connector) => connector.tunnel(lost).await,
        None => None,
    };
    established.ok_or_else(|| {
        shared.counters.refused_no_tunnel.increment();
        Reply::NetworkUnreachable
    })
}

/// Opens a stream over all paths, or over this one, sends its head and reads the answer. If it
/// fails meanwhile, tries once more, in the next tunnel if the whole one has failed.
///
/// # Errors
/// The reply for the client, if far refuses, does not answer in time or there is no tunnel.
pub async fn request(
    shared: &Arc<Shared>,
    path: Option<&str>,
    head: &Head,
    client: u32,
) -> Result<Stream, Reply> {
    let mut lost = None;
    for _ in 0..2 {
        let tunnel = tunnel(shared, path, lost.as_ref()).await?;
        match request_in(shared, &tunnel, head, client).await {
            Ok(stream) => return Ok(stream),
            Err(Failure::Refused(reply)) => return Err(reply),
            // A connection that waited for its use may have ended alone.
            Err(Failure::Lost) => {
                let closed = timeout(GRACE, tunnel.closed()).await;
                lost = closed.is_ok().then_some(tunnel);
            }
        }
    }
    shared.counters.refused_no_tunnel.increment();
    Err(Reply::NetworkUnreachable)
}

/// Opens a stream in this tunnel for a client, sends its head and reads the answer. A far of an
/// earlier version knows no heads with clients; it is then asked without.
///
/// # Errors
/// If far refuses or does not answer in time, or the tunnel fails.
pub async fn request_in(
    shared: &Shared,
    tunnel: &Tunnel,
    head: &Head,
    client: u32,
) -> Result<Stream, Failure> {
    let (bytes, is_known) = encoded(shared, head, client);
    let requested = attempt(shared, tunnel, &bytes, client).await;
    if !matches!(requested, Err(Failure::Lost)) {
        shared.far_is_old.lock().get_or_insert(false);
        return requested;
    }
    if is_known {
        return requested;
    }
    let again = attempt(shared, tunnel, &head.encode(None), client).await;
    if !matches!(again, Err(Failure::Lost)) && shared.far_is_old.lock().replace(true) != Some(true)
    {
        warn!(
            "far is of an earlier version, for which all clients of near are one: update far and \
             start near again"
        );
    }
    again
}

/// Bytes of a head for a client, as far understands it, and whether that is known.
pub fn encoded(shared: &Shared, head: &Head, client: u32) -> (BytesMut, bool) {
    let is_old = *shared.far_is_old.lock();
    let client = Some(client).filter(|_| is_old != Some(true));
    (head.encode(client), is_old.is_some())
}

async fn attempt(
    shared: &Shared,
    tunnel: &Tunnel,
    head: &[u8],
    client: u32,
) -> Result<Stream, Failure> {
    let counters = &shared.counters;
    let Ok(opened) = timeout(OPEN, tunnel.open()).await else {
        counters.refused_limit.increment();
        return Err(Failure::Refused(Reply::GeneralFailure));
    };
    let answered = async {
        let mut stream = opened.map_err(io::Error::other)?;
        stream.writer.write_all(head).await?;
        stream.writer.flush().await?;
        let reply = Reply::from_code(stream.reader.read_u8().await?);
        io::Result::Ok((stream, reply))
    };
    match timeout(ESTABLISH, answered).await {
        Ok(Ok((mut stream, Reply::Succeeded))) => {
            stream.belongs_to(client.into());
            Ok(stream)
        }
        Ok(Ok((_, refused))) => {
            counters.refused_by_far.increment();
            Err(Failure::Refused(refused))
        }
        Ok(Err(error)) => {
            debug!("request: {error}");
            Err(Failure::Lost)
        }
        Err(_) => {
            counters.refused_no_tunnel.increment();
            Err(Failure::Refused(Reply::NetworkUnreachable))
        }
    }
}
