//! Helpers of several tests.

pub mod evaluation;
pub mod middlebox;
pub mod network;
pub mod program;
pub mod states;

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anabranch_kernel::{Connection, connections};
use libbpf_rs::ProgramType;
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use network::{Host, Network, connect, send_for};
use rustix::fs::FlockOperation;
use rustix::process::geteuid;

/// Time of sending: tens of round trips.
pub const SEND_TIME: Duration = Duration::from_millis(600);

/// Whether `make test-all` runs the tests, which asks for more random cases.
pub fn in_full() -> bool {
    env::var_os("PROPTEST_CASES").is_some()
}

/// Whether BPF programs can be loaded here. If not, prints a warning; with
/// `ANABRANCH_REQUIRE_KERNEL=1` it is a failure.
pub fn can_load() -> bool {
    let missing = anabranch_kernel::doctor::missing();
    if missing.is_empty() {
        return true;
    }
    skip(&missing.join("; "));
    false
}

/// Whether a program that a test runs is installed. If not, prints a warning; with
/// `ANABRANCH_REQUIRE_KERNEL=1` it is a failure.
pub fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

fn skip(why: &str) {
    assert!(
        env::var_os("ANABRANCH_REQUIRE_KERNEL").is_none(),
        "ANABRANCH_REQUIRE_KERNEL is set, but {why}"
    );
    // Not `eprintln!`: that shows only if the test fails.
    writeln!(io::stderr(), "SKIPPED: {why}").expect("stderr is open");
}

/// Names of congestion controls are global to the kernel: waits until no other test uses them, in
/// this process or another, and reserves them until the file is closed.
pub fn lock_names() -> File {
    let name = format!("anabranch-kernel-{}.lock", geteuid().as_raw());
    let file = File::create(env::temp_dir().join(name)).unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    file
}

/// Every map and program of the kernel by kind, id and name, without the programs that a
/// container's runtime attaches to cgroups at any time.
pub fn objects() -> BTreeSet<(&'static str, u32, String)> {
    let of_cgroups = [
        ProgramType::CgroupDevice,
        ProgramType::CgroupSkb,
        ProgramType::CgroupSysctl,
    ];
    let maps = MapInfoIter::default().map(|map| ("map", map.id, map.name));
    let programs = ProgInfoIter::default()
        .filter(|program| !of_cgroups.contains(&program.ty))
        .map(|program| ("program", program.id, program.name));
    maps.chain(programs)
        .map(|(kind, id, name)| (kind, id, name.to_string_lossy().into_owned()))
        .collect()
}

/// Waits until every map and program that is not in `before` is freed. A socket holds its program
/// until it ends, which in a [`Network`] is soon after it is closed.
pub fn wait_until_freed(before: &BTreeSet<(&'static str, u32, String)>) {
    let start = Instant::now();
    loop {
        let now = objects();
        let left: Vec<_> = now.difference(before).collect();
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(150), "left: {left:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a condition holds, at most 20 s.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A counter of TCP or Multipath TCP in the namespace that the calling thread is in.
pub fn counter(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // A line of names, then one of values.
    let pairs = lines
        .chunks_exact(2)
        .flat_map(|two| two[0].split(' ').zip(two[1].split(' ')));
    let mut values = pairs
        .filter(|(known, _)| *known == name)
        .map(|(_, value)| value);
    values.next().unwrap().parse().unwrap()
}

/// Sends from the client with an algorithm, with Multipath TCP over both links. Returns the bytes
/// received in [`SEND_TIME`], and the client's connections at its end.
pub fn measured(
    network: &Network,
    algorithm: &'static str,
    multipath: bool,
) -> (u64, Vec<Connection>) {
    let sink = network.sink();
    let mut stream = network.inside(Host::Client, move || connect(algorithm, multipath));
    let now = || network.inside(Host::Client, || connections().unwrap());
    wait_until("all its subflows", || {
        send_for(&mut stream, SEND_TIME / 10);
        let subflows = now().iter().map(|one| one.subflows.len()).sum::<usize>();
        subflows == if multipath { 2 } else { 1 }
    });
    let before = sink.received();
    send_for(&mut stream, SEND_TIME);
    (sink.received() - before, now())
}
