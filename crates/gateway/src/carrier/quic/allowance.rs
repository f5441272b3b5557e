//! How much each path may carry: its rate, and its weight.

use std::time::Duration;

use anabranch_quic::controller::{Allowance, SharedController};
use noq::{Connection, PathStatus};

use super::paths::{Entry, UDP_HEADERS};
use crate::config::Role;

/// How often allowances are computed.
pub(super) const PERIOD: Duration = Duration::from_millis(25);

/// What a path of a weight below 1 may be ahead of its share, bytes.
const AHEAD: f64 = 65_536.0;

/// A path that has used its share is used again once it may send this much, bytes.
const WORTHWHILE: f64 = 16_384.0;

/// Every path may send this much in a [`PERIOD`], bytes, so that it can be watched.
const WATCHED: u64 = 3000;

/// The share of a path in what a tunnel carries.
#[derive(Clone, Debug)]
pub(super) struct Share {
    weight: f64,
    /// Bytes per second.
    rate: Option<f64>,
    /// Bytes that do not count: sent while no path of weight 1 worked.
    free: f64,
    used_up: bool,
}

impl Share {
    /// A share as configured.
    pub fn new(weight: f64, rate_mbps: Option<f64>) -> Share {
        Share {
            weight,
            rate: rate_mbps.map(|rate| rate * 1e6 / 8.0),
            free: 0.0,
            used_up: false,
        }
    }

    /// Bytes that the path may send now, if it has sent `own` and the paths of weight 1 `full`.
    fn credit(&mut self, own: u64, full: u64) -> f64 {
        let credit = self.free + self.weight * full as f64 + AHEAD - own as f64;
        self.used_up = credit < if self.used_up { WORTHWHILE } else { 0.0 };
        credit
    }

    /// Nothing limits the path now, and nothing that it sends counts later.
    fn pause(&mut self, own: u64, full: u64) {
        self.free = own as f64 - self.weight * full as f64;
        self.used_up = false;
    }
}

/// Gives each open path its allowance and its status.
pub(super) fn allow(entries: &mut [Entry], connection: &Connection, controller: &SharedController) {
    for entry in entries.iter_mut() {
        if let Some(open) = &mut entry.open {
            open.update(connection);
        }
    }
    let is_full = |entry: &Entry| entry.share.weight >= 1.0;
    let full: u64 = entries.iter().filter(|it| is_full(it)).map(sent).sum();
    let works = entries
        .iter()
        .any(|it| is_full(it) && it.role == Role::Available && it.open.is_some());
    for entry in entries {
        allow_one(entry, works.then_some(full), full, connection, controller);
    }
}

fn sent(entry: &Entry) -> u64 {
    entry.counters().sent_bytes
}

fn allow_one(
    entry: &mut Entry,
    limit: Option<u64>,
    full: u64,
    connection: &Connection,
    controller: &SharedController,
) {
    let own = sent(entry);
    let share = &mut entry.share;
    let credit = match limit.filter(|_| share.weight < 1.0) {
        Some(full) => (share.credit(own, full) as u64).max(WATCHED),
        None => {
            share.pause(own, full);
            u64::MAX
        }
    };
    let Some(open) = &mut entry.open else {
        return;
    };
    let mtu = open.mtu().max(1) as f64;
    let payload = mtu / (mtu + UDP_HEADERS as f64);
    let allowance = Allowance {
        rate: share.rate.map(|rate| rate * payload),
        in_flight: u64::MAX,
        credit,
    };
    controller.allow(open.index, allowance);
    let status = if entry.role == Role::Backup || share.used_up {
        PathStatus::Backup
    } else {
        PathStatus::Available
    };
    open.set_status(connection, status);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_relative_to_the_paths_of_weight_1() {
        let mut share = Share::new(0.1, None);
        assert_eq!(share.credit(0, 0), AHEAD);
        // 0.1 x 10^6 + 65536 - 165536 = 0.
        assert_eq!(share.credit(165_536, 1_000_000), 0.0);
        assert!(!share.used_up);
        assert!(share.credit(165_537, 1_000_000) < 0.0 && share.used_up);
        // A little more does not make it worthwhile; 16384 / 0.1 bytes do.
        assert!(share.credit(165_537, 1_100_000) > 0.0 && share.used_up);
        share.credit(165_537, 1_170_000);
        assert!(!share.used_up);
        // While it was alone it sent 10^7 bytes, which do not count.
        share.pause(10_165_537, 1_170_000);
        assert!((share.credit(10_165_537, 1_170_000) - AHEAD).abs() < 1e-6);
    }
}
