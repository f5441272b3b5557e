//! Sets up the hosts: devices, addresses, routes, path manager, kernel parameters.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::path::Path;

use anabranch_scenario::{DISTRIBUTIONS_RMEM_MAX_BYTES, Flow, Recovery, RtoFloor, Scenario, Tcp};
use anabranch_sockets::algorithms;

use crate::error::{Context, Error};
use crate::hosts::address;
use crate::hosts::host::{self, Host};
use crate::hosts::sys::open_tun_with_offload;

/// The name of the server's device.
const SERVER_DEVICE: &str = "paths";
/// Length of a TUN device's queue, packets: more than ever wait there for the forwarder, because
/// packets may be lost only at links.
const DEVICE_PACKETS: u32 = 10_000;
/// The smallest MTU with which Linux has IPv6 on a device, bytes (RFC 8200).
const MIN_IPV6_MTU: u32 = 1280;
/// Largest amount of unsent payload in a socket's send buffer, bytes: small, so that a workload
/// that pauses stops sending soon.
const UNSENT_BYTES: f64 = 131_072.0;
/// A socket's initial receive buffer, bytes, from which autotuning starts.
const FIRST_RECEIVE_BYTES: u64 = 4 << 20;
/// A socket's initial send buffer, bytes: Linux's default. Multipath TCP's scheduler assigns data
/// to subflows as long as their buffers, not their windows, have room: with a larger buffer the
/// first subflow would get a whole file before the second is established.
const FIRST_SEND_BYTES: u64 = 16 << 10;

/// Differences of the commands for IPv4 and IPv6.
struct Family {
    /// A host's address of this family.
    address: fn(Ipv4Addr) -> IpAddr,
    /// Flags of an address that is added; IPv6 must not look for duplicates first.
    flags: &'static str,
    /// The destinations of routes.
    hosts: &'static str,
}

const IPV4: Family = Family {
    address: |address| address.into(),
    flags: "/32",
    hosts: "default",
};
const IPV6: Family = Family {
    address: |address| address::to_ipv6(address).into(),
    flags: "/128 nodad",
    hosts: address::IPV6_HOSTS,
};

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
        let open = |path| open_tun_with_offload(&device(path)).context("opening a TUN device");
        let devices = (0..flow.paths.len()).map(open).collect::<Result<_, _>>()?;
        parameters(&scenario.tcp)?;
        default_algorithm(algorithm)?;
        let tcp = &scenario.tcp;
        host::run_ip("-4", &client_commands(tcp, flow, user, algorithm))?;
        if has_ipv6(tcp) {
            host::run_ip("-6", &client_routes(tcp, flow, user, algorithm, &IPV6))?;
        }
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
        let device = open_tun_with_offload(SERVER_DEVICE).context("opening a TUN device")?;
        parameters(&scenario.tcp)?;
        host::run_ip("-4", &server_commands(&scenario.tcp))?;
        if has_ipv6(&scenario.tcp) {
            host::run_ip("-6", &server_routes(&scenario.tcp, &IPV6))?;
        }
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
    for number in 0..flow.paths.len() {
        commands += &device_commands(tcp, &device(number));
    }
    commands += &client_routes(tcp, flow, user, algorithm, &IPV4);
    for (number, path) in flow.paths.iter().enumerate() {
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

fn client_routes(tcp: &Tcp, flow: &Flow, user: usize, algorithm: &str, family: &Family) -> String {
    let mut commands = String::new();
    for number in 0..flow.paths.len() {
        let own = (family.address)(address::of_path(user, number));
        let (name, table) = (device(number), number + 1);
        let source = format!("src {own} congctl {algorithm}");
        write!(
            commands,
            "address add {own}{} dev {name}\n\
             rule add from {own} table {table}\n",
            family.flags
        )
        .expect("writing to a string can't fail");
        let source_table = format!("{source} table {table}");
        commands += &route_command(tcp, family, &name, &source_table);
        if number == 0 {
            commands += &route_command(tcp, family, &name, &source);
        }
    }
    commands
}

fn server_commands(tcp: &Tcp) -> String {
    let mut commands = "link set lo up\n".to_owned();
    commands += &device_commands(tcp, SERVER_DEVICE);
    commands += &server_routes(tcp, &IPV4);
    if mptcp_available() {
        commands += "mptcp limits set subflows 8 add_addr_accepted 0\n";
    }
    commands
}

fn server_routes(tcp: &Tcp, family: &Family) -> String {
    let quick = if tcp.delayed_acks { "" } else { " quickack 1" };
    let own = (family.address)(address::SERVER);
    let source = format!("src {own}{quick}");
    let flags = family.flags;
    format!("address add {own}{flags} dev {SERVER_DEVICE}\n")
        + &route_command(tcp, family, SERVER_DEVICE, &source)
}

fn device_commands(tcp: &Tcp, name: &str) -> String {
    let mtu = tcp.packet_bytes;
    format!("link set dev {name} mtu {mtu} txqueuelen {DEVICE_PACKETS} up\n")
}

/// The route has what Linux defines as route attributes: initial window, initial ssthresh, and the
/// floor of the timeout's variance term. Linux has no floor of the whole timeout: then its own
/// 200 ms stay.
fn route_command(tcp: &Tcp, family: &Family, device: &str, rest: &str) -> String {
    let mut command = format!("route add {} dev {device} {rest}", family.hosts);
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

/// The largest receive and send buffer of a socket, bytes: the third numbers of `tcp_rmem` and
/// `tcp_wmem`. The kernel accounts about twice a packet's size as buffer memory.
pub fn largest_buffers(tcp: &Tcp) -> [u64; 2] {
    let packets = u64::from(tcp.receive_buffer_packets.get());
    let taken = (packets * u64::from(tcp.packet_bytes.get()) * 2).min(i32::MAX as u64);
    let receive = match tcp.rmem_max_bytes.get() {
        f64::INFINITY => DISTRIBUTIONS_RMEM_MAX_BYTES,
        largest => largest,
    };
    [receive, tcp.wmem_max_bytes.get().into()].map(|largest| taken.min(largest as u64))
}

/// A value of `tcp_rmem` or `tcp_wmem`.
fn buffers(first: u64, largest: u64) -> String {
    format!("4096 {} {largest}", first.min(largest))
}

/// Kernel parameters of the calling thread's namespace.
fn parameters(tcp: &Tcp) -> Result<(), Error> {
    let [largest_receive, largest_send] = largest_buffers(tcp);
    let receive = buffers(FIRST_RECEIVE_BYTES, largest_receive);
    let send = buffers(FIRST_SEND_BYTES, largest_send);
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

/// Whether hosts have IPv6.
fn has_ipv6(tcp: &Tcp) -> bool {
    tcp.packet_bytes.get() >= MIN_IPV6_MTU && Path::new("/proc/sys/net/ipv6").exists()
}

/// Whether this kernel has Multipath TCP.
pub fn mptcp_available() -> bool {
    Path::new("/proc/sys/net/mptcp/enabled").exists()
}
