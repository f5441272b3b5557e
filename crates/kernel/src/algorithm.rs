//! The algorithms that can be loaded into the kernel.

use std::fmt;
use std::str::FromStr;

use anabranch_control::{Algorithm, Coupling, Info, RULES, SpecError};
use anyhow::{Error, Result, anyhow, bail, ensure};

/// An algorithm for the kernel: a rule of the table, compiled.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name in the kernel: `TCP_CONGESTION`, `net.ipv4.tcp_congestion_control`.
    pub name: &'static str,
    /// The name of the rule in [`anabranch_control::RULES`].
    pub rule: &'static str,
    /// `bpf/coupled.bpf.c`, compiled for this rule.
    pub object: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

impl Program {
    /// The algorithm with this name in the kernel, if it is one of ours.
    pub fn find(name: &str) -> Option<&'static Program> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// The end of an error message about an unknown name: the name that was probably meant, if
    /// there is one.
    pub(crate) fn did_you_mean(name: &str) -> Option<String> {
        let similarity = |other| strsim::normalized_damerau_levenshtein(name, other);
        let names = PROGRAMS.iter().map(|program| program.name);
        let nearest = names.max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
        let near = (0.6..1.0).contains(&similarity(nearest));
        near.then(|| format!(": did you mean {nearest}?"))
    }

    /// The algorithm whose sockets can have a weight of their own.
    pub(crate) fn weighted() -> &'static Program {
        PROGRAMS
            .iter()
            .find(|program| program.info().weight.is_some())
            .expect("vegas has a weight and a header")
    }

    /// The entry of its rule in the table of rules.
    pub fn info(&self) -> &'static Info {
        RULES
            .iter()
            .find(|info| info.name == self.rule)
            .expect("build.rs takes the names from RULES")
    }
}

/// What a subflow of Multipath TCP may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffers {
    /// Unsent data of one window, a send buffer for as long as the slowest subflow takes to send
    /// what the scheduler assigns as a unit, at most 64 windows, and pacing with more than 2
    /// (`bpf/buffers.h`).
    #[default]
    Large,
    /// Linux' own: 2 windows, without a limit of unsent data or pacing.
    Linux,
}

impl Buffers {
    /// Largest send buffer, in windows; 0 leaves all limits to the kernel.
    pub(crate) fn largest_windows(self) -> u32 {
        match self {
            Buffers::Large => 64,
            Buffers::Linux => 0,
        }
    }
}

/// An algorithm and its parameters, as a user writes them: `lia`, `balia:cap=inf`,
/// `olia:buffers=linux`.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The algorithm.
    pub program: &'static Program,
    /// The rule with the values of its parameters.
    pub algorithm: Algorithm,
    /// The buffers of its subflows.
    pub buffers: Buffers,
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Choice> {
        let (name, parameters) = text.split_at(text.find(':').unwrap_or(text.len()));
        let program = Program::find(name).ok_or_else(|| {
            let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            let expected = || format!(": expected one of {}", known.join(", "));
            let hint = Program::did_you_mean(name).unwrap_or_else(expected);
            anyhow!("unknown algorithm \"{name}\"{hint}")
        })?;
        let is_buffers = |part: &&str| part.starts_with("buffers=");
        let (buffers, parameters): (Vec<&str>, Vec<&str>) =
            parameters.split(':').partition(is_buffers);
        let buffers = match buffers[..] {
            [] | ["buffers=large"] => Buffers::Large,
            ["buffers=linux"] => Buffers::Linux,
            _ => bail!("{name}: expected buffers=large or buffers=linux, once"),
        };
        let specification = format!("{}{}", program.rule, parameters.join(":"));
        let as_named = |error: SpecError| error.message.replacen(program.rule, name, 1);
        let algorithm = Algorithm::parse(&specification).map_err(|e| anyhow!(as_named(e)))?;
        ensure!(
            algorithm.coupling() != Coupling::Rfc8382,
            "{text}: the kernel's programs do not detect shared bottlenecks by RFC 8382: expected \
             coupling=shared"
        );
        Ok(Choice {
            program,
            algorithm,
            buffers,
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let specification = self.algorithm.to_string();
        f.write_str(&specification.replacen(self.program.rule, self.program.name, 1))?;
        match self.buffers {
            Buffers::Large => Ok(()),
            Buffers::Linux => f.write_str(":buffers=linux"),
        }
    }
}
