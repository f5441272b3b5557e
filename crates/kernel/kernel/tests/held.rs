//! Paths that are held back, and those that are dead.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::common::middlebox::Middlebox;
use crate::common::network::{Host, Network, PORT, connect};
use crate::common::program::run;
use crate::common::{can_load, lock_names, wait_until};
use anabranch_kernel::load;
use libbpf_rs::{Iter, ObjectBuilder};
use serde_json::Value;
use socket2::SockRef;

/// Packets of either window, which is also the initial one.
const WINDOW: u32 = 10;

/// Packets that the client sent over the slow path.
type Packets = Arc<AtomicU32>;

/// Two subflows with locked windows, of 20 ms and of a second; `loses` drops the fast one's
/// packets.
fn unequal(network: &Network, loses: &Arc<AtomicBool>) -> (Packets, [Middlebox; 2]) {
    let (packets, loses) = (Packets::default(), loses.clone());
    let fast = Middlebox::with_delay(network, 0, Duration::from_millis(10), move |packet| {
        if loses.load(Relaxed) {
            vec![]
        } else {
            vec![packet]
        }
    });
    let sent = packets.clone();
    let slow = Middlebox::with_delay(network, 1, Duration::from_millis(500), move |packet| {
        if matches!(packet.from(), Host::Client) && !packet.data.is_empty() {
            sent.fetch_add(1, Relaxed);
        }
        vec![packet]
    });
    network.add_endpoint(1, "");
    (0..2).for_each(|k| limit_windows(network, k));
    packets.store(0, Relaxed);
    (packets, [fast, slow])
}

/// Sends until `stop`.
fn sends(network: &Network, stream: &TcpStream, stop: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let (stopped, mut stream) = (stop.clone(), stream.try_clone().unwrap());
    network.spawn(Host::Client, move || {
        let timeout = Some(Duration::from_millis(100));
        stream.set_write_timeout(timeout).unwrap();
        while !stopped.load(Relaxed) {
            let _ = stream.write(&[0; 1 << 16]);
        }
    })
}

fn connect_with(network: &Network, algorithm: &'static str) -> TcpStream {
    network.inside(Host::Client, move || connect(algorithm, true))
}

/// Output of `ss -tinoH` about the client's subflows.
fn subflows(network: &Network) -> String {
    let listed = network.inside(Host::Client, || {
        let mut ss = Command::new("ss");
        let ss = ss.args(["-tinoH", "state", "established"]);
        ss.output().unwrap().stdout
    });
    String::from_utf8(listed).unwrap()
}

fn has_keepalive(network: &Network) -> bool {
    subflows(network).contains("timer:(keepalive")
}

/// The fast path sends 10 packets in 20 ms, 0.7 MB/s. A fragment of 22 packets over the slow one
/// arrives 0.5 + 22 / 3 s later, since a loss may leave a window of 3: 5.6 MB, where half of a send
/// buffer of at most 4 MB may be spared. A second and a half is more than its handshake takes.
#[test]
fn a_path_is_held_before_its_first_fragment_and_used_where_the_fast_one_dies() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _sink = network.sink();
    let (loses, stop) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let (packets, _links) = unequal(&network, &loses);
    let _loaded = load(&"lia".parse().unwrap()).unwrap();
    let stream = connect_with(&network, "lia");
    let sender = sends(&network, &stream, &stop);
    thread::sleep(Duration::from_millis(3500));
    let (held, probed) = (packets.load(Relaxed), has_keepalive(&network));
    loses.store(true, Relaxed);
    // A probe each second, and its answer a second later.
    thread::sleep(Duration::from_millis(3000));
    let woken = packets.load(Relaxed);
    stop.store(true, Relaxed);
    sender.join().unwrap();
    assert_eq!(held, 0, "packets over the slow path while it is held");
    assert!(probed, "a held path is probed");
    assert!(
        woken > 0,
        "nothing over the slow path after the fast one died"
    );
}

