//! Names: DNS messages and servers, resolution, and the choice among the addresses of a name.

pub mod addresses;
mod ask;
pub mod dns;
mod race;
mod resolver;
mod system;

pub use ask::ask;
pub use race::race;
pub use resolver::{RESOLVE, Resolver, resolve_far};
