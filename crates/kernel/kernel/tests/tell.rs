//! Findings of `doctor` and `status` about a host's second path and its connections, and refusals
//! that name their reason.

use std::fs;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::Value;

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::program::run;
use crate::common::{SEND_TIME, can_load, lock_names, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_anabranch-kernel");

/// Runs a script in which $0 is the program, in namespaces of its own. Its shell is the first
/// process, with a BPF file system, as a host's.
fn on_a_host(text: &str) -> Output {
    let text = format!("set -e; mount -t bpf -o mode=0700 bpf /sys/fs/bpf\n{text}");
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--fork", "--mount-proc"]);
    unshare.args(["sh", "-c", &text, BINARY]).output().unwrap()
}

fn text(output: Output) -> String {
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Two devices with a default route each, whose peers are in a namespace of the shell.
const TWO_DEVICES: &str = "
    for k in 0 1; do
        ip link add wan$k type veth peer name peer$k
        ip link set wan$k up; ip link set peer$k up
        ip address add 10.1.$k.2/24 dev wan$k
        ip route add default via 10.1.$k.1 dev wan$k metric 10$k
        echo 0 > /proc/sys/net/ipv4/conf/wan$k/rp_filter
    done
    echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
    ip mptcp limits set subflow 2
";

/// The check of `doctor --json` with this id, after these commands on a host with two devices.
fn check(commands: &str, id: &str) -> Value {
    let script = format!("{TWO_DEVICES}{commands}\n$0 doctor --json || true");
    let output = on_a_host(&script);
    let document = String::from_utf8(output.stdout).unwrap();
    let checks: Vec<Value> = serde_json::from_str(&document)
        .unwrap_or_else(|error| panic!("{error}: {document}{:?}", output.stderr));
    let mut found = checks.into_iter().filter(|check| check["id"] == id);
    found.next().unwrap_or_default()
}

/// Asserts what a check finds and whether it is met; returns the remedy.
fn assert_check(commands: &str, id: &str, ok: bool, expected: &str) -> String {
    let check = check(commands, id);
    let found = check["found"].as_str().unwrap_or_default();
    assert_eq!(check["ok"], ok, "{commands}: {check}");
    assert!(found.contains(expected), "{commands}: {found}");
    check["remedy"].as_str().unwrap().to_owned()
}

#[test]
fn doctor_names_endpoints_whose_address_no_device_has() {
    let id = "endpoint-without-device";
    let good = "ip mptcp endpoint add 10.1.1.2 dev wan1 subflow";
    assert_check(good, id, true, "all on devices that are up");
    let gone = "ip mptcp endpoint add 10.9.9.9 subflow";
    let remedy = assert_check(gone, id, false, "no device has 10.9.9.9");
    assert_eq!(remedy, "ip mptcp endpoint delete id 1");
    let other = "ip mptcp endpoint add 10.1.1.2 dev wan0 signal";
    assert_check(other, id, false, "wan1 has 10.1.1.2, not wan0");
    let down = "ip mptcp endpoint add 10.1.1.2 dev wan1 subflow; ip link set wan1 down";
    let remedy = assert_check(down, id, false, "wan1 with 10.1.1.2 is down");
    assert_eq!(remedy, "ip link set wan1 up");
    let six = "ip mptcp endpoint add 2001:db8:7::1 subflow";
    assert_check(six, id, false, "no device has 2001:db8:7::1");
    assert_eq!(
        check("", id),
        Value::Null,
        "without endpoints there is nothing to check"
    );
}

#[test]
fn doctor_names_limits_below_the_number_of_endpoints() {
    let endpoints = "
        ip address add 10.1.2.2/24 dev wan1
        for k in 0 1 2; do ip mptcp endpoint add 10.1.$k.2 subflow; done";
    let id = "limits-forbid";
    let remedy = assert_check(endpoints, id, false, "below 3 endpoints");
    assert_eq!(
        remedy,
        "ip mptcp limits set subflow 3 add_addr_accepted 3, on both hosts"
    );
    let enough = format!("{endpoints}; ip mptcp limits set subflow 3");
    assert_check(&enough, id, true, "");
    let signalled = "ip mptcp limits set subflow 1; ip mptcp endpoint add 10.1.0.2 signal
        ip mptcp endpoint add 10.1.1.2 signal";
    assert_check(signalled, id, true, "");
    assert_check("ip mptcp limits set subflow 0", id, false, "");
}

#[test]
fn doctor_names_endpoints_whose_packets_leave_through_another_device() {
    let id = "wrong-route";
    // Without `dev` the default route with the smaller metric is taken, which is wan0's.
    let unbound = "ip mptcp endpoint add 10.1.1.2 subflow";
    let expected = "from 10.1.1.2 of wan1 packets leave through wan0";
    let remedy = assert_check(unbound, id, false, expected);
    assert_eq!(
        remedy,
        "ip rule add from 10.1.1.2 table 101; ip route add default via GATEWAY dev wan1 table 101"
    );
    // The printed remedy, and `dev`, which binds the subflow to the device.
    let followed = format!("{unbound}; {}", remedy.replace("GATEWAY", "10.1.1.1"));
    assert_check(&followed, id, true, "");
    assert_check(
        "ip mptcp endpoint add 10.1.1.2 dev wan1 subflow",
        id,
        true,
        "",
    );
    // A rule whose table has no route is none.
    let empty = format!("{unbound}; ip rule add from 10.1.1.2 table 101");
    assert_check(&empty, id, false, expected);
    let one = format!("{unbound}; ip route delete default dev wan1");
    assert_eq!(check(&one, id), Value::Null, "the peer may be on the link");
    let six = "
        for k in 0 1; do
            ip address add 2001:db8:$k::2/64 dev wan$k nodad
            ip -6 route add default via 2001:db8:$k::1 dev wan$k metric 10$k
        done
        ip mptcp endpoint add 2001:db8:1::2 subflow";
    let remedy = assert_check(six, id, false, "from 2001:db8:1::2 of wan1 packets leave");
    assert!(
        remedy.starts_with("ip -6 rule add from 2001:db8:1::2 "),
        "{remedy}"
    );
}

#[test]
fn doctor_names_a_strict_reverse_path_filter_where_the_route_back_is_another_devices() {
    let id = "strict-rp-filter";
    let endpoint = "ip mptcp endpoint add 10.1.1.2 dev wan1 subflow";
    assert_check(endpoint, id, true, "not strict");
    // The larger of both values counts.
    for strict in ["wan1", "all"] {
        let strict = format!("{endpoint}; echo 1 > /proc/sys/net/ipv4/conf/{strict}/rp_filter");
        let remedy = assert_check(&strict, id, false, "wan1, which drops");
        assert_eq!(remedy, "sysctl net.ipv4.conf.all.rp_filter=2");
        let followed = format!("{strict}; echo 2 > /proc/sys/net/ipv4/conf/all/rp_filter");
        assert_check(&followed, id, true, "not strict");
    }
    let by_rule = format!(
        "{endpoint}; echo 1 > /proc/sys/net/ipv4/conf/wan1/rp_filter
        ip rule add from 10.1.1.2 table 7; ip route add default via 10.1.1.1 dev wan1 table 7"
    );
    assert_check(&by_rule, id, true, "strict (1) on wan1, whose routes back");
    let single = "ip link set wan1 down; echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter";
    assert_eq!(
        check(single, id),
        Value::Null,
        "one path cannot be confused"
    );
}

/// 6 291 456 bytes: half is 25.2 Mbit, or 252 Mbps for 0.1 s.
#[test]
fn doctor_says_for_which_rates_and_rtts_a_buffer_is_enough() {
    let set = |key: &str, value: &str| format!("echo {value} > /proc/sys/net/ipv4/{key}");
    let usual = set("tcp_rmem", "4096 131072 6291456");
    let expected = "6291456; enough for 252 Mbps in sum at a largest RTT of 100 ms, half at 200 ms";
    assert_check(&usual, "receive-buffer", true, expected);
    let small = set("tcp_wmem", "4096 16384 1048576");
    let remedy = assert_check(&small, "send-buffer", false, "enough for 42 Mbps");
    assert_eq!(
        remedy,
        "sysctl net.ipv4.tcp_wmem=\"4096 16384 4194304\", at the sender"
    );
    for (bytes, ok) in [
        ("4096", false),
        ("65535", false),
        ("65536", true),
        ("4294967295", true),
    ] {
        assert_check(&set("tcp_notsent_lowat", bytes), "unsent-limit", ok, bytes);
    }
}

#[test]
fn a_pin_is_refused_where_it_would_be_lost_and_not_where_the_file_system_is_the_hosts() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    // `ip netns exec` unshares mounts and mounts a new /sys, without a BPF file system.
    let found = text(on_a_host(
        "mount -t tmpfs none /run; ip netns add blue
        for mount in true 'mount -t bpf -o mode=0700 bpf /sys/fs/bpf'; do
            ip netns exec blue sh -c \"$mount; $0 load coupled --pin; $0 load coupled --replace
                $0 doctor > /run/doctor && grep -A1 'BPF file system' /run/doctor\"
        done
        ! grep -w coupled /proc/sys/net/ipv4/tcp_available_congestion_control",
    ));
    let refused = "anabranch-kernel: a pin would be lost when this command ends, because \
                   /sys/fs/bpf is of this mount namespace only: run `load --pin` outside of `ip \
                   netns exec`: a registration is of all network namespaces\n";
    let doctor = "note     the BPF file system: this mount namespace is private, and pins would \
                  be lost with it: not the one at /sys/fs/bpf\n         needed for load --pin: \
                  run `load --pin` outside of `ip netns exec`: a registration is of all network \
                  namespaces\n";
    let once = format!("{doctor}{doctor}{}", refused.repeat(4));
    assert_eq!(found, once);

    // Pins of the host are seen, replaced and unloaded from there.
    let found = text(on_a_host(
        "mount -t tmpfs none /run; ip netns add blue
        $0 load semicoupled --pin
        ip netns exec blue $0 status | grep pinned
        ip netns exec blue $0 load semicoupled:coupling=never --replace
        ip netns exec blue $0 unload semicoupled
        ! ls /sys/fs/bpf/anabranch",
    ));
    for expected in [
        "semicoupled 0.1.0 (pinned)",
        "replaced semicoupled:coupling=never",
        "No such file",
    ] {
        assert!(found.contains(expected), "{found}");
    }

    // A unit with a private /tmp has a mount namespace, too, and the host's file system.
    let found = text(on_a_host(
        "unshare --mount $0 load semicoupled --pin; ls /sys/fs/bpf/anabranch; $0 unload semicoupled",
    ));
    assert_eq!(found, "semicoupled\nregistered semicoupled, until unload\n");
}

#[test]
fn a_read_only_bpf_file_system_is_named_with_a_remedy_that_works() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let found = text(on_a_host(
        "mount -o remount,ro /sys/fs/bpf; $0 doctor | grep -A1 'BPF file system' || true
        ! $0 load coupled --pin; mount -o remount,rw /sys/fs/bpf
        $0 load coupled --pin; $0 unload coupled",
    ));
    let expected = "MISSING  the BPF file system: read-only at /sys/fs/bpf\n         needed for \
                    load --pin: mount -o remount,rw /sys/fs/bpf\nanabranch-kernel: /sys/fs/bpf is \
                    read-only: mount -o remount,rw /sys/fs/bpf\nregistered coupled, until unload\n";
    assert_eq!(found, expected);
}

