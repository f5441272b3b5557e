//! Congestion controls of the kernel that are algorithms of Anabranch.

use std::{fmt, fs, io};

use anabranch_control::Algorithm;

/// Reason for which an algorithm cannot be used, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// The congestion controls registered in this kernel.
///
/// # Errors
/// If the list can't be read.
pub fn available() -> io::Result<Vec<String>> {
    listed("tcp_available_congestion_control")
}

/// Congestion controls that unprivileged users may choose, and that may be a namespace's default.
///
/// # Errors
/// If the list can't be read.
pub fn unrestricted() -> io::Result<Vec<String>> {
    listed("tcp_allowed_congestion_control")
}

fn listed(parameter: &str) -> io::Result<Vec<String>> {
    let file = format!("/proc/sys/net/ipv4/{parameter}");
    let names = fs::read_to_string(&file);
    let names = names.map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// Name of an algorithm in a kernel that has registered those in `registered`. A registered name is
/// used as it is, unless the table's rule of that name has another name in the kernel (`vegas`).
/// Any other name is looked up in the table.
///
/// # Errors
/// If the algorithm has parameters, or is not registered.
pub fn kernel_name(wanted: &str, registered: &[String]) -> Result<String, Unavailable> {
    let has = |name: &str| registered.iter().any(|known| known == name);
    let known = Algorithm::parse(wanted).ok();
    let linux_name = known.as_ref().map(|known| known.info().linux_name());
    let is_renamed = linux_name.as_deref() != Some(wanted)
        && known.as_ref().is_some_and(|known| known.name() == wanted);
    if !is_renamed && has(wanted) {
        return Ok(wanted.to_owned());
    }
    let canonical = known.map_or(wanted.to_owned(), |known| known.to_string());
    if canonical.contains(':') {
        return Err(Unavailable(format!(
            "algorithm {canonical:?} is not available on kernel: parameters are set when an \
             algorithm is loaded; pass them to `anabranch-kernel load`, and omit them here"
        )));
    }
    let name = linux_name.unwrap_or_else(|| canonical.replace('-', "_"));
    if has(&name) {
        return Ok(name);
    }
    Err(Unavailable(format!(
        "algorithm {name:?} is not registered in this kernel, which has {}: load it with \
         `anabranch-kernel load {name}`, if `anabranch-kernel list` has it",
        registered.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(wanted: &str, registered: &[&str]) -> Result<String, String> {
        let registered: Vec<String> = registered.iter().map(|&name| name.to_owned()).collect();
        kernel_name(wanted, &registered).map_err(|error| error.to_string())
    }

    #[test]
    fn registered_names_are_used_as_they_are() {
        for name in ["reno", "cubic", "bbr"] {
            assert_eq!(named(name, &["reno", "cubic", "bbr"]), Ok(name.to_owned()));
        }
    }

    #[test]
    fn names_of_the_table_map_to_those_of_the_kernel() {
        let registered = ["lia", "rsf_db", "vegas", "vegas_k"];
        assert_eq!(named("max", &registered), Ok("lia".to_owned()));
        assert_eq!(named("rsf-db", &registered), Ok("rsf_db".to_owned()));
        assert_eq!(named("vegas", &registered), Ok("vegas_k".to_owned()));
    }

    #[test]
    fn an_unregistered_algorithm_is_an_error_that_says_how_to_load_it() {
        let error = named("olia", &["reno", "cubic"]).unwrap_err();
        assert_eq!(
            error,
            "algorithm \"olia\" is not registered in this kernel, which has reno, cubic: load it \
             with `anabranch-kernel load olia`, if `anabranch-kernel list` has it"
        );
    }

    #[test]
    fn parameters_are_rejected() {
        let error = named("balia:cap=inf", &["balia"]).unwrap_err();
        assert!(
            error.contains("parameters are set when an algorithm is loaded"),
            "{error}"
        );
        // The default value is not written, so it is no parameter.
        assert_eq!(named("balia:cap=1.5", &["balia"]), Ok("balia".to_owned()));
    }
}
