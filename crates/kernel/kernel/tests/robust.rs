//! No map, program, pin or name remains, however connections, subflows and loaders end.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use anabranch_kernel::{Choice, connections, load, registered};
use libbpf_rs::{MapCore, ObjectBuilder};
use socket2::SockRef;

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{can_load, lock_names, objects, wait_until, wait_until_freed};

const BINARY: &str = env!("CARGO_BIN_EXE_anabranch-kernel");
const ALGORITHMS: [&str; 4] = ["lia", "olia", "wvegas", "reno"];

#[test]
fn connections_subflows_and_algorithms_come_and_go() {
    churn(Duration::from_secs(4), 100);
}

/// `ANABRANCH_REQUIRE_KERNEL=1 cargo test -p anabranch-kernel robust -- --ignored`
#[test]
#[ignore = "the long form: a minute, and a thousand connections"]
fn connections_subflows_and_algorithms_come_and_go_for_a_minute() {
    churn(Duration::from_secs(60), 1000);
}

/// Under load: connections opened and closed, subflows added, made backup and removed at random,
/// algorithms switched on live sockets, and at the end the algorithms unloaded while they are in
/// use.
fn churn(duration: Duration, at_least: u64) {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let (before, mut log) = (objects(), KernelLog::from_now());
    let opened = Arc::new(AtomicU64::new(0));
    {
        let network = Network::new(4, None);
        let sink = network.sink();
        let load_all = || {
            ALGORITHMS[..3]
                .iter()
                .map(|name| load(&choice(name)).unwrap())
        };
        let loaded: Vec<_> = load_all().collect();
        let stop = Arc::new(AtomicBool::new(false));

        let (stopped, count) = (stop.clone(), opened.clone());
        let short = network.spawn(Host::Client, move || {
            for name in ALGORITHMS.iter().cycle() {
                if stopped.load(Relaxed) {
                    return;
                }
                let mut stream = connect(name, true);
                stream.write_all(&[0; 20_000]).unwrap();
                count.fetch_add(1, Relaxed);
                // The ports of closed connections stay in use for a minute.
                thread::sleep(Duration::from_millis(5));
            }
        });
        let stopped = stop.clone();
        let long = network.spawn(Host::Client, move || {
            let mut streams = [
                connect("lia", true),
                connect("olia", true),
                connect("lia", false),
            ];
            for i in 0.. {
                let stream = &mut streams[i % 3];
                send_for(stream, Duration::from_millis(10));
                if stopped.load(Relaxed) {
                    return;
                }
                let name = ALGORITHMS[i / 2 % 4].as_bytes();
                SockRef::from(&*stream).set_tcp_congestion(name).unwrap();
            }
        });

        let (start, mut seed) = (Instant::now(), 1u64);
        let mut present = [true; 4];
        while start.elapsed() < duration || opened.load(Relaxed) < at_least {
            assert!(
                !short.is_finished() && !long.is_finished(),
                "a sender failed"
            );
            assert!(
                start.elapsed() < 10 * duration,
                "too slow: {} connections",
                opened.load(Relaxed)
            );
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let k = 1 + (seed >> 33) as usize % 3;
            match present[k] {
                true => network.remove_endpoint(k),
                false => network.add_endpoint(k, if seed >> 40 & 1 == 0 { "" } else { "backup" }),
            }
            present[k] = !present[k];
            thread::sleep(Duration::from_millis(50));
        }
        // A sender that connects now would not find its algorithm: stop those that connect.
        stop.store(true, Relaxed);
        short.join().unwrap();
        long.join().unwrap();
        let mut stream = network.inside(Host::Client, || connect("lia", true));
        send_for(&mut stream, Duration::from_millis(100));
        drop(loaded);
        let names = registered().unwrap();
        assert!(
            !names
                .iter()
                .any(|name| ALGORITHMS[..3].contains(&name.as_str())),
            "{names:?}"
        );
        let received = sink.received();
        send_for(&mut stream, Duration::from_millis(100));
        thread::sleep(Duration::from_millis(50));
        assert!(
            sink.received() > received,
            "a live socket keeps the unloaded algorithm"
        );
    }
    println!("{} connections", opened.load(Relaxed));
    wait_until_freed(&before);
    log.assert_clean();
}

#[test]
fn a_second_load_of_a_name_is_an_error_without_side_effects() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let first = load(&choice("lia")).unwrap();
    let error = load(&choice("lia")).unwrap_err().to_string();
    assert!(error.contains("lia is already registered"), "{error}");
    let output = Command::new(BINARY)
        .args(["load", "olia", "lia"])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("already registered"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(has("lia") && !has("olia"), "all or none");
    drop(first);
    assert!(!has("lia"));
}

