//! Output of `status`, `list` and `doctor`.

use std::collections::BTreeMap;
use std::fmt::Write;

use anabranch_kernel::doctor::Check;
use anabranch_kernel::{
    Cause, Connection, Holds, Namespace, PROGRAMS, Registration, causes, namespaces, pins,
    registered, registrations,
};
use anyhow::Result;
use serde::Serialize;
use textwrap::{Options, WordSplitter, termwidth};

use crate::operations::describe;

/// Document of `status --json`.
#[derive(Debug, Serialize)]
pub struct Status {
    registered: Vec<Registered>,
    /// Network namespaces whose default is one of the algorithms.
    namespaces: Vec<DefaultOf>,
    connections: Vec<Connection>,
    /// Causes found at Multipath TCP connections that send from here, by token.
    causes: BTreeMap<u32, Vec<Cause>>,
}

/// One of our algorithms, or another program under its name, registered.
#[derive(Debug, Serialize)]
pub struct Registered {
    name: &'static str,
    /// Whether the registration outlives the process that loaded it.
    pinned: bool,
    /// Algorithm with the parameters that differ from their defaults.
    parameters: Option<String>,
    /// The version of anabranch-kernel that loaded it.
    version: Option<String>,
    /// Id of its struct_ops map, as in `registration` of namespaces and subflows.
    id: Option<u32>,
    /// Owner, if another program registered it, and the command that ends it.
    foreign: Option<String>,
    /// Paths that it held back since it was loaded.
    holds: Option<Holds>,
}

/// A network namespace whose default is one of the algorithms.
#[derive(Debug, Serialize)]
pub struct DefaultOf {
    #[serde(flatten)]
    namespace: Namespace,
    /// Whether its new sockets run a program that has been replaced or unloaded.
    outdated: bool,
    /// Whether another program registered it.
    foreign: bool,
    /// Algorithm of that program, with its parameters.
    parameters: Option<String>,
    /// The version of anabranch-kernel that loaded it.
    version: Option<String>,
}

impl Status {
    /// The present state.
    pub fn now() -> Result<Status> {
        let connections = anabranch_kernel::connections()?;
        let known = registrations();
        let (names, pinned) = (registered()?, pins::pinned()?);
        let ours = PROGRAMS.iter().map(|program| program.name);
        let registered: Vec<Registered> = ours
            .filter(|name| names.iter().any(|other| other == name))
            .map(|name| {
                let known = known.iter().find(|one| one.registered && one.name == name);
                Registered {
                    name,
                    pinned: pinned.contains(&name),
                    parameters: known.and_then(|one| one.parameters.clone()),
                    version: known.and_then(|one| one.version.clone()),
                    id: known.map(|one| one.id),
                    holds: known.and_then(|one| one.holds),
                    foreign: known
                        .filter(|one| one.foreign)
                        .map(Registration::foreign_text),
                }
            })
            .collect();
        let describe = |namespace: Namespace| {
            let known = known.iter().find(|one| one.id == namespace.registration);
            DefaultOf {
                outdated: known.is_some_and(|one| !one.registered),
                foreign: known.is_some_and(|one| one.foreign),
                parameters: known.and_then(|one| one.parameters.clone()),
                version: known.and_then(|one| one.version.clone()),
                namespace,
            }
        };
        Ok(Status {
            namespaces: namespaces()?.into_iter().map(describe).collect(),
            registered,
            connections,
            causes: causes()?,
        })
    }

    /// Text of `status`.
    pub fn text(&self) -> String {
        let ours = self.registered.iter().filter(|one| one.foreign.is_none());
        let names = ours.map(|algorithm| {
            let pinned = if algorithm.pinned { " (pinned)" } else { "" };
            let name = program_text(algorithm.name, &algorithm.parameters, &algorithm.version);
            name + pinned
        });
        let names: Vec<String> = names.collect();
        let mut text = match names.as_slice() {
            [] => "registered: none\n".to_owned(),
            names => format!("registered: {}\n", names.join(", ")),
        };
        text.extend(self.registered.iter().filter_map(Registered::holds_text));
        for foreign in self
            .registered
            .iter()
            .filter_map(|one| one.foreign.as_ref())
        {
            text += &format!("foreign: {foreign}\n");
        }
        for default in &self.namespaces {
            text += &default.text();
        }
        let present: Vec<u32> = self.registered.iter().filter_map(|one| one.id).collect();
        let is_foreign = |one: &&Registered| one.foreign.is_some();
        let foreign = self.registered.iter().filter(is_foreign);
        let foreign: Vec<u32> = foreign.filter_map(|one| one.id).collect();
        for connection in &self.connections {
            text += &connection_text(connection, &present, &foreign);
            let causes = connection.token.and_then(|token| self.causes.get(&token));
            for cause in causes.into_iter().flatten() {
                let line = format!("  {}: {}; {}", cause.id, cause.sentence, cause.remedy);
                text += &wrap(&line, 80);
            }
        }
        text
    }
}

