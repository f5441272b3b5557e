//! Who uses a gateway.

use std::fmt::{self, Display};

/// Who uses a gateway: at near a client; at far a key, and near's number of the client behind it,
/// or 0 where near does not say it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Party<K> {
    /// Client, or key.
    pub owner: K,
    /// Number of the client behind it.
    pub part: u32,
}

impl<K: Display> Display for Party<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            0 => self.owner.fmt(f),
            part => write!(f, "{} (its client {part})", self.owner),
        }
    }
}
