//! Streams of a tunnel: their heads, TCP connections, DNS queries, and UDP associations, each with
//! a socket.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ipnet::IpNet;
use tokio::io::AsyncWriteExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::{Session, Shared, confirm, refuse};
use crate::carrier::Stream;
use crate::config::HEADS;
use crate::config::destination::Special;
use crate::keys::PublicKey;
use crate::names::dns::{TIMEOUT, ask, parse_query};
use crate::network::Socket;
use crate::traffic::association::{Association, queue};
use crate::traffic::limits::{Party, Permit, Purpose};
use crate::traffic::relay::{Connection, connect, relay};
use crate::traffic::udp::{IDLE, Outside};
use crate::wire::{Destination, Head, Reply, encode_frame, read_frame};

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

/// Logs, once for a tunnel, that near has another carrier. A near with the same one opens
/// connections over it, and over QUIC only associations of UDP.
fn compare_carriers(shared: &Shared, session: &Session, head: &Head) {
    let differ = session.tunnel.carrier() != shared.config().tunnel.carrier;
    if differ && !matches!(head, Head::Udp(_)) && !session.is_warned.swap(true, Ordering::Relaxed) {
        warn!(
            tunnel = session.number,
            "near's tunnel.carrier is quic, and mptcp here: its connections go over QUIC; set the \
             same in both files"
        );
    }
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
        let served = async {
            let (head, client) = read_head(&this, &mut stream).await?;
            drop(waits);
            compare_carriers(&this, &session, &head);
            stream.belongs_to(client.unwrap_or(0).into());
            serve(&this, &session, stream, head, client).await
        };
        if let Err(error) = served.await {
            debug!(tunnel = session.number, "stream: {error}");
        }
    });
}

async fn read_head(shared: &Shared, stream: &mut Stream) -> io::Result<(Head, Option<u32>)> {
    let counters = &shared.counters;
    let patience = Duration::from_secs_f64(shared.limiter.limits().handshake_s);
    let read = timeout(patience, Head::read(&mut stream.reader)).await;
    let read = read.inspect_err(|_| counters.refused_timeout.increment())?;
    read.inspect_err(|_| counters.refused_malformed.increment())
}

/// Serves the head's request, if its peer has a place left for that, until another peer or client
/// gets the place.
async fn serve(
    shared: &Shared,
    session: &Session,
    stream: Stream,
    head: Head,
    client: Option<u32>,
) -> io::Result<()> {
    let party = Party {
        owner: session.peer.clone(),
        part: client.unwrap_or(0),
    };
    let mut association = None;
    if let Head::Udp(number) = head {
        let queue_bytes = shared.limiter.limits().buffer_bytes;
        let incoming = queue(queue_bytes, shared.limiter.room(&party));
        let whose = (number, party.part.into());
        association = session.associations.join(whose, &session.tunnel, incoming);
        if association.is_none() {
            // It has a place already.
            return attach(shared, session, number, stream).await;
        }
    }
    let purpose = match head {
        Head::Tcp(..) | Head::Udp(_) => Purpose::Connection,
        Head::Dns => Purpose::Query,
    };
    let permit = shared.limiter.admit(purpose, &party);
    let permit = permit.filter(|_| !shared.stopped.is_cancelled());
    let Some(permit) = permit else {
        shared.counters.refused_limit.increment();
        return refuse(stream, Reply::GeneralFailure).await;
    };
    let _active = shared.counters.active_connections.hold();
    let served = async {
        match (head, association) {
            (Head::Tcp(to, refused), _) => {
                tcp(shared, session, stream, &to, &refused, &permit).await
            }
            (Head::Udp(number), Some(association)) => {
                serve_association(shared, session, number, association, stream, &permit).await
            }
            (Head::Dns, _) | (Head::Udp(_), None) => answer(shared, session, stream).await,
        }
    };
    let lost = permit.lost.run_until_cancelled(served).await;
    lost.unwrap_or_else(|| {
        shared.counters.refused_limit.increment();
        Err(io::Error::other("its place is somebody else's"))
    })
}

/// Reads a further stream of an association until that ends.
async fn attach(
    shared: &Shared,
    session: &Session,
    number: u32,
    mut stream: Stream,
) -> io::Result<()> {
    confirm(&mut stream).await?;
    let (associations, tunnel) = (&session.associations, &session.tunnel);
    let attached = associations.attach(number, tunnel, stream);
    let _active = shared.counters.active_connections.hold();
    attached.await;
    Ok(())
}