impl Registered {
    /// Line about the paths that it held back, if there was any.
    fn holds_text(&self) -> Option<String> {
        let (name, Holds { begun, refused }) = (self.name, self.holds?);
        let refusals = match refused {
            0 if begun == 0 => return None,
            0 => String::new(),
            _ => format!(
                "; the kernel refused {refused} times, and those paths are used as without hold-back"
            ),
        };
        Some(format!("{name} held a path back {begun} times{refusals}\n"))
    }
}

impl DefaultOf {
    fn text(&self) -> String {
        let name = &self.namespace.algorithm;
        let earlier = if self.outdated {
            ", an earlier program: set the default again"
        } else {
            ""
        };
        let program = match self.foreign {
            true => format!("{name} of another program"),
            false => program_text(name, &self.parameters, &self.version),
        };
        format!(
            "default of {}: {program}{earlier}\n",
            describe(&self.namespace)
        )
    }
}

/// An algorithm with its parameters, and the version that loaded it.
fn program_text(name: &str, parameters: &Option<String>, version: &Option<String>) -> String {
    let version = version.as_deref().unwrap_or("of unknown version");
    format!("{} {version}", parameters.as_deref().unwrap_or(name))
}

/// Text of a connection; `present` has the ids of the registered programs, `foreign` of those that
/// are not ours.
fn connection_text(connection: &Connection, present: &[u32], foreign: &[u32]) -> String {
    let mut text = match connection.token {
        Some(token) => format!("\nMultipath TCP, token {token:08x}"),
        None => "\nplain TCP".to_owned(),
    };
    if connection.cookie != 0 {
        write!(text, ", cookie {}", connection.cookie).expect("a string");
    }
    writeln!(
        text,
        "\n  {:13} {:>9} {:>10} {:>14} {:>8} {:>8} {:>6}",
        "algorithm", "window", "rtt", "rate", "loss", "alpha", "share"
    )
    .expect("a string");
    for subflow in &connection.subflows {
        let alpha = subflow
            .alpha
            .map_or("-".to_owned(), |alpha| format!("{alpha:.3}"));
        let stale = if subflow.is_stale() { "stale " } else { "" };
        let rate = format!("{stale}{:.0} Mbps", subflow.rate_mbps);
        let registration = subflow.registration;
        let earlier = registration.is_some_and(|id| !present.is_empty() && !present.contains(&id));
        writeln!(
            text,
            "  {:13} {:9.2} {:7.1} ms {rate:>14} {:6.3} % {alpha:>8} {:4.0} %\n    {} -> {}{}{}",
            subflow.algorithm,
            subflow.window,
            subflow.rtt_ms,
            100.0 * subflow.loss,
            100.0 * subflow.share,
            subflow.local,
            subflow.remote,
            if subflow.backup { " (backup)" } else { "" },
            match registration {
                Some(id) if foreign.contains(&id) => " (foreign program)",
                _ if earlier => " (earlier program)",
                _ => "",
            },
        )
        .expect("a string");
    }
    text
}

/// Wraps lines that are longer than the terminal.
pub fn fit_terminal(text: &str) -> String {
    let columns = termwidth();
    text.lines().map(|line| wrap(line, columns)).collect()
}

fn wrap(line: &str, columns: usize) -> String {
    let options = Options::new(columns)
        .subsequent_indent("    ")
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(line, options) + "\n"
}

/// Output of `list`: every algorithm, its rule and parameters.
pub fn list() -> String {
    let mut text = String::new();
    for program in PROGRAMS {
        let info = program.info();
        writeln!(text, "{:13} {}", program.name, info.summary).expect("a string");
        if let Some(caution) = info.caution {
            writeln!(text, "{:13}   caution: {caution}", "").expect("a string");
        }
        for parameter in info.parameters {
            let (name, default, meaning) = (parameter.name, parameter.default, parameter.meaning);
            writeln!(text, "{:13}   {name}={default}: {meaning}", "").expect("a string");
        }
    }
    text
}

/// Output of `doctor`: each check, with the remedy if it is not met.
pub fn checks(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match (check.ok, check.required) {
            (true, _) => "ok     ",
            (false, true) => "MISSING",
            (false, false) => "note   ",
        };
        writeln!(text, "{mark}  {}: {}", check.what, check.found).expect("a string");
        if !check.ok {
            writeln!(
                text,
                "         needed for {}: {}",
                check.needed_for, check.remedy
            )
            .expect("a string");
        }
    }
    text
}
