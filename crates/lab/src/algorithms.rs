//! Which of the kernel's congestion controls a flow runs.

use std::fs;

use anabranch_control::Algorithm;
use anabranch_scenario::Scenario;

use crate::error::{Context, Error};

/// The kernel's name of each flow's algorithm. Flows without an algorithm of their own run `chosen`,
/// if it is given: any name the kernel has, so also those that only the kernel has (`bbr`).
///
/// # Errors
/// If an algorithm has parameters, or the kernel does not have it.
pub fn of_flows(scenario: &Scenario, chosen: Option<&str>) -> Result<Vec<String>, Error> {
    let there = available()?;
    let flows = scenario.flows.iter().enumerate();
    flows
        .map(|(index, flow)| {
            let wanted = match chosen {
                Some(name) if !scenario.has_own_algorithm(index) => name.to_owned(),
                _ => flow.algorithm.to_string(),
            };
            kernel_name(&wanted, &there)
        })
        .collect()
}

/// The congestion controls registered in this kernel.
///
/// # Errors
/// If the kernel does not tell.
pub fn available() -> Result<Vec<String>, Error> {
    listed("tcp_available_congestion_control")
}

/// Those that a namespace may have as its default, and any user may choose.
///
/// # Errors
/// If the kernel does not tell.
pub fn unrestricted() -> Result<Vec<String>, Error> {
    listed("tcp_allowed_congestion_control")
}

fn listed(parameter: &str) -> Result<Vec<String>, Error> {
    let file = format!("/proc/sys/net/ipv4/{parameter}");
    let names = fs::read_to_string(&file).context(&file)?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// An algorithm's name in the kernel, of those that are `there`. A name that the kernel has stands
/// for itself, unless the table's rule of that name has another name there (`vegas`); other names are
/// those of the table.
fn kernel_name(wanted: &str, there: &[String]) -> Result<String, Error> {
    let has = |name: &str| there.iter().any(|known| known == name);
    let known = Algorithm::parse(wanted).ok();
    let linux_name = known.as_ref().map(|known| known.info().linux_name());
    let is_renamed = linux_name.as_deref() != Some(wanted)
        && known.as_ref().is_some_and(|known| known.name() == wanted);
    if !is_renamed && has(wanted) {
        return Ok(wanted.to_owned());
    }
    let canonical = known.map_or(wanted.to_owned(), |known| known.to_string());
    if canonical.contains(':') {
        return Err(Error::new(format!(
            "algorithm {canonical:?} is not available on kernel: there an algorithm has no parameters \
             but those it was loaded with; give them to `anabranch-kernel load` and name it without"
        )));
    }
    let name = linux_name.unwrap_or_else(|| canonical.replace('-', "_"));
    if has(&name) {
        return Ok(name);
    }
    Err(Error::new(format!(
        "algorithm {name:?} is not registered in this kernel, which has {}: load it with \
         `anabranch-kernel load {name}`, if `anabranch-kernel list` has it",
        there.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(wanted: &str, there: &[&str]) -> Result<String, String> {
        let there: Vec<String> = there.iter().map(|&name| name.to_owned()).collect();
        kernel_name(wanted, &there).map_err(|error| error.to_string())
    }

    #[test]
    fn the_kernels_own_names_stand_for_themselves() {
        for name in ["reno", "cubic", "bbr"] {
            assert_eq!(named(name, &["reno", "cubic", "bbr"]), Ok(name.to_owned()));
        }
    }

    #[test]
    fn names_of_the_table_find_theirs_in_the_kernel() {
        let there = ["lia", "rsf_db", "vegas", "vegas_k"];
        assert_eq!(named("max", &there), Ok("lia".to_owned()));
        assert_eq!(named("rsf-db", &there), Ok("rsf_db".to_owned()));
        assert_eq!(named("vegas", &there), Ok("vegas_k".to_owned()));
    }

    #[test]
    fn what_is_not_loaded_says_how_to_load_it() {
        let error = named("olia", &["reno", "cubic"]).unwrap_err();
        assert_eq!(
            error,
            "algorithm \"olia\" is not registered in this kernel, which has reno, cubic: load it \
             with `anabranch-kernel load olia`, if `anabranch-kernel list` has it"
        );
    }

    #[test]
    fn parameters_are_refused() {
        let error = named("balia:cap=inf", &["balia"]).unwrap_err();
        assert!(error.contains("no parameters"), "{error}");
        // What the table gives by default is not a parameter.
        assert_eq!(named("balia:cap=1.5", &["balia"]), Ok("balia".to_owned()));
    }
}
