//! Algorithms as specified in scenario files and on the command line.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::coupling::Coupling;
use crate::rule::{BETA_ECN, Parameter};
use crate::rules::{AnyController, AnyRule, Info, RULES};

/// A rule of the table with a value for each of its parameters, and which paths it couples.
///
/// Written as `name` or `name:parameter=value:...`, such as `generalized:beta=0.2:norm=inf`,
/// `lia:coupling=shared` or `reno:beta_ecn=0.8`.
#[derive(Clone, Debug)]
pub struct Algorithm {
    info: &'static Info,
    values: Vec<f64>,
    coupling: Coupling,
    beta_ecn: Option<f64>,
}

/// Why a specification is refused: one line that says what was expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecError {
    /// The line.
    pub message: String,
    /// The word that is not one of `known`; empty where the fault is another.
    pub word: String,
    /// The words that are possible in its place, for a suggestion.
    pub known: Vec<&'static str>,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for SpecError {}

impl From<String> for SpecError {
    fn from(message: String) -> SpecError {
        SpecError {
            message,
            ..SpecError::default()
        }
    }
}

impl Algorithm {
    /// Parses a specification such as `reno` or `balia:cap=inf`.
    ///
    /// # Errors
    ///
    /// One line that says what was expected.
    pub fn parse(text: &str) -> Result<Algorithm, SpecError> {
        let mut parts = text.split(':').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let info = find(name)?;
        let mut parameters = Vec::new();
        let mut coupling = None;
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{name}: expected parameter=value, got \"{part}\""))?;
            let (key, value) = (key.trim(), value.trim());
            if key == Coupling::KEY {
                if coupling.is_some() {
                    return Err(format!("{name}: {key} is given twice").into());
                }
                coupling = Some(parse_coupling(name, value)?);
                continue;
            }
            if key != BETA_ECN.name {
                position(info, key)?;
            }
            let number = value
                .parse()
                .map_err(|_| format!("{name}: {key} expects a number, got \"{value}\""))?;
            parameters.push((key, number));
        }
        let algorithm = Algorithm::new(name, &parameters)?;
        Ok(algorithm.with_coupling(coupling.unwrap_or_default()))
    }

    /// The rule called `name` (or an alias), with these parameters and the defaults for the others.
    ///
    /// # Errors
    ///
    /// One line that says what was expected.
    pub fn new(name: &str, parameters: &[(&str, f64)]) -> Result<Algorithm, SpecError> {
        let info = find(name)?;
        let mut values: Vec<f64> = info.parameters.iter().map(|p| p.default).collect();
        let mut beta_ecn = None;
        for (i, &(key, value)) in parameters.iter().enumerate() {
            if parameters[..i].iter().any(|&(earlier, _)| earlier == key) {
                return Err(format!("{name}: {key} is given twice").into());
            }
            if key == BETA_ECN.name {
                check_marks(info)?;
                check(info, &BETA_ECN, value)?;
                beta_ecn = Some(value);
                continue;
            }
            let index = position(info, key)?;
            check(info, &info.parameters[index], value)?;
            values[index] = value;
        }
        Ok(Algorithm {
            info,
            values,
            coupling: Coupling::default(),
            beta_ecn,
        })
    }

    /// The same with another coupling.
    pub fn with_coupling(self, coupling: Coupling) -> Algorithm {
        Algorithm { coupling, ..self }
    }

    /// The rule's name.
    pub fn name(&self) -> &'static str {
        self.info.name
    }

    /// The rule's entry in the table.
    pub fn info(&self) -> &'static Info {
        self.info
    }

    /// The parameters' values, in the order of [`Info::parameters`].
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The paths that the rule couples.
    pub fn coupling(&self) -> Coupling {
        self.coupling
    }

    /// The share of the window that is left at a mark ([`BETA_ECN`]); `None` as at a loss.
    pub fn beta_ecn(&self) -> Option<f64> {
        self.beta_ecn
    }

    /// The rule itself, which couples the paths that it is given.
    pub fn rule(&self) -> AnyRule {
        (self.info.rule)(&self.values)
    }

    /// A controller that runs it; see [`Controller::new`](crate::Controller::new).
    pub fn controller(&self, paths: usize, initial_window: f64) -> AnyController {
        let mut controller = self.rule().controller(paths, initial_window);
        controller.set_coupling(self.coupling);
        controller.set_beta_ecn(self.beta_ecn);
        controller
    }
}

