//! Names: DNS messages and servers, resolution, and the choice among the addresses of a name.

pub mod addresses;
mod ask;
pub mod dns;
mod resolver;
mod system;

pub use anabranch_carrier::race::race;
pub use ask::ask;
pub use resolver::{RESOLVE, Resolver, resolve_far};
