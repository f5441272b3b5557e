//! The streams of a tunnel: their heads, and TCP connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::debug;

use super::{Session, Shared, confirm, dns, refuse, udp};
use crate::carrier::Stream;
use crate::config::HEADS;
use crate::keys::PublicKey;
use crate::traffic::connect::{connect, resolve};
use crate::traffic::limits::{Kind, Permit};
use crate::traffic::relay::{Connection, Meter, pump};
use crate::wire::{Destination, Head, Reply};

/// Accepts streams until the tunnel is closed. After `stop_accepting` new ones are refused.
pub async fn accept(shared: &Arc<Shared>, session: Session) {
    let session = Arc::new(session);
    let heads = Arc::new(Semaphore::new(HEADS));
    let streams = async {
        while let Ok(head) = heads.clone().acquire_owned().await
            && let Ok(stream) = session.tunnel.accept().await
        {
            begin(shared, &session, stream, head);
        }
    };
    tokio::join!(streams, session.associations.distribute(&session.tunnel));
}

/// Serves a stream in a task of its own. `waits` is held until its head has arrived.
fn begin(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    mut stream: Stream,
    waits: OwnedSemaphorePermit,
) {
    shared.counters.accepted_stream.increment();
    let (this, session) = (shared.clone(), session.clone());
    shared.tasks.spawn(async move {
        let serve = async {
            let head = read_head(&this, &mut stream).await?;
            drop(waits);
            serve(&this, &session, stream, head).await
        };
        if let Some(Err(error)) = this.closed.run_until_cancelled(serve).await {
            debug!(tunnel = session.number, "stream: {error}");
        }
    });
}

async fn read_head(shared: &Shared, stream: &mut Stream) -> io::Result<Head> {
    let counters = &shared.counters;
    let patience = Duration::from_secs_f64(shared.limiter.limits().handshake_s);
    let read = timeout(patience, Head::read(&mut stream.reader)).await;
    let read = read.inspect_err(|_| counters.refused_timeout.increment())?;
    read.inspect_err(|_| counters.refused_malformed.increment())
}

/// Does what the head says, if its peer has a place left for that.
async fn serve(shared: &Shared, session: &Session, stream: Stream, head: Head) -> io::Result<()> {
    let kind = match head {
        Head::Tcp(_) | Head::Udp(_) => Kind::Connection,
        Head::Dns => Kind::Query,
    };
    let permit = shared.limiter.admit(kind, &session.peer);
    let permit = permit.filter(|_| !shared.stopped.is_cancelled());
    let Some(permit) = permit else {
        shared.counters.refused_limit.increment();
        return refuse(stream, Reply::GeneralFailure).await;
    };
    let _active = shared.counters.active_connections.hold();
    match head {
        Head::Tcp(destination) => tcp(shared, session, stream, &destination, &permit).await,
        Head::Udp(association) => udp::serve(shared, session, association, stream, &permit).await,
        Head::Dns => dns::serve(shared, stream).await,
    }
}

/// Connects and relays.
async fn tcp(
    shared: &Shared,
    session: &Session,
    mut stream: Stream,
    destination: &Destination,
    permit: &Permit<PublicKey>,
) -> io::Result<()> {
    let mut socket = match open(shared, session, destination).await {
        Ok(socket) => Connection::new(socket),
        Err(reply) => {
            debug!(%destination, ?reply, "refused");
            return refuse(stream, reply).await;
        }
    };
    confirm(&mut stream).await?;
    let counters = &shared.counters;
    counters.relayed_far.increment();
    let meter = |bytes| Meter {
        bytes,
        rate: &permit.rate,
        buffer_bytes: shared.limiter.limits().buffer_bytes,
    };
    let (reader, writer) = socket.split();
    let relayed = tokio::try_join!(
        pump(stream.reader, writer, meter(&counters.bytes_up)),
        pump(reader, stream.writer, meter(&counters.bytes_down)),
    );
    match relayed {
        Ok(_) => {
            counters.ended_complete.increment();
            socket.complete();
            Ok(())
        }
        Err(error) => {
            counters.ended_reset.increment();
            Err(error)
        }
    }
}

/// Connects to an address of the destination that is allowed.
async fn open(
    shared: &Shared,
    session: &Session,
    destination: &Destination,
) -> Result<TcpStream, Reply> {
    let allow = shared.allow(&session.peer);
    let counters = &shared.counters;
    if !allow.may_allow(destination) {
        counters.refused_destination.increment();
        return Err(Reply::NotAllowed);
    }
    let mut addresses = resolve(destination).await.map_err(|_| {
        counters.refused_unresolved.increment();
        Reply::HostUnreachable
    })?;
    addresses.retain(|address| allow.allows(destination, address.ip()));
    if addresses.is_empty() {
        counters.refused_destination.increment();
        return Err(Reply::NotAllowed);
    }
    connect(&addresses).await.map_err(|error| {
        counters.refused_unreachable.increment();
        Reply::from_error(&error)
    })
}
