//! Names: DNS messages and servers, resolution, and the choice among the addresses of a name.
//!
//! The crate hickory-resolver was considered. It would replace `system` and `addresses`. The relay
//! of queries (`dns`, `ask`), the shares of clients and a cache would stay: its own cache forgets
//! failures, and cannot be read without waiting.

pub mod addresses;
mod ask;
pub mod dns;
mod resolver;
mod system;

pub use anabranch_carrier::race::race;
pub use ask::ask;
pub use resolver::{RESOLVE, Resolver, resolve_far};
