//! The scenario file: its text, its keys, what may be written in it, and its JSON Schema.

pub(crate) mod bounded;
pub(crate) mod document;
pub(crate) mod key;
mod link;
mod phrase;
pub(crate) mod schema;
mod shape;
mod tcp;
pub(crate) mod written;
