//! Client of a UDP association, and its datagrams (RFC 1928, section 7).

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::net::UdpSocket;

use super::Shared;
use crate::traffic::rate::Flow;
use crate::wire::{Destination, Malformed, decode_peer};

/// A client, reached over the socket that it sends to.
#[derive(Clone)]
pub struct Client {
    /// Socket of its association.
    pub socket: Arc<UdpSocket>,
    /// Address from which it sends.
    pub address: SocketAddr,
    /// Part in the rate that it shares with its connections.
    pub flow: Flow,
    /// Whether its datagrams have the head of SOCKS5.
    pub is_socks: bool,
}

impl Client {
    /// Sends the client a datagram of this origin.
    pub(super) async fn send(&self, shared: &Shared, origin: &Destination, payload: &[u8]) {
        let counters = &shared.counters;
        self.flow.take(payload.len()).await;
        let datagram = self.is_socks.then(|| encode_datagram(origin, payload));
        let datagram = datagram.as_deref().unwrap_or(payload);
        match self.socket.send_to(datagram, self.address).await {
            Ok(_) => {
                counters.datagrams_down.increment();
                counters.datagram_bytes_down.add(payload.len() as u64);
            }
            Err(_) => counters.dropped_unsendable.increment(),
        }
    }
}

/// Destination and payload of a client's datagram. Fragments are refused, as the RFC permits.
pub fn decode_datagram(mut datagram: Bytes) -> Result<(Destination, Bytes), Malformed> {
    if datagram.len() < 3 || datagram[..3] != [0, 0, 0] {
        return Err(Malformed("not a datagram of SOCKS5, or a fragment"));
    }
    datagram.advance(3);
    decode_peer(datagram)
}

/// A datagram for a client.
pub fn encode_datagram(origin: &Destination, payload: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(3 + Destination::MAX_BYTES + payload.len());
    out.put_slice(&[0, 0, 0]);
    origin.put(&mut out);
    out.put_slice(payload);
    out
}
