//! Requirements of the algorithms on this machine, and advice that makes them effective.

mod paths;

use std::fs;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::algorithm::{Program, is_registered};
use crate::causes::{fill, words};
use crate::pins;
use crate::stalls::{Demand, demand, largest, megabytes};

/// One requirement.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Id of the cause, if it is not met.
    pub id: &'static str,
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
    pub remedy: String,
}

impl Check {
    fn new(id: &'static str, ok: bool, found: impl Into<String>) -> Check {
        let words = words(id);
        Check {
            id,
            what: &words.check,
            ok,
            required: words.required,
            found: found.into(),
            needed_for: &words.needed_for,
            remedy: words.remedy.clone(),
        }
    }

    /// The same with a word of the remedy filled in.
    fn with(mut self, name: &str, value: &str) -> Check {
        self.remedy = fill(&self.remedy, &[(name, value)]);
        self
    }

    /// Whether it is a requirement that this machine does not meet.
    pub fn is_missing(&self) -> bool {
        self.required && !self.ok
    }
}

/// All requirements, in the order in which to fix them, then advice on this network namespace.
pub fn checks() -> Vec<Check> {
    // Without INET_DIAG no connection is known.
    let demand = demand().unwrap_or_default();
    let mut checks = requirements();
    checks.extend(paths::checks());
    checks.extend([
        default(),
        sending_end(&demand),
        unsent_limit(),
        buffers("send-buffer", "tcp_wmem", 4 << 20, &demand),
        buffers("receive-buffer", "tcp_rmem", 6 << 20, &demand),
        fragments(),
    ]);
    checks
}

fn requirements() -> Vec<Check> {
    vec![kernel(), btf(), jit(), permissions(), mptcp(), bpf_fs()]
}

/// Refuses a user who may not load programs.
///
/// # Errors
///
/// With the permissions that are missing, and the remedy.
pub fn ensure_permitted() -> Result<()> {
    let check = permissions();
    ensure!(
        check.ok,
        "{}: {}; {}",
        check.what,
        check.found,
        check.remedy
    );
    Ok(())
}

/// Requirements for loading an algorithm and coupling subflows that are not met, a line each.
pub fn missing() -> Vec<String> {
    missing_but_for(&["load --pin"])
}

/// Likely reason for which the kernel rejected a program, with the remedy.
pub(crate) fn why_rejected() -> String {
    let missing = missing_but_for(&["load --pin", "coupling subflows"]);
    if missing.is_empty() {
        return "--verbose shows the kernel's messages".to_owned();
    }
    missing.join("; ")
}

fn missing_but_for(needs: &[&str]) -> Vec<String> {
    requirements()
        .into_iter()
        .filter(|check| check.is_missing() && !needs.contains(&check.needed_for))
        .map(|check| format!("{}: {}; {}", check.what, check.found, check.remedy))
        .collect()
}

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
    Check::new("old-kernel", version >= (6, 4), release)
}

fn btf() -> Check {
    let path = "/sys/kernel/btf/vmlinux";
    let ok = fs::exists(path).unwrap_or(false);
    let found = if ok {
        path.to_owned()
    } else {
        format!("no {path}")
    };
    Check::new("no-btf", ok, found)
}

fn jit() -> Check {
    let on = read("/proc/sys/net/core/bpf_jit_enable");
    // Not every user may read it; kernels without this key always compile.
    Check::new("no-jit", on != "0", shown("net.core.bpf_jit_enable", &on))
}

