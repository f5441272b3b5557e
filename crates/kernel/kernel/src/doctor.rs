//! Requirements of the algorithms on this machine, and advice that makes them effective.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::algorithm::{Program, is_registered};
use crate::pins;

/// One requirement.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Condition.
    pub what: &'static str,
    /// Whether this machine meets it.
    pub ok: bool,
    /// Whether it is a requirement; otherwise it is advice, for a host that opens connections.
    pub required: bool,
    /// Finding on this machine.
    pub found: String,
    /// Purpose of the condition.
    pub needed_for: &'static str,
    /// Command or step that meets it.
    pub remedy: &'static str,
}

impl Check {
    /// Whether it is a requirement that this machine does not meet.
    pub fn is_missing(&self) -> bool {
        self.required && !self.ok
    }
}

/// All requirements, in the order in which to fix them, then advice on this network namespace.
pub fn checks() -> Vec<Check> {
    let mut checks = requirements();
    checks.extend([
        limits(),
        endpoints(),
        default(),
        send_buffers(),
        receive_buffers(),
        fragments(),
    ]);
    checks
}

fn requirements() -> Vec<Check> {
    vec![kernel(), btf(), jit(), permissions(), mptcp(), bpf_fs()]
}

/// Requirements for loading an algorithm and coupling subflows that are not met, a line each.
pub fn missing() -> Vec<String> {
    missing_for(&[LOADING, COUPLING])
}

/// Likely reason for which the kernel rejected a program, with the remedy.
pub(crate) fn why_rejected() -> String {
    let missing = missing_for(&[LOADING]);
    if missing.is_empty() {
        return "--verbose shows the kernel's messages".to_owned();
    }
    missing.join("; ")
}

fn missing_for(needs: &[&str]) -> Vec<String> {
    requirements()
        .into_iter()
        .filter(|check| check.is_missing() && needs.contains(&check.needed_for))
        .map(|check| format!("{}: {}; {}", check.what, check.found, check.remedy))
        .collect()
}

const LOADING: &str = "loading any algorithm";
const COUPLING: &str = "coupling subflows";
const PINS: &str = "load --pin";
const SUBFLOWS: &str = "more than one subflow, without which nothing is coupled";

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Setting of a key. Some keys are in the initial network namespace only.
fn shown(key: &str, value: &str) -> String {
    if value.is_empty() {
        format!("{key} is not shown in this network namespace")
    } else {
        format!("{key} = {value}")
    }
}

/// Checks the kernel's version. Links that register a congestion control were added in 6.4.
fn kernel() -> Check {
    let release = read("/proc/sys/kernel/osrelease");
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|n| n.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    Check {
        what: "Linux 6.4 or later",
        ok: version >= (6, 4),
        found: release,
        required: true,
        needed_for: LOADING,
        remedy: "install a newer kernel",
    }
}

fn btf() -> Check {
    let path = "/sys/kernel/btf/vmlinux";
    let ok = fs::exists(path).unwrap_or(false);
    Check {
        what: "the kernel's type information (BTF)",
        ok,
        found: if ok {
            path.to_owned()
        } else {
            format!("no {path}")
        },
        required: true,
        needed_for: LOADING,
        remedy: "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as most distributions' are",
    }
}

fn jit() -> Check {
    let on = read("/proc/sys/net/core/bpf_jit_enable");
    Check {
        what: "BPF's just-in-time compiler",
        // Not every user may read it; kernels without this key always compile.
        ok: on != "0",
        found: shown("net.core.bpf_jit_enable", &on),
        required: true,
        needed_for: LOADING,
        remedy: "sysctl net.core.bpf_jit_enable=1",
    }
}

