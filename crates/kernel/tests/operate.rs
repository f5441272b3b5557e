//! Replacing, unloading and loading again while connections and network namespaces use a program;
//! what `status` shows of it.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anabranch_kernel::connections;
use common::network::{Host, Network, connect, connect_by_default, send_for};
use common::{can_load, lock_names, objects, wait_until};
use libbpf_rs::MapCore;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde_json::Value;
use socket2::SockRef;

/// Runs the program; what it wrote to both streams.
fn run(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-kernel"));
    let output = command.args(arguments).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

fn status() -> Value {
    serde_json::from_str(&run(&["status", "--json"])).unwrap()
}

/// The id of the program that is registered under a name.
fn registered_id(name: &str) -> u32 {
    let status = status();
    let registered = status["registered"].as_array().unwrap();
    let ours = registered.iter().find(|one| one["name"] == name).unwrap();
    ours["id"].as_u64().unwrap().try_into().unwrap()
}

/// The default of the network namespace with this file, as `status` shows it.
fn default_of(file: &Path) -> Value {
    let inode = fs::metadata(file).unwrap().ino();
    let status = status();
    let mut defaults = status["namespaces"].as_array().unwrap().iter();
    let found = defaults.find(|one| one["inode"] == inode);
    found.cloned().unwrap_or_default()
}

/// The names are free again when the next test gets its turn.
struct OwnPins;

impl Drop for OwnPins {
    fn drop(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-kernel"));
        let _ = command.args(["unload", "--all"]).output();
    }
}

/// A BPF file system and names of network namespaces that only this thread and its children see.
fn own_bpf_fs() -> OwnPins {
    // Safety: no file descriptor table is unshared, and only this thread changes its namespace.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    fs::create_dir_all("/run/netns").unwrap();
    for arguments in [
        &["--make-rprivate", "/"][..],
        &["-t", "bpf", "bpf", "/sys/fs/bpf"],
        &["-t", "tmpfs", "tmpfs", "/run/netns"],
    ] {
        let status = Command::new("mount").args(arguments).status().unwrap();
        assert!(status.success(), "mount {arguments:?}");
    }
    OwnPins
}

/// A network namespace with a loopback device, and what `work` makes in it.
fn new_namespace<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
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

/// The programs that both ends of a new connection over loopback run, in the namespace with this
/// file, where nothing selects an algorithm.
fn programs_of_new_sockets(namespace: &Path) -> Vec<u32> {
    let file = File::open(namespace).unwrap();
    let inside = move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        let (_peer, _) = listener.accept().unwrap();
        let ends = [address, stream.local_addr().unwrap()];
        let subflows = connections().unwrap().into_iter();
        let subflows = subflows.flat_map(|connection| connection.subflows);
        let ours = subflows.filter(|subflow| ends.contains(&subflow.local));
        ours.filter_map(|subflow| subflow.registration).collect()
    };
    thread::spawn(inside).join().unwrap()
}

/// Connections of the client that send until they are dropped.
struct Senders {
    stop: Arc<AtomicBool>,
    blocks: Arc<Vec<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

const CONNECTIONS: usize = 100;

impl Senders {
    /// Half of them select the algorithm, the others get the default of their namespace.
    fn new(network: &Network, algorithm: &'static str) -> Senders {
        let blocks: Vec<AtomicU64> = (0..CONNECTIONS).map(|_| AtomicU64::new(0)).collect();
        let (stop, blocks) = (Arc::new(AtomicBool::new(false)), Arc::new(blocks));
        let send = |range: std::ops::Range<usize>| {
            let (stopped, counts) = (stop.clone(), blocks.clone());
            network.spawn(Host::Client, move || {
                let open = |i| match i % 2 {
                    0 => connect(algorithm, true),
                    _ => connect_by_default(true),
                };
                let mut streams: Vec<_> = range.map(|i| (i, open(i))).collect();
                while !stopped.load(Relaxed) {
                    for (i, stream) in &mut streams {
                        stream.write_all(&[0; 2000]).unwrap();
                        counts[*i].fetch_add(1, Relaxed);
                    }
                    thread::sleep(Duration::from_millis(5));
                }
            })
        };
        let threads = (0..CONNECTIONS)
            .step_by(20)
            .map(|i| send(i..i + 20))
            .collect();
        Senders {
            stop,
            blocks,
            threads,
        }
    }

