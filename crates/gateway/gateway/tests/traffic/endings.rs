//! Ends of connections: accepted data arrives, or the client sees a reset; places of clients that
//! are gone are free again.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::harness::*;
use super::link;

/// Time in which a place must be free; without a remedy it takes 10 s to a day.
const SOON: Duration = Duration::from_secs(8);

/// Waits until no connection has a place.
async fn free(pair: &Pair) {
    let start = Instant::now();
    pair.idle().await;
    let took = start.elapsed();
    assert!(took < SOON, "{took:?}");
}

/// A server that answers no SYN: its queue of connections is full.
async fn silent() -> (SocketAddr, Vec<TcpStream>, TcpListener) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .bind("127.0.0.1:0".parse().expect("valid"))
        .expect("a port");
    let listener = socket.listen(1).expect("listens");
    let address = listener.local_addr().expect("bound");
    let mut queue = Vec::new();
    while let Ok(queued) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        queue.push(queued.expect("queued"));
    }
    (address, queue, listener)
}

#[test]
fn requests_of_clients_that_have_left_give_their_places_back() {
    each_carrier(async |carrier| {
        let (silent, _queue, _listener) = silent().await;
        let near = format!("forwards = [{{ listen = \"127.0.0.1:0\", to = \"{silent}\" }}]");
        let pair = Pair::near_with(carrier, &near).await;
        pair.echoes(echo().await, "a tunnel").await;
        let (mut requests, leave) = (JoinSet::new(), CancellationToken::new());
        for i in 0..60 {
            let leave = leave.clone();
            let service = if i % 3 == 0 { "forwards[0]" } else { "socks" };
            let mut socket = pair.dial(service).await;
            requests.spawn(async move {
                if i % 3 > 0 {
                    // Without waiting for the replies.
                    socket.write_all(&[5, 1, 0]).await.expect("sent");
                    let mut head = vec![5, 1, 0, 1, 127, 0, 0, 1];
                    head.extend(silent.port().to_be_bytes());
                    socket.write_all(&head).await.expect("sent");
                    socket.read_exact(&mut [0; 2]).await.expect("a method");
                }
                leave.cancelled().await;
                // A client of SOCKS may also leave without a reset.
                if i % 3 < 2 {
                    reset(&socket);
                }
            });
        }
        until("far connects", async || pair.far().active() >= 60).await;
        leave.cancel();
        while requests.join_next().await.is_some() {}
        free(&pair).await;
        assert_eq!(pair.near_counters.refused_left.value(), 60);
        pair.close().await;
    });
}

#[test]
fn a_client_that_sends_and_ends_before_the_reply_is_served() {
    each_carrier(async |carrier| {
        let echo = echo().await;
        let near = format!("forwards = [{{ listen = \"127.0.0.1:0\", to = \"{echo}\" }}]");
        let pair = Pair::near_with(carrier, &near).await;
        for (service, text) in [
            ("socks", "early"),
            ("forwards[0]", "early"),
            ("forwards[0]", ""),
        ] {
            let mut socket = pair.dial(service).await;
            let mut expected = Vec::new();
            if service == "socks" {
                let mut head = vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1];
                head.extend(echo.port().to_be_bytes());
                socket.write_all(&head).await.expect("sent");
                expected.extend([5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
            }
            socket.write_all(text.as_bytes()).await.expect("sent");
            socket.shutdown().await.expect("ended");
            expected.extend(text.bytes());
            let mut received = Vec::new();
            let read = timeout(PATIENCE, socket.read_to_end(&mut received)).await;
            read.expect("in time").expect("not reset");
            assert_eq!(received, expected, "{service}");
        }
        pair.close().await;
    });
}

/// Sends until nothing more is taken.
async fn fill(socket: &mut TcpStream) {
    let data = vec![7; 1 << 16];
    while let Ok(sent) = timeout(Duration::from_millis(500), socket.write(&data)).await {
        sent.expect("sent");
    }
}

#[test]
fn a_client_that_resets_gives_its_place_back_whatever_the_server_does() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let (listener, to) = listen().await;
        // A server that waits forever after the client's end, and one that reads nothing.
        let (mut ended, mut waits) = pair.ends(&listener).await;
        ended.shutdown().await.expect("ended");
        assert_eq!(waits.read(&mut [0; 1]).await.expect("an end"), 0);
        let mut clients = vec![ended];
        let mut stuck = pair.connect(to).await.expect("connected");
        fill(&mut stuck).await;
        clients.push(stuck);
        assert_eq!(pair.near.active(), clients.len());
        assert_eq!(pair.far().active(), clients.len());
        clients.iter().for_each(reset);
        drop(clients);
        free(&pair).await;
        pair.close().await;
    });
}

/// Sends until the server's connection takes no more, and what far has read waits for it.
async fn fill_server(pair: &Pair, socket: &mut TcpStream) {
    let taken = &pair.far_counters.bytes_up;
    let mut next = taken.value();
    while timeout(Duration::from_millis(500), reaches(taken, next))
        .await
        .is_ok()
    {
        socket.write_all(&[7; 50_000]).await.expect("sent");
        next += 50_000;
    }
}

