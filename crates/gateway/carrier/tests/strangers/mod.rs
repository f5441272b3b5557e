//! Attackers without a key: they delay no tunnel.

mod initial;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch_carrier::keys::KeyPair;
use anabranch_carrier::tls::{Identity, SERVER_NAME};
use anabranch_carrier::{Carrier, Listener, connect};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{interval, sleep, timeout};

use crate::support::{configs, identities};
use initial::Attacker;

/// An address of the attackers, in the same /24 as near's.
const STRANGER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)), 0);

/// Time of the attack before near connects, in which handshakes have taken every place.
const AHEAD: Duration = Duration::from_millis(1500);

/// Time that near may take on a busy machine beyond the 3 s of the slow form.
const PATIENCE: Duration = Duration::from_secs(10);

/// Somebody whom far does not know.
fn nobody() -> Arc<Identity> {
    let key = || KeyPair::generate().expect("random numbers");
    Identity::new(&key(), vec![key().public().clone()])
}

/// The first message of TLS over TCP.
fn hello() -> Vec<u8> {
    let name = SERVER_NAME.try_into().expect("a valid name");
    let config = Arc::new(nobody().client());
    let mut client = rustls::ClientConnection::new(config, name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("in memory");
    hello
}

/// Connects by TCP, sends this and nothing more, until it is dropped.
async fn silent(far: SocketAddr, bytes: &[u8]) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind(STRANGER).ok()?;
    let mut stream = timeout(Duration::from_secs(1), socket.connect(far))
        .await
        .ok()?
        .ok()?;
    stream.write_all(bytes).await.ok()?;
    Some(stream)
}

/// Begins connections by TCP, `rate` per second of each kind: without a byte, with half a
/// ClientHello, with a whole one.
async fn attack_by_tcp(far: SocketAddr, rate: u32) {
    let hello: Arc<[u8]> = hello().into();
    let mut ticks = interval(Duration::from_secs(1) / rate);
    loop {
        ticks.tick().await;
        for length in [0, hello.len() / 2, hello.len()] {
            let hello = hello.clone();
            tokio::spawn(async move {
                let stream = silent(far, &hello[..length]).await;
                // As long as the kernel's queue may keep it.
                sleep(Duration::from_secs(8)).await;
                drop(stream);
            });
        }
    }
}

/// Begins QUIC handshakes, `rate` per second of each kind: with half a ClientHello, with a whole
/// one. Retry is answered.
fn attack_by_quic(far: SocketAddr, rate: u32, ends: &AtomicBool) {
    let hello = initial::hello(&nobody());
    let frames = [
        initial::crypto(&hello[..hello.len() / 2]),
        initial::crypto(&hello),
    ];
    let attackers = frames.map(|frames| Attacker::new(STRANGER, far, frames));
    while !ends.load(Ordering::Relaxed) {
        attackers.iter().for_each(Attacker::begin);
        std::thread::sleep(Duration::from_secs(1) / rate);
    }
}

/// Ends an attack when it is dropped.
struct EndsOnDrop(Arc<AtomicBool>);

