//! Client of a UDP association: the sender and receiver of its datagrams.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::UdpSocket;

use super::Shared;
use super::socks::encode_datagram;
use crate::traffic::limits::Rate;
use crate::wire::Destination;

/// A client, reached over the socket that it sends to.
#[derive(Clone)]
pub struct Client {
    /// Socket of its association.
    pub socket: Arc<UdpSocket>,
    /// Address from which it sends.
    pub address: SocketAddr,
    /// Rate that it shares with its connections.
    pub rate: Arc<Rate>,
}

impl Client {
    /// Sends the client a datagram of this origin.
    pub async fn send(&self, shared: &Shared, origin: &Destination, payload: &[u8]) {
        let counters = &shared.counters;
        self.rate.take(payload.len()).await;
        let datagram = encode_datagram(origin, payload);
        match self.socket.send_to(&datagram, self.address).await {
            Ok(_) => {
                counters.datagrams_down.increment();
                counters.datagram_bytes_down.add(payload.len() as u64);
            }
            Err(_) => counters.dropped_unsendable.increment(),
        }
    }
}