#[test]
fn a_user_who_is_refused_is_told_to_be_root() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    // The directory of the pins is open to readers, so that nothing but the change is refused.
    let found = text(on_a_host(
        "mount -t tmpfs none /mnt; cp $0 /mnt/program; chmod -R a+rx /mnt /sys/fs/bpf
        $0 load semicoupled vegas_k --pin 2> /dev/null
        for words in 'load semicoupled' 'load coupled' 'unload semicoupled' status 'default reno' \
            'weight 1 2'
        do
            ! setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \\
                /mnt/program $words || exit 1
        done
        $0 unload semicoupled vegas_k",
    ));
    assert_eq!(found.lines().count(), 6, "{found}");
    for line in found.lines() {
        assert_eq!(line.matches("run it as root").count(), 1, "{line}");
        assert!(line.starts_with("anabranch-kernel: "), "{line}");
    }
}

/// The causes that `status --json` names while a connection with the kernel's own rule sends over
/// two links, once it names one, and the text of `status` then; none if there is none in a second.
fn causes_while_sending(network: &Network) -> (Vec<Value>, String) {
    let sink = network.sink();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sending = network.spawn(Host::Client, move || {
        let mut stream = connect("cubic", true);
        while !stopped.load(Relaxed) {
            send_for(&mut stream, SEND_TIME / 10);
        }
    });
    let found = network.inside(Host::Client, || {
        let status = || -> Value { serde_json::from_str(&run(&["status", "--json"])).unwrap() };
        wait_until("both subflows send", || {
            let status = status();
            let subflows = status["connections"][0]["subflows"].as_array();
            subflows.is_some_and(|all| {
                all.len() == 2 && all.iter().all(|one| one["rate_mbps"].as_f64() > Some(0.0))
            })
        });
        // A failure in here would leave the sender running: what is absent is no cause.
        let named = |status: &Value| -> Vec<Value> {
            let causes = status["causes"].as_object().into_iter().flatten();
            let lists = causes.filter_map(|(_, causes)| causes.as_array());
            lists.flatten().cloned().collect()
        };
        for _ in 0..12 {
            let causes = named(&status());
            if !causes.is_empty() {
                return (causes, run(&["status"]));
            }
        }
        (vec![], String::new())
    });
    stop.store(true, Relaxed);
    sending.join().unwrap();
    drop(sink);
    found
}

