//! Paths of an end, whichever numbers the library gives them: those of `near` as configured, those
//! of `far` as `near` announces them; and their allowances.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_quic::controller::Allowance;
use anabranch_quic::watch::{Advice, PathWatch};
use parking_lot::Mutex;

use super::control::Opens;
use super::library::{
    Connection, Counters, Event, LastPath, OpenPath, Slot, Sockets, UDP_HEADERS, now,
};
use super::limits::{DelayBound, Flight, Share};
use crate::config::Role;
use crate::socket::interface_of;
use crate::{Condition, Lines, PathState};

/// Interval of the pings of a path with nothing in flight, while the tunnel carries data.
const PING: Duration = Duration::from_millis(100);

/// Interval of these pings while the tunnel is idle.
const IDLE_PING: Duration = Duration::from_secs(1);

/// Time without data after which a tunnel is idle.
const IDLE: Duration = Duration::from_secs(5);

/// Most bytes that pings and their acknowledgements take on a path in one
/// [`PERIOD`].
const PING_BYTES: u64 = 400;

/// A path, identified by its name.
#[derive(Debug)]
pub(super) struct Entry {
    /// Name that is configured at `near`.
    pub name: String,
    /// Role that is configured at `near`.
    pub role: Role,
    /// Limits of its load.
    pub share: Share,
    /// Open path of the library.
    pub open: Option<OpenPath>,
    /// Judge of whether the path works.
    pub watch: PathWatch,
    /// Whether the path may be dead while another works. Then neither data nor acknowledgements go
    /// over it, which the library would send again late.
    pub is_suspected: bool,
    /// Whether the other end prefers other paths.
    is_backup_of_peer: bool,
    /// Bound of its queue.
    pub delay: DelayBound,
    /// Number of times that the path was found dead.
    pub deaths: u64,
    /// Configuration and socket, at `near`.
    pub slot: Option<Arc<Slot>>,
    /// Lines in the log that the peer causes, at `far`.
    lines: Option<Arc<Mutex<Lines>>>,
    /// Counters of the library's earlier paths.
    past: Counters,
}

impl Entry {
    /// A path that is not open.
    pub fn new(name: String, role: Role, share: Share, slot: Option<Arc<Slot>>) -> Entry {
        Entry {
            name,
            role,
            share,
            open: None,
            // `far` cannot leave a path.
            watch: match &slot {
                Some(_) => PathWatch::new(now()),
                None => PathWatch::led(now()),
            },
            is_suspected: false,
            is_backup_of_peer: false,
            delay: DelayBound::default(),
            deaths: 0,
            slot,
            lines: None,
            past: Counters::default(),
        }
    }

    /// Counters of the path since the tunnel was established.
    pub fn counters(&self) -> Counters {
        let open = self.open.as_ref().map(OpenPath::counters);
        self.past.plus(open.unwrap_or_default())
    }

    /// Bytes sent and received since the tunnel was established.
    pub fn carried(&self) -> u64 {
        let counters = self.counters();
        counters.sent_bytes + counters.received_bytes
    }

    /// Whether the path is not to be used.
    fn is_off(&self) -> bool {
        let cap = self.slot.as_ref().and_then(|slot| slot.config.cap_bytes);
        self.role == Role::Never || cap.is_some_and(|cap| self.carried() >= cap)
    }

    /// Records the library's path, which is open now.
    pub fn opened(&mut self, path: OpenPath) {
        self.release("path closed: it is opened anew");
        self.log(&path, "path opened");
        self.watch.opened(now());
        (self.is_suspected, self.is_backup_of_peer) = (false, false);
        self.open = Some(path);
    }

    /// Logs what happens to a path. At `far` its peer could fill the log with that.
    fn log(&self, path: &OpenPath, what: &str) {
        let (path, id) = (&self.name, path.number());
        let now = tokio::time::Instant::now();
        let counted = self.lines.as_ref().map(|lines| lines.lock().count(now));
        match counted {
            None | Some(Some(0)) => tracing::info!(path, id, "{what}"),
            Some(Some(unlogged)) => tracing::info!(path, id, unlogged, "{what}"),
            Some(None) => tracing::debug!(path, id, "{what}"),
        }
    }

    /// Records that the library has closed its path, if it was open, and logs why.
    pub fn closed(&mut self, why: &str) {
        if self.open.is_some() {
            self.release(why);
            self.watch.closed(now());
        }
    }

    fn release(&mut self, why: &str) {
        if let Some(open) = self.open.take() {
            self.log(&open, why);
            self.past = self.past.plus(open.closed());
        }
        if let Some(slot) = &self.slot {
            slot.end_detour();
        }
    }

