//! Goodput of the libraries below the carriers on loopback, over one connection, path and stream:
//! the reference for the gateway's own goodput (`crates/gateway/acceptance/loopback.py`).
//!
//! `cargo bench -p anabranch-carrier --bench library -- quic 5` prints Mbit/s, one line per run.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Instant;

use anabranch_carrier::keys::KeyPair;
use anabranch_carrier::tls::{Identity, SERVER_NAME};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Payload of a run, bytes.
const BYTES: usize = 200_000_000;
/// Buffer of the UDP sockets, bytes: Linux' default, 212 kB, overflows.
const SOCKET_BUFFER: usize = 4 << 20;
const BLOCK: usize = 1 << 16;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().filter(|word| word != "--bench").collect();
    let carrier = arguments.get(1).map_or("quic", String::as_str);
    let runs = arguments.get(2).map_or(Ok(5), |runs| runs.parse())?;
    for _ in 0..runs {
        let seconds = match carrier {
            "quic" => quic().await?,
            _ => tls().await?,
        };
        println!("{:.0}", BYTES as f64 * 8e-6 / seconds);
    }
    Ok(())
}

/// Two ends that accept each other.
fn identities() -> Result<[Arc<Identity>; 2], Failure> {
    let [one, other] = [KeyPair::generate()?, KeyPair::generate()?];
    Ok([
        Identity::new(&one, vec![other.public().clone()]),
        Identity::new(&other, vec![one.public().clone()]),
    ])
}

/// The duration of a transfer over noq, s.
async fn quic() -> Result<f64, Failure> {
    let [near, far] = identities()?;
    let server = QuicServerConfig::try_from(far.server())?;
    let server = endpoint(Some(ServerConfig::with_crypto(Arc::new(server))))?;
    let client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(near.client())?));
    let address = server.local_addr()?;
    let sender = tokio::spawn(async move {
        let incoming = server.accept().await.ok_or("the endpoint is closed")?;
        let connection = incoming.await?;
        let mut stream = connection.open_uni().await?;
        let block = vec![0; BLOCK];
        for sent in (0..BYTES).step_by(BLOCK) {
            stream.write_all(&block[..BLOCK.min(BYTES - sent)]).await?;
        }
        stream.finish()?;
        connection.closed().await;
        Ok::<(), Failure>(())
    });
    let connecting = endpoint(None)?.connect_with(client, address, SERVER_NAME)?;
    let connection = connecting.await?;
    let start = Instant::now();
    let mut stream = connection.accept_uni().await?;
    let mut received = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX).await? {
        received += chunk.len();
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(received, BYTES);
    connection.close(0_u32.into(), b"");
    sender.await??;
    Ok(seconds)
}

fn endpoint(server: Option<ServerConfig>) -> Result<Endpoint, Failure> {
    let socket = socket2::Socket::from(UdpSocket::bind(("127.0.0.1", 0))?);
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    let runtime = Arc::new(TokioRuntime);
    Ok(Endpoint::new(
        EndpointConfig::default(),
        server,
        socket.into(),
        runtime,
    )?)
}

/// The duration of a transfer over TCP and TLS 1.3, s.
async fn tls() -> Result<f64, Failure> {
    let [near, far] = identities()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let acceptor = TlsAcceptor::from(Arc::new(far.server()));
    let sender = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await?;
        let mut stream = acceptor.accept(tcp).await?;
        let block = vec![0; BLOCK];
        for sent in (0..BYTES).step_by(BLOCK) {
            stream.write_all(&block[..BLOCK.min(BYTES - sent)]).await?;
        }
        stream.shutdown().await?;
        Ok::<(), Failure>(())
    });
    let connector = TlsConnector::from(Arc::new(near.client()));
    let tcp = TcpStream::connect(address).await?;
    let mut stream = connector
        .connect(ServerName::try_from(SERVER_NAME)?, tcp)
        .await?;
    let start = Instant::now();
    let mut block = vec![0; BLOCK];
    let mut received = 0;
    loop {
        match stream.read(&mut block).await? {
            0 => break,
            bytes => received += bytes,
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(received, BYTES);
    sender.await??;
    Ok(seconds)
}
