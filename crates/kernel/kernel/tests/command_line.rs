//! The command line: names, help, error messages, missing requirements, `status`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{SEND_TIME, can_load, lock_names, wait_until};
use anabranch_control::{Info, RULES};
use anabranch_kernel::{PROGRAMS, connections, load};
use rustix::process::geteuid;
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_anabranch-kernel");
const UNIT: &str = include_str!("../systemd/anabranch-kernel.service");

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().unwrap()
}

/// Runs a script in which $0 is the program, in a mount and a network namespace of its own, where
/// the first process, which has another BPF file system, is not seen.
fn script(text: &str) -> Output {
    let mut unshare = Command::new("unshare");
    let text = format!("mount -t tmpfs none /proc/1; {text}");
    unshare.args(["--mount", "--net", "sh", "-c", &text, BINARY]);
    unshare.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_algorithms_have_their_familiar_names() {
    let listed = text(&run(&["list"]).stdout);
    let names = listed.lines().filter(|line| !line.starts_with(' '));
    let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    let headers = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/rules")).unwrap();
    let headers = headers.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let headers: BTreeSet<String> = headers.collect();
    let with_header = |name: &String| headers.contains(&format!("{name}.h"));
    let in_table = RULES.iter().map(Info::linux_name).filter(with_header);
    assert_eq!(names, in_table.collect::<Vec<_>>());
    assert_eq!(names.len(), headers.len());
    let familiar = [
        "ewtcp",
        "coupled",
        "semicoupled",
        "lia",
        "olia",
        "balia",
        "rsf_db",
        "rsf_lb",
        "vegas_k",
        "wvegas",
    ];
    assert!(
        familiar.iter().all(|name| names.contains(name)),
        "{names:?}"
    );
}

#[test]
fn help_has_examples_and_no_colours_unless_on_a_terminal() {
    for command in [&["--help"][..], &["load", "--help"], &["status", "--help"]] {
        let help = text(&run(command).stdout);
        assert!(help.contains("Examples:\n  anabranch-kernel"), "{help}");
        assert!(!help.contains('\x1b'), "{help}");
    }
}

#[test]
fn an_error_is_one_line() {
    for (arguments, expected) in [
        (
            &["load", "nonsense"][..],
            "unknown algorithm \"nonsense\": expected one of ewtcp, coupled,",
        ),
        (
            &["load", "rsf-db"],
            "unknown algorithm \"rsf-db\": did you mean rsf_db?",
        ),
        (
            &["unload", "vegas-k"],
            "unknown algorithm \"vegas-k\": did you mean vegas_k?",
        ),
        (
            &["default", "bailia"],
            "bailia is not registered: did you mean balia?",
        ),
        (
            &["load", "balia:foo=1"],
            "unknown parameter \"foo\" of balia: expected one of cap",
        ),
        (
            &["load", "balia:cap=0"],
            "balia: cap = 0 is out of range: expected a number from 1 to inf",
        ),
        (
            &["load", "lia", "balia:cap"],
            "balia: expected parameter=value, got \"cap\"",
        ),
        (
            &["load", "vegas_k:kappa=-1"],
            "vegas_k: kappa = -1 is out of range: expected a number from",
        ),
        (
            &["load", "vegas_k:foo=1"],
            "unknown parameter \"foo\" of vegas_k: expected one of kappa",
        ),
        (&["load", "lia", "balia", "lia"], "lia is named twice"),
        (
            &["load", "lia", "olia:coupling=shared", "--pin"],
            "olia:coupling=shared cannot be pinned: `anabranch-kernel load` decides which",
        ),
        (
            &["load", "lia:coupling=rfc8382"],
            "lia:coupling=rfc8382: the kernel's programs do not detect shared bottlenecks by RFC",
        ),
        (
            &["load", "lia:beta_ecn=0.8"],
            "lia:beta_ecn=0.8: the kernel's programs take a mark as a loss: omit beta_ecn, or run",
        ),
        (
            &["load", "balia:"],
            "balia: expected parameter=value, got \"\"",
        ),
        (&["unload", "rsf_lb"], "rsf_lb is not loaded"),
        (
            &["weight", "1", "0"],
            "the weight is out of range: expected packets, above 0 to 1e6",
        ),
    ] {
        let output = run(arguments);
        let error = text(&output.stderr);
        assert!(
            error.starts_with("anabranch-kernel: ") && error.contains(expected),
            "{error}"
        );
        assert_eq!(
            (error.lines().count(), output.status.code()),
            (1, Some(1)),
            "{error}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut list = Command::new(BINARY);
    let list = list.arg("list").stdout(writer).stderr(Stdio::piped());
    let output = list.spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}

/// Runs the program without capabilities.
fn unable(arguments: &[&str]) -> Output {
    if !geteuid().is_root() {
        return run(arguments);
    }
    let mut setpriv = Command::new("setpriv");
    let output = setpriv
        .args(["--bounding-set=-all", BINARY])
        .args(arguments)
        .output();
    output.unwrap()
}

#[test]
fn without_permission_the_error_names_the_remedy() {
    let _lock = lock_names();
    for command in [&["load", "vegas_k"][..], &["status"]] {
        let output = unable(command);
        let error = text(&output.stderr);
        assert!(
            error.contains("without CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF; run it as root"),
            "{error}"
        );
        assert_eq!(
            (error.lines().count(), output.status.code()),
            (1, Some(1)),
            "{error}"
        );
    }
    let doctor = unable(&["doctor"]);
    let found = text(&doctor.stdout);
    assert!(
        found.contains("MISSING  permissions: without CAP_NET_ADMIN"),
        "{found}"
    );
    assert_eq!(doctor.status.code(), Some(1));
}

#[test]
fn doctor_reports_what_is_missing_and_the_remedy() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let healthy = script("mount -t bpf -o mode=0700 bpf /sys/fs/bpf; $0 doctor");
    let found = text(&healthy.stdout);
    assert!(
        healthy.status.success() && !found.contains("MISSING"),
        "{found}"
    );
    for expected in [
        "ok       the limit of additional subflows: ",
        "note     endpoints of Multipath TCP: none here",
        "note     the default congestion control: ",
        "net.core.bpf_jit_enable is not shown in this network namespace\n",
    ] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    let changed = script(
        "ip mptcp limits set subflow 0; ip mptcp endpoint add 192.0.2.7 subflow
        echo 4096 16384 4000000 > /proc/sys/net/ipv4/tcp_wmem
        echo 4096 131072 6000000 > /proc/sys/net/ipv4/tcp_rmem; $0 doctor",
    );
    let found = text(&changed.stdout);
    for expected in [
        "note     the limit of additional subflows: ",
        "ok       endpoints of Multipath TCP: 192.0.2.7 ",
        "note     send buffers: ",
        "note     receive buffers, on the receiver: ",
    ] {
        assert!(found.contains(expected), "{expected}: {found}");
    }

    let shared = script("mount -t bpf bpf /sys/fs/bpf; $0 doctor");
    let found = text(&shared.stdout);
    let expected = "MISSING  the BPF file system: other users may write in /sys/fs/bpf\n         \
                    needed for load --pin: chmod 700 /sys/fs/bpf";
    assert!(found.contains(expected), "{found}");
    assert_eq!(shared.status.code(), Some(1), "{found}");

    let deficient = "mount -t tmpfs none /sys/kernel/btf
        umount --lazy /sys/fs/bpf
        mount -t tmpfs none /sys/fs/bpf
        echo 0 > /proc/sys/net/mptcp/enabled";
    let output = script(&format!("{deficient}; $0 doctor"));
    let found = text(&output.stdout);
    for expected in [
        "MISSING  the kernel's type information (BTF): no /sys/kernel/btf/vmlinux\n         \
         needed for loading any algorithm: use a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        "MISSING  Multipath TCP: net.mptcp.enabled = 0\n         \
         needed for coupling subflows: use a kernel built with CONFIG_MPTCP=y, and sysctl",
        "MISSING  the BPF file system: not mounted at /sys/fs/bpf\n         \
         needed for load --pin: mount -t bpf -o mode=0700 bpf /sys/fs/bpf",
        "ok       permissions",
    ] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    assert_eq!(output.status.code(), Some(1));

    let json = text(&script(&format!("{deficient}; $0 doctor --json")).stdout);
    let checks: Vec<Value> = serde_json::from_str(&json).unwrap();
    let missing = |check: &&Value| check["ok"] == false && check["required"] == true;
    assert_eq!(checks.iter().filter(missing).count(), 3, "{json}");
}

#[test]
fn a_user_without_access_to_the_pins_gets_an_error() {
    if !can_load() {
        return;
    }
    let text_of_script = "mount -t tmpfs none /proc/1
        mount -t bpf -o mode=0700 bpf /sys/fs/bpf
        exec 0</dev/null; $0 unload --all
        setpriv --reuid=65534 --regid=65534 --clear-groups $0 unload --all";
    // The original may be in a directory that other users cannot enter.
    let copy = std::env::temp_dir().join(format!("anabranch-kernel-{}", std::process::id()));
    std::fs::copy(BINARY, &copy).unwrap();
    let mut unshare = Command::new("unshare");
    let output = unshare
        .args(["--mount", "sh", "-c", text_of_script])
        .arg(&copy)
        .output()
        .unwrap();
    std::fs::remove_file(copy).unwrap();
    let errors = text(&output.stderr);
    let [nothing, denied] = errors.lines().collect::<Vec<_>>()[..] else {
        panic!("{errors}")
    };
    assert_eq!(nothing, "anabranch-kernel: nothing is pinned");
    assert!(
        denied.contains("Permission denied (os error 13); run it as root"),
        "{denied}"
    );
    assert!(!output.status.success());
}

#[test]
fn status_shows_each_subflow() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _loaded = load(&"lia".parse().unwrap()).unwrap();
    let network = Network::new(2, Some(50));
    let _sink = network.sink();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sending = network.spawn(Host::Client, move || {
        let mut stream = connect("lia", true);
        while !stopped.load(Relaxed) {
            send_for(&mut stream, SEND_TIME);
        }
    });
    let (once, watched, words) = network.inside(Host::Client, move || {
        wait_until("two subflows that deliver", || {
            let subflows = connections()
                .unwrap()
                .into_iter()
                .flat_map(|one| one.subflows);
            subflows.filter(|subflow| subflow.rate_mbps > 0.0).count() == 2
        });
        let once = text(&run(&["status", "--json"]).stdout);
        let mut watch = Command::new(BINARY)
            .args(["status", "--watch", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let watched: Vec<String> = lines.take(2).map(Result::unwrap).collect();
        watch.kill().unwrap();
        watch.wait().unwrap();
        let words = text(&run(&["status"]).stdout);
        stop.store(true, Relaxed);
        (once, watched, words)
    });
    sending.join().unwrap();
    for document in watched.iter().chain([&once]) {
        let status: Value = serde_json::from_str(document).unwrap();
        let registered = status["registered"].as_array().unwrap();
        let ours = |one: &Value| one["name"] == "lia" && one["pinned"] == false;
        assert!(registered.iter().any(ours), "{document}");
        let connection = &status["connections"][0];
        assert!(connection["token"].is_u64());
        let subflows = connection["subflows"].as_array().unwrap();
        assert_eq!(subflows.len(), 2, "{document}");
        let mut shares = 0.0;
        for subflow in subflows {
            assert_eq!(subflow["algorithm"], "lia");
            for key in ["window", "rtt_ms", "rate_mbps", "loss", "alpha", "share"] {
                assert!(
                    subflow[key].as_f64().is_some_and(|x| x >= 0.0),
                    "{key}: {document}"
                );
            }
            shares += subflow["share"].as_f64().unwrap();
        }
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    }
    for expected in [
        "registered: ",
        "Multipath TCP, token ",
        "  lia ",
        "    10.77.1.1:",
    ] {
        assert!(
            words.contains(expected) && !words.contains('\x1b'),
            "{words}"
        );
    }
    assert!(words.lines().all(|line| line.len() <= 80), "{words}");
}

/// In a mount namespace of its own, with the capabilities that the unit grants.
#[test]
fn the_units_commands_work_with_the_units_capabilities() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let value = |key: &str| {
        let mut values = UNIT.lines().filter_map(|line| line.strip_prefix(key));
        values.next().unwrap()
    };
    let kept = value("CapabilityBoundingSet=").to_lowercase();
    let kept: String = kept
        .split(' ')
        .map(|name| format!(",+{}", name.trim_start_matches("cap_")))
        .collect();
    let [start, reload, stop] = ["ExecStart=", "ExecReload=", "ExecStop="].map(|key| {
        let command = value(key)
            .strip_prefix("/usr/local/sbin/anabranch-kernel")
            .unwrap();
        format!("setpriv --no-new-privs --bounding-set=-all{kept} $0{command}")
    });
    let output = script(&format!(
        "set -e; mount -t bpf -o mode=0700 bpf /sys/fs/bpf
        {start}; {reload}; ls /sys/fs/bpf/anabranch | wc -l; {stop}; test ! -e /sys/fs/bpf/anabranch"
    ));
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let pinned = PROGRAMS.len().to_string();
    assert_eq!(text(&output.stdout).trim(), pinned, "{errors}");
}
