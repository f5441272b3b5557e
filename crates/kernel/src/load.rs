//! Loading an algorithm into the kernel and registering it.

use std::os::fd::AsFd;

use anabranch_control::{Scalar, Soft};
use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapMut, Object, ObjectBuilder, OpenObject};

use crate::algorithm::{Choice, Program};
use crate::doctor::why_rejected;
use crate::pins;
use crate::registry::is_registered;

/// An algorithm that is registered with the kernel, in all network namespaces, until this is
/// dropped. Sockets that use it then keep it until they are closed or switch to another.
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
    ensure!(
        !is_registered(name)?,
        "{name} is already registered: `anabranch-kernel status` shows how; unload it first"
    );
    let open = open(choice).with_context(|| format!("cannot open {name}"))?;
    let rejected = || format!("the kernel rejected {name}: {}", why_rejected());
    let mut object = open.load().with_context(rejected)?;
    let link = struct_ops(&mut object, name)
        .attach_struct_ops()
        .with_context(|| format!("cannot register {name}"))?;
    Ok(Loaded {
        choice: choice.clone(),
        object,
        link,
    })
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
    /// [`pins::unpin`] or the next boot.
    pub fn pin(mut self) -> Result<()> {
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
    let mut ours = Vec::new();
    for program in object.progs() {
        if program.autoload() {
            ours.push(libbpf_rs::Program::id_from_fd(program.as_fd())?);
        }
    }
    Ok(ProgInfoIter::default()
        .filter(|info| ours.contains(&info.id))
        .map(|info| Cost {
            program: info.name.to_string_lossy().into_owned(),
            calls: info.run_cnt,
            time_ns: info.run_time_ns,
        })
        .collect())
}

/// The object with its parameters set, without the program and the map that only tests use.
fn open(choice: &Choice) -> Result<OpenObject> {
    let mut open = ObjectBuilder::default().open_memory(choice.program.object)?;
    for mut program in open
        .progs_mut()
        .filter(|program| program.name() == "evaluate")
    {
        program.set_autoload(false);
    }
    for mut map in open.maps_mut() {
        if map.name() == "evaluated" {
            map.set_autocreate(false)?;
        } else if map.name().to_string_lossy().starts_with(".rodata") {
            let values = choice.algorithm.values().iter();
            let bits = values.flat_map(|&value| Soft::from_f64(value).to_bits().to_ne_bytes());
            let initial = map
                .initial_value_mut()
                .context("parameters without a value")?;
            initial
                .iter_mut()
                .zip(bits)
                .for_each(|(byte, bit)| *byte = bit);
        }
    }
    Ok(open)
}

fn struct_ops<'object>(object: &'object mut Object, name: &str) -> MapMut<'object> {
    let mut maps = object.maps_mut();
    maps.find(|map| map.name() == name)
        .expect("bpf/coupled.bpf.c names it after the rule")
}