    /// Whether the other end suspects the path: it prefers others, for which there is no other
    /// reason. Only `near` knows that a share is used up.
    fn is_suspected_by_peer(&self) -> bool {
        self.is_backup_of_peer && self.role == Role::Available && self.share.weight >= 1.0
    }

    /// Makes the other end acknowledge something.
    fn ping(&self) {
        if let Some(open) = &self.open {
            open.ping();
        }
    }

    fn condition(&self) -> Condition {
        let is_near = self.slot.is_some();
        match &self.open {
            _ if self.is_off() => Condition::Off,
            None if self.deaths > 0 || self.watch.is_overdue(now()) => Condition::Dead,
            None => Condition::Opening,
            Some(open) if is_near && open.report().rtt_samples == 0 => Condition::Opening,
            Some(_) if self.role == Role::Backup => Condition::Standby,
            Some(_) => Condition::Up,
        }
    }

    /// Reason for which the path carries nothing.
    fn reason(&self, condition: Condition) -> Option<String> {
        let slot = self.slot.as_ref()?;
        match condition {
            Condition::Off if slot.lacks_family() => {
                Some("far has no address of its family".to_owned())
            }
            Condition::Off if slot.config.role == Role::Never => {
                Some("its role is never".to_owned())
            }
            Condition::Off => Some("its cap_bytes are used up".to_owned()),
            Condition::Standby => Some("its role is backup".to_owned()),
            Condition::Dead => Some(slot.fault()),
            Condition::Opening if self.watch.is_overdue(now()) => Some(slot.fault()),
            Condition::Opening | Condition::Up => None,
        }
    }

    fn state(&self) -> PathState {
        let counters = self.counters();
        let condition = self.condition();
        let local = match &self.slot {
            Some(slot) => slot.local(),
            None => self.open.as_ref().and_then(OpenPath::local),
        };
        let interface = self.slot.as_ref().and_then(|slot| {
            let configured = slot.config.interface.clone();
            configured.or_else(|| interface_of(slot.config.address?))
        });
        let open = self.open.as_ref();
        let (rtt_s, base_rtt_s, window_packets) = open.map(OpenPath::measured).unwrap_or_default();
        PathState {
            name: self.name.clone(),
            reason: self.reason(condition),
            condition,
            local,
            interface,
            sent_bytes: counters.sent_bytes,
            received_bytes: counters.received_bytes,
            sent_packets: counters.sent_packets,
            lost_packets: counters.lost_packets,
            rtt_s,
            base_rtt_s,
            window_packets,
            mtu_bytes: open.map_or(0, |open| open.mtu().into()),
            deaths: self.deaths,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.closed("path closed: the tunnel has ended");
    }
}

/// Paths of a tunnel.
#[derive(Debug)]
pub(super) struct Paths {
    pub connection: Connection,
    pub entries: Vec<Entry>,
    pings: Pings,
}

impl Paths {
    /// A tunnel with these paths, none of which is open.
    pub fn new(connection: Connection, entries: Vec<Entry>) -> Paths {
        Paths {
            connection,
            entries,
            pings: Pings::new(),
        }
    }

    /// States of the paths.
    pub fn states(&self) -> Vec<PathState> {
        self.entries.iter().map(Entry::state).collect()
    }

    /// Whether a path has shown lately that it works.
    pub fn any_works(&self) -> bool {
        let now = now();
        self.entries.iter().any(|entry| entry.watch.works(now))
    }

    /// Turns a path off.
    pub fn turn_off(&mut self, name: &str) {
        let named = self.entries.iter_mut().filter(|entry| entry.name == name);
        named.for_each(|entry| entry.role = Role::Never);
    }

    /// Entry of the library's path with this number.
    pub fn entry(&mut self, number: u32) -> Option<&mut Entry> {
        let is_it = |open: &OpenPath| open.number() == number;
        let mut entries = self.entries.iter_mut();
        entries.find(|entry| entry.open.as_ref().is_some_and(is_it))
    }

    /// Records whether the other end prefers others to a path.
    pub fn set_backup_of_peer(&mut self, number: u32, is_backup: bool) {
        if let Some(entry) = self.entry(number) {
            entry.is_backup_of_peer = is_backup;
        }
    }

    /// Records that the other end has closed a path, or could not be reached over it.
    pub fn abandoned(&mut self, number: u32) {
        if let Some(entry) = self.entry(number) {
            entry.deaths += 1;
            entry.closed("path closed by the peer");
        }
    }

