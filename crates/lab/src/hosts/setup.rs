//! Sets up the hosts: devices, addresses, routes, path manager, kernel parameters.

use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use anabranch_scenario::{Flow, Recovery, RtoFloor, Scenario, Tcp};
use anabranch_sockets::algorithms;

use crate::error::{Context, Error};
use crate::hosts::address;
use crate::hosts::host::{self, Host};
use crate::hosts::sys::open_tun;

/// The name of the server's device.
const SERVER_DEVICE: &str = "paths";
/// Length of a TUN device's queue, packets: more than ever wait there for the forwarder, because
/// packets may be lost only at links.
const DEVICE_PACKETS: u32 = 10_000;
/// Largest amount of unsent payload in a socket's send buffer, bytes: small, so that a workload
/// that pauses stops sending soon.
const UNSENT_BYTES: f64 = 131_072.0;
/// A socket's initial receive buffer, bytes, from which autotuning starts.
const FIRST_RECEIVE_BYTES: u64 = 4 << 20;
/// A socket's initial send buffer, bytes: Linux's default. Multipath TCP's scheduler assigns data
/// to subflows as long as their buffers, not their windows, have room: with a larger buffer the
/// first subflow would get a whole file before the second is established.
const FIRST_SEND_BYTES: u64 = 16 << 10;

/// A user's host and the device of each path.
#[derive(Debug)]
pub struct Client {
    /// The host.
    pub host: Host,
    /// The devices `path0`, `path1`, ..., in the order of the flow's paths.
    pub devices: Vec<OwnedFd>,
}

/// Sets up the host of the user with this index. Programs in it run `algorithm` too.
///
/// # Errors
/// The error of the system or of `ip`, in one line.
pub fn client(
    scenario: &Scenario,
    flow: &Flow,
    user: usize,
    algorithm: &str,
) -> Result<Client, Error> {
    let host = Host::new().context("creating a network namespace")?;
    let devices = host.within(|| {
        let open = |path| open_tun(&device(path)).context("opening a TUN device");
        let devices = (0..flow.paths.len()).map(open).collect::<Result<_, _>>()?;
        parameters(&scenario.tcp)?;
        default_algorithm(algorithm)?;
        host::run_ip(&client_commands(&scenario.tcp, flow, user, algorithm))?;
        Ok(devices)
    })?;
    Ok(Client { host, devices })
}

/// Sets up the server: its host and its device.
///
/// # Errors
/// The error of the system or of `ip`, in one line.
pub fn server(scenario: &Scenario) -> Result<(Host, OwnedFd), Error> {
    let host = Host::new().context("creating a network namespace")?;
    let device = host.within(|| {
        let device = open_tun(SERVER_DEVICE).context("opening a TUN device")?;
        parameters(&scenario.tcp)?;
        host::run_ip(&server_commands(&scenario.tcp))?;
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

/// Every path has a device, an address, and a routing table of its own for packets from that
/// address. Sockets that are not bound use the first path.
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
        .expect("writing to a string can't fail");
        commands += &route_command(tcp, &name, &format!("{source} table {table}"));
        if number == 0 {
            commands += &route_command(tcp, &name, &source);
        }
        // Paths that start later are opened by the agents.
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
    .expect("writing to a string can't fail");
    commands += &route_command(tcp, SERVER_DEVICE, &source);
    if mptcp_available() {
        commands += "mptcp limits set subflows 8 add_addr_accepted 0\n";
    }
    commands
}

fn device_commands(tcp: &Tcp, name: &str) -> String {
    let mtu = tcp.packet_bytes;
    format!("link set dev {name} mtu {mtu} txqueuelen {DEVICE_PACKETS} up\n")
}

/// The route has what Linux defines as route attributes: initial window, initial ssthresh, and the
/// floor of the timeout's variance term. Linux has no floor of the whole timeout: then its own
/// 200 ms stay.
fn route_command(tcp: &Tcp, device: &str, rest: &str) -> String {
    let mut command = format!("route add default dev {device} {rest}");
    write!(command, " initcwnd {}", tcp.initial_window_packets)
        .expect("writing to a string can't fail");
    if tcp.rto_floor == RtoFloor::Variance {
        write!(command, " rto_min {}ms", tcp.min_rto_ms.get().ceil())
            .expect("writing to a string can't fail");
    }
    let ssthresh = tcp.initial_ssthresh_packets.get();
    if ssthresh.is_finite() {
        write!(command, " ssthresh {}", ssthresh.round()).expect("writing to a string can't fail");
    }
    command + "\n"
}

/// Kernel parameters of the calling thread's namespace.
fn parameters(tcp: &Tcp) -> Result<(), Error> {
    // The kernel accounts about twice a packet's size as buffer memory.
    let packets = u64::from(tcp.receive_buffer_packets.get());
    let max = (packets * u64::from(tcp.packet_bytes.get()) * 2).min(i32::MAX as u64);
    let from = |first: u64| format!("4096 {} {max}", first.min(max));
    let (receive, send) = (from(FIRST_RECEIVE_BYTES), from(FIRST_SEND_BYTES));
    let sack = if tcp.recovery != Recovery::NewReno {
        "1"
    } else {
        "0"
    };
    let unsent = tcp.notsent_bytes.get().min(UNSENT_BYTES).ceil().to_string();
    let parameters = [
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        // Connections do not use metrics of earlier ones.
        ("ipv4/tcp_no_metrics_save", "1"),
        ("ipv4/tcp_no_ssthresh_metrics_save", "0"),
        ("ipv4/tcp_sack", sack),
        ("ipv4/tcp_rmem", &receive),
        ("ipv4/tcp_wmem", &send),
        ("ipv4/tcp_notsent_lowat", &unsent),
        // Connections of an ended lab don't linger, which would keep their namespaces alive.
        ("ipv4/tcp_orphan_retries", "1"),
        ("ipv4/tcp_fin_timeout", "1"),
    ];
    for (parameter, value) in parameters {
        host::set_sysctl(parameter, value)?;
    }
    if Path::new("/proc/sys/net/ipv6").exists() {
        host::set_sysctl("ipv6/conf/all/disable_ipv6", "1")?;
    }
    if mptcp_available() {
        host::set_sysctl("mptcp/enabled", "1")?;
    }
    // Links also lose packets of handshakes; Multipath TCP must not fall back because of that.
    for (parameter, value) in [
        ("mptcp/syn_retrans_before_tcp_fallback", "128"), // all SYNs keep the options
        ("mptcp/blackhole_timeout", "0"),
    ] {
        if Path::new("/proc/sys/net").join(parameter).exists() {
            host::set_sysctl(parameter, value)?;
        }
    }
    Ok(())
}

/// Makes an algorithm the namespace's default, for sockets that don't choose one. The kernel
/// rejects a restricted algorithm and then leaks a reference to it. So this skips restricted
/// algorithms, and only the routes (`congctl`) determine what sockets run.
fn default_algorithm(name: &str) -> Result<(), Error> {
    if algorithms::unrestricted()
        .context("the kernel's algorithms")?
        .iter()
        .any(|known| known == name)
    {
        host::set_sysctl("ipv4/tcp_congestion_control", name)?;
    }
    Ok(())
}

/// Whether this kernel has Multipath TCP.
pub fn mptcp_available() -> bool {
    Path::new("/proc/sys/net/mptcp/enabled").exists()
}
