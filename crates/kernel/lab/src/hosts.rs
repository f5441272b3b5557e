//! The hosts: network namespaces, their devices and addresses, and programs that run in them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io, thread};

use anabranch_scenario::{
    DISTRIBUTIONS_RMEM_MAX_BYTES, Ecn, Flow, Recovery, RtoFloor, Scenario, Tcp,
};
use anabranch_sockets::algorithms;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::error::{Context, Error};

// A host: an unnamed network namespace that exists as long as a descriptor of it is open.
//
// Nothing has to be cleaned up. When the process ends, for whatever reason, the kernel closes its
// descriptors, and removes the TUN devices, the sockets, and then the namespaces.

/// A network namespace that the lab created.
#[derive(Debug)]
pub struct Host(OwnedFd);

impl Host {
    /// Creates a network namespace without any configuration.
    ///
    /// # Errors
    /// If this process may not create namespaces.
    pub fn new() -> io::Result<Host> {
        // The thread enters it and ends; the descriptor keeps it alive.
        in_new_thread(|| {
            // SAFETY: only the network namespace of this thread changes; memory and descriptors
            // stay shared with the other threads.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
            Ok(Host(File::open("/proc/thread-self/ns/net")?.into()))
        })
    }

    /// The host with this namespace.
    pub fn from_fd(namespace: OwnedFd) -> Host {
        Host(namespace)
    }

    /// Moves the calling thread into the host: sockets that it opens and processes that it starts
    /// from now on belong to the host.
    ///
    /// # Errors
    /// If this process may not enter namespaces.
    pub fn enter(&self) -> io::Result<()> {
        let kind = Some(LinkNameSpaceType::Network);
        Ok(rustix::thread::move_into_link_name_space(
            self.0.as_fd(),
            kind,
        )?)
    }

    /// Runs `act` in the host, in a new thread.
    ///
    /// # Errors
    /// If the host can't be entered, and errors of `act`.
    pub fn within<T: Send>(
        &self,
        act: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        in_new_thread(|| {
            self.enter().context("entering a network namespace")?;
            act()
        })
    }
}

impl AsFd for Host {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Host {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

fn in_new_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| match scope.spawn(act).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Runs a list of commands of `ip` (iproute2) in the namespace of the calling thread; `family` is
/// its option, `-4` or `-6`.
///
/// # Errors
/// The error message of `ip`, in one line.
pub fn run_ip(family: &str, commands: &str) -> Result<(), Error> {
    let mut ip = Command::new("ip")
        .args([family, "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting ip (install iproute2)")?;
    let mut stdin = ip.stdin.take().expect("stdin is piped");
    stdin.write_all(commands.as_bytes()).context("ip")?;
    drop(stdin);
    let output = ip.wait_with_output().context("ip")?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = message.split_whitespace().collect();
    Err(Error::new(format!("ip: {}", words.join(" "))))
}

/// Sets a kernel parameter under `/proc/sys/net` in the namespace of the calling thread.
///
/// # Errors
/// If this kernel does not have the parameter or rejects the value.
pub fn set_sysctl(parameter: &str, value: &str) -> Result<(), Error> {
    let file = Path::new("/proc/sys/net").join(parameter);
    fs::write(&file, value).context(format_args!("{} = {value}", file.display()))
}

// Sets up the hosts: devices, addresses, routes, path manager, kernel parameters.

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
    address: |address| to_ipv6(address).into(),
    flags: "/128 nodad",
    hosts: IPV6_HOSTS,
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
        run_ip("-4", &client_commands(tcp, flow, user, algorithm))?;
        if has_ipv6(tcp) {
            run_ip("-6", &client_routes(tcp, flow, user, algorithm, &IPV6))?;
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
        run_ip("-4", &server_commands(&scenario.tcp))?;
        if has_ipv6(&scenario.tcp) {
            run_ip("-6", &server_routes(&scenario.tcp, &IPV6))?;
        }
        Ok(device)
    })?;
    Ok((host, device))
}

/// The command that opens a path in its user's host.
pub fn open_path(user: usize, path: usize) -> String {
    let (device, address) = (device(path), of_path(user, path));
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
        let own = (family.address)(of_path(user, number));
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
    let own = (family.address)(SERVER);
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
        set_sysctl(parameter, value)?;
    }
    set_ecn(tcp.ecn)?;
    if mptcp_available() {
        set_sysctl("mptcp/enabled", "1")?;
    }
    // Links also lose packets of handshakes; Multipath TCP must not fall back because of that.
    for (parameter, value) in [
        ("mptcp/syn_retrans_before_tcp_fallback", "128"), // all SYNs keep the options
        ("mptcp/blackhole_timeout", "0"),
    ] {
        if Path::new("/proc/sys/net").join(parameter).exists() {
            set_sysctl(parameter, value)?;
        }
    }
    Ok(())
}

