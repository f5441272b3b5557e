//! TCP connections: where they go by the rules, and relaying.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Once};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{Shared, Way};
use crate::carrier::{Stream, Tunnel};
use crate::config::destination::{Via, is_direct, refused_networks, via};
use crate::config::special::Special;
use crate::socket::{canonical, is_opened_here};
use crate::traffic::connect::{ESTABLISH, connect};
use crate::traffic::limits::Permit;
use crate::traffic::relay::{self, Connection};
use crate::wire::{Destination, Head, Reply};

/// How long a stream may take to open, while far has as many as it allows.
const OPEN: Duration = Duration::from_secs(5);

/// The other side of a local connection.
pub enum Remote {
    /// A stream in a tunnel.
    Stream(Stream),
    /// A connection of near's own.
    Direct(Connection),
}

/// Carries a connection to a fixed destination. It is reset if that cannot be reached.
pub async fn forward(
    shared: &Arc<Shared>,
    local: Connection,
    to: &Destination,
    permit: &Permit<IpAddr>,
) {
    let opened = open(shared, to, permit, async { drop(local.reset().await) }).await;
    match opened {
        Ok(remote) => relay(shared, local, remote, permit).await,
        Err(reply) => debug!(%to, ?reply, "refused"),
    }
}

/// Carries a connection that the packet filter has redirected to where it was going. One of near's
/// own is reset: it would be redirected again, without end.
pub async fn redirect(shared: &Arc<Shared>, local: Connection, permit: &Permit<IpAddr>) {
    let client = local.peer_addr().ok().map(canonical);
    let (Some(client), Some(to)) = (client, local.original_destination()) else {
        return shared.counters.refused_malformed.increment();
    };
    if is_opened_here(client, to) {
        static LOGGED: Once = Once::new();
        LOGGED.call_once(|| {
            warn!(
                "redirect: connections that this gateway opens itself, such as one to {to}, come \
                 back to it and are reset: expected a packet filter that leaves out its user"
            );
        });
        return shared.counters.refused_loop.increment();
    }
    forward(shared, local, &to.into(), permit).await;
}

/// Reaches a destination, by the rules, unless the client leaves before.
///
/// # Errors
/// The reply for the client.
pub async fn open(
    shared: &Arc<Shared>,
    to: &Destination,
    permit: &Permit<IpAddr>,
    client_left: impl Future<Output = ()>,
) -> Result<Remote, Reply> {
    tokio::select! {
        biased;
        opened = reach(shared, to, permit) => opened,
        () = client_left => {
            shared.counters.refused_left.increment();
            Err(Reply::GeneralFailure)
        }
    }
}

async fn reach(
    shared: &Arc<Shared>,
    to: &Destination,
    permit: &Permit<IpAddr>,
) -> Result<Remote, Reply> {
    let counters = &shared.counters;
    let rules = &shared.config().rules;
    let via = via(rules, to);
    let path = match &via {
        Via::Refused => {
            counters.refused_rule.increment();
            return Err(Reply::NotAllowed);
        }
        Via::Direct => {
            let unreachable = |error| {
                counters.refused_unreachable.increment();
                Reply::from_error(&error)
            };
            let special = Special::of_this_host();
            let resolved = shared.resolver.resolve(permit.client(), to);
            let mut addresses = resolved.await.map_err(unreachable)?;
            addresses.retain(|address| is_direct(rules, to, address.ip(), &special));
            if addresses.is_empty() {
                counters.refused_rule.increment();
                return Err(Reply::NotAllowed);
            }
            let socket = connect(&*shared.network, &addresses).await;
            let socket = socket.map_err(unreachable)?;
            counters.relayed_direct.increment();
            return Ok(Remote::Direct(Connection::new(socket)));
        }
        Via::Tunnel => None,
        Via::Path(name) => Some(name.as_str()),
    };
    let head = Head::Tcp(to.clone(), refused_networks(rules, to));
    let stream = request(shared, path, &head).await?;
    match path {
        None => counters.relayed_tunnel.increment(),
        Some(_) => counters.relayed_path.increment(),
    }
    Ok(Remote::Stream(stream))
}

/// Opens a stream over all paths, or over this one, sends its head and reads the answer. If the
/// tunnel fails meanwhile, once more in the next one.
///
/// # Errors
/// The reply for the client, if far refuses, does not answer in time or there is no tunnel.
pub async fn request(
    shared: &Arc<Shared>,
    path: Option<&str>,
    head: &Head,
) -> Result<Stream, Reply> {
    let mut lost = None;
    for _ in 0..2 {
        let tunnel = tunnel(shared, path, lost.as_ref()).await?;
        match request_in(shared, &tunnel, head).await {
            Ok(stream) => return Ok(stream),
            Err(Failure::Refused(reply)) => return Err(reply),
            Err(Failure::Lost) => lost = Some(tunnel),
        }
    }
    shared.counters.refused_no_tunnel.increment();
    Err(Reply::NetworkUnreachable)
}

/// Why a tunnel has not opened a stream.
pub enum Failure {
    /// The reply for the client.
    Refused(Reply),
    /// The tunnel has failed.
    Lost,
}

/// Opens a stream in this tunnel, sends its head and reads the answer.
///
/// # Errors
/// If far refuses or does not answer in time, or the tunnel fails.
pub async fn request_in(shared: &Shared, tunnel: &Tunnel, head: &Head) -> Result<Stream, Failure> {
    let counters = &shared.counters;
    let Ok(opened) = timeout(OPEN, tunnel.open()).await else {
        counters.refused_limit.increment();
        return Err(Failure::Refused(Reply::GeneralFailure));
    };
    let answered = async {
        let mut stream = opened.map_err(io::Error::other)?;
        stream.writer.write_all(&head.encode()).await?;
        stream.writer.flush().await?;
        let reply = Reply::from_code(stream.reader.read_u8().await?);
        io::Result::Ok((stream, reply))
    };
    match timeout(ESTABLISH, answered).await {
        Ok(Ok((stream, Reply::Succeeded))) => Ok(stream),
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

/// The tunnel over all paths, or over this one; waits a while for one that was not lost.
///
/// # Errors
/// The reply for the client, if there is none.
pub async fn tunnel(
    shared: &Arc<Shared>,
    path: Option<&str>,
    lost: Option<&Tunnel>,
) -> Result<Tunnel, Reply> {
    let established = match shared.manager(Way::over(path)) {
        Some(manager) => manager.tunnel(lost).await,
        None => None,
    };
    established.ok_or_else(|| {
        shared.counters.refused_no_tunnel.increment();
        Reply::NetworkUnreachable
    })
}

/// Relays until both directions have ended, or resets both sides.
pub async fn relay(shared: &Shared, local: Connection, remote: Remote, permit: &Permit<IpAddr>) {
    let (counters, rate) = (&shared.counters, &permit.rate);
    let limits = shared.limiter.limits();
    let relayed = match remote {
        Remote::Stream(stream) => relay::relay(local, stream, counters, rate, &limits).await,
        Remote::Direct(remote) => relay::relay(local, remote, counters, rate, &limits).await,
    };
    if let Err(error) = relayed {
        debug!("reset: {error}");
    }
}
