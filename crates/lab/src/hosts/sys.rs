//! System calls without a safe wrapper in a library: opening a TUN device, setting a real-time
//! priority, and reading the kernel's state of a connection.

use std::io;
use std::mem::size_of;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// The level of Multipath TCP's socket options in Linux.
const SOL_MPTCP: libc::c_int = 284;
/// The option that returns the state of a connection and its subflows at once (Linux 6.5).
const MPTCP_FULL_INFO: libc::c_int = 4;
/// The first 248 bytes of `struct tcp_info`, up to `tcpi_total_rto_time` (Linux 6.7).
const TCP_INFO_BYTES: usize = 248;
/// `struct mptcp_subflow_info`: an id, padding, two socket addresses of 128 bytes each.
const SUBFLOW_INFO_BYTES: usize = 264;
/// More than a connection has: the first subflow and at most 8 others.
const MAX_SUBFLOWS: usize = 16;

/// Opens a TUN device with this name in the network namespace of the calling thread. The kernel
/// removes the device when the descriptor is closed, also by the end of the process.
///
/// # Errors
/// If the process is not privileged, or the system has no `/dev/net/tun`.
///
/// # Panics
/// If the name has more than 15 bytes.
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut request = [0u8; size_of::<libc::ifreq>()];
    assert!(
        name.len() < libc::IFNAMSIZ,
        "device name {name} is too long"
    );
    request[..name.len()].copy_from_slice(name.as_bytes());
    let kind = (libc::IFF_TUN | libc::IFF_NO_PI) as u16;
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

/// The kernel's state of a subflow, or of a plain TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Subflow {
    /// Number of the subflow in its connection; 0 for plain TCP.
    pub id: u32,
    /// The local address; `None` for plain TCP.
    pub local: Option<Ipv4Addr>,
    /// Whether it can transmit data.
    pub open: bool,
    /// Congestion window, packets.
    pub window: u32,
    /// Smoothed round-trip time, us; 0 before it is measured.
    pub rtt_us: u32,
    /// Packets sent that are neither acknowledged nor declared lost.
    pub in_flight: u32,
    /// Retransmission timeouts since it was established.
    pub timeouts: u16,
}

/// The state of a plain TCP socket.
///
/// # Errors
/// The error of the system call.
pub fn tcp_info(socket: &impl AsRawFd) -> io::Result<Subflow> {
    let mut info = [0u8; TCP_INFO_BYTES];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `info`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(subflow(&info, 0, None))
}

/// `struct mptcp_full_info`; this program does not read its last field.
#[repr(C)]
struct FullInfo {
    tcp_info_kernel_bytes: u32,
    tcp_info_bytes: u32,
    subflow_info_kernel_bytes: u32,
    subflow_info_bytes: u32,
    subflows: u32,
    max_subflows: u32,
    subflow_infos: u64,
    tcp_infos: u64,
    /// `struct mptcp_info`, with room to grow.
    mptcp_info: [u64; 16],
}

/// The state of each subflow of a Multipath TCP socket; `None` if it has fallen back to plain TCP:
/// then use [`tcp_info`].
///
/// # Errors
/// The error of the system call.
pub fn mptcp_info(socket: &impl AsRawFd) -> io::Result<Option<Vec<Subflow>>> {
    let mut tcp_infos = [[0u8; TCP_INFO_BYTES]; MAX_SUBFLOWS];
    let mut subflow_infos = [[0u8; SUBFLOW_INFO_BYTES]; MAX_SUBFLOWS];
    let mut full = FullInfo {
        tcp_info_kernel_bytes: 0,
        tcp_info_bytes: TCP_INFO_BYTES as u32,
        subflow_info_kernel_bytes: 0,
        subflow_info_bytes: SUBFLOW_INFO_BYTES as u32,
        subflows: 0,
        max_subflows: MAX_SUBFLOWS as u32,
        subflow_infos: subflow_infos.as_mut_ptr() as u64,
        tcp_infos: tcp_infos.as_mut_ptr() as u64,
        mptcp_info: [0; 16],
    };
    let mut length = size_of::<FullInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes of `full`, and at most `max_subflows`
    // elements of the sizes given to each array; the arrays have that many of that size and
    // outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_MPTCP,
            MPTCP_FULL_INFO,
            (&raw mut full).cast(),
            &mut length,
        )
    };
    if result < 0 {
        return match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            error => Err(error),
        };
    }
    let count = (full.subflows as usize).min(MAX_SUBFLOWS);
    let infos = tcp_infos.iter().zip(&subflow_infos).take(count);
    let subflows = infos.map(|(info, names)| {
        let address = &names[12..16]; // sin_addr of the local address, which begins at 8
        let local = Ipv4Addr::new(address[0], address[1], address[2], address[3]);
        subflow(info, word(names, 0), Some(local))
    });
    Ok(Some(subflows.collect()))
}

/// Reads a `struct tcp_info` at the offsets of its fields, which are part of the kernel's ABI.
fn subflow(info: &[u8; TCP_INFO_BYTES], id: u32, local: Option<Ipv4Addr>) -> Subflow {
    const ESTABLISHED: u8 = 1;
    const CLOSE_WAIT: u8 = 8;
    const FIN_WAIT_1: u8 = 4;
    const LAST_ACK: u8 = 9;
    let [unacked, sacked, lost, retransmitted] = [24, 28, 32, 36].map(|at| word(info, at));
    Subflow {
        id,
        local,
        open: [ESTABLISHED, CLOSE_WAIT, FIN_WAIT_1, LAST_ACK].contains(&info[0]),
        window: word(info, 80),
        rtt_us: word(info, 68),
        in_flight: (unacked + retransmitted).saturating_sub(sacked + lost),
        timeouts: u16::from_ne_bytes([info[240], info[241]]),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