/// The kernel refuses the storage of a socket beyond the limit of its namespace, 0 bytes: then the
/// slow path is used, as without hold-back, whose fragments are more than a packet.
#[test]
fn status_says_how_often_paths_were_held_back_and_how_often_the_kernel_refused() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    for refuses in [false, true] {
        let network = Network::new(0, None);
        let _sink = network.sink();
        let (packets, _links) = unequal(&network, &Arc::default());
        let limit = "/proc/sys/net/core/optmem_max"; // of a namespace since Linux 6.8
        let is_set = network.inside(Host::Client, move || {
            !refuses || fs::write(limit, "0").is_ok()
        });
        if !is_set {
            return;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let _loaded = load(&"lia".parse().unwrap()).unwrap();
        let stream = connect_with(&network, "lia");
        let sender = sends(&network, &stream, &stop);
        thread::sleep(Duration::from_millis(3500));
        let used = packets.load(Relaxed) > 0;
        let (text, document) = (run(&["status"]), run(&["status", "--json"]));
        let metrics = run(&["metrics", "--once"]);
        stop.store(true, Relaxed);
        sender.join().unwrap();
        assert_eq!(used, refuses, "the slow path is used");
        let document: Value = serde_json::from_str(&document).unwrap();
        let holds = &document["registered"][0]["holds"];
        let [begun, refused] = ["begun", "refused"].map(|key| holds[key].as_u64().unwrap());
        assert_eq!((begun > 0, refused > 0), (!refuses, refuses), "{holds}");
        let line = text.lines().nth(1).unwrap();
        println!("{line}");
        assert!(line.starts_with("lia held a path back "), "{line}");
        assert_eq!(
            line.contains(" 0 times; the kernel refused "),
            refuses,
            "{line}"
        );
        // The sender goes on meanwhile.
        for (name, count) in [("begun", begun), ("refused", refused)] {
            let start =
                format!("anabranch_holds_{name}{{algorithm=\"lia\",program=\"registered\"}} ");
            let mut counts = metrics.lines().filter_map(|line| line.strip_prefix(&start));
            let counted: f64 = counts.next().unwrap().parse().unwrap();
            assert_eq!(counted > 0.0, count > 0, "{name}: {metrics}");
        }
    }
}

#[test]
fn no_path_is_held_with_the_buffers_of_linux() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _sink = network.sink();
    let stop = Arc::new(AtomicBool::new(false));
    let (packets, _links) = unequal(&network, &Arc::default());
    let _loaded = load(&"lia:buffers=linux".parse().unwrap()).unwrap();
    let stream = connect_with(&network, "lia");
    let sender = sends(&network, &stream, &stop);
    thread::sleep(Duration::from_millis(2500));
    let (used, probed) = (packets.load(Relaxed), has_keepalive(&network));
    stop.store(true, Relaxed);
    sender.join().unwrap();
    assert!(used > 0 && !probed, "{used} packets, probed: {probed}");
}

/// Both subflows send under Linux' scheduler alone. `lia` holds the slow one; `olia` without
/// hold-back, which could not release it later, does so when it begins.
#[test]
fn a_path_held_under_one_algorithm_is_released_by_the_next() {
    let Some(change) = Change::new(None) else {
        return;
    };
    change.to("lia");
    wait_until("it is held, with nothing on the way", || {
        has_keepalive(&change.network)
    });
    assert_eq!(change.sent_in_2_s(), 0, "packets over a path that is held");
    change.to("olia");
    assert!(change.sent_in_2_s() > 0, "nothing over the path");
    change.end();
}

/// A rate of 1 MB/s, which a program gives the slow subflow by BPF, because Linux refuses it on a
/// socket of Multipath TCP.
#[test]
fn a_pacing_rate_that_a_program_has_set_is_kept() {
    let Some(change) = Change::new(Some("10.77.1.1")) else {
        return;
    };
    change.to("lia");
    thread::sleep(Duration::from_secs(2));
    assert!(change.sent_in_2_s() >= WINDOW, "held");
    let listed = subflows(&change.network);
    assert_eq!(listed.matches("bps/8000000bps").count(), 1, "{listed}");
    change.end();
}

/// A connection over unequal paths whose algorithm changes, begun with `olia` without hold-back.
struct Change {
    network: Network,
    packets: Packets,
    stream: TcpStream,
    stop: Arc<AtomicBool>,
    sender: thread::JoinHandle<()>,
    _kept: Box<dyn std::any::Any>,
}

impl Change {
    /// With a pacing rate of the subflow from this address, once it sends.
    fn new(paced: Option<&str>) -> Option<Change> {
        if !can_load() {
            return None;
        }
        let lock = lock_names();
        let network = Network::new(0, None);
        let sink = network.sink();
        let (packets, links) = unequal(&network, &Arc::default());
        let loaded =
            ["lia", "olia:buffers=linux"].map(|text| load(&text.parse().unwrap()).unwrap());
        let (stream, stop) = (connect_with(&network, "olia"), Arc::default());
        let sender = sends(&network, &stream, &stop);
        wait_until("the slow path is used", || packets.load(Relaxed) > 0);
        if let Some(address) = paced {
            let address = address.parse::<Ipv4Addr>().unwrap();
            network.inside(Host::Client, move || pace(address));
        }
        Some(Change {
            network,
            packets,
            stream,
            stop,
            sender,
            _kept: Box::new((loaded, links, sink, lock)),
        })
    }

