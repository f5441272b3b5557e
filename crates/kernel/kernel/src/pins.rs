//! Registrations: programs of ours that are registered or still in use, and pins in the BPF file
//! system, by which they outlive the process that made them.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::query::{
    LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter, ProgInfoQueryOptions, ProgramInfo,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, ProgramType};
use rustix::process::geteuid;
use serde::Serialize;

use crate::algorithm::{PROGRAMS, Program, is_registered};

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

// Programs of ours in the kernel: registered, or still in use.

/// One of our algorithms in the kernel: registered now, or replaced or unloaded while sockets or
/// network namespaces still use it.
#[derive(Clone, Debug, Serialize)]
pub struct Registration {
    /// The name of the algorithm.
    pub name: &'static str,
    /// Whether the registration outlives the process that loaded it.
    pub pinned: bool,
    /// Whether the algorithm's name means this program.
    pub registered: bool,
    /// The algorithm with the parameters that differ from their defaults: `vegas_k:kappa=3`. `None`
    /// if unknown: loaded by a version that did not record it.
    pub parameters: Option<String>,
    /// The version of anabranch-kernel that loaded it; `None` if unknown.
    pub version: Option<String>,
    /// Id of its struct_ops map, by which [`Subflow`](crate::Subflow) and
    /// [`Namespace`](crate::Namespace) refer to it.
    pub id: u32,
}

/// Our algorithms in the kernel. Empty without CAP_SYS_ADMIN, which the kernel requires to list BPF
/// objects.
pub fn registrations() -> Vec<Registration> {
    let linked: Vec<u32> = LinkInfoIter::default()
        .filter_map(|link| match link.info {
            LinkTypeInfo::StructOps(info) => Some(info.map_id),
            _ => None,
        })
        .collect();
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let programs: Vec<ProgramInfo> = ProgInfoIter::with_query_opts(options)
        .filter(|program| program.ty == ProgramType::StructOps)
        .collect();
    let pinned = pinned().unwrap_or_default();
    MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps)
        .filter_map(|map| {
            let name = Program::find(map.name.to_str()?)?.name;
            let (version, parameters) = about(map.id, &programs).unzip();
            let registered = linked.contains(&map.id);
            Some(Registration {
                name,
                pinned: registered && pinned.contains(&name),
                registered,
                parameters,
                version,
                id: map.id,
            })
        })
        .collect()
}

/// Version and algorithm that `load` wrote into `about` of `bpf/coupled.bpf.c`. The value of the
/// struct_ops map has the ids of its programs, and these have `about` among their maps.
fn about(id: u32, programs: &[ProgramInfo]) -> Option<(String, String)> {
    let lookup = |id| {
        let map = MapHandle::from_map_id(id).ok()?;
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        Some((map, value))
    };
    let (_, value) = lookup(id)?;
    let is_word = |id: u32| {
        let word = u64::from(id).to_ne_bytes();
        value.chunks_exact(8).any(|chunk| chunk == word)
    };
    let ours = programs.iter().find(|program| is_word(program.id))?;
    let mut maps = ours.map_ids.iter().filter_map(|&id| lookup(id));
    let (_, text) = maps.find(|(map, _)| map.name() == ".rodata.about")?;
    let text = text.split(|&byte| byte == 0).next()?;
    let (version, parameters) = str::from_utf8(text).ok()?.split_once(' ')?;
    Some((version.to_owned(), parameters.to_owned()))
}
