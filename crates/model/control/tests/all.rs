//! The guarantees of the rules and of the controller, each property in a file.

mod algorithm;
mod bbr3;
mod common;
mod controller;
mod coupled_cubic;
mod coupling;
mod cubic;
mod golden;
mod itcp;
mod known_faults;
mod laws;
mod marks;
mod measured;
mod nada;
mod operations;
mod page;
mod per_round;
mod soft;
mod vegas;
