//! Two gateways on loopback, destinations, and a client of SOCKS5.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anabranch_gateway::config;
use anabranch_gateway::counters::{Counter, Counters};
use anabranch_gateway::far::Far;
pub use anabranch_gateway::gateway::Gateway;
use anabranch_gateway::keys::KeyPair;
use anabranch_gateway::near::Near;
use anabranch_gateway::tls::Identity;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;

/// Most time that anything may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const CARRIERS: [&str; 2] = ["mptcp", "quic"];

/// A pair of gateways. `allow` of far names loopback, where the destinations are.
pub struct Pair {
    pub near: Near,
    far: Option<(Far, Runtime)>,
    pub near_counters: Arc<Counters>,
    pub far_counters: Arc<Counters>,
    pub near_config: config::Near,
    pub far_config: config::Far,
    pub near_key: KeyPair,
    pub far_key: KeyPair,
    pub near_identity: Arc<Identity>,
    pub far_identity: Arc<Identity>,
}

/// Additions to the configurations; the first lines are keys of the file itself.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    pub near: &'a str,
    pub far: &'a str,
}

impl Pair {
    pub async fn start(carrier: &str) -> Pair {
        Pair::with(carrier, Options::default()).await
    }

    /// A pair of which near has these additions.
    pub async fn near_with(carrier: &str, near: &str) -> Pair {
        Pair::with(carrier, Options { near, far: "" }).await
    }

    /// A pair of which far has these additions.
    pub async fn far_with(carrier: &str, far: &str) -> Pair {
        Pair::with(carrier, Options { near: "", far }).await
    }

    pub async fn with(carrier: &str, options: Options<'_>) -> Pair {
        let keys = [key(), key()];
        let pins = [keys[1].clone(), keys[0].clone()];
        Pair::with_keys(carrier, options, keys, pins).await
    }

    /// A pair in which near and far have these keys, and accept those that each pins.
    pub async fn with_keys(
        carrier: &str,
        options: Options<'_>,
        [near_key, far_key]: [KeyPair; 2],
        [near_pins, far_pins]: [KeyPair; 2],
    ) -> Pair {
        let near_identity = Identity::new(&near_key, vec![near_pins.public().clone()]);
        let far_identity = Identity::new(&far_key, vec![far_pins.public().clone()]);
        let address = free_address();
        let tunnel = format!(
            "[tunnel]\ncarrier = \"{carrier}\"\nalgorithm = \"reno\"\nkey = \"key\"\npeers = []\n"
        );
        let unless = |given: &str, key: &str, text: String| match given.contains(key) {
            true => String::new(),
            false => text,
        };
        let allow = "allow = [\"127.0.0.0/8\", \"::1\"]\n".to_owned();
        let far = [
            unless(options.far, "listen =", format!("listen = \"{address}\"\n")),
            unless(options.far, "allow =", allow),
            options.far.to_owned(),
            format!("\n{tunnel}"),
        ];
        // No other socket is there, so that connecting fails once it is closed.
        let socks = "[socks]\nlisten = \"127.0.0.4:0\"\n".to_owned();
        let path = "[[paths]]\nname = \"a\"\naddress = \"127.0.0.1\"\n".to_owned();
        let near = [
            unless(options.near, "far =", format!("far = \"{address}\"\n")),
            format!("{}\n{tunnel}", options.near),
            unless(options.near, "[socks]", socks),
            unless(options.near, "paths = [", path),
        ];
        let (far, near) = (far.concat(), near.concat());
        let far_config: config::Far = toml::from_str(&far).expect(&far);
        let near_config: config::Near = toml::from_str(&near).expect(&near);
        let (near_counters, far_counters) =
            (Arc::<Counters>::default(), Arc::<Counters>::default());
        let near = Near::start(
            near_config.clone(),
            near_identity.clone(),
            near_counters.clone(),
        );
        let near = near.await.expect("near starts");
        let mut pair = Pair {
            near,
            far: None,
            near_counters,
            far_counters,
            near_config,
            far_config,
            near_key,
            far_key,
            near_identity,
            far_identity,
        };
        pair.start_far().await;
        pair
    }

    /// The address of a listener of near.
    pub async fn at(&self, key: &str) -> SocketAddr {
        let addresses = self.near.addresses().await;
        let found = addresses.iter().find(|(found, _)| found == key);
        found.unwrap_or_else(|| panic!("{key} in {addresses:?}")).1
    }

