//! How much each path may carry: its rate, and its weight.

use std::time::Duration;

use anabranch_quic::controller::Allowance;

use super::library::UDP_HEADERS;
use super::paths::Entry;
use crate::config::Role;

/// How often allowances are computed.
pub(super) const PERIOD: Duration = Duration::from_millis(25);

/// Every path may send this much in a [`PERIOD`], bytes, so that it can be watched.
const WATCHED: u64 = 3000;

/// Gives each open path its allowance and its status.
pub(super) fn allow(entries: &mut [Entry]) {
    for entry in entries.iter_mut() {
        if let Some(open) = &mut entry.open {
            open.update();
        }
    }
    let is_full = |entry: &Entry| entry.share.weight >= 1.0;
    let full: u64 = entries.iter().filter(|it| is_full(it)).map(sent).sum();
    let works = entries
        .iter()
        .any(|it| is_full(it) && it.role == Role::Available && it.open.is_some());
    for entry in entries {
        allow_one(entry, works.then_some(full), full);
    }
}

fn sent(entry: &Entry) -> u64 {
    entry.counters().sent_bytes
}

fn allow_one(entry: &mut Entry, limit: Option<u64>, full: u64) {
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
    let mtu = f64::from(open.mtu().max(1));
    let payload = mtu / (mtu + UDP_HEADERS as f64);
    open.allow(Allowance {
        rate: share.rate.map(|rate| rate * payload),
        in_flight: u64::MAX,
        credit,
    });
    open.set_backup(entry.role == Role::Backup || share.used_up || entry.is_suspected);
}