fn permissions() -> Check {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = read("/proc/self/status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .unwrap_or_default();
    let held = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
    let has = |bit: u32| held >> bit & 1 == 1;
    // CAP_SYS_ADMIN contains both of the newer ones (capabilities(7)).
    let needed = [
        ("CAP_NET_ADMIN", has(12)),
        ("CAP_PERFMON", has(38) || has(CAP_SYS_ADMIN)),
        ("CAP_BPF", has(39) || has(CAP_SYS_ADMIN)),
    ];
    let missing = needed.iter().filter(|(_, held)| !held);
    let missing: Vec<&str> = missing.map(|&(name, _)| name).collect();
    let found = match missing[..] {
        [] => "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN".to_owned(),
        _ => format!("without {}", missing.join(", ")),
    };
    Check::new("no-permission", missing.is_empty(), found)
}

fn mptcp() -> Check {
    let on = read("/proc/sys/net/mptcp/enabled");
    let found = match &*on {
        "" => "not in this kernel".to_owned(),
        on => format!("net.mptcp.enabled = {on}"),
    };
    Check::new("mptcp-off", on == "1", found)
}

fn bpf_fs() -> Check {
    let problem = pins::problem();
    let state = match problem {
        Some("no-bpf-fs") => "not mounted at",
        Some("read-only-bpf-fs") => "read-only at",
        Some("shared-bpf-fs") => "other users may write in",
        Some(_) => {
            "this mount namespace is private, and pins would be lost with it: not the one at"
        }
        None => "mounted at",
    };
    let found = format!("{state} {}", pins::BPF_FS);
    Check::new(problem.unwrap_or("no-bpf-fs"), problem.is_none(), found)
}

fn default() -> Check {
    let name = read("/proc/sys/net/ipv4/tcp_congestion_control");
    let ours = Program::find(&name).is_some();
    let unloaded = ours && !is_registered(&name).unwrap_or(false);
    let found = match unloaded {
        true => format!("{name}, a program that is unloaded"),
        false => name,
    };
    Check::new("not-default", ours && !unloaded, found)
}

/// Checks at which end the data of the open connections is sent.
fn sending_end(demand: &Demand) -> Check {
    let (sent, received) = (demand.sent, demand.received);
    let found = if demand.connections == 0 {
        "programs here act on what this host sends; a home's downloads are sent by the server"
            .to_owned()
    } else {
        format!(
            "the open connections of Multipath TCP sent {} from here and received {}",
            megabytes(sent),
            megabytes(received)
        )
    };
    Check::new("receives", received <= sent.max(100_000), found)
}

/// Checks the limit of unsent data, which stalls a subflow if it is less than the scheduler assigns
/// at once: up to 64 kB.
fn unsent_limit() -> Check {
    let limit = read("/proc/sys/net/ipv4/tcp_notsent_lowat");
    let low = limit.parse().is_ok_and(|bytes: u64| bytes < 64 << 10);
    Check::new(
        "unsent-limit",
        !low,
        shown("net.ipv4.tcp_notsent_lowat", &limit),
    )
}

/// Checks the size of buffers: a distribution's, what the open connections need at their present
/// rates, and whether one of them waits for a larger one.
fn buffers(id: &'static str, key: &str, usual: u64, demand: &Demand) -> Check {
    let path = format!("/proc/sys/net/ipv4/{key}");
    let size = largest(&path).unwrap_or(0);
    let mut found = shown(&format!("net.ipv4.{key}"), &read(&path));
    if let Some(cause) = demand.causes.iter().find(|cause| cause.id == id) {
        let mut check = Check::new(id, false, format!("{found}; {}", cause.sentence));
        check.remedy = cause.remedy.clone();
        return check;
    }
    // Twice the sum of the rates times the largest RTT is enough.
    let mbps = size as f64 * 8e-6 / 2.0 / 0.1;
    found +=
        &format!("; enough for {mbps:.0} Mbps in sum at a largest RTT of 100 ms, half at 200 ms");
    if demand.buffer > 0 {
        let (mbps, ms) = (demand.rate * 8e-6, demand.delay_s * 1e3);
        let needed = megabytes(demand.buffer);
        found += &format!("; an open connection of {mbps:.0} Mbps and {ms:.0} ms needs {needed}");
    }
    let needed = usual.max(demand.buffer);
    Check::new(id, size >= needed, found).with("needed", &needed.to_string())
}

/// Checks for pages of high order. Without them the scheduler assigns 4 kB as a unit instead of 32
/// kB.
fn fragments() -> Check {
    let disabled = read("/proc/sys/net/core/high_order_alloc_disable");
    let found = shown("net.core.high_order_alloc_disable", &disabled);
    Check::new("fragments", disabled == "1", found)
}