#[test]
fn a_killed_loader_leaves_nothing() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let before = objects();
    for after_ms in [0, 5, 20, 60, 500] {
        let mut loader = Command::new(BINARY)
            .args(["load", "balia", "wvegas"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(after_ms));
        loader.kill().unwrap();
        loader.wait().unwrap();
        wait_until("the names are gone", || !has("balia") && !has("wvegas"));
        wait_until_freed(&before);
    }
}

/// In a mount namespace of its own, so that the pins vanish with it in any case.
#[test]
fn a_pinned_algorithm_outlives_the_loader_until_it_is_unloaded() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let script = "set -e
        mount -t tmpfs none /proc/1
        mount -t bpf bpf /sys/fs/bpf
        $0 load balia:cap=inf vegas_k --pin
        $0 status --json
        ! $0 load balia --pin
        ! $0 unload lia
        $0 weight 4711 2.5
        $0 weight 4711
        ! $0 weight 4711
        ! $0 weight 4711 0
        $0 unload balia
        for again in 1 2 3; do $0 load balia --pin; $0 unload balia; done
        $0 unload --all
        test ! -e /sys/fs/bpf/anabranch
        cat /proc/sys/net/ipv4/tcp_available_congestion_control";
    let mut unshare = Command::new("unshare");
    let output = unshare
        .args(["--mount", "sh", "-c", script, BINARY])
        .output()
        .unwrap();
    let (out, errors) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(output.status.success(), "{out}{errors}");
    assert!(
        out.contains("\"name\": \"balia\",\n      \"pinned\": true"),
        "{out}"
    );
    let after = out.lines().last().unwrap();
    assert!(
        after.contains("cubic") && !after.contains("balia"),
        "nothing is pinned: {after}"
    );
    for error in [
        "balia is already registered",
        "lia is not loaded",
        "no weight for socket 4711",
        "the weight is out of range",
    ] {
        assert!(errors.contains(error), "{error}: {errors}");
    }
}

#[test]
fn without_a_bpf_file_system_nothing_is_pinned() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let script = "mount -t tmpfs none /proc/1; mount -t tmpfs none /sys/fs/bpf; $0 load lia --pin";
    let mut unshare = Command::new("unshare");
    let output = unshare
        .args(["--mount", "sh", "-c", script, BINARY])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("/sys/fs/bpf is not mounted: mount -t bpf -o mode=0700 bpf /sys/fs/bpf"),
        "{error}"
    );
    assert!(!has("lia"));
}

fn choice(text: &str) -> Choice {
    text.parse().unwrap()
}

fn has(name: &str) -> bool {
    registered().unwrap().iter().any(|other| other == name)
}

/// The kernel's log from a point in time on.
struct KernelLog(fs::File);

impl KernelLog {
    fn from_now() -> KernelLog {
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .custom_flags(nonblocking)
            .open("/dev/kmsg")
            .unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        KernelLog(file)
    }

    /// Reads one record at a time, until there is none.
    fn assert_clean(&mut self) {
        let mut record = [0; 8192];
        while let Ok(n) = self.0.read(&mut record) {
            let line = String::from_utf8_lossy(&record[..n]);
            let bad = [
                "WARNING", "BUG", "Oops", "refcount", "leak", "bpf", "TCP", "KASAN",
            ];
            assert!(!bad.iter().any(|word| line.contains(word)), "dmesg: {line}");
        }
    }
}

/// Two paths of 50 Mbps whose queues hold 20 ms: with their bursts of 20 kB at most 100 packets,
/// and slow start may briefly have twice that in flight.
const MOST: f64 = 250.0;

#[test]
fn a_threshold_from_uninitialised_memory_does_not_open_the_window() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/uninitialised.o"));
    let mut object = ObjectBuilder::default()
        .open_memory(object)
        .unwrap()
        .load()
        .unwrap();
    let algorithm = object.maps_mut().find(|map| map.name() == "uninitialised");
    let _link = algorithm.unwrap().attach_struct_ops().unwrap();

    let network = Network::new(2, Some(50));
    let sink = network.sink();
    let windows: Vec<f64> = network.inside(Host::Client, || {
        let mut stream = connect("uninitialised", true);
        let sender = thread::spawn(move || send_for(&mut stream, Duration::from_secs(3)));
        let mut windows = Vec::new();
        while !sender.is_finished() {
            let subflows = connections().unwrap().into_iter().flat_map(|c| c.subflows);
            windows.extend(subflows.map(|subflow| subflow.window));
            thread::sleep(Duration::from_millis(5));
        }
        windows
    });
    let beyond: Vec<_> = windows.iter().filter(|&&window| window > MOST).collect();
    assert!(
        beyond.len() * 50 < windows.len(),
        "{} of {}, such as {:?}",
        beyond.len(),
        windows.len(),
        beyond.first()
    );
    // 50 Mbps over 3 s are 18.75 MB a link.
    assert!(sink.received() > 15_000_000, "{}", sink.received());
}
