//! The algorithms that can be loaded into the kernel.

use std::fmt;
use std::str::FromStr;

use anabranch_control::{Algorithm, Coupling, Info, RULES};
use anyhow::{Error, Result, anyhow};

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

/// An algorithm and its parameters, as a user writes them: `lia`, `balia:cap=inf`.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The algorithm.
    pub program: &'static Program,
    /// Its rule with the values of the parameters.
    pub algorithm: Algorithm,
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Choice> {
        let (name, parameters) = text.split_at(text.find(':').unwrap_or(text.len()));
        let program = Program::find(name).ok_or_else(|| {
            let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            anyhow!(
                "unknown algorithm \"{name}\": expected one of {}",
                known.join(", ")
            )
        })?;
        let specification = format!("{}{parameters}", program.rule);
        let algorithm = Algorithm::parse(&specification).map_err(Error::msg)?;
        if algorithm.coupling() != Coupling::Always {
            return Err(anyhow!(
                "{text}: the kernel's programs couple all paths of a connection: omit coupling"
            ));
        }
        Ok(Choice { program, algorithm })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let specification = self.algorithm.to_string();
        f.write_str(&specification.replacen(self.program.rule, self.program.name, 1))
    }
}
