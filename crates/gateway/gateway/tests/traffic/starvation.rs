//! Attacks of one client beside which another one has a new connection, DNS and UDP within a
//! second.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::harness::*;
use super::places::resolver;
use super::udp;

/// Time that another client may wait.
const SOON: Duration = Duration::from_secs(1);

/// Time of an attack before the other client comes.
const AHEAD: Duration = Duration::from_secs(1);

/// A client: a user of this host, or an address in a network of its own.
#[derive(Clone)]
struct Client {
    user: u32,
    namespace: Option<Arc<File>>,
    address: IpAddr,
}

impl Client {
    fn make<T: Send + 'static>(&self, make: impl FnOnce(IpAddr) -> T + Send + 'static) -> T {
        let Client {
            user,
            namespace,
            address,
        } = self.clone();
        let made = as_user(user, move || {
            if let Some(namespace) = namespace {
                // SAFETY: the call changes the network of this thread, which ends with `make`.
                let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(entered, 0);
            }
            make(address)
        });
        made.expect("root")
    }

    fn tcp(&self) -> TcpSocket {
        let socket = self.make(|address| {
            let at = SocketAddr::new(address, 0);
            let domain = socket2::Domain::for_address(at);
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None);
            let socket = socket.expect("a socket");
            socket.bind(&at.into()).expect("an own address");
            socket.set_nonblocking(true).expect("set");
            socket
        });
        TcpSocket::from_std_stream(socket.into())
    }

    fn udp(&self) -> UdpSocket {
        let socket = self.make(|address| {
            let socket = std::net::UdpSocket::bind((address, 0)).expect("an own address");
            socket.set_nonblocking(true).expect("set");
            socket
        });
        UdpSocket::from_std(socket).expect("registered")
    }

    /// Requests by SOCKS5 with this command. The connection and the bound address of the reply.
    async fn request(
        &self,
        at: &At,
        command: u8,
        to: SocketAddr,
    ) -> Option<(TcpStream, SocketAddr)> {
        let mut socket = self.tcp().connect(at.socks).await.ok()?;
        let head = [5, 1, 0, 5, command, 0];
        let bytes = [&head[..], &*host(to.ip()), &to.port().to_be_bytes()].concat();
        socket.write_all(&bytes).await.ok()?;
        let mut reply = [0; 6];
        socket.read_exact(&mut reply).await.ok()?;
        let ip: IpAddr = match reply[5] {
            1 => socket.read_u32().await.ok()?.to_be_bytes().into(),
            _ => socket.read_u128().await.ok()?.to_be_bytes().into(),
        };
        let port = socket.read_u16().await.ok()?;
        (reply[3] == 0).then_some((socket, SocketAddr::new(ip, port)))
    }

    async fn associate(&self, at: &At) -> Option<(TcpStream, SocketAddr)> {
        self.request(at, 3, ([0; 4], 0).into()).await
    }
}

/// Addresses of near's services, as clients reach them, and of servers behind far.
#[derive(Clone)]
struct At {
    socks: SocketAddr,
    dns: SocketAddr,
    echo: SocketAddr,
    udp_echo: SocketAddr,
    source: SocketAddr,
}

/// A query for a name, which the resolver of these tests answers.
const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04name\0\0\x01\0\x01";

/// A query for a name without an answer.
const QUIET: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x05quiet\0\0\x01\0\x01";

#[derive(Clone, Copy, Debug)]
enum Attack {
    Connections,
    Outlets,
    Queries,
    BulkUdp,
    Unread,
}

const ATTACKS: [Attack; 5] = [
    Attack::Connections,
    Attack::Outlets,
    Attack::Queries,
    Attack::BulkUdp,
    Attack::Unread,
];