/// Clients that leave while near writes to them, or far to their server, and nobody reads; some
/// have ended before, so that nothing more is read from them.
#[test]
fn a_client_that_leaves_amid_a_write_gives_everything_back_at_once() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let (listener, _) = listen().await;
        for up in [false, true] {
            for has_ended in [false, true] {
                let (mut client, mut server) = pair.ends(&listener).await;
                match up {
                    true => fill_server(&pair, &mut client).await,
                    false => fill(&mut server).await,
                }
                if has_ended {
                    client.shutdown().await.expect("ended");
                    sleep(Duration::from_millis(500)).await;
                }
                reset(&client);
                drop(client);
                println!("{carrier}, up: {up}, has ended: {has_ended}");
                free(&pair).await;
                let reset = timeout(SOON, server.ready(Interest::ERROR)).await;
                reset.expect("reset").expect("registered");
            }
        }
        pair.close().await;
    });
}

/// Clients that end while their server neither reads nor ends.
#[test]
fn half_closed_connections_in_which_nothing_moves_give_way_to_the_next_ones_of_their_client() {
    each_carrier(async |carrier| {
        let echo = echo().await;
        let near = format!(
            "limits.connections_per_client = 4\n\
             forwards = [{{ listen = \"127.0.0.1:0\", to = \"{echo}\" }}]"
        );
        let pair = Pair::near_with(carrier, &near).await;
        let forward = pair.at("forwards[0]").await;
        let (listener, _) = listen().await;
        let mut held = Vec::new();
        for _ in 0..4 {
            let (mut client, server) = pair.ends(&listener).await;
            client.write_all(b"unread").await.expect("sent");
            client.shutdown().await.expect("ended");
            held.push((client, server));
        }
        let mut next = Vec::new();
        let start = Instant::now();
        while next.len() < 4 {
            assert!(
                start.elapsed() < 2 * PATIENCE,
                "{carrier}: {} places",
                next.len()
            );
            // Reset without a place.
            let served = async {
                let mut client = TcpStream::connect(forward).await?;
                client.write_all(b"next").await?;
                client.read_exact(&mut [0; 4]).await?;
                std::io::Result::Ok(client)
            };
            match timeout(SOON, served).await {
                Ok(Ok(client)) => next.push(client),
                _ => sleep(Duration::from_millis(500)).await,
            }
        }
        drop(held);
        pair.close().await;
    });
}

#[test]
fn connections_that_carry_nothing_are_reset_after_a_while() {
    each_carrier(async |carrier| {
        tokio::join!(
            is_limited(carrier, true, false),
            is_limited(carrier, true, true),
            is_limited(carrier, false, false),
            is_limited(carrier, false, true),
        );
    });
}

/// The gateway resets the connection that carries nothing, and not the one that does.
async fn is_limited(carrier: &str, at_near: bool, half_closed: bool) {
    let limits = match half_closed {
        true => "limits = { idle_s = 60.0, half_closed_s = 2.0 }",
        false => "limits = { idle_s = 2.0, half_closed_s = 60.0 }",
    };
    let pair = match at_near {
        true => Pair::near_with(carrier, limits).await,
        false => Pair::far_with(carrier, limits).await,
    };
    let (listener, _) = listen().await;
    let (mut idle, _idle_server) = pair.ends(&listener).await;
    let (mut busy, mut busy_server) = pair.ends(&listener).await;
    if half_closed {
        idle.shutdown().await.expect("ended");
        busy.shutdown().await.expect("ended");
    }
    let idle = tokio::spawn(async move { is_reset(&mut idle).await });
    while !idle.is_finished() {
        busy_server.write_all(b"a").await.expect("sent");
        busy.read_exact(&mut [0]).await.expect("received");
        sleep(Duration::from_millis(100)).await;
    }
    assert!(idle.await.expect("no panic"), "{carrier} {limits}");
    let counters = match at_near {
        true => &pair.near_counters,
        false => &pair.far_counters,
    };
    assert_eq!(counters.ended_idle.value(), 1);
    busy_server.write_all(b"a").await.expect("sent");
    busy.read_exact(&mut [0]).await.expect("received");
    pair.close().await;
}

/// A connection over which the client and the server have sent this much and their ends.
async fn ended(pair: &Pair, bytes: [usize; 2]) -> (TcpStream, TcpStream) {
    let (listener, _) = listen().await;
    let (mut client, mut server) = pair.ends(&listener).await;
    for (socket, bytes) in [&mut client, &mut server].into_iter().zip(bytes) {
        let sent = async {
            socket.write_all(&vec![7; bytes]).await?;
            socket.shutdown().await
        };
        let sent = timeout(PATIENCE, sent).await;
        sent.expect("in time").expect("sent");
    }
    (client, server)
}