    fn to(&self, algorithm: &str) {
        let socket = SockRef::from(&self.stream);
        socket.set_tcp_congestion(algorithm.as_bytes()).unwrap();
    }

    /// Packets over the slow path.
    fn sent_in_2_s(&self) -> u32 {
        self.packets.store(0, Relaxed);
        thread::sleep(Duration::from_secs(2));
        self.packets.load(Relaxed)
    }

    fn end(self) {
        self.stop.store(true, Relaxed);
        self.sender.join().unwrap();
    }
}

/// Paces the sockets with this address in the namespace of the calling thread.
fn pace(address: Ipv4Addr) {
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/pace.o"));
    let mut open = ObjectBuilder::default().open_memory(object).unwrap();
    for mut map in open.maps_mut() {
        let first = map.initial_value_mut().unwrap();
        first[..4].copy_from_slice(&address.octets());
    }
    let object = open.load().unwrap();
    let link = object.progs_mut().next().unwrap().attach().unwrap();
    let mut changed = String::new();
    Iter::new(&link)
        .unwrap()
        .read_to_string(&mut changed)
        .unwrap();
}

/// OLIA's window alone is Reno's, 12 packets at a loss of one in a hundred. A sibling that is dead
/// and was counted would be the best path, so that the living one, which has the largest window, is
/// reduced for ever: to 2 packets, a sixth.
#[test]
fn olia_beside_a_path_that_loses_everything_has_most_of_what_it_has_alone() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _loaded = load(&"olia".parse().unwrap()).unwrap();
    let goodput = |dies_after_s: Option<u64>| {
        let network = Network::new(0, None);
        let sink = network.sink();
        let mut sent = 0;
        let _living =
            Middlebox::with_delay(&network, 0, Duration::from_millis(30), move |packet| {
                let is_data = matches!(packet.from(), Host::Client) && !packet.data.is_empty();
                sent += u32::from(is_data);
                let is_lost = is_data && sent.is_multiple_of(100);
                if is_lost { vec![] } else { vec![packet] }
            });
        let is_dead = Arc::new(AtomicBool::new(dies_after_s == Some(0)));
        let dead = is_dead.clone();
        let delay = Duration::from_millis(10);
        let _other = dies_after_s.map(|_| {
            let other = Middlebox::with_delay(&network, 1, delay, move |packet| {
                let lost = dead.load(Relaxed) && !packet.data.is_empty();
                if lost { vec![] } else { vec![packet] }
            });
            network.add_endpoint(1, "");
            other
        });
        let (stream, stop) = (connect_with(&network, "olia"), Arc::default());
        let sender = sends(&network, &stream, &stop);
        thread::sleep(Duration::from_secs(dies_after_s.unwrap_or(0)));
        is_dead.store(true, Relaxed);
        // Two timeouts and what is reinjected.
        thread::sleep(Duration::from_secs(5));
        let before = sink.received();
        thread::sleep(Duration::from_secs(4));
        let received = sink.received() - before;
        stop.store(true, Relaxed);
        sender.join().unwrap();
        received as f64 * 8e-6 / 4.0
    };
    let alone = goodput(None);
    for dies_after_s in [0, 3] {
        let beside = goodput(Some(dies_after_s));
        println!("{beside:.2} of {alone:.2} Mbps, dead after {dies_after_s} s");
        assert!(
            beside > 0.6 * alone,
            "{beside} of {alone} Mbps, {dies_after_s} s"
        );
    }
}

/// Limits the windows of the client's later subflows on link k. The kernel takes the limit of a
/// route with the metrics that a closed connection leaves.
fn limit_windows(network: &Network, k: u8) {
    let client = network.name(Host::Client);
    let ip = |arguments: String| {
        let output = Command::new("ip").args(arguments.split(' ')).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    ip(format!(
        "-n {client} route change 10.77.{k}.0/24 dev v{k} src 10.77.{k}.1 cwnd lock {WINDOW}"
    ));
    let server = Ipv4Addr::new(10, 77, k, 2);
    network.inside(Host::Client, move || {
        let mut stream = TcpStream::connect((server, PORT)).unwrap();
        stream.write_all(&[0]).unwrap();
    });
    wait_until("metrics of a closed connection", || {
        ip(format!("-n {client} tcp_metrics show")).contains(&server.to_string())
    });
}