fn permissions() -> Check {
    let needed = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
    let status = read("/proc/self/status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .unwrap_or_default();
    let held = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
    let missing: Vec<&str> = needed
        .iter()
        .filter(|(_, bit)| held >> bit & 1 == 0)
        .map(|&(name, _)| name)
        .collect();
    Check {
        what: "permissions",
        ok: missing.is_empty(),
        found: if missing.is_empty() {
            "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN".to_owned()
        } else {
            format!("without {}", missing.join(", "))
        },
        required: true,
        needed_for: LOADING,
        remedy: "run it as root",
    }
}

fn mptcp() -> Check {
    let on = read("/proc/sys/net/mptcp/enabled");
    Check {
        what: "Multipath TCP",
        ok: on == "1",
        found: if on.is_empty() {
            "not in this kernel".to_owned()
        } else {
            format!("net.mptcp.enabled = {on}")
        },
        required: true,
        needed_for: COUPLING,
        remedy: "use a kernel built with CONFIG_MPTCP=y, and sysctl net.mptcp.enabled=1",
    }
}

fn bpf_fs() -> Check {
    let mounted = pins::is_mounted();
    let shared = mounted && pins::is_writable_by_others(Path::new(pins::BPF_FS));
    let (state, remedy) = match (mounted, shared) {
        (false, _) => ("not mounted at", pins::MOUNT),
        (true, true) => ("other users may write in", "chmod 700 /sys/fs/bpf"),
        (true, false) => ("mounted at", pins::MOUNT),
    };
    Check {
        what: "the BPF file system",
        ok: mounted && !shared,
        found: format!("{state} {}", pins::BPF_FS),
        required: true,
        needed_for: PINS,
        remedy,
    }
}

/// Checks the limits of subflows. `ip mptcp` prints "add_addr_accepted 0 subflows 2", on some
/// versions "subflow".
fn limits() -> Check {
    let shown = ip_mptcp(&["limits", "show"]);
    let words: Vec<&str> = shown.split_whitespace().collect();
    let subflows = words.windows(2).find(|two| two[0].starts_with("subflow"));
    Check {
        what: "the limit of additional subflows",
        ok: subflows.is_some_and(|two| two[1] != "0"),
        required: false,
        found: shown,
        needed_for: SUBFLOWS,
        remedy: "ip mptcp limits set subflow 2 add_addr_accepted 2, on both hosts",
    }
}

/// Checks for endpoints. Either end may have them; a peer's arrive by ADD_ADDR, if the limits allow
/// it.
fn endpoints() -> Check {
    let shown = ip_mptcp(&["endpoint", "show"]);
    let useful = |line: &&str| line.contains("subflow") || line.contains("signal");
    let endpoints: Vec<&str> = shown.lines().filter(useful).map(str::trim).collect();
    Check {
        what: "endpoints of Multipath TCP",
        ok: !endpoints.is_empty(),
        required: false,
        found: if endpoints.is_empty() {
            "none here; the peer may have some".to_owned()
        } else {
            endpoints.join("; ")
        },
        needed_for: SUBFLOWS,
        remedy: "ip mptcp endpoint add ADDRESS dev DEVICE subflow, on the host with several \
                 addresses",
    }
}

fn ip_mptcp(arguments: &[&str]) -> String {
    match Command::new("ip").arg("mptcp").args(arguments).output() {
        Ok(output) => String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
            .trim()
            .to_owned(),
        Err(error) => format!("cannot run ip of iproute2: {error}"),
    }
}

fn default() -> Check {
    let name = read("/proc/sys/net/ipv4/tcp_congestion_control");
    let ours = Program::find(&name).is_some();
    let unloaded = ours && !is_registered(&name).unwrap_or(false);
    Check {
        what: "the default congestion control",
        ok: ours && !unloaded,
        required: false,
        found: if unloaded {
            format!("{name}, a program that is unloaded")
        } else {
            name
        },
        needed_for: "programs that do not select one themselves",
        remedy: "anabranch-kernel load lia --pin, and anabranch-kernel default lia",
    }
}

const FAST_PATHS: &str = "a fast path beside one with a small window";

fn send_buffers() -> Check {
    let sizes = read("/proc/sys/net/ipv4/tcp_wmem");
    Check {
        what: "send buffers of up to 4 MB",
        ok: largest(&sizes) >= 4 << 20,
        found: shown("net.ipv4.tcp_wmem", &sizes),
        required: false,
        needed_for: FAST_PATHS,
        remedy: "sysctl net.ipv4.tcp_wmem=\"4096 16384 4194304\"",
    }
}

fn receive_buffers() -> Check {
    let sizes = read("/proc/sys/net/ipv4/tcp_rmem");
    Check {
        what: "receive buffers of up to 6 MB, on the receiver",
        ok: largest(&sizes) >= 6 << 20,
        found: shown("net.ipv4.tcp_rmem", &sizes),
        required: false,
        needed_for: FAST_PATHS,
        remedy: "sysctl net.ipv4.tcp_rmem=\"4096 131072 6291456\"",
    }
}

/// The third number of `tcp_wmem` and `tcp_rmem`, bytes.
fn largest(sizes: &str) -> u64 {
    let largest = sizes.split_whitespace().nth(2);
    largest.and_then(|size| size.parse().ok()).unwrap_or(0)
}

/// Checks for pages of high order. Without them the scheduler assigns 4 kB as a unit instead of 32
/// kB.
fn fragments() -> Check {
    let disabled = read("/proc/sys/net/core/high_order_alloc_disable");
    Check {
        what: "fragments of 4 kB (docs/notebook/harm.md)",
        ok: disabled == "1",
        found: shown("net.core.high_order_alloc_disable", &disabled),
        required: false,
        needed_for: FAST_PATHS,
        remedy: "sysctl net.core.high_order_alloc_disable=1",
    }
}
