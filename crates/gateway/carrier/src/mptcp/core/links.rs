//! Connections of streams as the kernel reports them: their paths, what they hold, their weights.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anabranch_sockets::{Subflow, unacknowledged_bytes, unread_bytes, unsent_bytes};
use socket2::SockRef;
use tokio::time::Instant;

use super::super::link::Link;
use super::super::paths::subflows;
use super::Core;

/// Least time between two looks at the kernel's state.
const LOOK: Duration = Duration::from_millis(20);

/// Time after a change of the paths for which all connections are looked at, and the longest time
/// between two looks at idle ones.
const SETTLE: Duration = Duration::from_secs(1);

/// Time within which all paths of a connection have opened, unless nothing returns over one.
const JOINS: Duration = Duration::from_secs(2);

/// Time without progress after which a connection with unread or unsent data may be reset.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections other than the first.
#[derive(Debug, Default)]
pub struct Links {
    /// Number of the next.
    pub next: u64,
    pub present: HashMap<u64, Watched>,
    /// Last state of the subflows of those that have ended since the last look.
    pub retired: Vec<Subflow>,
    looked: Option<Instant>,
    /// Subflows of the first connection, and the time at which their number last changed.
    changed: Option<Instant>,
    first: Vec<Subflow>,
    /// Time of the last look at all connections.
    all: Option<Instant>,
    /// Number of connections with data on the way, between which kappa is divided.
    busy: usize,
}

/// A connection as last seen.
#[derive(Debug)]
pub struct Watched {
    pub link: Weak<Link>,
    /// Time since which it lacks a path that works.
    pub lacks: Option<Instant>,
    pub subflows: Vec<Subflow>,
    /// Time at which its stream last moved.
    pub moved: Option<Instant>,
    /// Data that waits in the kernel to be read or acknowledged, and the time of its last progress.
    pub held: Option<(u64, u64, Instant)>,
}

/// Addresses among these over which a connection has no path.
fn lacked(link: &Link, wanted: &HashSet<IpAddr>) -> Vec<IpAddr> {
    let (multipath, subflows) = subflows(&link.socket).unwrap_or_default();
    let open = subflows.iter().filter(|it| it.open);
    let open: HashSet<IpAddr> = open
        .filter_map(|it| Some(it.local?.ip().to_canonical()))
        .collect();
    match multipath {
        true => wanted.difference(&open).copied().collect(),
        false => Vec::new(),
    }
}

impl Core {
    /// Closes the connections that wait for their use and lack a path that works, so that others
    /// are opened. Returns the local addresses of such paths: the kernel has tried to open them
    /// once, and nothing has returned.
    pub fn close_lame(&self) -> HashSet<IpAddr> {
        let working = self.paths().working();
        let mut missing = HashSet::new();
        for link in self.waiting_for_use() {
            let lacked = lacked(&link, &working);
            if self.lacks(link.number, !lacked.is_empty()) > JOINS {
                self.discard(&link);
                missing.extend(lacked);
            }
        }
        missing
    }

    /// Closes the connections that wait for their use and that far has ended.
    pub fn close_ended(&self) {
        let waiting = self.waiting_for_use();
        let ended = waiting.iter().filter(|link| !link.is_fresh());
        ended.for_each(|link| self.discard(link));
    }

    /// Takes a connection from those that wait for their use. The caller drops it without a lock.
    fn discard(&self, link: &Arc<Link>) {
        self.idle.lock().retain(|it| !Arc::ptr_eq(it, link));
    }

    /// On `far`, the connections that carry no stream.
    pub fn unused(&self) -> impl Iterator<Item = Arc<Link>> {
        let present = self.present().into_iter().map(|(_, link)| link);
        present.filter(|link| link.is_over())
    }

    /// Takes the next connection that waits for its use: one that has all paths that work, if any
    /// has. Another one may be about to open them, or never.
    pub(super) fn next_idle(&self) -> Option<Arc<Link>> {
        let working = self.paths().working();
        let idle = self.waiting_for_use();
        let whole = idle.iter().find(|link| lacked(link, &working).is_empty());
        let chosen = whole.or(idle.first())?.clone();
        let mut present = self.idle.lock();
        let index = present.iter().position(|it| Arc::ptr_eq(it, &chosen));
        // Another user may have taken it meanwhile.
        match index {
            Some(index) => present.remove(index),
            None => present.pop_front(),
        }
    }

    /// Records whether a connection lacks a path. Returns for how long it does.
    fn lacks(&self, number: u64, any: bool) -> Duration {
        match self.links.lock().present.get_mut(&number) {
            Some(watched) if any => watched.lacks.get_or_insert_with(Instant::now).elapsed(),
            Some(watched) => {
                watched.lacks = None;
                Duration::ZERO
            }
            None => Duration::ZERO,
        }
    }

    /// Connections that wait for their use. They are dropped without a lock.
    fn waiting_for_use(&self) -> Vec<Arc<Link>> {
        self.idle.lock().iter().cloned().collect()
    }

    /// Connections other than the first. They are dropped without a lock.
    pub(super) fn present(&self) -> Vec<(u64, Arc<Link>)> {
        let links = self.links.lock();
        let present = links.present.iter();
        present
            .filter_map(|(number, it)| Some((*number, it.link.upgrade()?)))
            .collect()
    }

