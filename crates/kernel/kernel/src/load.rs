//! Loading an algorithm into the kernel and registering it.

use std::os::fd::{AsFd, AsRawFd};
use std::{io, ptr};

use anabranch_control::{Coupling, Scalar, Soft};
use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapMut, Object, ObjectBuilder, OpenMapMut, OpenObject,
    libbpf_sys,
};

use crate::algorithm::{Buffers, Choice, Program, is_registered};
use crate::doctor::{ensure_permitted, why_rejected};
use crate::groups::Grouper;
use crate::pins;
use crate::registrations::why_registered;

/// An algorithm that is registered with the kernel, in all network namespaces, until it is dropped.
/// Sockets that use it then keep it until they are closed or switch to another.
#[derive(Debug)]
pub struct Loaded {
    choice: Choice,
    object: Object,
    link: Link,
}

/// Loads an algorithm and registers it under its name. Needs CAP_BPF, CAP_PERFMON and
/// CAP_NET_ADMIN.
///
/// # Errors
///
/// If the name is taken, and if [`doctor`](crate::doctor) finds something missing.
pub fn load(choice: &Choice) -> Result<Loaded> {
    let name = choice.program.name;
    ensure_permitted()?;
    if is_registered(name)? {
        bail!("{}", why_registered(name)?);
    }
    let open = open(choice).with_context(|| format!("cannot open {name}"))?;
    let mut object = load_object(open, name)?;
    let link = struct_ops(&mut object, name)
        .attach_struct_ops()
        .with_context(|| format!("cannot register {name}"))?;
    Ok(Loaded {
        choice: choice.clone(),
        object,
        link,
    })
}

/// Replaces a pinned algorithm atomically: its name always means one of both programs, and it stays
/// pinned. Weights of single sockets are kept. Sockets that use the old program keep it until they
/// are closed; so do, for new sockets, network namespaces whose default it is, until [`refresh`].
///
/// # Errors
///
/// If it is not pinned, and as [`load`].
///
/// [`refresh`]: crate::refresh
pub fn replace(choice: &Choice) -> Result<()> {
    ensure_pinnable(choice)?;
    let name = choice.program.name;
    pins::ensure_own()?;
    let path = pins::path(name, "link");
    let link = Link::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut open = open(choice).with_context(|| format!("cannot open {name}"))?;
    for mut map in open.maps_mut().filter(|map| map.name() == "weights") {
        map.reuse_pinned_map(pins::path(name, "weights"))
            .context("cannot keep the weights of single sockets")?;
    }
    let mut object = load_object(open, name)?;
    let mut map = struct_ops(&mut object, name);
    // This writes the value of the map, which libbpf does only here and for a link of its own. The
    // name is taken, so it then fails to register the map, and the kernel logs that.
    if map.attach_struct_ops().is_ok() {
        bail!("{name} was unloaded while it was being replaced");
    }
    let (link, map) = (link.as_fd().as_raw_fd(), map.as_fd().as_raw_fd());
    // Safety: both descriptors are open, and without options the pointer to them may be null.
    let result = unsafe { libbpf_sys::bpf_link_update(link, map, ptr::null()) };
    let replaced = match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    };
    replaced.with_context(|| format!("cannot replace {name}"))
}

/// Gives one socket a weight of its own with `vegas_k`, in packets; `None` removes it. `weights` is
/// [`Loaded::weights`] or [`pins::weights`].
///
/// The socket is identified by its cookie (`getsockopt(SO_COOKIE)`), for Multipath TCP the
/// connection's. An entry stays when the socket is closed; cookies are not reused.
///
/// # Errors
///
/// If there is no weight to remove, and if the kernel refuses the change.
pub fn set_weight(weights: &MapHandle, cookie: u64, kappa: Option<f64>) -> Result<()> {
    let key = cookie.to_ne_bytes();
    let Some(kappa) = kappa else {
        return weights
            .delete(&key)
            .with_context(|| format!("no weight for socket {cookie}"));
    };
    let value = Soft::from_f64(kappa).to_bits().to_ne_bytes();
    weights
        .update(&key, &value, MapFlags::ANY)
        .context("cannot set the weight")
}

/// The kernel's statistics of one program of an algorithm, while `kernel.bpf_stats_enabled` is 1.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The hook.
    pub program: String,
    /// Number of calls.
    pub calls: u64,
    /// Total time of all calls, ns.
    pub time_ns: u64,
}

