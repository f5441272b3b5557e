//! A discrete-event packet simulator for TCP and Multipath TCP.
//!
//! A [`Simulation`] runs one scenario with one seed in virtual time, in integer picoseconds, and
//! fills the tables of a Result. Data packets cross links with queues; acknowledgements return over
//! a pure delay: they are neither queued nor lost. [`sharing`] is a fluid model of one shared server.

mod build;
mod calendar;
mod connection;
mod network;
pub mod sharing;
mod simulation;

pub use simulation::Simulation;
