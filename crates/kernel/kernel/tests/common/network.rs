//! Two hosts, each a network namespace, with several links between them, and traffic over them.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{self, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use socket2::{Domain, Protocol, Socket, Type};

pub const PORT: u16 = 5001;

/// One of the two hosts.
#[derive(Clone, Copy, Debug)]
pub enum Host {
    Client = 1,
    Server = 2,
}

/// Two hosts. Link k has the addresses 10.77.k.1 at the client and 10.77.k.2 at the server, which
/// signals all of them, so that a client's connection uses every link. A link with a rate passes
/// through a third namespace, which has the queue: a queue at the sender would limit the sender in
/// place of the window.
pub struct Network {
    prefix: String,
}

impl Network {
    /// With `links` links of `rate_mbps` each, or unlimited.
    pub fn new(links: usize, rate_mbps: Option<u32>) -> Network {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("abk{}-{}", process::id(), COUNT.fetch_add(1, Relaxed));
        let network = Network { prefix };
        let (client, server) = (network.name(Host::Client), network.name(Host::Server));
        ip(&format!("netns add {}", network.between()));
        for name in [&client, &server] {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
            ip(&format!(
                "-n {name} mptcp limits set subflow 8 add_addr_accepted 8"
            ));
        }
        network.end_orphans_soon();
        (0..links).for_each(|k| network.add_link(k, rate_mbps));
        (1..links).for_each(|k| network.add_endpoint(k, ""));
        network
    }

    /// A closed socket whose peer is gone holds its program until it gives up, by default for
    /// minutes. Both parameters belong to the namespace.
    fn end_orphans_soon(&self) {
        for host in [Host::Client, Host::Server] {
            self.inside(host, || {
                fs::write("/proc/sys/net/ipv4/tcp_orphan_retries", "1").unwrap();
                let close_timeout = "/proc/sys/net/mptcp/close_timeout"; // since Linux 6.7
                if fs::exists(close_timeout).unwrap() {
                    fs::write(close_timeout, "1").unwrap();
                }
            });
        }
    }

    /// Adds link k, which the server does not signal yet.
    pub fn add_link(&self, k: usize, rate_mbps: Option<u32>) {
        let (client, server) = (self.name(Host::Client), self.name(Host::Server));
        match rate_mbps {
            None => ip(&format!(
                "link add v{k} netns {client} type veth peer name v{k} netns {server}"
            )),
            Some(mbps) => self.add_bridge(k, mbps),
        }
        self.bring_up(k);
    }

    /// Configures the addresses of link k.
    pub fn bring_up(&self, k: usize) {
        let (client, server) = (self.name(Host::Client), self.name(Host::Server));
        for (name, host) in [(&client, Host::Client), (&server, Host::Server)] {
            ip(&format!(
                "-n {name} address add 10.77.{k}.{}/24 dev v{k}",
                host as u32
            ));
            ip(&format!("-n {name} link set v{k} up"));
        }
    }

    fn add_bridge(&self, k: usize, mbps: u32) {
        let (between, shape) = (
            self.between(),
            format!("rate {mbps}mbit burst 20kb latency 20ms"),
        );
        ip(&format!("-n {between} link add b{k} type bridge"));
        ip(&format!("-n {between} link set b{k} up"));
        for host in [Host::Client, Host::Server] {
            let (name, port) = (self.name(host), format!("p{k}-{}", host as u32));
            ip(&format!(
                "link add v{k} netns {name} type veth peer name {port} netns {between}"
            ));
            ip(&format!("-n {between} link set {port} master b{k} up"));
        }
        self.shape(k, &shape);
    }

    /// Changes the rate and queue of link k towards the server, as `tc qdisc ... tbf` says them.
    pub fn shape(&self, k: usize, shape: &str) {
        let between = self.between();
        run(&format!(
            "tc -n {between} qdisc replace dev p{k}-2 root tbf {shape}"
        ));
    }