    pub fn far(&self) -> &Far {
        &self.far.as_ref().expect("it runs").0
    }

    /// Far closes its tunnels and ends.
    pub async fn stop_far(&mut self) {
        let (far, runtime) = self.far.take().expect("it runs");
        far.close_all().await;
        runtime.shutdown_background();
    }

    /// Starts far in a runtime of its own.
    pub async fn start_far(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let (config, identity) = (self.far_config.clone(), self.far_identity.clone());
        let counters = self.far_counters.clone();
        let start = async move || {
            loop {
                // The address is free once the tunnels of an earlier far have drained.
                let far = Far::start(config.clone(), identity.clone(), counters.clone());
                match far.await {
                    Ok(far) => return far,
                    Err(error) if format!("{error:#}").contains("in use") => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    Err(error) => panic!("{error:#}"),
                }
            }
        };
        let far = tokio::time::timeout(PATIENCE, runtime.spawn(async move { start().await }));
        self.far = Some((far.await.expect("in time").expect("far starts"), runtime));
    }

    /// Another near with the same key and this configuration.
    pub async fn another_near(&self, config: config::Near) -> Near {
        let near = Near::start(config, self.near_identity.clone(), Arc::default());
        near.await.expect("near starts")
    }

    /// A connection to a listener of near.
    pub async fn dial(&self, key: &str) -> TcpStream {
        let dialled = TcpStream::connect(self.at(key).await).await;
        dialled.expect("near listens")
    }

    /// A connection to `to` by SOCKS5, or the code of the reply.
    pub async fn connect(&self, to: SocketAddr) -> Result<TcpStream, u8> {
        connect_by(&self.near, to).await
    }

    /// A connection to a host by name.
    pub async fn connect_name(&self, name: &str, port: u16) -> Result<TcpStream, u8> {
        asked(self.dial("socks").await, &named(name), port).await
    }

    /// Both ends of a connection that `listener` accepts.
    pub async fn ends(&self, listener: &TcpListener) -> (TcpStream, TcpStream) {
        let to = listener.local_addr().expect("bound");
        let client = self.connect(to).await.expect("connected");
        let (server, _) = listener.accept().await.expect("connected");
        (client, server)
    }

    /// Checks that an echo at `to` is reached.
    pub async fn echoes(&self, to: SocketAddr, text: &str) {
        let mut socket = self.connect(to).await.expect("connected");
        exchange(&mut socket, text).await;
    }

    /// Waits until neither gateway has a connection.
    pub async fn idle(&self) {
        until("near is idle", async || self.near.active() == 0).await;
        until("far is idle", async || self.far().active() == 0).await;
    }

    pub async fn close(mut self) {
        self.near.close_all().await;
        if self.far.is_some() {
            self.stop_far().await;
        }
    }
}

impl Drop for Pair {
    /// Ends the runtime without waiting: a runtime must not be dropped in another.
    fn drop(&mut self) {
        if let Some((_, runtime)) = self.far.take() {
            runtime.shutdown_background();
        }
    }
}

pub fn key() -> KeyPair {
    KeyPair::generate().expect("random numbers")
}

/// Host of a request by address.
pub fn host(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => [&[1][..], &address.octets()].concat(),
        IpAddr::V6(address) => [&[4][..], &address.octets()].concat(),
    }
}

/// Host of a request by name.
pub fn named(name: &str) -> Vec<u8> {
    let length = u8::try_from(name.len()).expect("short");
    [&[3, length], name.as_bytes()].concat()
}

/// A connection by this near, or the code of the reply.
pub async fn connect_by(near: &Near, to: SocketAddr) -> Result<TcpStream, u8> {
    let addresses = near.addresses().await;
    let socks = addresses.iter().find(|(key, _)| key == "socks");
    let socket = TcpStream::connect(socks.expect("it serves SOCKS5").1).await;
    asked(socket.expect("near listens"), &host(to.ip()), to.port()).await
}

/// A connection from this address.
pub async fn from(address: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4().expect("a socket");
    let address = SocketAddr::new(address.parse().expect("an address"), 0);
    socket.bind(address).expect("an own address");
    socket.connect(to).await
}