    /// Probes suspected paths, leaves and closes dead ones while another works, closes paths that
    /// are to be used no more, and opens those that answer, the fastest first. If none works all
    /// stay open until one answers. Returns the paths that open.
    pub fn watch(&mut self) -> Vec<Opens> {
        self.entries.iter_mut().for_each(hear);
        let (now, any_works) = (now(), self.any_works());
        let detour = detour(&self.entries, now);
        let mut opening = Vec::new();
        for entry in &mut self.entries {
            // `near` probes a path that `far` suspects.
            let peer_suspects = entry.slot.is_none() && entry.is_suspected_by_peer();
            entry.is_suspected = peer_suspects || any_works && !entry.watch.works(now);
            if entry.is_off() {
                turn_off(&self.connection, entry);
                continue;
            }
            match (entry.watch.advice(now, any_works), &entry.slot) {
                (Some(Advice::Close), _) => {
                    if close(entry, "path dead: nothing returns over it") == Ok(()) {
                        entry.deaths += 1;
                    }
                }
                (Some(Advice::Probe), Some(slot)) => slot.probe(),
                (Some(Advice::Leave), Some(slot)) => {
                    if let Some((other, rtt)) = &detour {
                        tracing::debug!(path = entry.name, ?rtt, "path left");
                        slot.detour(other);
                        leave(entry, now, *rtt);
                    }
                }
                (Some(Advice::Open | Advice::Renew), Some(_)) => opening.push(entry),
                // `far` neither probes nor opens.
                (Some(_), None) | (None, _) => {}
            }
        }
        opening.sort_by_key(|entry| entry.watch.answer_rtt());
        let opened = opening.into_iter();
        let opened: Vec<Opens> = opened
            .filter_map(|entry| open(&self.connection, entry))
            .collect();
        let suspected = self.entries.iter().filter(|entry| entry.is_suspected);
        suspected.for_each(Entry::ping);
        self.pings.send(&self.entries);
        opened
    }
}

/// Informs the watch of a path of what has returned over it.
fn hear(entry: &mut Entry) {
    if let Some(open) = &entry.open {
        let (silent_since, rtt) = open.heard();
        entry.watch.heard(silent_since, rtt);
        if entry.slot.is_some() {
            entry.watch.carries(now(), open.load());
            entry.watch.suspected(entry.is_suspected_by_peer());
        }
    }
    let answer = entry.slot.as_ref().and_then(|slot| slot.take_answer());
    if let Some((at, rtt)) = answer {
        entry.watch.answered(at, rtt);
    }
}

/// Fastest path for packets of others that may be dead, and its round-trip time.
fn detour(entries: &[Entry], now: Instant) -> Option<(Arc<Slot>, Duration)> {
    let sound = entries.iter().filter(|entry| entry.watch.is_sound(now));
    let slots = sound.filter_map(|entry| {
        let (_, rtt) = entry.open.as_ref()?.heard();
        Some((entry.slot.clone()?, rtt?))
    });
    slots.min_by_key(|(_, rtt)| *rtt)
}

/// Stops sending data over a path, and sends its packets, only PINGs, over another's network.
fn leave(entry: &mut Entry, now: Instant, other: Duration) {
    entry.watch.leaves(now, other);
    entry.is_suspected = true;
    if let Some(open) = &entry.open {
        open.set_backup(true);
        open.allow(Allowance {
            pings: true,
            ..Allowance::NONE
        });
    }
}

/// Closes the library's path, if it is not the last one.
fn close(entry: &mut Entry, why: &str) -> Result<(), LastPath> {
    if let Some(open) = &entry.open {
        open.close()?;
        entry.closed(why);
    }
    Ok(())
}

/// Closes the library's path, and with the last one the connection.
fn turn_off(connection: &Connection, entry: &mut Entry) {
    if close(entry, "path closed: it is off") == Err(LastPath) {
        connection.close(0, "the data caps of all paths are reached");
    }
}

/// Opens a path of the library in the place of the old one, if there is one: the last path cannot
/// be closed before another is open.
fn open(connection: &Connection, entry: &mut Entry) -> Option<Opens> {
    let slot = entry.slot.as_ref()?;
    let path = connection.open_path(slot, entry.role == Role::Backup)?;
    let opens = Opens::new(path.number(), &slot.config);
    if let Some(old) = &entry.open {
        // Never fails, because the new one is open.
        let _ = old.close();
    }
    entry.opened(path);
    Some(opens)
}

/// Pings paths on which nothing is in flight, so that silence shows their death.
#[derive(Debug)]
struct Pings {
    last: Instant,
    carried: u64,
    /// Time at which the tunnel last carried data.
    active: Instant,
}

impl Pings {
    /// Pings of a tunnel that has just carried data.
    fn new() -> Pings {
        let now = now();
        Pings {
            last: now,
            carried: 0,
            active: now,
        }
    }

