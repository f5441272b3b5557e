//! What is set up within each host: devices, addresses, routes, path manager, kernel parameters.

use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use anabranch_scenario::{Flow, Recovery, Scenario, Tcp};

use crate::error::{Context, Error};
use crate::hosts::address;
use crate::hosts::algorithms;
use crate::hosts::host::{self, Host};
use crate::hosts::sys::open_tun;

/// The name of the server's device.
const SERVER_DEVICE: &str = "paths";
/// Packets that a TUN device holds until the forwarder takes them: more than ever wait there, for
/// nothing may be lost but on a link.
const DEVICE_PACKETS: u32 = 10_000;
/// Payload that the kernel takes in before it is sent, beyond what is in flight, bytes: a workload
/// that falls silent is silent soon.
const UNSENT_BYTES: u32 = 128 << 10;
/// A socket's first receive buffer, bytes; what autotuning starts from.
const FIRST_RECEIVE_BYTES: u64 = 4 << 20;
/// A socket's first send buffer, bytes: Linux's own. Multipath TCP deals data out to subflows as far as their
/// buffers take it, not their windows: with more, the first would have a whole file before the second is there.
const FIRST_SEND_BYTES: u64 = 16 << 10;

/// A user: its host and the device of each path.
#[derive(Debug)]
pub struct Client {
    /// The host.
    pub host: Host,
    /// The devices `path0`, `path1`, ..., in the order of the flow's paths.
    pub devices: Vec<OwnedFd>,
}

/// Sets up the host of the user with this index. Programs there run `algorithm` too.
///
/// # Errors
/// What the system refuses, in one line.
pub fn client(
    scenario: &Scenario,
    flow: &Flow,
    user: usize,
    algorithm: &str,
) -> Result<Client, Error> {
    let host = Host::new().context("making a network namespace")?;
    let devices = host.within(|| {
        let open = |path| open_tun(&device(path)).context("opening a TUN device");
        let devices = (0..flow.paths.len()).map(open).collect::<Result<_, _>>()?;
        parameters(&scenario.tcp)?;
        default_algorithm(algorithm)?;
        host::ip(&client_commands(&scenario.tcp, flow, user, algorithm))?;
        Ok(devices)
    })?;
    Ok(Client { host, devices })
}

/// Sets up the server: its host and its device.
///
/// # Errors
/// What the system refuses, in one line.
pub fn server(scenario: &Scenario) -> Result<(Host, OwnedFd), Error> {
    let host = Host::new().context("making a network namespace")?;
    let device = host.within(|| {
        let device = open_tun(SERVER_DEVICE).context("opening a TUN device")?;
        parameters(&scenario.tcp)?;
        host::ip(&server_commands(&scenario.tcp))?;
        Ok(device)
    })?;
    Ok((host, device))
}

/// The command that opens a path in its user's host.
pub fn open_path(user: usize, path: usize) -> String {
    let (device, address) = (device(path), address::of_path(user, path));
    format!(
        "mptcp endpoint add {address} id {} dev {device} subflow\n",
        path + 1
    )
}

fn device(path: usize) -> String {
    format!("path{path}")
}

/// Every path has a device, an address, and a routing table of its own that packets from that
/// address take. The first path is what a socket uses that is not bound.
fn client_commands(tcp: &Tcp, flow: &Flow, user: usize, algorithm: &str) -> String {
    let mut commands = "link set lo up\n".to_owned();
    for (number, path) in flow.paths.iter().enumerate() {
        let (name, address) = (device(number), address::of_path(user, number));
        commands += &device_commands(tcp, &name);
        let table = number + 1;
        let source = format!("src {address} congctl {algorithm}");
        write!(
            commands,
            "address add {address}/32 dev {name}\n\
             rule add from {address} table {table}\n"
        )
        .expect("a string takes it");
        commands += &route_command(tcp, &name, &format!("{source} table {table}"));
        if number == 0 {
            commands += &route_command(tcp, &name, &source);
        }
        // Later paths are opened in their time, by the agents.
        if number > 0 && path.start_s.get() == 0.0 {
            commands += &open_path(user, number);
        }
    }
    if flow.paths.len() > 1 {
        commands += "mptcp limits set subflows 8 add_addr_accepted 0\n";
    }
    commands
}

