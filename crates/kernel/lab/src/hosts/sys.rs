//! System calls without a safe wrapper in a library: opening a TUN device, with offloads or
//! without, and setting a real-time priority.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

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