/// Attacks until it is dropped.
async fn attack(attack: Attack, client: Client, at: At) {
    let mut held = Vec::new();
    let mut sockets = Vec::new();
    loop {
        match attack {
            Attack::Connections => match client.request(&at, 1, at.echo).await {
                Some((connection, _)) => held.push(connection),
                None => sleep(Duration::from_millis(20)).await,
            },
            Attack::Outlets => match client.associate(&at).await {
                Some((control, relay)) => {
                    held.push(control);
                    for _ in 0..8 {
                        let socket = client.udp();
                        let _ = socket
                            .send_to(&udp::datagram(at.udp_echo, b"x"), relay)
                            .await;
                        sockets.push(socket);
                    }
                }
                None => sleep(Duration::from_millis(20)).await,
            },
            Attack::Queries => {
                let socket = client.udp();
                let _ = socket.send_to(QUIET, at.dns).await;
                sleep(Duration::from_millis(2)).await;
            }
            Attack::BulkUdp => {
                let Some((control, relay)) = client.associate(&at).await else {
                    sleep(Duration::from_millis(20)).await;
                    continue;
                };
                held.push(control);
                let (socket, sent) = (client.udp(), udp::datagram(at.udp_echo, &[7; 1200]));
                // About 40 Mbit/s.
                for _ in 0..10_000 {
                    for _ in 0..8 {
                        let _ = socket.send_to(&sent, relay).await;
                    }
                    sleep(Duration::from_millis(2)).await;
                }
            }
            Attack::Unread => match client.request(&at, 1, at.source).await {
                Some((connection, _)) if held.len() < 12 => held.push(connection),
                _ => sleep(Duration::from_millis(20)).await,
            },
        }
    }
}

/// A server that sends without end.
async fn source() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move { while socket.write_all(&[7; 1 << 16]).await.is_ok() {} });
        }
    });
    address
}

/// Does something as a client. Returns the time that it takes; `None` if it fails.
async fn does(what: &str, client: &Client, at: &At) -> Option<Duration> {
    let start = Instant::now();
    let done = async {
        match what {
            "a connection" => {
                let (mut socket, _) = client.request(at, 1, at.echo).await?;
                exchange(&mut socket, "another client").await;
            }
            "DNS" => {
                let socket = client.udp();
                socket.send_to(QUERY, at.dns).await.ok()?;
                let mut answer = [0; 600];
                let (read, _) = socket.recv_from(&mut answer).await.ok()?;
                (read == QUERY.len() && answer[3] & 15 == 0).then_some(())?;
            }
            _ => {
                let (_control, relay) = client.associate(at).await?;
                let (socket, sent) = (client.udp(), udp::datagram(at.udp_echo, b"soon"));
                socket.send_to(&sent, relay).await.ok()?;
                socket.recv_from(&mut [0; 600]).await.ok()?;
            }
        }
        Some(start.elapsed())
    };
    timeout(5 * SOON, done).await.ok()?
}

/// Attacks of one client at a time, and checks what another one can do.
async fn starve(carrier: &str, attacks: &[Attack], clients: [Client; 2], listen: &str, lan: &str) {
    let dns = SocketAddr::new(listen.parse().expect("an address"), free_address().port());
    let near = format!(
        "dns = {{ listen = \"{dns}\"{lan} }}\nlimits.connections = 64\n\
         [socks]\nlisten = \"{}\"\n{}\n",
        SocketAddr::new(dns.ip(), 0),
        lan.trim_start_matches(", "),
    );
    let far = format!(
        "resolver = \"{}\"\nlimits.connections = 128\n",
        resolver().await
    );
    let options = Options {
        near: &near,
        far: &far,
    };
    let pair = Pair::with(carrier, options).await;
    let reached = |at: SocketAddr| match at.ip().is_unspecified() {
        true if clients[0].address.is_ipv4() => SocketAddr::from(([10, 77, 0, 1], at.port())),
        true => SocketAddr::new("fd77::1".parse().expect("an address"), at.port()),
        false => at,
    };
    let at = At {
        socks: reached(pair.at("socks").await),
        dns: reached(pair.at("dns").await),
        echo: echo().await,
        udp_echo: udp::echo().await,
        source: source().await,
    };
    let [attacker, other] = clients;
    let first = does("a connection", &other, &at).await;
    assert!(first.is_some(), "{carrier}: without an attack");
    let mut attacking = JoinSet::new();
    for one in attacks {
        attacking.spawn(attack(*one, attacker.clone(), at.clone()));
    }
    sleep(AHEAD).await;
    for what in ["a connection", "DNS", "UDP"] {
        let took = does(what, &other, &at).await;
        let case = format!(
            "{carrier}, {attacks:?}, {}: {what}: {took:?}",
            other.address
        );
        assert!(took.is_some_and(|took| took < SOON), "{case}");
    }
    drop(attacking);
    pair.close().await;
}

