//! Destinations by host, network and port: rules of `near`, the allow-list of `far`.

use serde::Deserialize;

/// What happens to connections to some destinations.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A host (`example.org`), all below a domain (`*.example.org`), a network (`10.0.0.0/8`) or
    /// `*`, each with an optional port or range: `example.org:443`, `*:1-1023`.
    pub to: String,
    /// What happens.
    pub via: String,
}

/// A list of destinations, written like [`Rule::to`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Destinations(pub Vec<String>);