fn server_commands(tcp: &Tcp) -> String {
    let quick = if tcp.delayed_acks { "" } else { " quickack 1" };
    let source = format!("src {}{quick}", address::SERVER);
    let mut commands = "link set lo up\n".to_owned();
    commands += &device_commands(tcp, SERVER_DEVICE);
    writeln!(
        commands,
        "address add {}/32 dev {SERVER_DEVICE}",
        address::SERVER
    )
    .expect("a string takes it");
    commands += &route_command(tcp, SERVER_DEVICE, &source);
    if multipath_is_there() {
        commands += "mptcp limits set subflows 8 add_addr_accepted 0\n";
    }
    commands
}

fn device_commands(tcp: &Tcp, name: &str) -> String {
    let mtu = tcp.packet_bytes;
    format!("link set dev {name} mtu {mtu} txqueuelen {DEVICE_PACKETS} up\n")
}

/// The route carries what Linux takes as properties of the way: first window, first slow-start
/// threshold, smallest timeout.
fn route_command(tcp: &Tcp, device: &str, rest: &str) -> String {
    let mut command = format!("route add default dev {device} {rest}");
    write!(command, " initcwnd {}", tcp.initial_window_packets).expect("a string takes it");
    write!(command, " rto_min {}ms", tcp.min_rto_ms.get().ceil()).expect("a string takes it");
    let ssthresh = tcp.initial_ssthresh_packets.get();
    if ssthresh.is_finite() {
        write!(command, " ssthresh {}", ssthresh.round()).expect("a string takes it");
    }
    command + "\n"
}

/// Kernel parameters of the calling thread's namespace.
fn parameters(tcp: &Tcp) -> Result<(), Error> {
    // A packet of payload takes up about twice its bytes in the kernel's accounts.
    let packets = u64::from(tcp.receive_buffer_packets.get());
    let most = (packets * u64::from(tcp.packet_bytes.get()) * 2).min(i32::MAX as u64);
    let from = |first: u64| format!("4096 {} {most}", first.min(most));
    let (receive, send) = (from(FIRST_RECEIVE_BYTES), from(FIRST_SEND_BYTES));
    let sack = if tcp.recovery == Recovery::Sack {
        "1"
    } else {
        "0"
    };
    let unsent = UNSENT_BYTES.to_string();
    let parameters = [
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        // No connection learns from the one before it.
        ("ipv4/tcp_no_metrics_save", "1"),
        ("ipv4/tcp_no_ssthresh_metrics_save", "0"),
        ("ipv4/tcp_sack", sack),
        ("ipv4/tcp_rmem", &receive),
        ("ipv4/tcp_wmem", &send),
        ("ipv4/tcp_notsent_lowat", &unsent),
        // Connections of a lab that is gone don't linger, nor their namespaces.
        ("ipv4/tcp_orphan_retries", "1"),
        ("ipv4/tcp_fin_timeout", "1"),
    ];
    for (parameter, value) in parameters {
        host::set(parameter, value)?;
    }
    if Path::new("/proc/sys/net/ipv6").exists() {
        host::set("ipv6/conf/all/disable_ipv6", "1")?;
    }
    if multipath_is_there() {
        host::set("mptcp/enabled", "1")?;
    }
    // Links lose packets, also those that open a connection: no reason to give up on its paths.
    for (parameter, value) in [
        ("mptcp/syn_retrans_before_tcp_fallback", "128"), // as often as there are retransmissions
        ("mptcp/blackhole_timeout", "0"),
    ] {
        if Path::new("/proc/sys/net").join(parameter).exists() {
            host::set(parameter, value)?;
        }
    }
    Ok(())
}

/// Makes an algorithm the namespace's default, for sockets that don't choose. The kernel refuses it
/// where the algorithm is restricted, and then leaks a reference: so it is not tried there, and the
/// routes alone (`congctl`) say what sockets run.
fn default_algorithm(name: &str) -> Result<(), Error> {
    if algorithms::unrestricted()?
        .iter()
        .any(|known| known == name)
    {
        host::set("ipv4/tcp_congestion_control", name)?;
    }
    Ok(())
}

/// Whether this kernel has Multipath TCP.
pub fn multipath_is_there() -> bool {
    Path::new("/proc/sys/net/mptcp/enabled").exists()
}