impl Drop for EndsOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// ClientHellos that fail at once, with another protocol in ALPN, from addresses that do not
/// answer.
fn fail_by_quic(far: SocketAddr, rate: u32, ends: &AtomicBool) {
    let mut client = nobody().client();
    client.alpn_protocols = vec![b"other".to_vec()];
    let frames = initial::crypto(&initial::hello_of(client));
    let attackers: Vec<Attacker> = (0..200_u8)
        .map(|i| {
            let from = SocketAddr::from(([127, 7, i, 1], 0));
            Attacker::mute(from, far, frames.clone())
        })
        .collect();
    let pause = Duration::from_secs(1) / rate;
    let mut next = Instant::now();
    for attacker in attackers.iter().cycle() {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        attacker.begin();
        next += pause;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// The attacks of the review: each failed handshake closes for 3 s, so that 2000 a second from many
/// forged addresses took all room for closing ones, and near, whose address is known, had none.
#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_fail_at_once_keep_no_tunnel_away() {
    let (near, far, _) = identities();
    let (near_config, far_config) = configs(Carrier::Quic);
    let listener = Arc::new(Listener::bind(&far_config, &far).await.expect("bound"));
    let accepts = listener.clone();
    let accepting = tokio::spawn(async move {
        let mut tunnels = Vec::new();
        while let Ok((tunnel, _)) = accepts.accept().await {
            tunnels.push(tunnel);
        }
    });
    // From now on its address is known.
    connect(&near_config, &near)
        .await
        .expect("no attack")
        .close("the test");
    let ends = Arc::new(AtomicBool::new(false));
    // Also if near has no tunnel.
    let _end = EndsOnDrop(ends.clone());
    let attack = {
        let (ends, far) = (ends.clone(), far_config.listen);
        tokio::task::spawn_blocking(move || fail_by_quic(far, 2000, &ends))
    };
    sleep(AHEAD).await;
    for _ in 0..3 {
        let connected = timeout(Duration::from_secs(3), connect(&near_config, &near)).await;
        let tunnel = connected.expect("within 3 s").expect("a tunnel");
        tunnel.close("the test");
    }
    ends.store(true, Ordering::Relaxed);
    attack.await.expect("no panic");
    accepting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn far_stops_accepting_amid_handshakes_and_its_tunnels_go_on() {
    for _ in 0..20 {
        let (near, far, _) = identities();
        let (near_config, far_config) = configs(Carrier::Quic);
        let listener = Listener::bind(&far_config, &far).await.expect("bound");
        let (connected, accepted) = tokio::join!(connect(&near_config, &near), listener.accept());
        let (connected, (accepted, _)) = (connected.expect("far"), accepted.expect("near"));
        let ends = Arc::new(AtomicBool::new(false));
        let _end = EndsOnDrop(ends.clone());
        let attack = {
            let ends = ends.clone();
            tokio::task::spawn_blocking(move || attack_by_quic(far_config.listen, 2000, &ends))
        };
        // Until Retry is asked for.
        sleep(Duration::from_millis(100)).await;
        drop(listener);
        let begins = async {
            let mut stream = connected.open().await.expect("open");
            stream.write_all(b"goes on").await.expect("open");
            accepted.accept().await.expect("open");
        };
        timeout(PATIENCE, begins).await.expect("a stream");
        ends.store(true, Ordering::Relaxed);
        attack.await.expect("no panic");
    }
}

/// Time that near takes for a tunnel to far, which has just started and is attacked for `ahead`.
async fn time_to_tunnel(carrier: Carrier, ahead: Duration) -> Option<Duration> {
    let (near, far, key) = identities();
    let (near_config, far_config) = configs(carrier);
    let listener = Listener::bind(&far_config, &far).await.expect("bound");
    let ends = Arc::new(AtomicBool::new(false));
    let attack = match carrier {
        Carrier::Mptcp => tokio::spawn(attack_by_tcp(far_config.listen, 100)),
        Carrier::Quic => {
            let (ends, far) = (ends.clone(), far_config.listen);
            tokio::task::spawn_blocking(move || attack_by_quic(far, 300, &ends))
        }
    };
    sleep(ahead).await;
    let start = Instant::now();
    let connects = async {
        while let Err(error) = connect(&near_config, &near).await {
            println!("after {:?}: {error:#}", start.elapsed());
            sleep(Duration::from_millis(100)).await;
        }
    };
    // A tunnel that far drops is closed.
    let accepts = async { listener.accept().await.expect("it listens") };
    let both = async { tokio::join!(connects, accepts) };
    let established = timeout(PATIENCE, both).await;
    let took = start.elapsed();
    ends.store(true, Ordering::Relaxed);
    attack.abort();
    let ((), (_tunnel, peer)) = established.ok()?;
    assert_eq!(peer, key);
    println!("{carrier:?}: a tunnel after {took:?}");
    Some(took)
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_never_end_keep_no_tunnel_away_over_tcp() {
    let took = time_to_tunnel(Carrier::Mptcp, AHEAD).await;
    assert!(took.is_some(), "no tunnel within {PATIENCE:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_never_end_keep_no_tunnel_away_over_quic() {
    let took = time_to_tunnel(Carrier::Quic, AHEAD).await;
    assert!(took.is_some(), "no tunnel within {PATIENCE:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: make test-all"]
async fn after_a_minute_of_attacks_near_has_a_tunnel_within_3_s() {
    for carrier in [Carrier::Mptcp, Carrier::Quic] {
        let took = time_to_tunnel(carrier, Duration::from_secs(60)).await;
        assert!(
            took.is_some_and(|took| took < Duration::from_secs(3)),
            "{took:?}"
        );
    }
}