    fn between(&self) -> String {
        format!("{}-0", self.prefix)
    }

    /// The namespace's name.
    pub fn name(&self, host: Host) -> String {
        format!("{}-{}", self.prefix, host as u32)
    }

    /// Makes the server signal its address on link k; `flags` such as `backup`. There is no id,
    /// because only then the endpoint replaces the implicit one of a subflow created after the
    /// removal.
    pub fn add_endpoint(&self, k: usize, flags: &str) {
        let server = self.name(Host::Server);
        ip(&format!(
            "-n {server} mptcp endpoint add 10.77.{k}.2 dev v{k} signal {flags}"
        ));
    }

    /// Gives the server the address 10.77.k.2 on this link as well, which it signals.
    pub fn add_address(&self, link: usize, k: usize) {
        let (client, server) = (self.name(Host::Client), self.name(Host::Server));
        ip(&format!(
            "-n {server} address add 10.77.{k}.2/24 dev v{link}"
        ));
        ip(&format!("-n {client} route add 10.77.{k}.0/24 dev v{link}"));
        ip(&format!(
            "-n {server} mptcp endpoint add 10.77.{k}.2 dev v{link} signal"
        ));
    }

    /// Makes the server withdraw the address: the subflows that use it are closed.
    pub fn remove_endpoint(&self, k: usize) {
        let (server, address) = (self.name(Host::Server), format!("10.77.{k}.2"));
        let mut show = Command::new("ip");
        let shown = show
            .args(["-n", &server, "mptcp", "endpoint", "show"])
            .output()
            .unwrap();
        // "10.77.1.2 id 3 signal dev v1"
        for line in String::from_utf8(shown.stdout).unwrap().lines() {
            if let [found, "id", id, ..] = line.split(' ').collect::<Vec<_>>()[..]
                && found == address
            {
                ip(&format!("-n {server} mptcp endpoint delete id {id}"));
            }
        }
    }

    /// Makes the server's address on link k a backup, or a regular one again (`nobackup`), and with
    /// it the subflows that use it.
    pub fn change_endpoint(&self, k: usize, flags: &str) {
        let server = self.name(Host::Server);
        ip(&format!(
            "-n {server} mptcp endpoint change 10.77.{k}.2 {flags}"
        ));
    }

    /// Sets whether the client answers ARP requests for its address on link k. While it does not,
    /// packets for it are queued in the server.
    pub fn answer_arp(&self, k: usize, answers: bool) {
        let set = move |parameter: &str, value: &str| {
            fs::write(format!("/proc/sys/net/ipv4/{parameter}"), value).unwrap();
        };
        self.inside(Host::Client, move || {
            let ignored = if answers { "0" } else { "8" };
            set(&format!("conf/v{k}/arp_ignore"), ignored);
        });
        if answers {
            return;
        }
        self.inside(Host::Server, move || {
            set(&format!("neigh/v{k}/retrans_time_ms"), "50");
            set(&format!("neigh/v{k}/mcast_solicit"), "1000");
        });
        ip(&format!(
            "-n {} neigh flush dev v{k}",
            self.name(Host::Server)
        ));
    }

    /// Removes the options of Multipath TCP from all packets of the client but SYNs, as some
    /// middleboxes do.
    pub fn strip_options_of_data(&self) {
        let client = self.name(Host::Client);
        for rule in [
            "table ip strip",
            "chain ip strip data { type filter hook output priority mangle; }",
            "rule ip strip data tcp flags & syn == 0 reset tcp option mptcp",
        ] {
            run(&format!("ip netns exec {client} nft add {rule}"));
        }
    }

