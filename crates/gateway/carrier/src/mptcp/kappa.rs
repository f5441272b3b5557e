//! Kappa of one connection's `vegas_k`, its weight: an entry of a map that `anabranch-kernel load
//! vegas_k --pin` pins in the BPF file system. The key is the socket's cookie. The program reads
//! the entry for every path of the connection; the kernel removes it with the last path.
//!
//! Two calls of bpf(2) do, so that the gateway needs neither libbpf nor clang.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anabranch_control::{Scalar, Soft};
use anyhow::Context;

/// The rule that has a kappa.
pub const RULE: &str = "vegas_k";

const PIN: &CStr = c"/sys/fs/bpf/anabranch/vegas_k/weights";

/// Kappa of all connections of the pinned `vegas_k`.
#[derive(Debug)]
pub struct Kappas(OwnedFd);

impl Kappas {
    /// Opens the map.
    ///
    /// # Errors
    /// If `vegas_k` is not pinned, or without CAP_BPF.
    pub fn open() -> anyhow::Result<Kappas> {
        let pin = PIN.to_string_lossy();
        Kappas::open_pin().with_context(|| {
            format!("{pin}: it takes CAP_BPF, and `anabranch-kernel load {RULE} --pin`")
        })
    }

    fn open_pin() -> io::Result<Kappas> {
        /// `union bpf_attr` of `BPF_OBJ_GET`.
        #[repr(C)]
        struct Attributes {
            pathname: u64,
            bpf_fd: u32,
            file_flags: u32,
        }
        const BPF_OBJ_GET: libc::c_int = 7;
        let attributes = Attributes {
            pathname: PIN.as_ptr() as u64,
            bpf_fd: 0,
            file_flags: 0,
        };
        // SAFETY: the path ends with a null byte and is static.
        let fd = unsafe { bpf(BPF_OBJ_GET, &attributes) }?;
        // SAFETY: the kernel has just returned this descriptor, which nothing else owns.
        Ok(Kappas(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sets kappa of the connection with this cookie, packets.
    pub fn set(&self, cookie: u64, kappa: f64) -> io::Result<()> {
        /// `union bpf_attr` of `BPF_MAP_UPDATE_ELEM`.
        #[repr(C)]
        struct Attributes {
            map_fd: u32,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
        let value: u64 = Soft::from_f64(kappa).to_bits();
        let attributes = Attributes {
            map_fd: self.0.as_raw_fd() as u32,
            padding: 0,
            key: &raw const cookie as u64,
            value: &raw const value as u64,
            flags: 0,
        };
        // SAFETY: key and value are u64 as in the map, and outlive the call.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

/// bpf(2).
///
/// # Safety
/// `attributes` must be of the command's type, and their pointers valid for it.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    let attributes: *const T = attributes;
    // SAFETY: by the caller; the kernel reads `size_of::<T>()` bytes.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as libc::c_int)
}
