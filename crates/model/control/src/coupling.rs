//! Groups of the paths of a connection that its rule couples: a layer above every rule.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The paths that a rule couples. The paths are divided into groups, and each group is a connection
/// of its own to the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coupling {
    /// All paths are one group: the rule as published.
    #[default]
    Always,
    /// The paths whose delays are correlated are a group: they share a bottleneck.
    Shared,
    /// As [`Shared`](Coupling::Shared), but found as RFC 8382 does.
    Rfc8382,
    /// Every path is a group of its own.
    Never,
}

impl Coupling {
    /// The name that it has in a specification: `lia:coupling=shared`.
    pub const KEY: &'static str = "coupling";

    /// Every choice, the default first.
    pub const ALL: [Coupling; 4] = [
        Coupling::Always,
        Coupling::Shared,
        Coupling::Rfc8382,
        Coupling::Never,
    ];

    /// The choice of this name.
    ///
    /// # Errors
    ///
    /// One line that says what was expected.
    pub fn parse(name: &str) -> Result<Coupling, String> {
        let found = Coupling::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = Coupling::ALL.iter().map(|one| one.name()).collect();
            format!(
                "coupling expects one of {}, got \"{name}\"",
                names.join(", ")
            )
        })
    }

    /// Name in a specification.
    pub fn name(self) -> &'static str {
        match self {
            Coupling::Always => "always",
            Coupling::Shared => "shared",
            Coupling::Rfc8382 => "rfc8382",
            Coupling::Never => "never",
        }
    }

    /// One line for a list of algorithms.
    pub fn meaning(self) -> &'static str {
        match self {
            Coupling::Always => "all paths are coupled: the rule as published",
            Coupling::Shared => {
                "paths that share a bottleneck are coupled: their delays are correlated"
            }
            Coupling::Rfc8382 => {
                "paths that share a bottleneck by RFC 8382 are coupled, for comparison"
            }
            Coupling::Never => "no paths are coupled: each is a connection of its own",
        }
    }
}

impl fmt::Display for Coupling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