    /// Data that streams have accepted and that the kernel has not sent, bytes.
    pub fn unsent_bytes(&self) -> u64 {
        let of = |link: &Link| {
            let (_, subflows) = subflows(&link.socket).unwrap_or_default();
            let taken: u64 = subflows
                .iter()
                .map(|subflow| u64::from(subflow.unsent))
                .sum();
            let in_subflows = if subflows.len() > 1 { taken } else { 0 };
            unsent_bytes(&*link.socket).unwrap_or(0) + in_subflows
        };
        self.present().iter().map(|(_, link)| of(link)).sum()
    }

    /// Reads the state of the paths, of the connections that carry data. Returns whether the tunnel
    /// uses Multipath TCP, `None` once closed.
    pub fn update_paths(&self) -> Option<bool> {
        let present = self.present();
        let mut paths = self.paths();
        let control = self.control.lock().clone()?;
        let now = Instant::now();
        let mut links = self.links.lock();
        if links.looked.is_some_and(|looked| now < looked + LOOK) {
            return paths.multipath;
        }
        links.looked = Some(now);
        let first = subflows(&control).ok();
        let of_first = first.as_ref().map_or(&[][..], |(_, first)| first);
        // When a path is cut or opened, that of all connections is, within a while.
        if of_first.len() != links.first.len() {
            links.changed = Some(now);
        }
        links.first = of_first.to_vec();
        let is_past = |then: Option<Instant>| then.is_none_or(|then| now >= then + SETTLE);
        let all = !is_past(links.changed) || is_past(links.all);
        if all {
            links.all = Some(now);
        }
        let mut busy = 0;
        for (number, link) in &present {
            let Some(watched) = links.present.get_mut(number) else {
                continue;
            };
            let in_flight = watched
                .subflows
                .iter()
                .any(|it| it.in_flight > 0 || it.unsent > 0);
            busy += usize::from(in_flight);
            if link.has_moved.swap(false, Ordering::Relaxed) {
                watched.moved = Some(now);
            }
            // One that waits for what a dead path has does not move, and shows which path is alive.
            if is_past(watched.moved) && !(all || in_flight) {
                continue;
            }
            let Ok((_, seen)) = subflows(&link.socket) else {
                continue;
            };
            if seen.len() > watched.subflows.len() {
                let _ = self.choose(&link.socket);
            }
            watched.subflows = seen;
        }
        let changed = std::mem::replace(&mut links.busy, busy) != busy;
        let retired = std::mem::take(&mut links.retired);
        let of_links: Vec<Subflow> = links
            .present
            .values()
            .flat_map(|it| it.subflows.clone())
            .collect();
        drop(links);
        paths.update(first, of_links, &retired);
        let multipath = paths.multipath;
        drop(paths);
        if changed {
            self.share_kappa();
        }
        multipath
    }

    /// Resets the connection that holds most in the kernel and has stalled, while all together hold
    /// more than the tunnel's buffer; beyond twice as much also one that has not. Must be called
    /// every second.
    pub fn relieve(&self) {
        let (present, now) = (self.present(), Instant::now());
        let mut links = self.links.lock();
        let (mut sum, mut stalled) = (0, Vec::new());
        for (number, link) in &present {
            let Some(watched) = links.present.get_mut(number) else {
                continue;
            };
            let unread = unread_bytes(&*link.socket).unwrap_or(0);
            let unsent = unacknowledged_bytes(&*link.socket).unwrap_or(0);
            let moved: u64 = watched.subflows.iter().map(|it| it.bytes_sent).sum();
            let same = |(held, before, since): (u64, u64, Instant)| {
                (held <= unread + unsent && before == moved).then_some(since)
            };
            let since = watched.held.and_then(same).unwrap_or(now);
            watched.held = Some((unread + unsent, moved, since));
            sum += unread + unsent;
            stalled.push((unread + unsent, since, link));
        }
        drop(links);
        let most = self.limits.tunnel_buffer_bytes as u64;
        // A peer that wants to fill the memory makes progress with none, and none has to wait.
        let patience = if sum > 2 * most {
            Duration::ZERO
        } else {
            PATIENCE
        };
        stalled.retain(|(held, since, _)| *held > 0 && now >= *since + patience);
        stalled.sort_by_key(|(held, ..)| *held);
        while sum > most
            && let Some((held, _, link)) = stalled.pop()
        {
            sum -= held;
            link.is_stalled.store(true, Ordering::Relaxed);
            link.lost.cancel();
            link.reset();
        }
    }

    /// Gives each connection its part of kappa: those that carry data keep kappa packets in the
    /// queues together, as one connection would.
    pub(super) fn share_kappa(&self) {
        let (Some(kappas), Some(kappa)) = (&self.kappas, self.kappa()) else {
            return;
        };
        let present = self.present();
        let part = kappa / self.links.lock().busy.max(1) as f64;
        for (_, link) in &present {
            let cookie = SockRef::from(&*link.socket).cookie();
            if let Err(error) = cookie.and_then(|cookie| kappas.set(cookie, part)) {
                tracing::warn!("setting the weight {part}: {error}");
                return;
            }
        }
    }
}
