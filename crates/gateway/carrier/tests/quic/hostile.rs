//! A near with a key that does not follow the protocol.

use std::sync::Arc;
use std::time::Duration;

use anabranch_carrier::quic;
use anabranch_carrier::tls::SERVER_NAME;
use noq::crypto::rustls::QuicClientConfig;
use noq::{ClientConfig, Endpoint, TransportConfig, VarInt};
use tokio::time::timeout;

use super::support::{PATIENCE, far, identities, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_near_that_grants_no_stream_gets_no_tunnel_and_its_connection_is_closed() {
    let (near, identity) = identities();
    let mut config = far();
    config.settings.limits.handshake = Duration::from_millis(500);
    let listener = quic::Listener::bind(&config, &identity).await;
    let listener = listener.expect("free");
    let address = listener.local_addr().expect("bound");
    let crypto = QuicClientConfig::try_from(near.client()).expect("TLS 1.3");
    let mut client = ClientConfig::new(Arc::new(crypto));
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_concurrent_multipath_paths(4);
    client.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let connecting = endpoint.connect_with(client, address, SERVER_NAME);
    let connection = connecting.expect("valid").await.expect("a key of near");
    let closed = timeout(PATIENCE, connection.closed());
    assert!(closed.await.is_ok(), "far keeps the connection");
    until("counted", || listener.refused() == 1).await;
}