/// Sets whether connections of the calling thread's namespace use ECN.
fn set_ecn(ecn: Ecn) -> Result<(), Error> {
    let value = match ecn {
        Ecn::Off => "0",
        Ecn::Classic => "1",
        Ecn::Accurate => "3",
    };
    let set = set_sysctl("ipv4/tcp_ecn", value);
    match ecn {
        Ecn::Accurate => set.map_err(|_| {
            Error::new(
                "tcp.ecn: \"accurate\" is not available on this kernel, which refuses \
                 net.ipv4.tcp_ecn = 3; set it to true, or run it with --on sim or quic",
            )
        }),
        _ => set,
    }
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
        set_sysctl("ipv4/tcp_congestion_control", name)?;
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

// Addresses of the hosts: 10.a.b.p is path p - 1 of user 256 a + b, and the server is
// 10.255.255.254. With IPv6 they are fd00::10.a.b.p and fd00::10.255.255.254. They exist only in
// the lab's own namespaces.

/// The server, which every user sends to.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 254);

/// The address that the server listens on.
pub const LISTENER: SocketAddrV4 = SocketAddrV4::new(SERVER, 5001);

/// The largest number of users: 10.255.x.x is reserved for the server.
pub const MAX_USERS: usize = 255 << 8;

/// The largest number of paths of a user: the first, and 8 that the kernel's path manager adds.
pub const MAX_PATHS: usize = 9;

/// The user's address on a path.
pub fn of_path(user: usize, path: usize) -> Ipv4Addr {
    debug_assert!(user < MAX_USERS && path < MAX_PATHS);
    Ipv4Addr::new(10, (user >> 8) as u8, user as u8, path as u8 + 1)
}

/// All IPv6 addresses of hosts.
pub const IPV6_HOSTS: &str = "fd00::/96";

/// The same host's IPv6 address.
pub fn to_ipv6(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let [high, low] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, high, low)
}

/// The same host's IPv4 address; `None` if it is no host's address.
pub fn from_ipv6(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = address.octets()[12..].try_into().map(<[u8; 4]>::into);
    low.ok().filter(|&low| to_ipv6(low) == address)
}

/// The user and the path that an address belongs to.
pub fn path_of(address: Ipv4Addr) -> Option<(usize, usize)> {
    match address.octets() {
        [10, high, low, path] if high < 255 && path > 0 => Some((
            usize::from(high) << 8 | usize::from(low),
            usize::from(path) - 1,
        )),
        _ => None,
    }
}

// The kernel's congestion control that each flow runs.

/// The kernel's name of each flow's algorithm. Flows without an algorithm of their own run `chosen`
/// if it is given: any algorithm of the kernel, also one that only the kernel has (`bbr`).
///
/// # Errors
/// If an algorithm has parameters, or is not registered in the kernel.
pub fn of_flows(scenario: &Scenario, chosen: Option<&str>) -> Result<Vec<String>, Error> {
    let registered = algorithms::available().context("the kernel's algorithms")?;
    let flows = scenario.flows.iter().enumerate();
    flows
        .map(|(index, flow)| {
            let wanted = match chosen {
                Some(name) if !scenario.has_own_algorithm(index) => name.to_owned(),
                _ => flow.algorithm.to_string(),
            };
            algorithms::kernel_name(&wanted, &registered)
                .map_err(|error| Error::new(error.to_string()))
        })
        .collect()
}

// System calls without a safe wrapper in a library: opening a TUN device, with offloads or
// without, and setting a real-time priority.

/// Opens a TUN device with this name in the network namespace of the calling thread. The kernel
/// removes the device when the descriptor is closed, also by the end of the process.
///
/// # Errors
/// If the process is not privileged, or the system has no `/dev/net/tun`.
///
/// # Panics
/// If the name has more than 15 bytes.
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    open(name, 0)
}

/// As [`open_tun`], but a `virtio_net_hdr` precedes each packet that is read or written
/// (network/offload.rs), and the host leaves the checksums of TCP and UDP to the reader. The host
/// still segments by itself: no packet that is read is larger than the MTU.
pub(crate) fn open_tun_with_offload(name: &str) -> io::Result<OwnedFd> {
    let tun = open(name, libc::IFF_VNET_HDR)?;
    let offloads = libc::c_ulong::from(libc::TUN_F_CSUM);
    // SAFETY: the argument of TUNSETOFFLOAD is a number; the call accesses no memory of ours.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(tun)
}

fn open(name: &str, options: libc::c_int) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut request = [0u8; size_of::<libc::ifreq>()];
    assert!(
        name.len() < libc::IFNAMSIZ,
        "device name {name} is too long"
    );
    request[..name.len()].copy_from_slice(name.as_bytes());
    let kind = (libc::IFF_TUN | libc::IFF_NO_PI | options) as u16;
    request[libc::IFNAMSIZ..][..2].copy_from_slice(&kind.to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, and `request` has its size; its name
    // is shorter than IFNAMSIZ, so it ends with a 0, and its flags come right after the name.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(tun)
}

/// Gives the calling thread a real-time priority (`SCHED_FIFO`): it preempts all other threads as
/// soon as it is woken.
///
/// # Errors
/// If the process is not privileged.
pub fn set_realtime_priority() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads one `sched_param`, which outlives it; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_identifies_its_user_and_path() {
        for user in [0, 1, 255, 256, MAX_USERS - 1] {
            for path in 0..MAX_PATHS {
                let address = of_path(user, path);
                assert_eq!(path_of(address), Some((user, path)));
                assert_eq!(from_ipv6(to_ipv6(address)), Some(address));
            }
        }
        assert_eq!(of_path(258, 1), Ipv4Addr::new(10, 1, 2, 2));
    }

    #[test]
    fn other_addresses_belong_to_no_user() {
        for other in [SERVER, Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::LOCALHOST] {
            assert_eq!(path_of(other), None);
        }
        for other in [Ipv6Addr::LOCALHOST, "ff02::16".parse().unwrap()] {
            assert_eq!(from_ipv6(other), None);
        }
    }
}
