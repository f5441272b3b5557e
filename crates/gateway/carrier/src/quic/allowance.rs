//! Allowances of paths, by their rates and weights.

use std::time::Duration;

use anabranch_quic::controller::Allowance;

use super::clock::now;
use super::delay::Flight;
use super::library::UDP_HEADERS;
use super::paths::Entry;
use crate::config::Role;

/// Interval at which allowances are computed.
pub(super) const PERIOD: Duration = Duration::from_millis(25);

/// Allowance of every path in a [`PERIOD`], bytes, without which it could not be watched.
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
    let now = now();
    let working = entries.iter().filter(|it| it.watch.works(now)).count();
    for entry in entries {
        let in_flight = in_flight(entry, working > 1);
        allow_one(entry, works.then_some(full), full, in_flight);
    }
}

/// Most bytes in flight: while another path works, as many as make a short queue.
fn in_flight(entry: &mut Entry, another_works: bool) -> u64 {
    let flight = entry.open.as_ref().and_then(|open| {
        let (rtt, base_rtt, _) = open.measured();
        Some(Flight {
            bytes: open.report().in_flight_bytes,
            rtt: Duration::try_from_secs_f64(rtt?).ok()?,
            base_rtt: Duration::try_from_secs_f64(base_rtt?).ok()?,
        })
    });
    match flight.filter(|_| another_works) {
        Some(flight) => entry.delay.allowed(flight, now()),
        None => {
            entry.delay.lift();
            u64::MAX
        }
    }
}

fn sent(entry: &Entry) -> u64 {
    entry.counters().sent_bytes
}

fn allow_one(entry: &mut Entry, limit: Option<u64>, full: u64, in_flight: u64) {
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
        in_flight,
        credit,
        pings: entry.watch.is_left(),
    });
    open.set_backup(entry.role == Role::Backup || share.used_up || entry.is_suspected);
}
