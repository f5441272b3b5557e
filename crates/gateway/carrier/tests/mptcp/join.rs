//! Permission to join a tunnel with a second connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_carrier::Carrier::Mptcp;
use anabranch_carrier::keys::KeyPair;
use anabranch_carrier::mptcp::mux::{self, Lane, Mux, Role, Token};
use anabranch_carrier::tls::{Identity, SERVER_NAME};
use anabranch_carrier::{Limits, Listener, Tunnel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::client::TlsStream;

use crate::support::configs;

/// Answer of a far that closes the connection without one.
const NOTHING: [u8; 0] = [];

const LIMITS: Limits = Limits {
    streams: 4,
    buffer_bytes: 40_000,
    tunnel_buffer_bytes: 200_000,
    handshake: Duration::ZERO,
};

/// A far, and two peers that it trusts.
struct Trusted {
    far: SocketAddr,
    listener: Listener,
    first: Arc<Identity>,
    second: Arc<Identity>,
}

impl Trusted {
    async fn new() -> Trusted {
        let [far, first, second] = [(); 3].map(|()| KeyPair::generate().expect("random numbers"));
        let peers = vec![first.public().clone(), second.public().clone()];
        let identity = |own: &KeyPair| Identity::new(own, vec![far.public().clone()]);
        let (_, config) = configs(Mptcp);
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

    /// A tunnel of the first peer, and its token.
    async fn tunnel(&self) -> (TlsStream<TcpStream>, Tunnel, Token) {
        let mut mux = Mux::new(Role::Near, LIMITS);
        let mut stream = self.connect(&self.first).await;
        let mut hello = Vec::new();
        mux.transmit(Lane::Bulk, &mut hello);
        stream.write_all(&hello).await.expect("open");
        let accepted = self.listener.accept();
        let receiving = async {
            let mut bytes = [0; 1000];
            loop {
                let received = stream.read(&mut bytes).await.expect("open");
                assert!(received > 0, "far has closed the connection");
                let received = mux.receive(Lane::Bulk, &bytes[..received], Instant::now());
                received.expect("far keeps to the protocol");
                if let Some(token) = mux.invitation() {
                    return token;
                }
            }
        };
        let (accepted, token) = tokio::join!(accepted, receiving);
        (stream, accepted.expect("accepted").0, token)
    }

    /// Answer of far to this token, until it closes the connection or waits.
    async fn answer(&self, identity: &Arc<Identity>, token: &Token) -> Vec<u8> {
        let mut stream = self.connect(identity).await;
        stream.write_all(&mux::join(token)).await.expect("open");
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        let _ = timeout(Duration::from_millis(500), reading).await;
        answer
    }
}

#[tokio::test]
async fn a_second_connection_joins_only_the_tunnel_of_its_own_key() {
    let trusted = Trusted::new().await;
    let (mut near, far, token) = trusted.tunnel().await;
    assert_eq!(trusted.answer(&trusted.second, &token).await, NOTHING);
    assert_eq!(trusted.answer(&trusted.first, &[7; 16]).await, NOTHING);
    assert_eq!(trusted.answer(&trusted.first, &token).await, mux::alive());
    // Connections that are not confirmed have no effect.
    assert!(
        timeout(Duration::from_millis(100), far.closed())
            .await
            .is_err()
    );
    drop(far);
    let mut rest = Vec::new();
    let _ = near.read_to_end(&mut rest).await;
    assert_eq!(trusted.answer(&trusted.first, &token).await, NOTHING);
}

#[tokio::test]
async fn a_third_connection_is_refused_and_the_second_may_fail() {
    let trusted = Trusted::new().await;
    let (_near, far, token) = trusted.tunnel().await;
    let mut second = trusted.connect(&trusted.first).await;
    let mut alive = [0; mux::HEADER];
    second.write_all(&mux::join(&token)).await.expect("open");
    second.read_exact(&mut alive).await.expect("accepted");
    second.write_all(&mux::alive()).await.expect("open");
    let refused = async { while !trusted.answer(&trusted.first, &token).await.is_empty() {} };
    let refused = timeout(Duration::from_secs(10), refused).await;
    refused.expect("there is one");
    drop(second);
    assert!(
        timeout(Duration::from_millis(500), far.closed())
            .await
            .is_err()
    );
}
