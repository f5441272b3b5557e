//! The scenario file: its text, its keys, what may be written in it, and its JSON Schema.

pub(crate) mod bounded;
pub(crate) mod document;
pub(crate) mod foreign;
pub(crate) mod key;
mod link;
mod phrase;
mod queue;
mod reader;
pub(crate) mod schema;
pub(crate) mod written;
