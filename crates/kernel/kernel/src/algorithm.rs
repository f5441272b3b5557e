//! Algorithms that can be loaded into the kernel, and the names that are registered there.

use std::str::FromStr;
use std::{fmt, fs};

use anabranch_control::{
    Algorithm, Coupling, Info, RULES, SMALLEST_SSTHRESH, SMALLEST_SSTHRESH_ONE_PATH, SpecError,
};
use anyhow::{Context, Error, Result, anyhow, bail, ensure};

/// An algorithm for the kernel: a rule of the table, compiled.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Name in the kernel: `TCP_CONGESTION`, `net.ipv4.tcp_congestion_control`.
    pub name: &'static str,
    /// Name of the rule in [`anabranch_control::RULES`].
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

    /// The algorithm with this name.
    ///
    /// # Errors
    ///
    /// If it is none of ours, with the name that was probably meant, or all names.
    pub fn named(name: &str) -> Result<&'static Program> {
        Program::find(name).ok_or_else(|| {
            let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            let expected = || format!(": expected one of {}", known.join(", "));
            let hint = Program::did_you_mean(name).unwrap_or_else(expected);
            anyhow!("unknown algorithm \"{name}\"{hint}")
        })
    }

    /// End of an error message about an unknown name: the name that was probably meant, if there is
    /// one.
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

    /// Entry of its rule in the table of rules.
    pub fn info(&self) -> &'static Info {
        RULES
            .iter()
            .find(|info| info.name == self.rule)
            .expect("build.rs takes the names from RULES")
    }
}

/// Measures of the programs beside the rule, for the subflows of Multipath TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffers {
    /// A path whose data would arrive too late is held back, unsent data is limited to a window,
    /// and the send buffer has 4 windows (`bpf/hold.h`).
    #[default]
    Held,
    /// Linux' own: 2 windows, no limit of unsent data, and no path is held back.
    Linux,
}

/// Default of [`Choice::min_ssthresh`].
const DEFAULT_MIN_SSTHRESH: u32 = SMALLEST_SSTHRESH_ONE_PATH as u32;

/// An algorithm and its parameters, as a user writes them: `lia`, `balia:cap=inf`,
/// `olia:buffers=linux`, `lia:min_ssthresh=1`.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The algorithm.
    pub program: &'static Program,
    /// The rule with the values of its parameters.
    pub algorithm: Algorithm,
    /// The buffers of its subflows.
    pub buffers: Buffers,
    /// The smallest slow start threshold of a connection with several subflows, packets: 2 by
    /// default, which is TCP's (RFC 5681, equation 4), or 1 (Balia, section V).
    pub min_ssthresh: u32,
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Choice> {
        let (name, parameters) = text.split_at(text.find(':').unwrap_or(text.len()));
        let program = Program::named(name)?;
        let (buffers, parameters) = take("buffers=", parameters.split(':'));
        let buffers = match buffers[..] {
            [] | ["buffers=held"] => Buffers::Held,
            ["buffers=linux"] => Buffers::Linux,
            _ => bail!("{name}: expected buffers=held or buffers=linux, once"),
        };
        let (min_ssthresh, parameters) = take("min_ssthresh=", parameters.into_iter());
        let min_ssthresh = match min_ssthresh[..] {
            [] | ["min_ssthresh=2"] => DEFAULT_MIN_SSTHRESH,
            ["min_ssthresh=1"] => SMALLEST_SSTHRESH as u32,
            _ => bail!("{name}: expected min_ssthresh=1 or min_ssthresh=2, once"),
        };
        let specification = format!("{}{}", program.rule, parameters.join(":"));
        let as_named = |error: SpecError| error.message.replacen(program.rule, name, 1);
        let algorithm = Algorithm::parse(&specification).map_err(|e| anyhow!(as_named(e)))?;
        ensure!(
            algorithm.coupling() != Coupling::Rfc8382,
            "{text}: the kernel's programs do not detect shared bottlenecks by RFC 8382: expected \
             coupling=shared"
        );
        ensure!(
            algorithm.beta_ecn().is_none(),
            "{text}: the kernel's programs take a mark as a loss: omit beta_ecn, or run the simulator \
             or QUIC"
        );
        Ok(Choice {
            program,
            algorithm,
            buffers,
            min_ssthresh,
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let specification = self.algorithm.to_string();
        f.write_str(&specification.replacen(self.program.rule, self.program.name, 1))?;
        if self.buffers == Buffers::Linux {
            f.write_str(":buffers=linux")?;
        }
        if self.min_ssthresh != DEFAULT_MIN_SSTHRESH {
            write!(f, ":min_ssthresh={}", self.min_ssthresh)?;
        }
        Ok(())
    }
}

/// Divides `parts` into those that begin with `prefix`, and the others.
fn take<'a>(prefix: &str, parts: impl Iterator<Item = &'a str>) -> (Vec<&'a str>, Vec<&'a str>) {
    parts.partition(|part| part.starts_with(prefix))
}

// The names of the congestion controls that are registered in the kernel.

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// The names of all congestion controls of the kernel, ours and others.
///
/// # Errors
///
/// If the kernel's list cannot be read.
pub fn registered() -> Result<Vec<String>> {
    names(AVAILABLE)
}

/// The names that every network namespace may have as its default.
///
/// # Errors
///
/// If the kernel's list cannot be read.
pub fn unrestricted() -> Result<Vec<String>> {
    names(ALLOWED)
}

fn names(path: &str) -> Result<Vec<String>> {
    let names = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(names.split_whitespace().map(String::from).collect())
}

/// Whether a congestion control of this name is registered.
pub(crate) fn is_registered(name: &str) -> Result<bool> {
    Ok(registered()?.iter().any(|other| other == name))
}
