//! Replacing, unloading and loading again while connections and network namespaces use a program.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::common::network::{Host, Network, connect, connect_by_default, new_namespace};
use crate::common::program::{own_bpf_fs, programs, run};
use crate::common::{can_load, lock_names, objects, wait_until, wait_until_freed};
use anabranch_kernel::connections;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

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
}

/// Also if the test fails: the sink waits for them.
impl Drop for Senders {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let sent = thread.join();
            assert!(sent.is_ok() || thread::panicking(), "a sender failed");
        }
    }
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
    assert!(said.starts_with("replaced balia:cap=2\n"), "{said}");
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
    drop((senders, later, file, sink, network));
    run(&["unload", "balia"]);
    wait_until_freed(&before);
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
    // Other network namespaces of this machine may be listed as well.
    let shown = run(&["status"]);
    assert!(
        shown.starts_with("registered: none\ndefault of "),
        "{shown}"
    );
    for namespace in [path.display().to_string(), format!("with inode {hidden}")] {
        let mut lines = shown.lines().filter(|line| line.contains(&namespace));
        let line = lines.next().unwrap();
        assert!(
            line.ends_with("an earlier program: set the default again"),
            "{line}"
        );
    }
    assert_eq!(programs_of_new_sockets(&path), old, "the unloaded program");

    let said = run(&["load", "lia", "--pin"]);
    let new = registered_id("lia");
    assert_eq!(programs_of_new_sockets(&path), [new, new]);
    assert!(!said.contains(path.to_str().unwrap()), "{said}");
    assert!(
        said.contains(&format!(
            "with inode {hidden} keep an earlier program of lia"
        )),
        "{said}"
    );
    drop((file, socket));
    run(&["unload", "lia"]);
    wait_until_freed(&before);
}

#[test]
fn load_that_is_terminated_names_the_defaults_that_are_left() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let before = objects();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-kernel"));
    let mut loading = command
        .args(["load", "lia"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(loading.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "registered lia, until Ctrl-C\n");
    let file = new_namespace(|| {
        run(&["default", "lia"]);
        File::open("/proc/thread-self/ns/net").unwrap()
    });
    let path = format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd());

    kill_process(Pid::from_child(&loading), Signal::TERM).unwrap();
    let mut left = String::new();
    said.read_to_string(&mut left).unwrap();
    let status = loading.wait().unwrap();
    let expected = format!(
        "lia is still the default of the network namespace {path}, whose new sockets keep its \
         program: anabranch-kernel default --namespace {path}\n"
    );
    assert!(left.contains(&expected), "{left}");
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    drop(file);
    wait_until_freed(&before);
}