    /// Sends the pings that are due.
    fn send(&mut self, entries: &[Entry]) {
        let now = now();
        let carried = entries.iter().map(Entry::carried).sum();
        if carried > self.carried + PING_BYTES * entries.len() as u64 {
            self.active = now;
        }
        self.carried = carried;
        let is_idle = now > self.active + IDLE;
        if now < self.last + if is_idle { IDLE_PING } else { PING } {
            return;
        }
        self.last = now;
        let open = entries.iter().filter_map(|entry| entry.open.as_ref());
        open.filter(|path| path.report().in_flight_bytes == 0)
            .for_each(OpenPath::ping);
    }
}

/// Paths over these sockets, of which `first` has carried the handshake, and the message that it is
/// open.
pub(super) fn paths(connection: &Connection, sockets: &Sockets, first: usize) -> (Paths, Opens) {
    let entries = sockets.slots().iter().map(|slot| {
        let path = &slot.config;
        let share = Share::new(path.weight, path.rate_mbps);
        Entry::new(path.name.clone(), path.role, share, Some(slot.clone()))
    });
    let mut paths = Paths::new(connection.clone(), entries.collect());
    if let Some(path) = connection.path(0) {
        paths.entries[first].opened(path);
    }
    let opens = Opens::new(0, &sockets.slots()[first].config);
    (paths, opens)
}

/// Handles events and expired timers. Returns the paths that open.
pub(super) fn step(paths: &mut Paths, events: Vec<Event>) -> Vec<Opens> {
    for event in events {
        match event {
            Event::Abandoned(number) => paths.abandoned(number),
            Event::IsBackup(number, is_backup) => paths.set_backup_of_peer(number, is_backup),
        }
    }
    allow(&mut paths.entries);
    paths.watch()
}

/// Most paths that `near` may announce.
const MAX_ENTRIES: usize = 64;

/// Paths of `far`, in the order in which they opened first.
#[derive(Debug)]
pub(super) struct Followed {
    pub paths: Paths,
    announced: Announced,
    lines: Arc<Mutex<Lines>>,
}

/// Paths that `near` has announced and over which nothing has arrived yet, at most one of each
/// name.
#[derive(Debug, Default)]
pub(super) struct Announced(pub Vec<Opens>);

impl Announced {
    /// Adds a path that `near` opens, one of these or another.
    pub fn add(&mut self, message: Opens, entries: &[Entry]) -> anyhow::Result<()> {
        self.0.retain(|it| it.name != message.name);
        let known = entries.iter().any(|entry| entry.name == message.name);
        let room = entries.len() + self.0.len() < MAX_ENTRIES;
        anyhow::ensure!(known || room, "too many paths");
        self.0.push(message);
        Ok(())
    }
}

/// Entry of an announced path. A new name gets a new entry.
pub(super) fn entry_of(entries: &mut Vec<Entry>, message: Opens) -> &mut Entry {
    let known = entries.iter().position(|it| it.name == message.name);
    let place = known.unwrap_or_else(|| {
        let share = Share::new(message.weight, message.rate_mbps);
        entries.push(Entry::new(message.name, message.role, share, None));
        entries.len() - 1
    });
    &mut entries[place]
}

impl Followed {
    /// A `far` without paths.
    pub fn new(connection: Connection, lines: Arc<Mutex<Lines>>) -> Followed {
        Followed {
            paths: Paths::new(connection, Vec::new()),
            announced: Announced::default(),
            lines,
        }
    }

    /// Takes the message that `near` opens a path.
    pub fn announced(&mut self, message: Opens) -> anyhow::Result<()> {
        self.announced.add(message, &self.paths.entries)
    }

    /// Handles events, finds announced paths that have opened, gives all their allowances, and
    /// closes paths that lose `far`'s data: `near` does not detect them, because it receives
    /// `far`'s data over another path.
    pub fn step(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Abandoned(number) => {
                    self.announced.0.retain(|it| it.id != number);
                    self.paths.abandoned(number);
                }
                Event::IsBackup(number, is_backup) => {
                    self.paths.set_backup_of_peer(number, is_backup);
                }
            }
        }
        let connection = self.paths.connection.clone();
        let is_open = |message: &mut Opens| connection.has_path(message.id);
        let opened: Vec<Opens> = self.announced.0.extract_if(.., is_open).collect();
        for message in opened {
            self.opened(&connection, message);
        }
        allow(&mut self.paths.entries);
        self.paths.watch();
    }

    fn opened(&mut self, connection: &Connection, message: Opens) {
        let Some(path) = connection.path(message.id) else {
            return;
        };
        let entry = entry_of(&mut self.paths.entries, message);
        entry.lines = Some(self.lines.clone());
        entry.opened(path);
    }
}

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
