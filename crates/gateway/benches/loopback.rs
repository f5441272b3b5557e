//! Goodput on loopback: a tunnel over one and over two paths, beside the library alone.
//!
//! `cargo bench -p anabranch-gateway --bench loopback [-- MEGABYTES]`

use std::sync::Arc;
use std::time::Instant;

use anabranch_gateway::carrier::{Condition, Tunnel, connect, quic};
use anabranch_gateway::config;
use anabranch_gateway::keys::KeyPair;
use anabranch_gateway::tls::{Identity, SERVER_NAME};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Runs of each, of which the best counts.
const RUNS: usize = 5;

/// Data is written in pieces of this size, bytes.
const PIECE: usize = 1 << 16;

fn main() {
    let megabytes = std::env::args().find_map(|word| word.parse().ok());
    let bytes = megabytes.unwrap_or(200) * 1_000_000;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut best = [0_f64; 3];
        for _ in 0..RUNS {
            // In turn, so that the machine's moods touch all.
            let run = [
                library(bytes).await,
                tunnel(bytes, 1).await,
                tunnel(bytes, 2).await,
            ];
            best = std::array::from_fn(|i| best[i].max(run[i]));
            println!("{run:.0?}");
        }
        let [library, one, two] = best;
        println!("library, one path: {library:.0} Mbit/s");
        println!("tunnel, one path:  {one:.0} Mbit/s, {:.2}", one / library);
        println!("tunnel, two paths: {two:.0} Mbit/s, {:.2}", two / library);
    });
}

fn identities() -> (Arc<Identity>, Arc<Identity>) {
    let pair = || KeyPair::generate().expect("random numbers");
    let (near, far) = (pair(), pair());
    (
        Identity::new(&near, vec![far.public().clone()]),
        Identity::new(&far, vec![near.public().clone()]),
    )
}

/// Mbit/s of one stream of the library with its own settings and larger socket buffers.
async fn library(bytes: usize) -> f64 {
    let (near, far) = identities();
    let server = QuicServerConfig::try_from(far.server()).expect("TLS 1.3");
    let server = noq::ServerConfig::with_crypto(Arc::new(server));
    let server = endpoint(Some(server));
    let address = server.local_addr().expect("bound");
    let client = QuicClientConfig::try_from(near.client()).expect("TLS 1.3");
    let client = noq::ClientConfig::new(Arc::new(client));
    let endpoint = endpoint(None);
    let connecting = endpoint
        .connect_with(client, address, SERVER_NAME)
        .expect("an address");
    let accepting = async {
        server
            .accept()
            .await
            .expect("open")
            .await
            .expect("a handshake")
    };
    let (near, far) = tokio::join!(connecting, accepting);
    let near = near.expect("a handshake");
    let (send, _receive) = near.open_bi().await.expect("open");
    transfer(bytes, send, async {
        far.accept_bi().await.expect("open").1
    })
    .await
}

fn endpoint(server: Option<noq::ServerConfig>) -> noq::Endpoint {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None);
    let socket = socket.expect("a socket");
    socket.set_recv_buffer_size(4 << 20).expect("a size");
    socket.set_send_buffer_size(4 << 20).expect("a size");
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).expect("free");
    let config = noq::EndpointConfig::default();
    let runtime = Arc::new(noq::TokioRuntime);
    noq::Endpoint::new(config, server, socket.into(), runtime).expect("a socket")
}

/// Mbit/s of one stream of a tunnel over this many paths.
async fn tunnel(bytes: usize, paths: u8) -> f64 {
    let (near_identity, far_identity) = identities();
    let far = config::Far {
        listen: ([127, 0, 0, 1], 0).into(),
        tunnel: behaviour(),
        allow: config::destination::Destinations::default(),
        resolver: None,
        limits: config::Limits::default(),
        operation: config::Operation::default(),
    };
    let listener = quic::Listener::bind(&far, &far_identity)
        .await
        .expect("free");
    let near = config::Near {
        far: listener.local_addr().expect("bound").to_string(),
        tunnel: behaviour(),
        paths: (0..paths).map(path).collect(),
        socks: None,
        forwards: Vec::new(),
        redirect: None,
        dns: None,
        rules: Vec::new(),
        limits: config::Limits::default(),
        operation: config::Operation::default(),
    };
    let connecting = connect(&near, &near_identity, &near.paths);
    let (near, accepted) = tokio::join!(connecting, listener.accept());
    let near = near.expect("a tunnel");
    let far = Tunnel::Quic(accepted.expect("a tunnel").0);
    while near
        .paths()
        .iter()
        .any(|path| path.condition != Condition::Up)
    {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let stream = near.open().await.expect("open");
    transfer(bytes, stream.writer, async {
        far.accept().await.expect("open").reader
    })
    .await
}

fn behaviour() -> config::Tunnel {
    config::Tunnel {
        carrier: config::Carrier::Quic,
        algorithm: "cubic".into(),
        key: "unused".into(),
        peers: Vec::new(),
        itcp: None,
    }
}

fn path(i: u8) -> config::Path {
    config::Path {
        name: i.to_string(),
        address: Some([127, 0, 0, 2 + i].into()),
        interface: None,
        role: config::Role::Available,
        weight: 1.0,
        rate_mbps: None,
        cap_bytes: None,
    }
}

/// Mbit/s from the first byte written to the end read.
async fn transfer<W, R>(bytes: usize, mut writer: W, reader: impl Future<Output = R>) -> f64
where
    W: AsyncWrite + Send + Unpin + 'static,
    R: AsyncRead + Unpin,
{
    let start = Instant::now();
    let write = tokio::spawn(async move {
        let piece = vec![0; PIECE];
        for _ in 0..bytes / PIECE {
            writer.write_all(&piece).await.expect("open");
        }
        writer.shutdown().await.expect("open");
        writer
    });
    let mut reader = reader.await;
    let mut buffer = vec![0; PIECE];
    let mut received = 0;
    while let read @ 1.. = reader.read(&mut buffer).await.expect("open") {
        received += read;
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(received, bytes / PIECE * PIECE);
    drop(write.await.expect("no panic"));
    received as f64 * 8.0 / 1e6 / seconds
}
