//! The streams of a tunnel: their heads, and TCP connections.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use super::{Session, Shared, confirm, dns, refuse, udp};
use crate::carrier::Stream;
use crate::config::special::Special;
use crate::traffic::connect::connect;
use crate::traffic::limits::Permit;
use crate::traffic::relay::{Connection, relay};
use crate::wire::{Destination, Head, Reply};

/// Accepts streams until the tunnel is closed. After `stop_accepting` new ones are refused.
pub async fn accept(shared: &Arc<Shared>, session: Session) {
    let session = Arc::new(session);
    let streams = async {
        while let Ok(stream) = session.tunnel.accept().await {
            admit(shared, &session, stream);
        }
    };
    tokio::join!(streams, session.associations.distribute(&session.tunnel));
}

fn admit(shared: &Arc<Shared>, session: &Arc<Session>, stream: Stream) {
    shared.counters.accepted_stream.increment();
    let permit = shared.limiter.admit(&session.number);
    let (this, session) = (shared.clone(), session.clone());
    shared.tasks.spawn(async move {
        let serve = async {
            match permit {
                Some(permit) if !this.stopped.is_cancelled() => {
                    let _active = this.counters.active_connections.hold();
                    serve(&this, &session, stream, &permit).await
                }
                _ => {
                    this.counters.refused_limit.increment();
                    refuse(stream, Reply::GeneralFailure).await
                }
            }
        };
        if let Some(Err(error)) = this.closed.run_until_cancelled(serve).await {
            debug!(tunnel = session.number, "stream: {error}");
        }
    });
}

async fn serve(
    shared: &Shared,
    session: &Session,
    mut stream: Stream,
    permit: &Permit<u64>,
) -> io::Result<()> {
    let patience = Duration::from_secs_f64(shared.limiter.limits().handshake_s);
    match timeout(patience, Head::read(&mut stream.reader)).await {
        Ok(Ok(Head::Tcp(to, refused))) => tcp(shared, session, stream, &to, &refused, permit).await,
        Ok(Ok(Head::Udp(association))) => {
            udp::serve(shared, session, association, stream, permit).await
        }
        Ok(Ok(Head::Dns)) => dns::serve(shared, stream).await,
        Ok(Err(error)) => {
            shared.counters.refused_malformed.increment();
            Err(error)
        }
        Err(late) => {
            shared.counters.refused_timeout.increment();
            Err(late.into())
        }
    }
}

/// Connects and relays.
async fn tcp(
    shared: &Shared,
    session: &Session,
    mut stream: Stream,
    destination: &Destination,
    refused: &[IpNet],
    permit: &Permit<u64>,
) -> io::Result<()> {
    let counters = &shared.counters;
    let opened = tokio::select! {
        biased;
        opened = open(shared, session, destination, refused) => opened,
        reset = poll_fn(|cx| stream.reader.poll_reset(cx)) => {
            counters.refused_left.increment();
            return Err(reset);
        }
    };
    let socket = match opened {
        Ok(socket) => Connection::new(socket),
        Err(reply) => {
            debug!(%destination, ?reply, "refused");
            return refuse(stream, reply).await;
        }
    };
    confirm(&mut stream).await?;
    counters.relayed_far.increment();
    relay(
        stream,
        socket,
        counters,
        &permit.rate,
        &shared.limiter.limits(),
    )
    .await
}

/// Connects to an address of the destination that is allowed and in none of the refused networks.
async fn open(
    shared: &Shared,
    session: &Session,
    destination: &Destination,
    refused: &[IpNet],
) -> Result<TcpStream, Reply> {
    let config = shared.config();
    let counters = &shared.counters;
    if !config.allow.may_allow(destination) {
        counters.refused_destination.increment();
        return Err(Reply::NotAllowed);
    }
    let resolved = shared.resolver.resolve(&session.peer, destination);
    let mut addresses = resolved.await.map_err(|_| {
        counters.refused_unresolved.increment();
        Reply::HostUnreachable
    })?;
    let special = Special::of_this_host();
    addresses.retain(|address| {
        let is_refused = refused.iter().any(|it| it.contains(&address.ip()));
        !is_refused && config.allow.allows(destination, address.ip(), &special)
    });
    if addresses.is_empty() {
        counters.refused_destination.increment();
        return Err(Reply::NotAllowed);
    }
    let connected = connect(&addresses).await.map_err(|error| {
        counters.refused_unreachable.increment();
        Reply::from_error(&error)
    });
    connected.map(|(socket, _)| socket)
}
