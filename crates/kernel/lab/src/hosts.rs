//! The hosts: network namespaces, their devices and addresses, and programs that run in them.

pub mod address;
pub mod algorithms;
pub mod host;
pub mod program;
pub mod setup;
pub mod sys;
