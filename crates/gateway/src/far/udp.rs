//! UDP associations: a socket each.

use std::io;

use tokio::time::{Instant, sleep_until};

use super::{Session, Shared, confirm, refuse};
use crate::carrier::Stream;
use crate::config::special::Special;
use crate::traffic::limits::Permit;
use crate::traffic::queue::Packet;
use crate::traffic::udp::{IDLE, Outside, Sent};
use crate::wire::Reply;

/// Serves an association until near ends it or it is idle; a further stream of one until that ends.
pub async fn serve(
    shared: &Shared,
    session: &Session,
    number: u32,
    mut stream: Stream,
    permit: &Permit<u64>,
) -> io::Result<()> {
    let counters = &shared.counters;
    let queue_bytes = shared.limiter.limits().buffer_bytes;
    let (associations, tunnel) = (&session.associations, &session.tunnel);
    let Some(mut association) = associations.join(number, tunnel, queue_bytes) else {
        confirm(&mut stream).await?;
        associations.attach(number, tunnel, stream).await;
        return Ok(());
    };
    let mut outside = match Outside::bind() {
        Ok(outside) => outside,
        Err(error) => {
            counters.refused_unreachable.increment();
            return refuse(stream, Reply::from_error(&error)).await;
        }
    };
    confirm(&mut stream).await?;
    tokio::spawn(associations.attach(number, tunnel, stream));
    let _active = counters.active_associations.hold();
    let mut last = Instant::now();
    loop {
        tokio::select! {
            packet = association.receive() => match packet {
                Some(packet) => send(shared, &mut outside, packet, permit).await,
                None => return Ok(()),
            },
            received = outside.receive() => {
                let (payload, from) = received?;
                permit.rate.take(payload.len()).await;
                association.send(&from.into(), &payload).await;
                counters.datagrams_down.increment();
                counters.datagram_bytes_down.add(payload.len() as u64);
            }
            () = sleep_until(last + IDLE) => return Ok(()),
        }
        last = Instant::now();
    }
}

async fn send(shared: &Shared, outside: &mut Outside, packet: Packet, permit: &Permit<u64>) {
    let counters = &shared.counters;
    let allow = &shared.config().allow;
    if !allow.may_allow(&packet.peer) {
        counters.dropped_destination.increment();
        return;
    }
    permit.rate.take(packet.payload.len()).await;
    let special = Special::of_this_host();
    let allows = |address| allow.allows(&packet.peer, address, &special);
    match outside.send(&packet.peer, &packet.payload, allows).await {
        Sent::Yes => {
            counters.datagrams_up.increment();
            counters.datagram_bytes_up.add(packet.payload.len() as u64);
        }
        Sent::NotAllowed => counters.dropped_destination.increment(),
        Sent::Impossible => counters.dropped_unsendable.increment(),
    }
}