/// A queue of 62 kB before 1 Mbps is an RTT of 0.5 s, and the window of 200 kB of buffer is full
/// before the first of it has arrived: 2 x 51 Mbps x 0.5 s = 6 MB would be enough.
#[test]
fn status_names_the_path_that_holds_a_connection_up_and_the_buffer_that_is_the_limit() {
    if !can_load() {
        return;
    }
    let network = Network::new(2, Some(50));
    network.shape(1, "rate 1mbit burst 2kb latency 500ms");
    network.inside(Host::Server, || {
        fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 65536 200000").unwrap();
    });
    let (causes, shown) = causes_while_sending(&network);
    let ids: Vec<&Value> = causes.iter().map(|cause| &cause["id"]).collect();
    assert_eq!(ids, ["slow-path-blocks", "receive-buffer"], "{causes:?}");
    let sentence = causes[0]["sentence"].as_str().unwrap();
    assert!(sentence.contains("held up by 10.77.1.1:"), "{sentence}");
    let sentence = causes[1]["sentence"].as_str().unwrap();
    let size = sentence
        .split(": ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let size: f64 = size.parse().unwrap();
    assert!((1.5..24.0).contains(&size), "{sentence}");
    assert!(shown.contains("slow-path-blocks: "), "{shown}");
}

#[test]
fn status_names_nothing_where_the_links_are_the_limit() {
    if !can_load() {
        return;
    }
    let (causes, _) = causes_while_sending(&Network::new(2, Some(20)));
    assert_eq!(causes, [Value::Null; 0]);
}
