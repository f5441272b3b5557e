//! UDP associations with many peers, and with several senders.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::harness::{Pair, each_carrier, until};
use super::udp::{associate, datagram, echo, receive};

/// Sends a datagram, and again if it is lost, until it is returned.
async fn until_answered(socket: &UdpSocket, sent: &[u8]) {
    until("answered", async || {
        socket.send(sent).await.expect("sent");
        let answered = async { while receive(socket).await != sent {} };
        timeout(Duration::from_secs(1), answered).await.is_ok()
    })
    .await;
}

#[test]
fn an_association_has_datagrams_for_new_peers_however_many_it_has_had() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let (first, last) = (echo().await, echo().await);
        let (_control, socket) = associate(&pair).await;
        for peer in 0..1500_u16 {
            let [high, low] = peer.to_be_bytes();
            let to = SocketAddr::from(([127, 1, high, low], 9));
            socket.send(&datagram(to, b"x")).await.expect("sent");
            if peer % 50 == 49 {
                until_answered(&socket, &datagram(first, &[high, low])).await;
            }
        }
        until_answered(&socket, &datagram(last, b"a new peer")).await;
        assert_eq!(pair.far_counters.dropped_destination.value(), 0);
        pair.close().await;
    });
}

#[test]
fn strangers_who_send_first_do_not_take_the_association_of_a_client() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let echo = echo().await;
        let (_control, socket) = associate(&pair).await;
        let at = socket.peer_addr().expect("connected");
        let mut strangers = Vec::new();
        for _ in 0..30 {
            let stranger = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            let sent = datagram(echo, b"of a stranger");
            stranger.send_to(&sent, at).await.expect("sent");
            strangers.push(stranger);
        }
        until_answered(&socket, &datagram(echo, b"of the client")).await;
        until("at most eight are open", async || {
            pair.far_counters.active_associations.value() <= 8
        })
        .await;
        pair.close().await;
    });
}