/// Two users of this host; `None` if this one cannot be another.
fn users(address: &str) -> Option<[Client; 2]> {
    as_user(54_321, || {})?;
    Some([54_321, 54_322].map(|user| Client {
        user,
        namespace: None,
        address: address.parse().expect("an address"),
    }))
}

#[test]
fn beside_all_attacks_of_a_user_another_one_has_service_within_a_second() {
    each_carrier(async |carrier| match users("127.0.0.1") {
        Some(users) => starve(carrier, &ATTACKS, users, "127.0.0.1", "").await,
        None => eprintln!("skipped: only root can be another user"),
    });
}

/// far's rate is that of a key: it is shared by the clients behind it.
#[test]
fn beside_downloads_at_the_rate_of_a_key_another_client_has_an_echo_within_a_second() {
    each_carrier(async |carrier| {
        let Some([attacker, other]) = users("127.0.0.1") else {
            eprintln!("skipped: only root can be another user");
            return;
        };
        let pair = Pair::far_with(carrier, "limits.client_mbps = 10\n").await;
        let at = At {
            socks: pair.at("socks").await,
            dns: pair.at("socks").await,
            echo: echo().await,
            udp_echo: udp::echo().await,
            source: source().await,
        };
        let mut downloads = JoinSet::new();
        for _ in 0..100 {
            let (mut socket, _) = attacker
                .request(&at, 1, at.source)
                .await
                .expect("connected");
            downloads.spawn(async move {
                let mut buffer = vec![0; 1 << 16];
                while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
            });
        }
        sleep(AHEAD).await;
        for _ in 0..3 {
            let took = does("a connection", &other, &at).await;
            assert!(took.is_some_and(|took| took < SOON), "{carrier}: {took:?}");
        }
        // The promises of the other end with it.
        drop(downloads);
        let took = does("a connection", &other, &at).await;
        assert!(
            took.is_some_and(|took| took < SOON),
            "{carrier}, after: {took:?}"
        );
        pair.close().await;
    });
}

/// Datagrams of a user in bulk, there and back, beside another one's download and small datagrams,
/// over a path of 8 Mbit/s.
#[test]
fn datagrams_in_bulk_leave_another_client_its_part_of_the_tunnel() {
    each_carrier(async |carrier| {
        let Some([attacker, other]) = users("127.0.0.1") else {
            eprintln!("skipped: only root can be another user");
            return;
        };
        let paths = "paths = [{ name = \"a\", address = \"127.0.0.1\", rate_mbps = 8 }]\n";
        let pair = Pair::near_with(carrier, paths).await;
        let at = At {
            socks: pair.at("socks").await,
            dns: pair.at("socks").await,
            echo: echo().await,
            udp_echo: udp::echo().await,
            source: source().await,
        };
        let (_control, relay) = attacker.associate(&at).await.expect("associated");
        let socket = Arc::new(attacker.udp());
        let (bulk, tcp) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        let (sends, sent) = (socket.clone(), udp::datagram(at.udp_echo, &[7; 1200]));
        tasks.spawn(async move {
            // About 16 Mbit/s.
            loop {
                for _ in 0..4 {
                    let _ = sends.send_to(&sent, relay).await;
                }
                sleep(Duration::from_millis(2)).await;
            }
        });
        let counted = bulk.clone();
        tasks.spawn(async move {
            while let Ok((read, _)) = socket.recv_from(&mut [0; 2000]).await {
                counted.fetch_add(read, Ordering::Relaxed);
            }
        });
        let (mut download, _) = other.request(&at, 1, at.source).await.expect("connected");
        let counted = tcp.clone();
        tasks.spawn(async move {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(read @ 1..) = download.read(&mut buffer).await {
                counted.fetch_add(read, Ordering::Relaxed);
            }
        });
        let (_small, relay) = other.associate(&at).await.expect("associated");
        let socket = other.udp();
        let sent = udp::datagram(at.udp_echo, b"soon");
        for _ in 0..100 {
            socket.send_to(&sent, relay).await.expect("sent");
            sleep(SOON / 20).await;
        }
        let mut answers = 0;
        while let Ok(Ok(_)) = timeout(SOON, socket.recv_from(&mut [0; 600])).await {
            answers += 1;
        }
        drop(tasks);
        let [bulk, tcp] = [bulk, tcp].map(|it| it.load(Ordering::Relaxed));
        let case =
            format!("{carrier}: {bulk} bytes in bulk, {tcp} by TCP, {answers} of 100 answers");
        println!("{case}");
        assert!(answers >= 90, "{case}");
        // Over Multipath TCP a download is not in the tunnel's connection.
        assert!(tcp >= bulk / 2, "{case}");
        pair.close().await;
    });
}

