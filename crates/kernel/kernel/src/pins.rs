//! Registrations that outlive the process that made them: pins in the BPF file system.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::MapHandle;
use rustix::process::geteuid;

use crate::algorithm::{PROGRAMS, Program};
use crate::registry::is_registered;

/// Mount point of the BPF file system.
pub const BPF_FS: &str = "/sys/fs/bpf";

/// Command that mounts it for root alone: with the kernel's default, mode 1777, another user could
/// create the directory of the pins first.
pub const MOUNT: &str = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf";

/// Whether the BPF file system is mounted.
pub fn is_mounted() -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(BPF_FS) && line.contains(" bpf "))
}

/// The algorithms that are pinned.
///
/// # Errors
///
/// If the pins cannot be listed for lack of permission.
pub fn pinned() -> Result<Vec<&'static str>> {
    let mut pinned = Vec::new();
    for program in PROGRAMS {
        if is_pinned(program.name)? {
            pinned.push(program.name);
        }
    }
    Ok(pinned)
}

fn is_pinned(name: &str) -> Result<bool> {
    let link = path(name, "link");
    link.try_exists()
        .with_context(|| format!("cannot look for {}: run it as root", link.display()))
}

/// Unregisters a pinned algorithm. Sockets that use it keep it until they are closed.
///
/// # Errors
///
/// If it is not pinned, if permission is missing, or if another program holds its link.
pub fn unpin(name: &str) -> Result<()> {
    if !is_pinned(name)? {
        let hint = Program::did_you_mean(name).unwrap_or_default();
        ensure!(is_registered(name)?, "{name} is not loaded{hint}");
        bail!("{name} is not pinned: stop the `anabranch-kernel load` that registered it");
    }
    clear(name)?;
    // The kernel unregisters asynchronously; a `load` right after this must find the name free.
    let start = Instant::now();
    while is_registered(name)? {
        ensure!(
            start.elapsed() < Duration::from_secs(10),
            "{name} is no longer pinned but still registered: another program holds its link"
        );
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The weights of single sockets of the pinned `vegas_k`.
///
/// # Errors
///
/// If `vegas_k` is not pinned, or if permission is missing.
pub fn weights() -> Result<MapHandle> {
    ensure_own()?;
    let name = Program::weighted().name;
    let path = path(name, "weights");
    MapHandle::from_pinned_path(&path)
        .with_context(|| format!("no {}: anabranch-kernel load {name} --pin", path.display()))
}

pub(crate) fn path(name: &str, what: &str) -> PathBuf {
    Path::new(BPF_FS).join("anabranch").join(name).join(what)
}

/// Creates an empty directory for the pins of an algorithm.
pub(crate) fn prepare(name: &str) -> Result<()> {
    ensure!(is_mounted(), "{BPF_FS} is not mounted: {MOUNT}");
    ensure_own()?;
    clear(name)?;
    let directory = path(name, "");
    let mut new = DirBuilder::new();
    let created = new.recursive(true).mode(0o755).create(&directory);
    created.with_context(|| format!("cannot create {}", directory.display()))?;
    // Another user may have been faster.
    ensure_own()
}

/// Refuses the common directory if others may write in it: they could exchange the pins.
pub(crate) fn ensure_own() -> Result<()> {
    let pins = Path::new(BPF_FS).join("anabranch");
    ensure!(
        !is_writable_by_others(&pins),
        "other users may write in {0}: rm -r {0}, and chmod 700 {BPF_FS}",
        pins.display()
    );
    Ok(())
}

/// Whether other users may write in a directory: it belongs to one that is neither root nor this
/// one, or its mode permits it.
pub(crate) fn is_writable_by_others(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|found| {
        let is_own = [0, geteuid().as_raw()].contains(&found.uid());
        !is_own || !found.is_dir() || found.mode() & 0o022 != 0
    })
}

/// Removes the pins of one algorithm, and the common directory if it is then empty.
fn clear(name: &str) -> Result<()> {
    let directory = path(name, "");
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", directory.display()));
        }
        _ => {}
    }
    // Fails while other algorithms are pinned.
    let _ = fs::remove_dir(Path::new(BPF_FS).join("anabranch"));
    Ok(())
}
