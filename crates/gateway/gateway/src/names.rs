//! Names: DNS messages and servers, resolution, and the choice among the addresses of a name.
//!
//! The crate hickory-resolver would replace `system` and `addresses` alone. Places per client are
//! the point here (`Resolver`): a client that asks for many names takes no other client's lookups.
//! The relay of queries (`dns`, `ask`) and a cache would stay, too: its own cache forgets failures,
//! and cannot be read without waiting.

pub mod addresses;
mod ask;
pub mod dns;
mod resolver;
mod system;

pub use anabranch_carrier::race::race;
pub use ask::ask;
pub use resolver::{RESOLVE, Resolver, resolve_far};
