//! Loading an algorithm into the kernel and registering it.

use std::fs;
use std::os::fd::AsFd;

use anabranch_control::{Scalar, Soft};
use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapMut, Object, ObjectBuilder, OpenObject};

use crate::algorithm::Choice;
use crate::doctor::why_refused;
use crate::pins;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// An algorithm that is registered with the kernel, in all network namespaces, until this is dropped.
/// Sockets that use it then keep it until they are closed or take another.
#[derive(Debug)]
pub struct Loaded {
    choice: Choice,
    object: Object,
    link: Link,
}

/// Loads an algorithm and registers it under its name. Needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.
///
/// # Errors
///
/// Where the name is taken, and where [`doctor`](crate::doctor) finds something missing.
pub fn load(choice: &Choice) -> Result<Loaded> {
    let name = choice.program.name;
    ensure!(
        !is_registered(name)?,
        "{name} is already registered: `anabranch-kernel status` says how; unload it first"
    );
    let open = open(choice).with_context(|| format!("cannot open {name}"))?;
    let refused = || format!("the kernel did not take {name}: {}", why_refused());
    let mut object = open.load().with_context(refused)?;
    let link = struct_ops(&mut object, name)
        .attach_struct_ops()
        .with_context(|| format!("cannot register {name}"))?;
    Ok(Loaded {
        choice: choice.clone(),
        object,
        link,
    })
}

/// The names of all congestion controls of the kernel, ours and others.
pub fn registered() -> Result<Vec<String>> {
    let names =
        fs::read_to_string(AVAILABLE).with_context(|| format!("cannot read {AVAILABLE}"))?;
    Ok(names.split_whitespace().map(String::from).collect())
}

pub(crate) fn is_registered(name: &str) -> Result<bool> {
    Ok(registered()?.iter().any(|other| other == name))
}

/// Gives one socket a weight of its own with `vegas_k`, in packets; `None` takes it back. `weights` is
/// [`Loaded::weights`] or [`pins::weights`].
///
/// The socket is known by its cookie (`getsockopt(SO_COOKIE)`), for Multipath TCP the connection's. An
/// entry stays when the socket is closed; its cookie does not come again.
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

/// What the kernel counted of one program of an algorithm, with its statistics on
/// (`kernel.bpf_stats_enabled`).
#[derive(Clone, Debug)]
pub struct Cost {
    /// The hook.
    pub program: String,
    /// How often it ran.
    pub calls: u64,
    /// Time in all calls, ns.
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
        // The registration last: without it the pins are rubbish that the next load clears.
        if let Some(mut weights) = self.object.maps_mut().find(|map| map.name() == "weights") {
            weights
                .pin(pins::path(name, "weights"))
                .context("cannot pin the weights")?;
        }
        self.link
            .pin(pins::path(name, "link"))
            .with_context(|| format!("cannot pin {name}"))
    }

    /// The weights of single sockets, where the algorithm has any: `vegas_k`.
    pub fn weights(&self) -> Result<MapHandle> {
        let name = self.choice.program.name;
        let Some(map) = self.object.maps().find(|map| map.name() == "weights") else {
            bail!("{name} has no weights: vegas_k has");
        };
        MapHandle::try_from(&map).context("cannot open the weights")
    }

    /// What each program of this algorithm cost so far.
    pub fn costs(&self) -> Result<Vec<Cost>> {
        costs(&self.object)
    }
}

/// What each program of an object that is loaded cost so far.
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

/// The object with its parameters set, without what only tests use.
fn open(choice: &Choice) -> Result<OpenObject> {
    let mut open = ObjectBuilder::default().open_memory(choice.program.object)?;
    for mut program in open.progs_mut().filter(|program| program.name() == "ask") {
        program.set_autoload(false);
    }
    for mut map in open.maps_mut() {
        if map.name() == "asked" {
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
