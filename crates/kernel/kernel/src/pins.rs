//! Pins in the BPF file system, by which registrations outlive the process that made them.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::MapHandle;
use rustix::process::geteuid;

use crate::algorithm::{PROGRAMS, Program};
use crate::causes::words;

/// Mount point of the BPF file system.
pub const BPF_FS: &str = "/sys/fs/bpf";

/// Problem of the BPF file system for pins, as the id of a cause; `None` if there is none.
///
/// It is to be mounted for root alone: with the kernel's default, mode 1777, another user could
/// create the directory of the pins first.
pub(crate) fn problem() -> Option<&'static str> {
    if is_private() {
        return Some("private-bpf-fs");
    }
    let Some(options) = mount_options("/proc/self/mounts") else {
        return Some("no-bpf-fs");
    };
    if options.split(',').any(|option| option == "ro") {
        return Some("read-only-bpf-fs");
    }
    is_writable_by_others(Path::new(BPF_FS)).then_some("shared-bpf-fs")
}

/// The options with which the BPF file system is mounted. The last mount hides earlier ones.
fn mount_options(mounts: &str) -> Option<String> {
    let mounts = fs::read_to_string(mounts).ok()?;
    let mut fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.rfind(|fields| fields.get(1) == Some(&BPF_FS))?;
    (mount.get(2) == Some(&"bpf")).then(|| mount.get(3).unwrap_or(&"").to_string())
}

/// Whether this process is in a mount namespace of its own, as in `ip netns exec`, that has another
/// BPF file system than the first process or none: pins there vanish with the namespace. A unit of
/// systemd with a private /tmp has the same one. `false` where it cannot be read.
fn is_private() -> bool {
    let inode = |process| fs::metadata(format!("/proc/{process}/ns/mnt")).map(|file| file.ino());
    let (Ok(first), Ok(own)) = (inode("1"), inode("self")) else {
        return false;
    };
    let device = |root| fs::metadata(format!("{root}{BPF_FS}")).map(|file| file.dev());
    let same = || match (device(FIRST_ROOT), device("")) {
        (Ok(first), Ok(own)) => first == own,
        _ => false,
    };
    first != own && (mount_options("/proc/self/mounts").is_none() || !same())
}

/// The root directory of the first process.
const FIRST_ROOT: &str = "/proc/1/root";

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

pub(crate) fn is_pinned(name: &str) -> Result<bool> {
    let link = path(name, "link");
    link.try_exists()
        .with_context(|| format!("cannot look for {}", link.display()))
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
    pins().join(name).join(what)
}

/// The directory of all pins: in `ip netns exec` that of the first process.
fn pins() -> PathBuf {
    let root = if is_private() { FIRST_ROOT } else { "" };
    PathBuf::from(format!("{root}{BPF_FS}")).join("anabranch")
}

/// Refuses to pin where the pins would be lost, or cannot be made.
///
/// # Errors
///
/// If the BPF file system is not mounted, is read-only, or only in this mount namespace.
pub fn ensure_possible() -> Result<()> {
    let refused = |id, why: &str| bail!("{why}: {}", words(id).remedy);
    match problem() {
        Some(id @ "private-bpf-fs") => refused(
            id,
            "a pin would be lost when this command ends, because /sys/fs/bpf is of this mount \
             namespace only",
        ),
        Some(id @ "no-bpf-fs") => refused(id, &format!("{BPF_FS} is not mounted")),
        Some(id @ "read-only-bpf-fs") => refused(id, &format!("{BPF_FS} is read-only")),
        _ => Ok(()),
    }
}

/// Creates an empty directory for the pins of an algorithm.
pub(crate) fn prepare(name: &str) -> Result<()> {
    ensure_possible()?;
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
    let pins = pins();
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
pub(crate) fn clear(name: &str) -> Result<()> {
    let directory = path(name, "");
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", directory.display()));
        }
        _ => {}
    }
    // Fails while other algorithms are pinned.
    let _ = fs::remove_dir(pins());
    Ok(())
}
