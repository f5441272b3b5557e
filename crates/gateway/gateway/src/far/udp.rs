//! UDP associations, each with a socket.

use std::io;
use std::net::IpAddr;

use tokio::time::{Instant, sleep_until};

use super::{Session, Shared, confirm, refuse};
use crate::carrier::Stream;
use crate::config::special::Special;
use crate::keys::PublicKey;
use crate::traffic::limits::Permit;
use crate::traffic::udp::{IDLE, Outside};
use crate::wire::{Destination, Reply};

/// Serves an association until near ends it or it is idle; a further stream of one until that ends.
pub async fn serve(
    shared: &Shared,
    session: &Session,
    number: u32,
    mut stream: Stream,
    permit: &Permit<PublicKey>,
) -> io::Result<()> {
    let counters = &shared.counters;
    let queue_bytes = shared.limiter.limits().buffer_bytes;
    let (associations, tunnel) = (&session.associations, &session.tunnel);
    let Some(mut association) = associations.join(number, tunnel, queue_bytes) else {
        confirm(&mut stream).await?;
        associations.attach(number, tunnel, stream).await;
        return Ok(());
    };
    let mut outside = match Outside::bind(&shared.resolver, &session.peer, counters) {
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
        shared.allow(permit.client()).allows(to, address, &special)
    };
    let mut last = Instant::now();
    loop {
        tokio::select! {
            packet = association.receive() => {
                let Some(packet) = packet else { return Ok(()) };
                if shared.allow(permit.client()).may_allow(&packet.peer) {
                    permit.rate.take(packet.payload.len()).await;
                    outside.send(packet.peer, packet.payload, allows).await;
                } else {
                    counters.dropped_destination.increment();
                }
            }
            received = outside.receive(allows) => {
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
