//! The kernel backend: runs a scenario with real Linux hosts in real time.
//!
//! Each user is a network namespace with a TUN device per path; one more namespace is the server
//! that all users send to. One thread reads packets from the devices, passes them through the links
//! of their paths ([`anabranch_net::Link`], in real time) and writes them to the device at the
//! other end. The hosts run the kernel's own TCP, Multipath TCP and path manager.
//!
//! The emulator, a pure state machine over given times, needs no root:
//!
//! ```
//! use anabranch_lab::network::emulator::{Device, Emulator, ReturnWay};
//! use anabranch_net::MILLISECOND;
//! use anabranch_scenario::Scenario;
//! use anabranch_scenario::users::user_slots;
//!
//! let text = r#"
//! algorithm = "reno"
//! measure.duration_s = 1
//! links.A = { rate_mbps = 10, delay_ms = 5 }
//! flows = [{ name = "one", paths = [["A"]] }]
//! "#;
//! let scenario = Scenario::parse(text.as_bytes(), "example", &[]).unwrap();
//! let users = user_slots(&scenario, 1);
//! let mut emulator = Emulator::new(&scenario, &users, ReturnWay::Delay, 1, ());
//! let mut packet = vec![0; 1250]; // 1 ms at 10 Mbps
//! packet[0] = 0x45; // IPv4
//! emulator.send(0, Device::Path(0), packet);
//! let delivery = emulator.deliver(10 * MILLISECOND).expect("one packet is due");
//! assert_eq!((delivery.due, delivery.to), (6 * MILLISECOND, Device::Server));
//! ```

mod agents;
pub mod check;
pub mod control_socket;
mod error;
pub mod hosts;
mod lab;
pub mod network;
pub mod program;

pub use error::Error;
pub use hosts::open_tun;
pub use lab::{Lab, Outcome, exit_on_panic};
pub use network::forwarder::LatenessSummary;
