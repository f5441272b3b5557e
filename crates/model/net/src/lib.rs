//! Links, queues, losses and rate traces as pure state machines over a given time.
//!
//! A [`Link`] is offered one packet after the other and returns at once when each will be
//! delivered, or why it is lost: the rate, the delay and the failures of a link are known functions
//! of time, so nothing that happens later can change a packet's fate. A [`QueuedLink`] has CoDel,
//! FQ-CoDel or DualPI2, which drop or reorder what waits; it knows a packet's fate when its
//! transmission starts. An [`ImpairedLink`] delays packets by different times, so that they may
//! overtake one another; [`Overtaking`] has those on their way. An [`AnyLink`] is the one of them
//! that its configuration needs. There is no clock and no I/O in this crate: the simulator passes
//! virtual time, the lab real time.
//!
//! ```
//! use anabranch_net::{Fate, Link, LinkConfig, MILLISECOND};
//!
//! // 1500 bytes take 1.2 ms at 10 Mbps, then travel for 60 ms.
//! let mut link = Link::new(LinkConfig::constant(10e6, 60 * MILLISECOND), 1);
//! assert_eq!(link.offer(0, 1500), Fate::Delivered { at: 61_200_000_000 });
//! assert_eq!(link.offer(0, 1500), Fate::Delivered { at: 62_400_000_000 });
//! ```

#![forbid(unsafe_code)]

mod any_link;
mod aqm;
mod arrival;
mod counters;
mod dice;
mod fate;
mod impaired_link;
mod impairments;
mod link;
mod outages;
mod policer;
mod queue;
mod queued_link;
mod rate;
mod scheduled;
mod steps;
pub mod time;
mod trace;
mod transmission;

pub use any_link::{AnyLink, Impaired, Mark, Step};
pub use aqm::codel::Codel;
pub use aqm::dualpi2::DualPi2;
pub use aqm::fq_codel::FqCodel;
pub use aqm::pie::Pie;
pub use aqm::red::Red;
pub use arrival::Backlog;
pub use counters::{Counters, Tally};
pub use dice::Dice;
pub use fate::{Cause, Fate};
pub use impaired_link::{Crossing, ImpairedLink};
pub use impairments::loss::{Arq, Loss};
pub use impairments::overtaking::Overtaking;
pub use impairments::{Displacement, Impairments, Reorder};
pub use link::{Link, LinkConfig};
pub use policer::Policer;
pub use queue::Queue;
pub use queued_link::{Departure, Offer, QueuedLink};
pub use rate::Rate;
pub use scheduled::Scheduled;
pub use steps::Steps;
pub use time::{MILLISECOND, SECOND, Time};
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceError};
pub use transmission::{ATTOBITS_PER_BYTE, Attobits};