    /// Waits until every connection has sent `n` more blocks.
    fn wait_for_each(&self, n: u64) {
        let before: Vec<u64> = self
            .blocks
            .iter()
            .map(|count| count.load(Relaxed))
            .collect();
        wait_until("every connection sends", || {
            assert!(!self.threads.iter().any(|one| one.is_finished()));
            let mut all = self.blocks.iter().zip(&before);
            all.all(|(count, before)| count.load(Relaxed) >= before + n)
        });
    }

    fn stop(self) {
        self.stop.store(true, Relaxed);
        self.threads.into_iter().for_each(|one| one.join().unwrap());
    }
}

/// How many subflows of the client run each program.
fn programs(network: &Network) -> Vec<(u32, usize)> {
    let subflows = network.inside(Host::Client, || connections().unwrap());
    let subflows = subflows.into_iter().flat_map(|one| one.subflows);
    let mut ids: Vec<u32> = subflows.filter_map(|one| one.registration).collect();
    ids.sort_unstable();
    let same = ids.chunk_by(|a, b| a == b);
    same.map(|chunk| (chunk[0], chunk.len())).collect()
}

#[test]
fn replacing_keeps_live_connections_and_reaches_new_sockets_of_every_namespace() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let before = objects();
    let _pins = own_bpf_fs();
    let network = Network::new(2, None);
    let named = PathBuf::from(format!("/run/netns/{}", network.name(Host::Client)));
    // A namespace without a name and without a process, as the hosts of anabranch-lab.
    let file = new_namespace(|| File::open("/proc/thread-self/ns/net").unwrap());
    let held = PathBuf::from(format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd()));
    run(&["load", "balia", "--pin"]);
    let old = registered_id("balia");
    let both = [named.to_str().unwrap(), held.to_str().unwrap()];
    run(&[
        "default",
        "balia",
        "--namespace",
        both[0],
        "--namespace",
        both[1],
    ]);
    let sink = network.sink();
    let senders = Senders::new(&network, "balia");
    let all_subflows =
        || programs(&network).iter().map(|(_, n)| n).sum::<usize>() == 2 * CONNECTIONS;
    wait_until("all subflows", all_subflows);
    assert_eq!(programs(&network), [(old, 2 * CONNECTIONS)]);

    let said = run(&["load", "balia:cap=2", "--replace"]);
    assert_eq!(said.trim(), "replaced balia:cap=2");
    let new = registered_id("balia");
    assert_ne!(old, new);
    senders.wait_for_each(20);
    assert_eq!(
        programs(&network),
        [(old, 2 * CONNECTIONS)],
        "live sockets keep the old one"
    );
    for namespace in [&named, &held] {
        assert_eq!(default_of(namespace)["outdated"], false);
        assert_eq!(
            programs_of_new_sockets(namespace),
            [new, new],
            "{namespace:?}"
        );
    }
    // One that selects the algorithm and one that does not.
    let later = network.inside(Host::Client, || {
        [connect("balia", true), connect_by_default(true)]
    });
    let found = programs(&network);
    assert_eq!(found[0], (old, 2 * CONNECTIONS));
    assert!(
        found.len() == 2 && found[1].0 == new && found[1].1 >= 2,
        "{found:?}"
    );
    senders.stop();
    drop((later, file, sink, network));
    run(&["unload", "balia"]);
    wait_until("no map or program is left", || objects().is_subset(&before));
}