/// The canonical specification: only what differs from its default.
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.name)?;
        for (parameter, value) in self.info.parameters.iter().zip(&self.values) {
            if *value != parameter.default {
                write!(f, ":{}={value}", parameter.name)?;
            }
        }
        if let Some(share) = self.beta_ecn {
            write!(f, ":{}={share}", BETA_ECN.name)?;
        }
        if self.coupling != Coupling::default() {
            write!(f, ":{}={}", Coupling::KEY, self.coupling)?;
        }
        Ok(())
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Algorithm) -> bool {
        self.info.name == other.info.name
            && self.values == other.values
            && self.coupling == other.coupling
            && self.beta_ecn == other.beta_ecn
    }
}

fn find(name: &str) -> Result<&'static Info, SpecError> {
    RULES
        .iter()
        .find(|info| info.name == name || info.aliases.contains(&name))
        .ok_or_else(|| SpecError {
            message: format!(
                "unknown algorithm \"{name}\": expected one of {}",
                list(RULES, |info| info.name)
            ),
            word: name.into(),
            known: RULES
                .iter()
                .flat_map(|info| [info.name].into_iter().chain(info.aliases.iter().copied()))
                .collect(),
        })
}

fn position(info: &Info, key: &str) -> Result<usize, SpecError> {
    let names = || info.parameters.iter().map(|parameter| parameter.name);
    names().position(|name| name == key).ok_or_else(|| {
        let message = if info.parameters.is_empty() {
            format!("unknown parameter \"{key}\": {} takes none", info.name)
        } else {
            let known = list(info.parameters, |parameter| parameter.name);
            format!(
                "unknown parameter \"{key}\" of {}: expected one of {known}",
                info.name
            )
        };
        SpecError {
            message,
            word: key.into(),
            known: names().chain([Coupling::KEY, BETA_ECN.name]).collect(),
        }
    })
}

/// Refuses [`BETA_ECN`] for a rule that does not take a mark as a loss.
fn check_marks(info: &Info) -> Result<(), SpecError> {
    let does = match (info.scalable, info.by_rate) {
        (true, _) => "reduces by the share of packets that are marked",
        (_, true) => "ignores marks",
        _ => return Ok(()),
    };
    let (name, key) = (info.name, BETA_ECN.name);
    Err(format!("{name}: {key} is of rules that take a mark as a loss, and {name} {does}").into())
}

fn parse_coupling(name: &str, value: &str) -> Result<Coupling, SpecError> {
    Coupling::parse(value).map_err(|message| SpecError {
        message: format!("{name}: {message}"),
        word: value.into(),
        known: Coupling::ALL.iter().map(|one| one.name()).collect(),
    })
}

fn check(info: &Info, parameter: &Parameter, value: f64) -> Result<(), SpecError> {
    let Parameter {
        name,
        min,
        max,
        choices,
        unit,
        ..
    } = *parameter;
    let allowed = if choices.is_empty() {
        (min..=max).contains(&value)
    } else {
        choices.contains(&value)
    };
    if allowed {
        return Ok(());
    }
    let expected = if choices.is_empty() {
        format!("a number from {min} to {max}")
    } else {
        format!("one of {}", list(choices, |choice| choice))
    };
    let unit = if unit.is_empty() {
        String::new()
    } else {
        format!(" {unit}")
    };
    Err(format!(
        "{}: {name} = {value} is out of range: expected {expected}{unit}",
        info.name
    )
    .into())
}

fn list<T, D: fmt::Display>(items: &'static [T], show: impl Fn(&'static T) -> D) -> String {
    let shown: Vec<String> = items.iter().map(|item| format!("{}", show(item))).collect();
    shown.join(", ")
}
