//! Goodput on loopback of a tunnel over one path, with `quic` also over two, beside that of the
//! library alone: noq, or TLS over TCP.
//!
//! `cargo bench -p anabranch-carrier --bench loopback [-- CARRIER] [MEGABYTES]`; with `library`
//! among them one run of the library alone, and nothing but its Mbit/s.

use std::sync::Arc;
use std::time::Instant;

use anabranch_carrier::keys::KeyPair;
use anabranch_carrier::tls::{Identity, SERVER_NAME};
use anabranch_carrier::{Carrier, Condition, Far, Listener, Near, Path, Settings, connect};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Runs of each variant, interleaved; the table has the median.
const RUNS: usize = 7;

/// Size of a write, bytes.
const PIECE: usize = 1 << 16;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let megabytes = words.iter().find_map(|word| word.parse().ok());
    let bytes = megabytes.unwrap_or(200) * 1_000_000;
    let named = |this: &str| words.iter().any(|word| word == this);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        if named("library") {
            let carrier = if named("mptcp") {
                Carrier::Mptcp
            } else {
                Carrier::Quic
            };
            println!("{:.0}", alone(carrier, bytes).await);
            return;
        }
        if !named("mptcp") {
            compare(Carrier::Quic, bytes, &[1, 2]).await;
        }
        if !named("quic") {
            compare(Carrier::Mptcp, bytes, &[1]).await;
        }
    });
}

/// Prints a table: the library, and a tunnel over each of these numbers of paths.
async fn compare(carrier: Carrier, bytes: usize, paths: &[u8]) {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let mut run = vec![alone(carrier, bytes).await];
        for &paths in paths {
            run.push(tunnel(carrier, bytes, paths).await);
        }
        println!("{run:.0?}");
        runs.push(run);
    }
    let library = median(runs.iter().map(|run| run[0]));
    println!("{carrier:?}, library, one path: {library:.0} Mbit/s");
    for (i, paths) in (1..).zip(paths) {
        let mbps = median(runs.iter().map(|run| run[i]));
        // Ratios within a round, so that changes of the machine's speed cancel out.
        let share = median(runs.iter().map(|run| run[i] / run[0]));
        println!("{carrier:?}, tunnel, {paths} path(s): {mbps:.0} Mbit/s, {share:.2}");
    }
}

/// Mbit/s of the library alone.
async fn alone(carrier: Carrier, bytes: usize) -> f64 {
    match carrier {
        Carrier::Quic => library(bytes).await,
        Carrier::Mptcp => tls(bytes).await,
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
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

/// Mbit/s of TLS over TCP, with the library's own settings.
async fn tls(bytes: usize) -> f64 {
    let (near, far) = identities();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("free");
    let address = listener.local_addr().expect("bound");
    let connecting = async {
        let tcp = TcpStream::connect(address).await.expect("listening");
        let name = SERVER_NAME.try_into().expect("a name");
        let connector = TlsConnector::from(Arc::new(near.client()));
        connector.connect(name, tcp).await.expect("a handshake")
    };
    let accepting = async {
        let (tcp, _) = listener.accept().await.expect("a connection");
        let acceptor = TlsAcceptor::from(Arc::new(far.server()));
        acceptor.accept(tcp).await.expect("a handshake")
    };
    let (near, far) = tokio::join!(connecting, accepting);
    transfer(bytes, near, async { far }).await
}

/// Mbit/s of one stream of a tunnel over this many paths.
async fn tunnel(carrier: Carrier, bytes: usize, paths: u8) -> f64 {
    let (near_identity, far_identity) = identities();
    let settings = Settings::new(carrier, "cubic");
    let far = Far {
        listen: free_address(),
        settings: settings.clone(),
    };
    let listener = Listener::bind(&far, &far_identity).await.expect("free");
    let near = Near {
        far: far.listen.into(),
        paths: (0..paths).map(path).collect(),
        settings,
    };
    let connecting = connect(&near, &near_identity);
    let (near, accepted) = tokio::join!(connecting, listener.accept());
    let near = near.expect("a tunnel");
    let (far, _) = accepted.expect("a tunnel");
    while near
        .paths()
        .iter()
        .any(|path| path.condition != Condition::Up)
    {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let stream = near.open().await.expect("open");
    // Dropped early it would reset the stream.
    let mut answer = None;
    let reader = async {
        let stream = far.accept().await.expect("open");
        answer = Some(stream.writer);
        stream.reader
    };
    transfer(bytes, stream.writer, reader).await
}

/// An address with a port that is free for TCP and UDP, most likely.
fn free_address() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("free");
    listener.local_addr().expect("bound")
}

fn path(i: u8) -> Path {
    Path {
        address: Some([127, 0, 0, 2 + i].into()),
        ..Path::new(&i.to_string())
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