/// Makes something as another user of this host, if this one may; sockets keep their user.
pub fn as_user<T: Send + 'static>(
    user: u32,
    make: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let made = std::thread::spawn(move || {
        // SAFETY: the call changes this thread's identity and no memory. It returns the one before.
        let is_user = unsafe {
            libc::setfsuid(user);
            libc::setfsuid(user) == user as libc::c_int
        };
        is_user.then(make)
    });
    made.join().expect("no panic")
}

/// A socket of another user.
pub fn of_user(user: u32) -> Option<TcpSocket> {
    let new = || {
        let socket = socket2::Socket::new(
            socket2::Domain::IPV4,
            socket2::Type::STREAM,
            Some(socket2::Protocol::TCP),
        );
        let socket = socket.expect("a socket");
        socket.set_nonblocking(true).expect("set");
        socket
    };
    let socket = as_user(user, new)?;
    Some(TcpSocket::from_std_stream(socket.into()))
}

/// The connection over which a host was asked for.
pub async fn asked(mut socket: TcpStream, host: &[u8], port: u16) -> Result<TcpStream, u8> {
    request(&mut socket, 1, host, port).await.map(|_| socket)
}

/// Negotiates and requests; the bound address of the reply, or its code.
pub async fn request(
    socket: &mut TcpStream,
    command: u8,
    host: &[u8],
    port: u16,
) -> Result<SocketAddr, u8> {
    socket.write_all(&[5, 1, 0]).await.expect("sent");
    let mut method = [0; 2];
    socket.read_exact(&mut method).await.expect("a method");
    assert_eq!(method, [5, 0]);
    let mut bytes = vec![5, command, 0];
    bytes.extend(host);
    bytes.extend(port.to_be_bytes());
    socket.write_all(&bytes).await.expect("sent");
    let mut reply = [0; 10];
    let read = tokio::time::timeout(PATIENCE, socket.read_exact(&mut reply));
    read.await.expect("in time").expect("a reply");
    assert_eq!((reply[0], reply[2], reply[3]), (5, 0, 1));
    let address = Ipv4Addr::new(reply[4], reply[5], reply[6], reply[7]);
    let port = u16::from_be_bytes([reply[8], reply[9]]);
    match reply[1] {
        0 => Ok(SocketAddr::new(address.into(), port)),
        code => Err(code),
    }
}

/// An address for far, outside the range from which the system chooses ports.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 12_000 + (std::process::id() % 900) as u16 * 20;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 2000;
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let tcp = std::net::TcpListener::bind(address);
        if tcp.is_ok() && std::net::UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

/// A server that returns what it receives, and ends when the client does.
pub async fn echo() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = socket.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    address
}

/// A listener, and its address.
pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// Makes the close of a socket a reset.
pub fn reset(socket: &TcpStream) {
    let socket = socket2::SockRef::from(socket);
    socket.set_linger(Some(Duration::ZERO)).expect("set");
}

/// Whether the connection was reset, and not ended.
pub async fn is_reset(socket: &mut TcpStream) -> bool {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match tokio::time::timeout(PATIENCE, socket.read(&mut buffer))
            .await
            .expect("in time")
        {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Whether a listener resets connections at once.
pub async fn resets(listener: SocketAddr) -> bool {
    match TcpStream::connect(listener).await {
        Ok(mut socket) => is_reset(&mut socket).await,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// The rest of what a socket receives, to its end.
pub async fn rest(socket: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = socket.read_to_string(&mut text).await;
    read.expect("an end");
    text
}

/// Sends a text and receives it again.
pub async fn exchange(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).await.expect("sent");
    let mut received = vec![0; text.len()];
    let read = tokio::time::timeout(PATIENCE, socket.read_exact(&mut received));
    read.await.expect("in time").expect("received");
    assert_eq!(received, text.as_bytes());
}

/// Waits until a condition holds.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let start = tokio::time::Instant::now();
    while !condition().await {
        assert!(start.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until a counter has this value.
pub async fn reaches(counter: &Counter, value: u64) {
    until(&format!("a counter at {value}"), async || {
        counter.value() == value
    })
    .await;
}

/// Runs a test over each carrier, at most for a minute.
pub fn each_carrier(test: impl AsyncFn(&'static str)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        for carrier in CARRIERS {
            let run = tokio::time::timeout(Duration::from_secs(60), test(carrier));
            assert!(run.await.is_ok(), "{carrier}: too late");
        }
    });
}
