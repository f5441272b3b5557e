//! Programs of ours in the kernel: registered, or still in use.

use libbpf_rs::query::{
    LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter, ProgInfoQueryOptions, ProgramInfo,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, ProgramType};
use serde::Serialize;

use crate::algorithm::Program;
use crate::pins;

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
    let pinned = pins::pinned().unwrap_or_default();
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
