//! Names: DNS messages and servers, resolution, and the choice among the addresses of a name.
//!
//! The crate hickory-resolver would replace `system` and the queries for addresses alone. Places
//! per client are the point here (`Resolver`): a client that asks for many names takes no other
//! client's lookups. The relay of queries (`dns`) and a cache would stay, too: its own cache
//! forgets failures, and cannot be read without waiting.

pub mod dns;
mod resolver;
mod system;

pub use anabranch_carrier::socket::race;
pub use dns::ask;
pub use resolver::{RESOLVE, Resolver, resolve_far};
