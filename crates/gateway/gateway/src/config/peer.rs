//! Peers of a gateway: a public key, or a table with a key and settings for this peer alone.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::destination::Destinations;
use crate::keys::PublicKey;

/// A gateway whose tunnels are accepted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Peer {
    /// Public key, as printed by `keygen`.
    #[serde(deserialize_with = "key")]
    pub key: PublicKey,
    /// Name in status and logs.
    pub name: Option<String>,
    /// Destinations that `far` connects to for this peer, instead of its `allow`.
    pub allow: Option<Destinations>,
}

fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PublicKey, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

impl From<PublicKey> for Peer {
    fn from(key: PublicKey) -> Peer {
        Peer {
            key,
            name: None,
            allow: None,
        }
    }
}

impl<'de> Deserialize<'de> for Peer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Peer, D::Error> {
        deserializer.deserialize_any(KeyOrTable)
    }
}

struct KeyOrTable;

impl<'de> Visitor<'de> for KeyOrTable {
    type Value = Peer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a public key, or a table with key, name and allow")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Peer, E> {
        let key: PublicKey = text.parse().map_err(E::custom)?;
        Ok(key.into())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Peer, M::Error> {
        Peer::deserialize(MapAccessDeserializer::new(map))
    }
}
