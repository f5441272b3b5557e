//! `load`, `unload` and `default`, with their reports.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::PathBuf;
use std::thread;

use anabranch_control::BESIDE_BBR;
use anabranch_kernel::{
    Choice, Grouper, Loaded, Namespace, Program, ensure_pinnable, load as register, namespaces,
    path_of, pins, refresh, replace, set_default, unpin, unrestricted,
};
use anyhow::{Result, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Registers all algorithms, or none if one fails. With `replaces` those that are pinned are
/// replaced first.
pub fn load(choices: &[Choice], pin: bool, replaces: bool) -> Result<()> {
    for (i, choice) in choices.iter().enumerate() {
        let name = choice.program.name;
        let before = choices[..i].iter().any(|other| other.program.name == name);
        ensure!(!before, "{name} is named twice");
    }
    if pin || replaces {
        choices.iter().try_for_each(ensure_pinnable)?;
    }
    let pinned = if replaces { pins::pinned()? } else { vec![] };
    let (old, new): (Vec<&Choice>, Vec<&Choice>) = choices
        .iter()
        .partition(|choice| pinned.contains(&choice.program.name));
    if (pin || replaces) && !new.is_empty() {
        pins::ensure_possible()?;
    }
    for choice in &old {
        replace(choice)?;
    }
    report("replaced", &old, "");
    let loaded = new.iter().map(|choice| register(choice));
    let loaded = loaded.collect::<Result<Vec<Loaded>>>()?;
    for program in choices.iter().map(|choice| choice.program) {
        // Nearly every rule has the caution about BBR, which `list` prints.
        let caution = program.info().caution;
        if let Some(caution) = caution.filter(|&caution| caution != BESIDE_BBR) {
            eprintln!(
                "anabranch-kernel: {}: {caution} (docs/reference/rules.md)",
                program.name
            );
        }
    }
    if !pin && !replaces {
        return keep(loaded, choices);
    }
    for (i, algorithm) in loaded.into_iter().enumerate() {
        if let Err(error) = algorithm.pin() {
            for earlier in &new[..i] {
                unpin(earlier.program.name)?;
            }
            return Err(error);
        }
    }
    report("registered", &new, ", until unload");
    refresh_all(choices)
}

/// Waits for the signal that ends this process. The kernel unregisters the algorithms however the
/// process ends; after a signal that can be caught the defaults that are left are named, too.
fn keep(loaded: Vec<Loaded>, choices: &[Choice]) -> Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    report(
        "registered",
        &choices.iter().collect::<Vec<_>>(),
        ", until Ctrl-C",
    );
    refresh_all(choices)?;
    let signal = decide_groups(&loaded, &mut signals)?;
    drop(loaded);
    warn_of_defaults(|name| choices.iter().any(|choice| choice.program.name == name));
    Ok(emulate_default_handler(signal)?)
}

/// Decides for the programs with `coupling=shared` which subflows are coupled, until a signal.
fn decide_groups(loaded: &[Loaded], signals: &mut Signals) -> Result<i32> {
    let mut groupers = Vec::new();
    for algorithm in loaded {
        groupers.extend(algorithm.grouper()?.map(|grouper| (algorithm, grouper)));
    }
    if groupers.is_empty() {
        return Ok(signals.forever().next().unwrap_or(SIGTERM));
    }
    loop {
        if let Some(signal) = signals.pending().next() {
            return Ok(signal);
        }
        for (algorithm, grouper) in &mut groupers {
            for groups in grouper.update()? {
                let name = algorithm.choice().program.name;
                // The decisions go on without a reader.
                let _ = writeln!(stdout(), "{name} {groups}");
            }
        }
        thread::sleep(Grouper::PERIOD);
    }
}

fn report(what: &str, choices: &[&Choice], until: &str) {
    let names: Vec<String> = choices.iter().map(|choice| choice.to_string()).collect();
    if !names.is_empty() {
        eprintln!("{what} {}{until}", names.join(", "));
    }
}

/// Makes network namespaces whose default has one of these names use the new program for new
/// sockets.
fn refresh_all(choices: &[Choice]) -> Result<()> {
    for choice in choices {
        let name = choice.program.name;
        for namespace in refresh(name)? {
            eprintln!(
                "anabranch-kernel: new sockets of {} keep an earlier program of {name}: there, \
                 anabranch-kernel default {name}",
                describe(&namespace)
            );
        }
    }
    Ok(())
}

/// Unregisters pinned algorithms: all that can be, also if another of them fails.
pub fn unload(names: &[String]) -> Result<()> {
    names
        .iter()
        .try_for_each(|name| Program::named(name).map(drop))?;
    let mut done = Ok(());
    for name in names {
        match unpin(name) {
            Err(error) if done.is_ok() => done = Err(error),
            Err(error) => eprintln!("anabranch-kernel: {error:#}"),
            Ok(()) if stderr().is_terminal() => eprintln!("unregistered {name}"),
            Ok(()) => {}
        }
    }
    warn_of_defaults(|name| names.iter().any(|other| other == name));
    done
}

/// Names the network namespaces whose default is an algorithm that was unregistered.
fn warn_of_defaults(is_unregistered: impl Fn(&str) -> bool) {
    // Unregistering itself does not need the permission to list them.
    let left = namespaces().unwrap_or_default();
    for namespace in left.iter().filter(|one| is_unregistered(&one.algorithm)) {
        eprintln!(
            "anabranch-kernel: {} is still the default of {}, whose new sockets keep its program: \
             anabranch-kernel default{}",
            namespace.algorithm,
            describe(namespace),
            option(namespace)
        );
    }
}

/// Sets the default of each namespace, or of this process'.
pub fn set_defaults(name: &str, namespaces: &[String]) -> Result<()> {
    if namespaces.is_empty() {
        return set_default(name, None);
    }
    for namespace in namespaces {
        let path = match namespace.contains('/') {
            true => PathBuf::from(namespace),
            false => path_of(namespace),
        };
        set_default(name, Some(&path))?;
    }
    Ok(())
}

/// The network namespace by its path, or by its inode number.
pub fn describe(namespace: &Namespace) -> String {
    match &namespace.path {
        Some(path) => format!("the network namespace {}", path.display()),
        None => format!("the network namespace with inode {}", namespace.inode),
    }
}

/// The congestion control that was the default when the kernel started: the first but for Reno of
/// those that every network namespace may have, or Reno if it is the only one.
pub fn kernels_default() -> String {
    let mut names = unrestricted().unwrap_or_default();
    names.retain(|name| name != "reno" && Program::find(name).is_none());
    names.into_iter().next().unwrap_or("reno".to_owned())
}

/// The option of `default` that selects the network namespace.
fn option(namespace: &Namespace) -> String {
    match &namespace.path {
        Some(path) => format!(" --namespace {}", path.display()),
        None => String::new(),
    }
}
