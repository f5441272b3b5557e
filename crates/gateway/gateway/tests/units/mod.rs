//! Parts of the gateway by themselves, without a network.

mod addresses;
mod counters;
mod destinations;
mod limits;
mod tasks;
mod wire;
