//! Direct connections, which near opens itself beside the tunnels. The rules count for the
//! addresses of a name, too.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use super::Permit;
use super::Shared;
use super::client::Client;
use super::clients::ClientId;
use crate::config::destination::{Special, is_direct};
use crate::network::Socket;
use crate::traffic::association::Packet;
use crate::traffic::limits::Party;
use crate::traffic::relay;
use crate::traffic::udp::{IDLE, Outside};
use crate::wire::{Destination, Reply};

/// Connects to a destination for a client.
pub async fn connect(
    shared: &Shared,
    client: &Party<ClientId>,
    to: &Destination,
) -> Result<Box<dyn Socket>, Reply> {
    let counters = &shared.counters;
    let unreachable = |error| {
        counters.refused_unreachable.increment();
        Reply::from_error(&error)
    };
    let resolved = shared.resolver.resolve(client, to);
    let mut addresses: Vec<SocketAddr> = resolved.await.map_err(unreachable)?;
    addresses.retain(|address| allows(shared, to, address.ip()));
    if addresses.is_empty() {
        counters.refused_rule.increment();
        return Err(Reply::NotAllowed);
    }
    let connected = relay::connect(&*shared.network, &addresses).await;
    let connected = connected.map_err(unreachable)?;
    counters.relayed_direct.increment();
    Ok(connected)
}

/// Carries datagrams over a socket of near's own until none were carried for a while.
pub async fn relay_datagrams(
    shared: &Shared,
    client: &Client,
    permit: &Permit,
    mut packets: UnboundedReceiver<Packet>,
) -> io::Result<()> {
    let mut outside = Outside::bind(&shared.resolver, permit.party(), &shared.counters)?;
    let allows = |to: &Destination, address| allows(shared, to, address);
    let mut last = Instant::now();
    loop {
        tokio::select! {
            packet = packets.recv() => {
                let Some(packet) = packet else { return Ok(()) };
                client.flow.take(packet.payload.len()).await;
                outside.send(packet, allows).await;
            }
            received = outside.receive(allows) => {
                let (payload, from) = received?;
                client.send(shared, &from.into(), &payload).await;
            }
            () = sleep_until(last + IDLE) => return Ok(()),
        }
        last = Instant::now();
    }
}

/// Whether the rules allow this address of a destination.
fn allows(shared: &Shared, to: &Destination, address: IpAddr) -> bool {
    let special = Special::of_this_host();
    is_direct(&shared.config().rules, to, address, &special)
}
