//! Names: DNS messages and servers, resolution, and the choice among the addresses of a name.
//!
//! The crate hickory-resolver was considered. It would replace `system` and `addresses`, but
//! neither the relay of queries (`dns`, `ask`), nor the shares of clients, nor what is remembered
//! of failures: 200 lines less for some 25 crates more.

pub mod addresses;
mod ask;
pub mod dns;
mod resolver;
mod system;

pub use anabranch_carrier::race::race;
pub use ask::ask;
pub use resolver::{RESOLVE, Resolver, resolve_far};
