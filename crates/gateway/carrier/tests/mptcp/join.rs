//! Permission to join a tunnel with a further connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_carrier::Carrier::Mptcp;
use anabranch_carrier::keys::KeyPair;
use anabranch_carrier::mptcp::frame::{Frame, HEADER, Hello, Token};
use anabranch_carrier::tls::{Identity, SERVER_NAME};
use anabranch_carrier::{Limits, Listener, Tunnel, connect};
use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::support::{configs, until};

/// Answer of a far that closes the connection without one.
const NOTHING: [u8; 0] = [];

/// Number of connections that far's tunnels may have.
const MOST: usize = 2;

/// A far, and two peers that it trusts.
struct Trusted {
    far: SocketAddr,
    listener: Listener,
    first: Arc<Identity>,
    second: Arc<Identity>,
}

impl Trusted {
    async fn new() -> Trusted {
        Trusted::with(Limits {
            streams: MOST,
            ..Limits::default()
        })
        .await
    }

    async fn with(limits: Limits) -> Trusted {
        let [far, first, second] = [(); 3].map(|()| KeyPair::generate().expect("random numbers"));
        let peers = vec![first.public().clone(), second.public().clone()];
        let identity = |own: &KeyPair| Identity::new(own, vec![far.public().clone()]);
        let (_, mut config) = configs(Mptcp);
        config.settings.limits = limits;
        let listener = Listener::bind(&config, &Identity::new(&far, peers)).await;
        Trusted {
            far: config.listen,
            listener: listener.expect("bound"),
            first: identity(&first),
            second: identity(&second),
        }
    }

    async fn connect(&self, identity: &Arc<Identity>) -> TlsStream<TcpStream> {
        let connector = tokio_rustls::TlsConnector::from(Arc::new(identity.client()));
        let name = SERVER_NAME.try_into().expect("a valid name");
        let stream = TcpStream::connect(self.far).await.expect("listening");
        connector.connect(name, stream).await.expect("trusted")
    }

    /// A connection that has joined a tunnel.
    async fn join(&self, identity: &Arc<Identity>, token: &Token) -> TlsStream<TcpStream> {
        let mut stream = self.connect(identity).await;
        stream
            .write_all(&Frame::Join(*token).encode(true))
            .await
            .expect("open");
        assert_eq!(stream.read_u8().await.expect("accepted"), 0);
        stream
    }

    /// A tunnel of a peer, and its token.
    async fn tunnel(&self, identity: &Arc<Identity>) -> (TlsStream<TcpStream>, Tunnel, Token) {
        let mut stream = self.connect(identity).await;
        let token = Token::default();
        let hello = Frame::Hello(Hello { streams: 0, token }).encode(true);
        stream.write_all(&hello).await.expect("open");
        let receiving = async {
            let mut frame = [0; HEADER + 1 + 4 + 16];
            stream.read_exact(&mut frame).await.expect("open");
            match Frame::decode(&frame, false) {
                Ok(Frame::Hello(hello)) => hello.token,
                other => panic!("{other:?}"),
            }
        };
        let (accepted, token) = tokio::join!(self.listener.accept(), receiving);
        (stream, accepted.expect("accepted").0, token)
    }

    /// Answer of far to this token, until it closes the connection or waits.
    async fn answer(&self, identity: &Arc<Identity>, token: &Token) -> Vec<u8> {
        let mut stream = self.connect(identity).await;
        stream
            .write_all(&Frame::Join(*token).encode(true))
            .await
            .expect("open");
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        let _ = timeout(Duration::from_millis(500), reading).await;
        answer
    }
}

#[tokio::test]
async fn a_connection_joins_only_the_tunnel_of_its_own_key() {
    let trusted = Trusted::new().await;
    let (mut near, far, token) = trusted.tunnel(&trusted.first).await;
    assert_eq!(trusted.answer(&trusted.second, &token).await, NOTHING);
    assert_eq!(trusted.answer(&trusted.first, &[7; 16]).await, NOTHING);
    assert_eq!(trusted.answer(&trusted.first, &token).await, [0]);
    // Connections in which nothing was sent are no streams.
    for waiting in [
        far.accept().map(drop).boxed(),
        far.closed().map(drop).boxed(),
    ] {
        let waited = timeout(Duration::from_millis(100), waiting).await;
        assert!(waited.is_err());
    }
    drop(far);
    let mut rest = Vec::new();
    let _ = near.read_to_end(&mut rest).await;
    assert_eq!(trusted.answer(&trusted.first, &token).await, NOTHING);
}

