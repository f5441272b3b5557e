//! System calls without a safe wrapper in a library: opening a TUN device and setting a real-time
//! priority.

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
