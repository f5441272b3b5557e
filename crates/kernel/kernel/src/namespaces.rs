//! The network namespaces of this machine and their default congestion control.
//!
//! A network namespace holds a reference to the program that was registered when its default was
//! set, not to the name: its new sockets continue to use a program that has been replaced or
//! unloaded, until the default is set again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore, MapFlags, ObjectBuilder, ProgramInput};
use rustix::fs::{FsWord, Mode, OFlags, fstatfs, open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Serialize;

use crate::algorithm::{Program, is_registered, unrestricted};
use crate::connections::name_of;
use crate::doctor::why_rejected;
use crate::registrations::registrations;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/namespaces.o"));
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// A network namespace whose default congestion control is one of our algorithms.
#[derive(Clone, Debug, Serialize)]
pub struct Namespace {
    /// Inode number, as `ls -l /proc/PID/ns/net` and `lsns` show it.
    pub inode: u64,
    /// The name of its default congestion control.
    pub algorithm: String,
    /// Program that its new sockets run: the id of a [`Registration`](crate::Registration).
    pub registration: u32,
    /// A file that refers to it; `None` if it has neither a process nor a name, nor a descriptor.
    pub path: Option<PathBuf>,
}

/// The network namespaces of the kernel whose default is one of our algorithms. Needs CAP_BPF and
/// CAP_PERFMON; paths of processes need CAP_SYS_PTRACE.
///
/// # Errors
///
/// If the kernel rejects the program that lists them.
pub fn namespaces() -> Result<Vec<Namespace>> {
    let mut ours = list()
        .with_context(|| format!("cannot list the network namespaces: {}", why_rejected()))?;
    ours.retain(|namespace| Program::find(&namespace.algorithm).is_some());
    if !ours.is_empty() {
        let mut paths = paths();
        for namespace in &mut ours {
            namespace.path = paths.remove(&namespace.inode);
        }
    }
    Ok(ours)
}

/// Namespaces whose new sockets run another program than the one registered under its name.
///
/// # Errors
///
/// As [`namespaces`].
pub fn outdated() -> Result<Vec<Namespace>> {
    let registrations = registrations();
    let present = |id| {
        registrations
            .iter()
            .any(|one| one.registered && one.id == id)
    };
    let mut outdated = namespaces()?;
    outdated.retain(|namespace| !present(namespace.registration));
    Ok(outdated)
}

/// Sets the default again in every network namespace whose default is an earlier program of this
/// name. Returns those in which that is impossible: without a path, or for lack of permission.
///
/// # Errors
///
/// As [`namespaces`].
pub fn refresh(name: &str) -> Result<Vec<Namespace>> {
    let of_name = |mut namespaces: Vec<Namespace>| {
        namespaces.retain(|namespace| namespace.algorithm == name);
        namespaces
    };
    let before = of_name(outdated()?);
    if before.is_empty() {
        return Ok(before);
    }
    for namespace in &before {
        // A default that could not be set is still outdated, unless the namespace is gone.
        let _ = namespace.set_default();
    }
    Ok(of_name(outdated()?))
}

impl Namespace {
    /// Sets the namespace's default again, unless its path leads to another namespace by now.
    fn set_default(&self) -> Result<()> {
        let path = self.path.as_ref().context("no path")?;
        let file = open_namespace(path)?;
        ensure!(file.metadata()?.ino() == self.inode, "another namespace");
        set_default_of(&file, &self.algorithm)
    }
}

/// Sets the default congestion control of a network namespace, by default this process's. Needs
/// CAP_NET_ADMIN, and CAP_SYS_ADMIN to enter another.
///
/// # Errors
///
/// If no congestion control has this name, if the path is no network namespace, or if permission is
/// missing.
pub fn set_default(name: &str, namespace: Option<&Path>) -> Result<()> {
    let remedy = || match Program::find(name) {
        Some(_) => format!(": anabranch-kernel load {name} --pin"),
        None => Program::did_you_mean(name).unwrap_or_default(),
    };
    ensure!(is_registered(name)?, "{name} is not registered{}", remedy());
    let Some(path) = namespace else {
        return write_default(name);
    };
    let set = open_namespace(path).and_then(|file| set_default_of(&file, name));
    set.with_context(|| format!("in the network namespace {}", path.display()))
}

fn write_default(name: &str) -> Result<()> {
    fs::write(DEFAULT, name).with_context(|| match unrestricted() {
        Ok(names) if !names.iter().any(|other| other == name) => format!(
            "{name} is restricted: only the first network namespace may use it by default, \
             others {}",
            names.join(", ")
        ),
        _ => format!("cannot write {DEFAULT}"),
    })
}

fn set_default_of(namespace: &File, name: &str) -> Result<()> {
    // A thread of its own, because it cannot return if the permission to do so is missing.
    let inside = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .context("cannot enter it")?;
        write_default(name)
    };
    thread::scope(|scope| scope.spawn(inside).join()).expect("it does not panic")
}

