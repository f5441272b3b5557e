//! A slow link to far, for UDP and TCP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::{Instant, sleep_until};

use super::harness::{Options, Pair, free_address};

/// Small buffers of its sockets, so that little waits in the link, bytes.
const BUFFER: u32 = 16 << 10;

/// A pair of gateways with such a link between them.
pub async fn pair(carrier: &str, mbps: f64) -> Pair {
    let far = free_address();
    let near = format!("far = \"{}\"", to(far, mbps).await);
    let far = format!("listen = \"{far}\"");
    Pair::with(
        carrier,
        Options {
            near: &near,
            far: &far,
        },
    )
    .await
}

/// The address at which `far` is reached over a link of this rate in each direction.
async fn to(far: SocketAddr, mbps: f64) -> SocketAddr {
    let address = free_address();
    let near = UdpSocket::bind(address).await.expect("the port is free");
    tokio::spawn(datagrams(Arc::new(near), far, mbps));
    let listener = TcpSocket::new_v4().expect("a socket");
    listener.set_recv_buffer_size(BUFFER).expect("set");
    listener.bind(address).expect("the port is free");
    let listener = listener.listen(16).expect("listens");
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let socket = TcpSocket::new_v4().expect("a socket");
                socket.set_recv_buffer_size(BUFFER).expect("set");
                let Ok(mut far) = socket.connect(far).await else {
                    return;
                };
                let (near_reader, near_writer) = near.split();
                let (far_reader, far_writer) = far.split();
                tokio::join!(
                    bytes(near_reader, far_writer, mbps),
                    bytes(far_reader, near_writer, mbps)
                );
            });
        }
    });
    address
}

/// A direction of a link, with the time at which it is free for the next bytes.
struct Direction {
    free: Instant,
    mbps: f64,
}

impl Direction {
    fn new(mbps: f64) -> Direction {
        Direction {
            free: Instant::now(),
            mbps,
        }
    }

    async fn carry(&mut self, bytes: usize) {
        let takes = Duration::from_secs_f64(bytes as f64 * 8.0 / (self.mbps * 1e6));
        self.free = self.free.max(Instant::now()) + takes;
        sleep_until(self.free).await;
    }
}

async fn bytes(mut reader: impl AsyncRead + Unpin, mut writer: impl AsyncWrite + Unpin, mbps: f64) {
    let mut direction = Direction::new(mbps);
    let mut buffer = [0; 1500];
    while let Ok(n @ 1..) = reader.read(&mut buffer).await {
        direction.carry(n).await;
        if writer.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

/// Carries the datagrams of near, which has one socket.
async fn datagrams(near: Arc<UdpSocket>, to: SocketAddr, mbps: f64) {
    let far = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port"));
    let (mut up, mut down) = (Direction::new(mbps), Direction::new(mbps));
    let (first, mut back) = tokio::sync::watch::channel(None);
    let up = async {
        let mut buffer = [0; 1 << 16];
        while let Ok((n, from)) = near.recv_from(&mut buffer).await {
            first.send_replace(Some(from));
            up.carry(n).await;
            let _ = far.send_to(&buffer[..n], to).await;
        }
    };
    let down = async {
        let mut buffer = [0; 1 << 16];
        loop {
            // Far may be gone.
            let Ok(n) = far.recv(&mut buffer).await else {
                continue;
            };
            let client = back
                .wait_for(Option::is_some)
                .await
                .expect("open")
                .expect("known");
            down.carry(n).await;
            let _ = near.send_to(&buffer[..n], client).await;
        }
    };
    tokio::join!(up, down);
}
