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
mod codel;
mod dice;
mod impairments;
mod link;
mod packet;
mod pie;
mod queue;
mod queued_link;
mod rate;
mod steps;
pub mod time;

pub use any_link::{AnyLink, Impaired, Mark, Step};
pub use codel::{Codel, FqCodel};
pub use dice::{Dice, weibull_scale};
pub use impairments::{Arq, Displacement, Impairments, Loss, Overtaking, Reorder};
pub use link::{Crossing, ImpairedLink, Link, LinkConfig};
pub use packet::{ATTOBITS_PER_BYTE, Attobits, Backlog, Cause, Counters, Fate, Tally};
pub use pie::{DualPi2, Pie};
pub use queue::{Policer, Queue, Red};
pub use queued_link::{Departure, Offer, QueuedLink};
pub use rate::{OPPORTUNITY_BYTES, Rate, Trace, TraceError};
pub use steps::Steps;
pub use time::{MILLISECOND, SECOND, Scheduled, Time};
