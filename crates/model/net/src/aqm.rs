//! Active queue management of this decade: disciplines that hold the delay of a queue at a target.

pub(crate) mod codel;
pub(crate) mod dualpi2;
pub(crate) mod fifo;
pub(crate) mod fq_codel;
pub(crate) mod pie;
pub(crate) mod red;