impl Loaded {
    /// The algorithm.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Pins the registration in the BPF file system, so that it outlives this process, until
    /// [`unpin`](crate::unpin) or the next boot.
    pub fn pin(mut self) -> Result<()> {
        ensure_pinnable(&self.choice)?;
        let name = self.choice.program.name;
        pins::prepare(name)?;
        // The registration last: without it the next `load` removes the other pins.
        if let Some(mut weights) = self.object.maps_mut().find(|map| map.name() == "weights") {
            weights
                .pin(pins::path(name, "weights"))
                .context("cannot pin the weights")?;
        }
        self.link
            .pin(pins::path(name, "link"))
            .with_context(|| format!("cannot pin {name}"))
    }

    /// The decider about which subflows are coupled; `None` without `coupling=shared`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses access to the maps.
    pub fn grouper(&self) -> Result<Option<Grouper>> {
        let has_groups = self.choice.algorithm.coupling() == Coupling::Shared;
        has_groups.then(|| Grouper::new(&self.object)).transpose()
    }

    /// The weights of single sockets.
    ///
    /// # Errors
    ///
    /// If the algorithm has none: only `vegas_k` does.
    pub fn weights(&self) -> Result<MapHandle> {
        let name = self.choice.program.name;
        let Some(map) = self.object.maps().find(|map| map.name() == "weights") else {
            let weighted = Program::weighted().name;
            bail!("{name} has no weights: only {weighted} does");
        };
        MapHandle::try_from(&map).context("cannot open the weights")
    }

    /// The statistics of each program of this algorithm.
    pub fn costs(&self) -> Result<Vec<Cost>> {
        costs(&self.object)
    }
}

/// The statistics of each program of a loaded object.
pub fn costs(object: &Object) -> Result<Vec<Cost>> {
    let ids = object.progs();
    let ids = ids.map(|program| libbpf_rs::Program::id_from_fd(program.as_fd()));
    let ours = ids.collect::<libbpf_rs::Result<Vec<u32>>>()?;
    Ok(ProgInfoIter::default()
        .filter(|info| ours.contains(&info.id))
        .map(|info| Cost {
            program: info.name.to_string_lossy().into_owned(),
            calls: info.run_cnt,
            time_ns: info.run_time_ns,
        })
        .collect())
}

/// Refuses an algorithm that cannot be pinned, because it needs a process while it is registered.
///
/// # Errors
///
/// With `coupling=shared`.
pub fn ensure_pinnable(choice: &Choice) -> Result<()> {
    ensure!(
        choice.algorithm.coupling() != Coupling::Shared,
        "{choice} cannot be pinned: `anabranch-kernel load` decides which subflows are coupled while \
         it runs; leave out --pin and --replace"
    );
    Ok(())
}

fn load_object(open: OpenObject, name: &str) -> Result<Object> {
    let rejected = || format!("the kernel rejected {name}: {}", why_rejected());
    open.load().with_context(rejected)
}

/// The object with its parameters set.
fn open(choice: &Choice) -> Result<OpenObject> {
    let mut open = ObjectBuilder::default().open_memory(choice.program.object)?;
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some(".rodata.parameters") => {
                let values = choice.algorithm.values().iter();
                let bits = values.flat_map(|&value| Soft::from_f64(value).to_bits().to_ne_bytes());
                initialise(&mut map, &bits.collect::<Vec<u8>>())?;
            }
            Some(".rodata.hold") => {
                let holds_back = u32::from(choice.buffers == Buffers::Held);
                initialise(&mut map, &holds_back.to_ne_bytes())?;
            }
            Some(".rodata.min_ssthresh") => {
                initialise(&mut map, &choice.min_ssthresh.to_ne_bytes())?;
            }
            Some(".rodata.coupling") => {
                let coupling = match choice.algorithm.coupling() {
                    Coupling::Never => 1u32,
                    Coupling::Shared => 2,
                    _ => 0,
                };
                initialise(&mut map, &coupling.to_ne_bytes())?;
            }
            Some("delays" | "reports" | "groups") => {
                map.set_autocreate(choice.algorithm.coupling() == Coupling::Shared)?;
            }
            Some(".rodata.about") => {
                let text = format!("{} {choice}", env!("CARGO_PKG_VERSION"));
                initialise(&mut map, text.as_bytes())?;
            }
            _ => {}
        }
    }
    Ok(open)
}

/// Sets the first bytes of a map; the others stay 0.
fn initialise(map: &mut OpenMapMut<'_>, bytes: &[u8]) -> Result<()> {
    let initial = map.initial_value_mut().context("a map without a value")?;
    let first = initial.get_mut(..bytes.len()).context("a value too long")?;
    first.copy_from_slice(bytes);
    Ok(())
}

fn struct_ops<'object>(object: &'object mut Object, name: &str) -> MapMut<'object> {
    let mut maps = object.maps_mut();
    maps.find(|map| map.name() == name)
        .expect("bpf/coupled.bpf.c names it after the rule")
}
