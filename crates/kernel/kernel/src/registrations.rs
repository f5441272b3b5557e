//! Programs in the kernel under our names: registered or still in use, ours or another program's.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use libbpf_rs::query::{
    LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter, ProgInfoQueryOptions, ProgramInfo,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, ProgramType};
use serde::Serialize;

use crate::algorithm::{PROGRAMS, Program, is_registered};
use crate::pins::{clear, is_pinned, pinned};

/// A program in the kernel under the name of one of our algorithms: registered now, or replaced or
/// unloaded while sockets or network namespaces still use it.
#[derive(Clone, Debug, Serialize)]
pub struct Registration {
    /// The name of the algorithm.
    pub name: &'static str,
    /// Whether the registration outlives the process that loaded it.
    pub pinned: bool,
    /// Whether the algorithm's name means this program.
    pub registered: bool,
    /// Whether another program than anabranch-kernel registered it.
    pub foreign: bool,
    /// The algorithm with the parameters that differ from their defaults: `vegas_k:kappa=3`. `None`
    /// if foreign.
    pub parameters: Option<String>,
    /// The version of anabranch-kernel that loaded it; `None` if foreign.
    pub version: Option<String>,
    /// Paths that it held back since it was loaded; `None` if foreign.
    pub holds: Option<Holds>,
    /// Id of its struct_ops map, by which [`Subflow`](crate::Subflow) and
    /// [`Namespace`](crate::Namespace) refer to it.
    pub id: u32,
    /// Id of the link that registers it; `None` if the map itself is registered.
    #[serde(skip)]
    link: Option<u32>,
}

/// Times at which a program found that a path is to be held back.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Holds {
    /// The path was held back.
    pub begun: u64,
    /// The kernel refused, and the path is used as without hold-back.
    pub refused: u64,
}

impl Holds {
    /// Reads the map `.bss.holds` of `bpf/hold.h`.
    fn read(value: &[u8]) -> Option<Holds> {
        let long = |at: usize| {
            value
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_ne_bytes)
        };
        Some(Holds {
            begun: long(0)?,
            refused: long(8)?,
        })
    }
}

impl Registration {
    /// Names its owner and the command that ends it: that of the link, where there is one.
    pub fn foreign_text(&self) -> String {
        let (name, id) = (self.name, self.id);
        let command = match self.link {
            Some(link) => format!("bpftool link detach id {link}"),
            None => format!("bpftool struct_ops unregister id {id}"),
        };
        format!("{name} belongs to another program (struct_ops map {id}): {command}")
    }
}

/// Programs under the names of our algorithms. Empty without CAP_SYS_ADMIN, which the kernel
/// requires to list BPF objects.
pub fn registrations() -> Vec<Registration> {
    let links: Vec<(u32, u32)> = LinkInfoIter::default()
        .filter_map(|link| match link.info {
            LinkTypeInfo::StructOps(info) => Some((info.map_id, link.id)),
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
            let (_, value) = lookup(map.id).unzip();
            // The name in the kernel is that in the value; a map that is being loaded has none.
            let name = match value.as_deref().and_then(name_in) {
                Some(name) => name,
                None => Program::find(map.name.to_str()?)?.name,
            };
            let link = links.iter().find(|(id, _)| *id == map.id);
            let registered = link.is_some() || value.as_deref().is_some_and(is_in_use);
            let maps = value.as_deref().map(|value| maps_of(value, &programs));
            let maps = maps.unwrap_or_default();
            let of = |name: &str| maps.iter().find(|(map, _)| map.name() == name);
            let ours = of(".rodata.about").and_then(|(_, value)| about(value));
            let holds = of(".bss.holds").and_then(|(_, value)| Holds::read(value));
            let foreign = registered && value.is_some() && ours.is_none();
            let (version, parameters) = ours.unzip();
            Some(Registration {
                name,
                pinned: registered && !foreign && pinned.contains(&name),
                registered,
                foreign,
                parameters,
                version,
                holds: holds.filter(|_| !foreign),
                id: map.id,
                link: link.map(|&(_, id)| id),
            })
        })
        .collect()
}

/// Unregisters a pinned algorithm. Sockets that use it keep it until they are closed.
///
/// # Errors
///
/// If it is not pinned, if permission is missing, or if another program holds its link.
pub fn unpin(name: &str) -> Result<()> {
    if !is_pinned(name)? {
        ensure!(is_registered(name)?, "{name} is not loaded");
        bail!("{}", why_registered(name)?);
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

/// Reason for which a name is registered, and how to make it free.
pub(crate) fn why_registered(name: &str) -> Result<String> {
    let found = registrations();
    let found = found.iter().find(|one| one.registered && one.name == name);
    Ok(match found {
        Some(one) if one.foreign => one.foreign_text(),
        Some(one) if one.pinned => format!(
            "{name} is already registered, and pinned: add --replace, or anabranch-kernel unload \
             {name}"
        ),
        Some(_) => format!(
            "{name} is already registered, and not pinned: stop the `anabranch-kernel load` that \
             registered it"
        ),
        None => format!("{name} belongs to the kernel or to one of its modules"),
    })
}

/// The value of a map's first key.
fn lookup(id: u32) -> Option<(MapHandle, Vec<u8>)> {
    let map = MapHandle::from_map_id(id).ok()?;
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    Some((map, value))
}

/// Our algorithm whose name is in the value of a struct_ops map, padded to `TCP_CA_NAME_MAX`.
fn name_in(value: &[u8]) -> Option<&'static str> {
    let has = |name: &str| {
        let mut padded = [0; 16];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        // The byte before it ends a pointer or a number, so that `lia` is not found in `olia`.
        value
            .windows(17)
            .any(|bytes| bytes[0] == 0 && bytes[1..] == padded)
    };
    let mut names = PROGRAMS.iter().map(|program| program.name);
    names.find(|name| has(name))
}

/// Whether a map without a link is registered: `BPF_STRUCT_OPS_STATE_INUSE` in the second word.
fn is_in_use(value: &[u8]) -> bool {
    value.get(4..8) == Some(&1u32.to_ne_bytes()[..])
}

/// Maps of a registered program, with their values. The value of the struct_ops map has the ids of
/// its programs.
fn maps_of(value: &[u8], programs: &[ProgramInfo]) -> Vec<(MapHandle, Vec<u8>)> {
    let is_word = |id: u32| {
        let word = u64::from(id).to_ne_bytes();
        value.chunks_exact(8).any(|chunk| chunk == word)
    };
    // Any of them uses only some of the maps.
    let own = programs.iter().filter(|program| is_word(program.id));
    let ids: BTreeSet<u32> = own.flat_map(|program| &program.map_ids).copied().collect();
    ids.into_iter().filter_map(lookup).collect()
}

/// Version and algorithm that `load` wrote into `about` of `bpf/coupled.bpf.c`.
fn about(text: &[u8]) -> Option<(String, String)> {
    let text = text.split(|&byte| byte == 0).next()?;
    let (version, parameters) = str::from_utf8(text).ok()?.split_once(' ')?;
    Some((version.to_owned(), parameters.to_owned()))
}