    /// Runs `work` in a thread within a host, at a high priority that its own threads inherit: on a
    /// busy machine a slow sender would not be limited by its window, which then would not grow.
    pub fn spawn<T: Send + 'static>(
        &self,
        host: Host,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let namespace = File::open(format!("/run/netns/{}", self.name(host))).unwrap();
        thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            setpriority_process(None, -20).unwrap();
            work()
        })
    }

    /// Runs `work` within a host.
    pub fn inside<T: Send + 'static>(
        &self,
        host: Host,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.spawn(host, work).join().unwrap()
    }

    /// A server that reads all data, until it is dropped.
    pub fn sink(&self) -> Sink {
        self.sink_of(Protocol::MPTCP)
    }

    /// A server that supports this protocol only.
    pub fn sink_of(&self, protocol: Protocol) -> Sink {
        let (stop, received) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, total) = (stop.clone(), received.clone());
        let listener = self.inside(Host::Server, move || listen(protocol));
        let accepting = self.spawn(Host::Server, move || {
            let mut readers = Vec::new();
            while !stopped.load(Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let total = total.clone();
                        readers.push(thread::spawn(move || read_all(stream, &total)));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
            readers
                .into_iter()
                .for_each(|reader| reader.join().unwrap());
        });
        Sink {
            stop,
            received,
            accepting: Some(accepting),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let (client, server) = (self.name(Host::Client), self.name(Host::Server));
        for name in [client, server, self.between()] {
            let _ = Command::new("ip").args(["netns", "delete", &name]).status();
        }
    }
}

/// Server of [`Network::sink`].
pub struct Sink {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    accepting: Option<JoinHandle<()>>,
}

impl Sink {
    /// Bytes received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let result = self.accepting.take().map(JoinHandle::join);
        if !thread::panicking() {
            result.map(Result::unwrap);
        }
    }
}

/// A connection from the client's namespace to the sink, with Multipath TCP or plain TCP.
pub fn connect(algorithm: &str, multipath: bool) -> TcpStream {
    open(Some(algorithm), multipath)
}

/// A connection with the default congestion control of the client's namespace.
pub fn connect_by_default(multipath: bool) -> TcpStream {
    open(None, multipath)
}

fn open(algorithm: Option<&str>, multipath: bool) -> TcpStream {
    let protocol = if multipath {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    if let Some(algorithm) = algorithm {
        socket.set_tcp_congestion(algorithm.as_bytes()).unwrap();
    }
    socket
        .set_write_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let server = SocketAddr::from((Ipv4Addr::new(10, 77, 0, 2), PORT));
    socket
        .connect_timeout(&server.into(), Duration::from_secs(2))
        .unwrap();
    socket.into()
}

/// Sends for this time; returns the bytes written.
pub fn send_for(stream: &mut TcpStream, duration: Duration) -> u64 {
    let (start, block, mut sent) = (Instant::now(), [0u8; 1 << 16], 0);
    while start.elapsed() < duration {
        match stream.write(&block) {
            Ok(n) => sent += n as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("sending: {error}"),
        }
    }
    sent
}

fn listen(protocol: Protocol) -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket
        .bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into())
        .unwrap();
    socket.listen(128).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.into()
}

/// Reads until the peer closes, or nothing arrives for 3 s.
fn read_all(mut stream: TcpStream, total: &AtomicU64) {
    stream.set_nonblocking(false).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(3)))
        .unwrap();
    let mut block = vec![0u8; 1 << 17];
    while let Ok(n) = stream.read(&mut block) {
        if n == 0 {
            return;
        }
        total.fetch_add(n as u64, Relaxed);
    }
}

fn ip(arguments: &str) {
    run(&format!("ip {arguments}"));
}

fn run(command: &str) {
    let mut words = command.split_whitespace();
    let status = Command::new(words.next().unwrap())
        .args(words)
        .status()
        .unwrap();
    assert!(status.success(), "{command}");
}

/// A network namespace with a loopback device, and what `work` makes in it.
pub fn new_namespace<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let inside = move || {
        // Safety: only this thread changes its namespace.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        let mut ip = Command::new("ip");
        assert!(
            ip.args(["link", "set", "lo", "up"])
                .status()
                .unwrap()
                .success()
        );
        work()
    };
    thread::spawn(inside).join().unwrap()
}