#[test]
fn namespaces_with_an_unloaded_program_are_reported_and_load_sets_their_default_again() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let before = objects();
    let _pins = own_bpf_fs();
    run(&["load", "lia", "--pin"]);
    // One that a descriptor holds, and one that only a socket holds, which no path leads to.
    let file = new_namespace(|| {
        run(&["default", "lia"]);
        File::open("/proc/thread-self/ns/net").unwrap()
    });
    let path = PathBuf::from(format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd()));
    let (hidden, socket) = new_namespace(|| {
        run(&["default", "lia"]);
        let inode = fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
        (inode, TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    });
    let old = programs_of_new_sockets(&path);
    assert_eq!(default_of(&path)["outdated"], false);

    let said = run(&["unload", "lia"]);
    let named = format!(
        "lia is still the default of the network namespace {}",
        path.display()
    );
    let numbered = format!("lia is still the default of the network namespace with inode {hidden}");
    for expected in [
        named.as_str(),
        &numbered,
        "anabranch-kernel default --namespace",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let shown = run(&["status"]);
    assert!(
        shown.starts_with("registered: none\ndefault of "),
        "{shown}"
    );
    assert_eq!(
        shown
            .matches("an earlier program: set the default again")
            .count(),
        2,
        "{shown}"
    );
    assert_eq!(programs_of_new_sockets(&path), old, "the unloaded program");

    let said = run(&["load", "lia", "--pin"]);
    let new = registered_id("lia");
    assert_eq!(programs_of_new_sockets(&path), [new, new]);
    assert_eq!(said.matches("keep an earlier program").count(), 1, "{said}");
    assert!(
        said.contains(&format!(
            "with inode {hidden} keep an earlier program of lia"
        )),
        "{said}"
    );
    drop((file, socket));
    run(&["unload", "lia"]);
    wait_until("no map or program is left", || objects().is_subset(&before));
}

#[test]
fn status_shows_version_parameters_and_stale_rates() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _pins = own_bpf_fs();
    run(&["load", "vegas_k:kappa=3", "lia", "--pin"]);
    let version = env!("CARGO_PKG_VERSION");
    let shown = run(&["status"]);
    let expected =
        format!("registered: lia {version} (pinned), vegas_k:kappa=3 {version} (pinned)");
    assert!(shown.contains(&expected), "{shown}");

    let network = Network::new(1, Some(50));
    let _sink = network.sink();
    let mut stream = network.inside(Host::Client, || connect("lia", true));
    send_for(&mut stream, Duration::from_millis(300));
    let shown = || network.inside(Host::Client, || (run(&["status"]), connections().unwrap()));
    let (text, connections) = shown();
    assert!(!text.contains("stale"), "{text}");
    assert_eq!(connections[0].subflows[0].share, 1.0);
    wait_until("the rate is stale", || {
        let (text, connections) = shown();
        let subflow = &connections[0].subflows[0];
        assert_eq!(subflow.is_stale(), subflow.rate_age_s > 1.0);
        subflow.share == 0.0 && text.contains("stale ")
    });
}

#[test]
fn the_weight_of_a_connection_goes_with_its_last_socket() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let loaded = anabranch_kernel::load(&"vegas_k".parse().unwrap()).unwrap();
    let weights = loaded.weights().unwrap();
    let network = Network::new(2, None);
    let _sink = network.sink();
    let mut streams = network.inside(Host::Client, || {
        [true, false].map(|multipath| connect("vegas_k", multipath))
    });
    for stream in &mut streams {
        let cookie = SockRef::from(&*stream).cookie().unwrap();
        anabranch_kernel::set_weight(&weights, cookie, Some(2.5)).unwrap();
        send_for(stream, Duration::from_millis(50));
    }
    let subflows = || programs(&network).iter().map(|(_, n)| n).sum::<usize>();
    wait_until("both subflows and the plain socket", || subflows() == 3);
    network.remove_endpoint(1);
    wait_until("a subflow is closed", || subflows() == 2);
    assert_eq!(
        weights.keys().count(),
        2,
        "it stays while a subflow is left"
    );
    drop(streams);
    wait_until("no weight is left", || weights.keys().count() == 0);
}

#[test]
fn metrics_are_printed_and_served() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _pins = own_bpf_fs();
    run(&["load", "balia:cap=2", "--pin"]);
    let network = Network::new(2, None);
    let _sink = network.sink();
    let mut stream = network.inside(Host::Client, || connect("balia", true));
    send_for(&mut stream, Duration::from_millis(300));
    let version = env!("CARGO_PKG_VERSION");
    let loaded = format!(
        "anabranch_loaded{{algorithm=\"balia\",parameters=\"balia:cap=2\",version=\"{version}\",\
         program=\"registered\",pinned=\"true\"}} 1.0\n"
    );
    let subflows = "anabranch_subflows{algorithm=\"balia\",program=\"registered\"} 2.0\n";
    let served = network.inside(Host::Client, metrics_by_http);
    let once = network.inside(Host::Client, || run(&["metrics", "--once"]));
    for text in [&once, &served] {
        for expected in [&loaded, subflows, "# TYPE anabranch_window_packets gauge\n"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}

/// Starts the server of metrics, gets them by HTTP, and stops it.
fn metrics_by_http() -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-kernel"));
    let mut server = command
        .args(["metrics", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(server.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let address = said.split('/').nth(2).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    text
}