#[tokio::test]
async fn a_tunnel_has_no_more_connections_than_far_allows() {
    let trusted = Trusted::new().await;
    let (_near, far, token) = trusted.tunnel(&trusted.first).await;
    let mut joined = Vec::new();
    for _ in 0..MOST {
        joined.push(trusted.join(&trusted.first, &token).await);
    }
    assert_eq!(trusted.answer(&trusted.first, &token).await, NOTHING);
    // The length of a chunk opens a stream.
    joined[0].write_all(b"\0\x01!").await.expect("open");
    let mut accepted = far.accept().await.expect("open");
    assert_eq!(accepted.read_u8().await.expect("data"), b'!');
    drop((accepted, joined));
    let again = async { while trusted.answer(&trusted.first, &token).await.is_empty() {} };
    timeout(Duration::from_secs(10), again)
        .await
        .expect("a place is free");
}

/// Four places for two keys: the one with three connections that carry nothing loses one to the
/// other.
#[tokio::test]
async fn the_key_with_most_unused_connections_loses_one_if_there_is_no_place() {
    let trusted = Trusted::with(Limits {
        streams: 4,
        streams_of_all: 4,
        ..Limits::default()
    })
    .await;
    let (_first, _far, of_first) = trusted.tunnel(&trusted.first).await;
    let (_second, _other, of_second) = trusted.tunnel(&trusted.second).await;
    let mut joined = Vec::new();
    for (identity, token) in [
        (&trusted.first, &of_first),
        (&trusted.first, &of_first),
        (&trusted.first, &of_first),
        (&trusted.second, &of_second),
    ] {
        joined.push(trusted.join(identity, token).await);
    }
    // 3 and 1: one of the first key's goes. Then 2 and 2: a key with as many as another gets none.
    joined.push(trusted.join(&trusted.second, &of_second).await);
    let ended = async {
        loop {
            for of_first in &mut joined[..3] {
                let read = timeout(Duration::from_millis(20), of_first.read_u8()).await;
                if read.is_ok_and(|read| read.is_err()) {
                    return;
                }
            }
        }
    };
    timeout(Duration::from_secs(10), ended)
        .await
        .expect("one has ended");
    assert_eq!(trusted.answer(&trusted.second, &of_second).await, NOTHING);
}

/// The first frames of version 3, by hand: version, 4096 streams, a window of 65 536 bytes.
const OLD_HELLO: &[u8] = b"\x01\0\0\0\0\0\x0d\x03\0\0\x10\0\0\0\0\0\0\x01\0\0";

#[tokio::test]
async fn a_near_of_the_earlier_version_is_told_this_one() {
    let trusted = Trusted::new().await;
    let mut old = trusted.connect(&trusted.first).await;
    old.write_all(OLD_HELLO).await.expect("open");
    let mut answer = Vec::new();
    old.read_to_end(&mut answer).await.expect("an end");
    // HELLO with its version first, of which version 3 says "the peer has protocol version 4".
    assert_eq!((answer[0], answer[HEADER]), (1, 4));
    drop(old);
    until("it is counted", || trusted.listener.refused() == 1).await;
}

#[tokio::test]
async fn a_near_names_both_versions_if_far_has_the_earlier_one() {
    let pair = [(); 2].map(|()| KeyPair::generate().expect("random numbers"));
    let identity =
        |own: usize, peer: usize| Identity::new(&pair[own], vec![pair[peer].public().clone()]);
    let (near, far) = (identity(0, 1), identity(1, 0));
    let (config, _) = configs(Mptcp);
    let listener = TcpListener::bind(config.far.addresses[0])
        .await
        .expect("free");
    let old = async {
        let (stream, _) = listener.accept().await.expect("a near");
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(far.server()));
        let mut stream = acceptor.accept(stream).await.expect("trusted");
        let mut hello = [0; OLD_HELLO.len()];
        stream
            .read_exact(&mut hello)
            .await
            .expect("as long as its own");
        // It accepts this: a frame of version 3.
        assert_eq!(hello[..HEADER + 1], OLD_HELLO[..HEADER + 1]);
        stream.write_all(OLD_HELLO).await.expect("open");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        rest
    };
    let (refused, told) = tokio::join!(connect(&config, &near), old);
    let line = format!("{:#}", refused.expect_err("another version"));
    let both =
        "near has version 4 of the tunnel, far version 3: install the same at both ends, far first";
    assert!(line.contains(both), "{line}");
    // The reason, which far logs.
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(told.contains(both), "{told}");
}