/// Bytes that a socket receives until its end.
async fn received(mut socket: TcpStream) -> usize {
    let mut data = Vec::new();
    let read = timeout(PATIENCE, socket.read_to_end(&mut data)).await;
    let read = read.expect("in time");
    assert!(read.is_ok(), "reset after {} bytes", data.len());
    data.len()
}

/// One side sends this much and its end over a link of this rate, then its gateway drains.
async fn drains(carrier: &str, near_drains: bool, bytes: usize, mbps: f64) {
    let mut pair = link::pair(carrier, mbps).await;
    let bytes = if near_drains { [bytes, 0] } else { [0, bytes] };
    let (client, server) = ended(&pair, bytes).await;
    let client = tokio::spawn(received(client));
    let server = tokio::spawn(received(server));
    if near_drains {
        pair.near.stop_accepting().await;
        until("near is idle", async || pair.near.active() == 0).await;
        pair.near.close_all().await;
    } else {
        pair.far().stop_accepting().await;
        until("far is idle", async || pair.far().active() == 0).await;
        pair.stop_far().await;
    }
    let carried = [server.await.expect("ended"), client.await.expect("ended")];
    assert_eq!(carried, bytes, "{carrier}");
    for counters in [&pair.near_counters, &pair.far_counters] {
        reaches(&counters.ended_complete, 1).await;
    }
    pair.close().await;
}

#[test]
fn a_gateway_drains_until_all_data_has_arrived() {
    each_carrier(async |carrier| {
        // More than what the gateways send while they close.
        tokio::join!(
            drains(carrier, true, 300_000, 1.0),
            drains(carrier, false, 300_000, 1.0),
        );
    });
}

#[test]
#[ignore = "slow: make test-all"]
fn a_gateway_drains_for_as_long_as_its_data_takes() {
    each_carrier(async |carrier| {
        tokio::join!(
            drains(carrier, true, 3_000_000, 2.0),
            drains(carrier, false, 3_000_000, 2.0),
        );
    });
}

#[test]
fn a_slow_client_gets_what_its_gateway_has_received_from_one_that_has_ended() {
    each_carrier(async |carrier| {
        let mut pair = Pair::near_with(carrier, "limits.client_mbps = 2.0").await;
        let (client, server) = ended(&pair, [400_000; 2]).await;
        let client = tokio::spawn(received(client));
        assert_eq!(received(server).await, 400_000);
        pair.far().stop_accepting().await;
        until("far is idle", async || pair.far().active() == 0).await;
        pair.stop_far().await;
        assert_eq!(client.await.expect("ended"), 400_000);
        pair.close().await;
    });
}

/// A client that has ended and sees the server's end has had all its data carried, and has all of
/// the server's, whenever the tunnel ends.
#[test]
fn an_end_means_that_every_byte_has_arrived() {
    ends_are_true(12);
}

#[test]
#[ignore = "slow: make test-all"]
fn an_end_means_that_every_byte_of_many_has_arrived() {
    ends_are_true(40);
}

/// The link has 1 Mbps for each connection, so that its tunnel ends amid their data.
fn ends_are_true(connections: u64) {
    each_carrier(async |carrier| {
        for round in 0..3_u64 {
            let mut pair = link::pair(carrier, connections as f64).await;
            let server = counting_server().await;
            let mut clients = JoinSet::new();
            for i in 0..connections {
                let socket = pair.connect(server).await.expect("connected");
                // Up to 200 kB, some of it after a while.
                let bytes = (round * connections + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                let bytes = bytes as usize % 200_000;
                clients.spawn(count(socket, bytes, Duration::from_millis(10 * (i % 20))));
            }
            sleep(Duration::from_millis(300 * (round + 1))).await;
            match round {
                0 => pair.stop_far().await,
                1 => pair.near.close_all().await,
                _ => {}
            }
            let mut complete = 0;
            while let Some(client) = clients.join_next().await {
                complete += usize::from(client.expect("an end that is not true"));
            }
            println!("{carrier}: {complete} of {connections} complete in round {round}");
            assert!(round < 2 || complete == connections as usize, "{complete}");
            pair.close().await;
        }
    });
}

/// A server that says how much it has received, as 8 bytes, and then as many bytes.
async fn counting_server() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut data = Vec::new();
                if socket.read_to_end(&mut data).await.is_ok() {
                    socket.write_all(&data.len().to_be_bytes()).await?;
                    socket.write_all(&data).await?;
                }
                socket.shutdown().await
            });
        }
    });
    address
}

/// Whether the connection was complete, and not reset.
async fn count(mut socket: TcpStream, bytes: usize, pause: Duration) -> bool {
    let carried = async {
        socket.write_all(&vec![1; bytes / 2]).await?;
        sleep(pause).await;
        socket.write_all(&vec![1; bytes - bytes / 2]).await?;
        socket.shutdown().await?;
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    match timeout(PATIENCE, carried).await.expect("in time") {
        Ok(answer) => {
            assert_eq!(answer.len(), 8 + bytes);
            assert_eq!(answer[..8], bytes.to_be_bytes());
            true
        }
        Err(_) => false,
    }
}