/// Opens a namespace, and no other file: the path may be a descriptor that its owner exchanges
/// meanwhile, and opening a FIFO waits, opening a device may have effects.
fn open_namespace(path: &Path) -> Result<File> {
    /// The file system of namespaces (linux/magic.h).
    const NSFS_MAGIC: FsWord = 0x6e73_6673;
    // O_PATH refers to a file without opening it, and the own descriptor is not exchanged.
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let is_namespace = fstatfs(&found)?.f_type == NSFS_MAGIC;
    ensure!(is_namespace, "it is no namespace");
    let own = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(File::open(own)?)
}

/// The path of a network namespace: `blue` is `/run/netns/blue`, as with `ip netns`.
pub fn path_of(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// `struct entry` of `bpf/namespaces.bpf.c`: the registration, the name.
const ENTRY: usize = 20;

fn list() -> Result<Vec<Namespace>> {
    let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
    let program = object.progs_mut().next().context("no program")?;
    program.test_run(ProgramInput::default())?;
    let map = object.maps().find(|map| map.name() == "namespaces");
    let map = map.context("no map")?;
    let mut found = Vec::new();
    for key in map.keys() {
        let value = map.lookup(&key, MapFlags::ANY)?.context("no entry")?;
        let inode: [u8; 4] = key[..].try_into()?;
        let value: [u8; ENTRY] = value[..].try_into()?;
        let (registration, name) = value.split_at(4);
        found.push(Namespace {
            inode: u32::from_ne_bytes(inode).into(),
            algorithm: name_of(name),
            registration: u32::from_ne_bytes(registration.try_into()?),
            path: None,
        });
    }
    found.sort_by_key(|namespace| namespace.inode);
    Ok(found)
}

/// A path for each network namespace that has one, by inode number: namespaces of this process,
/// mounted ones, of other processes and threads, and held by a descriptor of a process.
fn paths() -> BTreeMap<u64, PathBuf> {
    let mut paths = BTreeMap::new();
    let mut add = |path: PathBuf, inode| {
        paths.entry(inode).or_insert(path);
    };
    for path in mounted().into_iter().chain(["/proc/self/ns/net".into()]) {
        if let Ok(file) = fs::metadata(&path) {
            add(path, file.ino());
        }
    }
    let is_number = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.parse::<u32>().is_ok())
    };
    let numbered = |path: &Path| entries(path).into_iter().filter(is_number);
    let processes: Vec<PathBuf> = numbered(Path::new("/proc")).collect();
    for process in &processes {
        for thread in numbered(&process.join("task")) {
            let path = thread.join("ns/net");
            if let Some(inode) = inode_of(&path) {
                add(path, inode);
            }
        }
    }
    for process in &processes {
        for path in entries(&process.join("fd")) {
            if let Some(inode) = inode_of(&path) {
                add(path, inode);
            }
        }
    }
    paths
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The inode number in a link of /proc to a network namespace: `net:[4026531833]`.
fn inode_of(link: &Path) -> Option<u64> {
    let target = fs::read_link(link).ok()?;
    let number = target.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// Paths at which network namespaces are mounted, as `ip netns` and container engines do.
fn mounted() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // "512 25 0:4 net:[4026532177] /run/netns/blue rw shared:5 - nsfs nsfs rw"
    let fields = |line: &str| -> Option<PathBuf> {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        root.starts_with("net:[").then(|| point.into())
    };
    mounts.lines().filter_map(fields).collect()
}