fn ip(command: &str) {
    let done = Command::new("ip").args(command.split(' ')).status();
    assert!(done.expect("iproute2").success(), "ip {command}");
}

/// A network beside this one, with two hosts of both families.
fn lan() -> Arc<File> {
    ip("link set lo up");
    ip("link add v0 type veth peer name v1");
    let (sender, receiver) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        // SAFETY: the call gives this thread a network of its own.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let namespace = File::open("/proc/thread-self/ns/net").expect("mounted");
        // SAFETY: the call has no conditions.
        let thread = unsafe { libc::gettid() };
        sender.send((thread, None)).expect("it waits");
        let _ = ended.recv();
        for address in [
            "10.77.0.2/24",
            "10.77.0.3/24",
            "fd77::2/64 nodad",
            "fd77::3/64 nodad",
        ] {
            ip(&format!("address add {address} dev v1"));
        }
        ip("link set v1 up");
        sender.send((thread, Some(namespace))).expect("it waits");
    });
    let (thread, _) = receiver.recv().expect("it runs");
    ip(&format!("link set v1 netns {thread}"));
    end.send(()).expect("it waits");
    let (_, namespace) = receiver.recv().expect("it runs");
    ip("address add 10.77.0.1/24 dev v0");
    ip("address add fd77::1/64 dev v0 nodad");
    ip("link set v0 up");
    Arc::new(namespace.expect("sent"))
}

/// Each attack by itself, over both carriers, by users and hosts of both families.
#[test]
#[ignore = "slow: make test-all"]
fn beside_each_attack_another_client_has_service_within_a_second() {
    if users("127.0.0.1").is_none() {
        eprintln!("skipped: only root can be another user");
        return;
    }
    // In a network of its own, which ends with the process.
    if std::env::var_os("STARVATION").is_none() {
        let name = "traffic::starvation::beside_each_attack_another_client_has_service";
        let own = std::env::current_exe().expect("a program");
        let done = Command::new("unshare")
            .arg("-n")
            .arg(own)
            .args([name, "--ignored", "--nocapture"])
            .env("STARVATION", "1")
            .status();
        assert!(done.expect("util-linux").success());
        return;
    }
    let namespace = lan();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let host = |address: &str| Client {
        user: 54_321,
        namespace: Some(namespace.clone()),
        address: address.parse().expect("an address"),
    };
    let networks = ", clients = [\"10.77.0.0/24\", \"fd77::/64\"]";
    let any = "[::]".trim_matches(['[', ']']);
    let cases = [
        (users("127.0.0.1").expect("root"), "127.0.0.1", ""),
        (users("::1").expect("root"), "::1", ""),
        (["10.77.0.2", "10.77.0.3"].map(host), any, networks),
        (["fd77::2", "fd77::3"].map(host), any, networks),
    ];
    for carrier in CARRIERS {
        for (clients, listen, lan) in &cases {
            for attack in ATTACKS {
                println!("{carrier}, {attack:?}, {}", clients[0].address);
                runtime.block_on(starve(carrier, &[attack], clients.clone(), listen, lan));
            }
        }
    }
}
