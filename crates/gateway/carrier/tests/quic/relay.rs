//! A network between `near` and `far`: forwards the datagrams of each path, or loses them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Treatment of the datagrams of a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    /// Whether datagrams of `near` are lost.
    pub loses_up: bool,
    /// Whether datagrams of `far` are lost.
    pub loses_down: bool,
    /// Whether every other datagram of `near` is lost.
    pub halves_up: bool,
    /// Delay in each direction.
    pub delay: Duration,
}

impl Fate {
    /// The link is dead.
    pub const DEAD: Fate = Fate {
        loses_up: true,
        loses_down: true,
        halves_up: false,
        delay: Duration::ZERO,
    };
}

type Fates = Arc<Mutex<HashMap<IpAddr, Fate>>>;

/// Tests with a network measure times: one at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Forwards between `near` and `far`.
pub struct Relay {
    _alone: tokio::sync::MutexGuard<'static, ()>,
    fates: Fates,
    pub address: SocketAddr,
}

impl Relay {
    /// A network in which `far` is at this address, and which is up.
    pub async fn to(far: SocketAddr) -> Relay {
        let alone = ALONE.lock().await;
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("loopback");
        let address = socket.local_addr().expect("bound");
        let fates = Fates::default();
        tokio::spawn(forward(Arc::new(socket), far, fates.clone()));
        Relay {
            _alone: alone,
            fates,
            address,
        }
    }

    /// Sets the treatment of the datagrams of the path with this address.
    pub fn set(&self, path: &str, fate: Fate) {
        let path = path.parse().expect("an address");
        self.fates.lock().expect("no panic").insert(path, fate);
    }
}

fn fate(fates: &Fates, path: IpAddr) -> Fate {
    let fates = fates.lock().expect("no panic");
    fates.get(&path).copied().unwrap_or_default()
}

async fn forward(socket: Arc<UdpSocket>, far: SocketAddr, fates: Fates) {
    let mut upstreams = HashMap::new();
    let mut buffer = vec![0; 1 << 16];
    let mut is_even = false;
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.expect("loopback");
        let (upstream, line) = match upstreams.entry(from) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let upstream = UdpSocket::bind("127.0.0.1:0").await.expect("loopback");
                upstream.connect(far).await.expect("loopback");
                let upstream = Arc::new(upstream);
                tokio::spawn(back(upstream.clone(), socket.clone(), from, fates.clone()));
                entry.insert((upstream, Line::new()))
            }
        };
        let fate = fate(&fates, from.ip());
        is_even = !is_even;
        if !(fate.loses_up || fate.halves_up && is_even) {
            let (upstream, datagram) = (upstream.clone(), buffer[..length].to_vec());
            line.send(fate.delay, async move {
                let _ = upstream.send(&datagram).await; // far may be gone
            })
            .await;
        }
    }
}

async fn back(upstream: Arc<UdpSocket>, socket: Arc<UdpSocket>, near: SocketAddr, fates: Fates) {
    let line = Line::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let Ok(length) = upstream.recv(&mut buffer).await else {
            continue; // far is gone
        };
        let fate = fate(&fates, near.ip());
        if !fate.loses_down {
            let (socket, datagram) = (socket.clone(), buffer[..length].to_vec());
            line.send(fate.delay, async move {
                let _ = socket.send_to(&datagram, near).await; // near may be gone
            })
            .await;
        }
    }
}

type Sending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Sends each datagram after a delay, and keeps their order.
struct Line(mpsc::UnboundedSender<(Instant, Sending)>);

impl Line {
    fn new() -> Line {
        let (sender, mut waiting) = mpsc::unbounded_channel::<(Instant, Sending)>();
        tokio::spawn(async move {
            while let Some((due, send)) = waiting.recv().await {
                sleep_until(due).await;
                send.await;
            }
        });
        Line(sender)
    }

    async fn send(&self, delay: Duration, send: impl Future<Output = ()> + Send + 'static) {
        if delay == Duration::ZERO {
            return send.await;
        }
        // Fails when the runtime ends.
        let _ = self.0.send((Instant::now() + delay, Box::pin(send)));
    }
}