/// Connects and relays.
async fn tcp(
    shared: &Shared,
    session: &Session,
    mut stream: Stream,
    destination: &Destination,
    refused: &[IpNet],
    permit: &Permit<PublicKey>,
) -> io::Result<()> {
    let counters = &shared.counters;
    let opened = tokio::select! {
        biased;
        opened = open(shared, session, permit.party(), destination, refused) => opened,
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
    relay(stream, socket, counters, permit, &shared.limiter.limits()).await
}

/// Connects to an address of the destination that is allowed and in none of the refused networks.
async fn open(
    shared: &Shared,
    session: &Session,
    party: &Party<PublicKey>,
    destination: &Destination,
    refused: &[IpNet],
) -> Result<Box<dyn Socket>, Reply> {
    let allow = shared.allow(&session.peer);
    let counters = &shared.counters;
    if !allow.may_allow(destination) {
        counters.refused_destination.increment();
        return Err(Reply::NotAllowed);
    }
    let resolved = shared.resolver.resolve(party, destination);
    let mut addresses = resolved.await.map_err(|_| {
        counters.refused_unresolved.increment();
        Reply::HostUnreachable
    })?;
    let special = Special::of_this_host();
    addresses.retain(|address| {
        let is_refused = refused.iter().any(|it| it.contains(&address.ip()));
        !is_refused && allow.allows(destination, address.ip(), &special)
    });
    if addresses.is_empty() {
        counters.refused_destination.increment();
        return Err(Reply::NotAllowed);
    }
    let connected = connect(&*shared.network, &addresses).await;
    connected.map_err(|error| {
        counters.refused_unreachable.increment();
        Reply::from_error(&error)
    })
}

/// Answers one query.
pub async fn answer(shared: &Shared, session: &Session, mut stream: Stream) -> io::Result<()> {
    let counters = &shared.counters;
    let Some(resolver) = shared.config().resolver else {
        counters.dns_failed.increment();
        return refuse(stream, Reply::CommandNotSupported).await;
    };
    let query = timeout(TIMEOUT, read_frame(&mut stream.reader)).await??;
    let query = query.unwrap_or_default();
    let Some(parsed) = parse_query(&query) else {
        counters.refused_malformed.increment();
        return refuse(stream, Reply::GeneralFailure).await;
    };
    if !shared.may_ask(&session.peer, &parsed) {
        counters.refused_destination.increment();
        return refuse(stream, Reply::NotAllowed).await;
    }
    let answer = async {
        let answer = ask(resolver, &query, &parsed).await?;
        encode_frame(&[&answer]).ok_or(io::ErrorKind::InvalidData.into())
    };
    match timeout(TIMEOUT, answer)
        .await
        .unwrap_or_else(|late| Err(late.into()))
    {
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

/// Serves an association until near ends it or it is idle.
async fn serve_association(
    shared: &Shared,
    session: &Session,
    number: u32,
    mut association: Association,
    mut stream: Stream,
    permit: &Permit<PublicKey>,
) -> io::Result<()> {
    let counters = &shared.counters;
    let (associations, tunnel) = (&session.associations, &session.tunnel);
    let mut outside = match Outside::bind(&shared.resolver, permit.party(), counters) {
        Ok(outside) => outside,
        Err(error) => {
            counters.refused_unreachable.increment();
            return refuse(stream, Reply::from_error(&error)).await;
        }
    };
    confirm(&mut stream).await?;
    shared
        .tasks
        .spawn(associations.attach(number, tunnel, stream));
    let _active = counters.active_associations.hold();
    let allows = |to: &Destination, address: IpAddr| {
        let special = Special::of_this_host();
        shared.allow(&session.peer).allows(to, address, &special)
    };
    let mut last = Instant::now();
    loop {
        tokio::select! {
            packet = association.receive() => {
                let Some(packet) = packet else { return Ok(()) };
                if shared.allow(&session.peer).may_allow(&packet.peer) {
                    permit.flow.take(packet.payload.len()).await;
                    outside.send(packet, allows).await;
                } else {
                    counters.dropped_destination.increment();
                }
            }
            received = outside.receive(allows) => {
                let (payload, from) = received?;
                permit.flow.take(payload.len()).await;
                association.send(&from.into(), &payload).await;
                counters.datagrams_down.increment();
                counters.datagram_bytes_down.add(payload.len() as u64);
            }
            () = sleep_until(last + IDLE) => return Ok(()),
        }
        last = Instant::now();
    }
}
