//! `coupling=shared`: decisions about which subflows of a connection a loaded program couples.
//!
//! The program reports RTTs (`bpf/groups.h`), and the simulator's detector decides on them. Nothing
//! here is a rule of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use anabranch_control::{Coupling, Detector};
use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, RingBuffer, RingBufferBuilder};
use rustix::time::{ClockId, clock_gettime};

/// Time for which groups are valid: a few times [`Grouper::PERIOD`], so that a busy machine does
/// not couple all subflows now and then.
const VALID: Duration = Duration::from_secs(2);

/// Decides about the subflows of one loaded algorithm. Once it is dropped, or not updated for 2 s,
/// the program couples all subflows of a connection.
#[derive(Debug)]
pub struct Grouper {
    reports: RingBuffer<'static>,
    received: Rc<RefCell<Vec<Report>>>,
    groups: MapHandle,
    valid: MapHandle,
    decisions: Decisions,
}

impl Grouper {
    /// Interval at which [`update`](Grouper::update) must be called: half of one of the detector.
    pub const PERIOD: Duration = Duration::from_millis(100);

    /// The decider for a program that was loaded with `coupling=shared`.
    pub(crate) fn new(object: &Object) -> Result<Grouper> {
        let map = |name: &str| {
            let mut maps = object.maps();
            let found = maps.find(|map| map.name() == name);
            MapHandle::try_from(&found.expect("bpf/groups.h has it")).context("cannot open a map")
        };
        let ring = map("reports")?;
        let received = Rc::new(RefCell::new(Vec::new()));
        let receiver = received.clone();
        let mut builder = RingBufferBuilder::new();
        builder.add(&ring, move |bytes| {
            receiver.borrow_mut().extend(Report::read(bytes));
            0
        })?;
        Ok(Grouper {
            reports: builder.build().context("cannot read the delays")?,
            received,
            groups: map("groups")?,
            valid: map(".bss.valid")?,
            decisions: Decisions::default(),
        })
    }

    /// Reads the new delays, decides, and confirms the groups. Returns the groups that have
    /// changed, by connection.
    ///
    /// # Errors
    ///
    /// If the kernel refuses access to a map.
    pub fn update(&mut self) -> Result<Vec<Groups>> {
        self.reports.consume().context("cannot read the delays")?;
        let now = now();
        let received = self.received.take();
        let changed = self.decisions.update(&received, now.as_micros() as u64);
        for change in self.decisions.take_changes() {
            self.enter(&change);
        }
        let until = (now + VALID).as_nanos() as u64;
        self.valid
            .update(&0u32.to_ne_bytes(), &until.to_ne_bytes(), MapFlags::ANY)
            .context("cannot confirm the groups")?;
        Ok(changed)
    }

    /// Enters a change. This fails where the program has removed the entry, because the socket is
    /// closed, and where the map is full: without a group the subflow is coupled with all others.
    fn enter(&self, change: &Change) {
        let key = change.subflow.to_ne_bytes();
        let _ = match change.group {
            None => self.groups.delete(&key),
            Some(group) => {
                let value = [change.token, group].map(u32::to_ne_bytes);
                self.groups
                    .update(&key, value.as_flattened(), MapFlags::ANY)
            }
        };
    }
}

/// Clock of the program's reports.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// `struct report` of `bpf/groups.h`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Report {
    /// Address of the subflow's socket.
    pub subflow: u64,
    pub time_us: u64,
    pub token: u32,
    pub rtt_us: u32,
}

impl Report {
    /// Reads a record; `None` if it is too short.
    pub fn read(bytes: &[u8]) -> Option<Report> {
        let (longs, rest) = bytes.split_at_checked(16)?;
        let long = |i: usize| longs[8 * i..8 * i + 8].try_into().map(u64::from_ne_bytes);
        let word = |i: usize| rest.get(4 * i..4 * i + 4)?.try_into().ok();
        Some(Report {
            subflow: long(0).ok()?,
            time_us: long(1).ok()?,
            token: word(0).map(u32::from_ne_bytes)?,
            rtt_us: word(1).map(u32::from_ne_bytes)?,
        })
    }
}

/// An entry of the map of groups that is to be written, or removed (`None`).
#[derive(Clone, Debug, PartialEq)]
struct Change {
    pub subflow: u64,
    pub token: u32,
    pub group: Option<u32>,
}

/// Groups of a connection's subflows, in the order in which these first reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Token of the connection.
    pub token: u32,
    /// Number of each subflow's group, at least 1.
    pub numbers: Vec<u32>,
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(u32::to_string).collect();
        write!(f, "token {:08x}: groups {}", self.token, numbers.join(" "))
    }
}

/// Time without a delay after which a subflow is forgotten: it is closed, or idle. The detection
/// for its connection then begins anew.
const SILENT_US: u64 = 30_000_000;

/// Most subflows that the detector of a connection has; eight may be open at a time.
const MAX_SUBFLOWS: usize = 16;

/// Connections of a program, by token.
#[derive(Debug, Default)]
struct Decisions {
    connections: BTreeMap<u32, Connection>,
    changes: Vec<Change>,
}

#[derive(Debug)]
struct Connection {
    detector: Detector,
    /// Subflows in the order of the detector's paths.
    subflows: Vec<Subflow>,
}

#[derive(Debug)]
struct Subflow {
    socket: u64,
    heard_us: u64,
    /// Group in the map; 0 if there is none.
    group: u32,
}

impl Decisions {
    /// Takes reports, in the order of their times. Returns the groups that have changed, by
    /// connection.
    pub fn update(&mut self, reports: &[Report], now_us: u64) -> Vec<Groups> {
        let mut changed = BTreeMap::new();
        for report in reports {
            let connection = self.connections.entry(report.token);
            let connection = connection.or_insert_with(Connection::new);
            if connection.is_full(report.subflow) {
                forget(connection, report.token, &mut self.changes);
                *connection = Connection::new();
            }
            let changes = connection.take(report);
            if !changes.is_empty() {
                changed.insert(report.token, connection.groups(report.token));
            }
            self.changes.extend(changes);
        }
        let changes = &mut self.changes;
        self.connections.retain(|&token, connection| {
            let silent = |one: &Subflow| one.heard_us + SILENT_US < now_us;
            let forgotten = connection.subflows.iter().any(silent);
            if forgotten {
                forget(connection, token, changes);
            }
            !forgotten
        });
        changed.into_values().collect()
    }

    /// Takes the changes of the map since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }
}

/// Removes a connection's groups from the map.
fn forget(connection: &Connection, token: u32, changes: &mut Vec<Change>) {
    let entered = connection.subflows.iter().filter(|one| one.group > 0);
    changes.extend(entered.map(|one| Change {
        subflow: one.socket,
        token,
        group: None,
    }));
}

impl Connection {
    fn new() -> Connection {
        Connection {
            detector: Detector::new(Coupling::Shared).expect("shared has a detector"),
            subflows: Vec::new(),
        }
    }

    fn place(&self, socket: u64) -> Option<usize> {
        self.subflows.iter().position(|one| one.socket == socket)
    }

    /// Whether there is no place for a further subflow.
    fn is_full(&self, socket: u64) -> bool {
        self.subflows.len() == MAX_SUBFLOWS && self.place(socket).is_none()
    }

    /// Takes a delay. Returns the changes of groups.
    fn take(&mut self, report: &Report) -> Vec<Change> {
        let place = self.place(report.subflow).unwrap_or_else(|| {
            self.detector.add_path();
            self.subflows.push(Subflow {
                socket: report.subflow,
                heard_us: report.time_us,
                group: 0,
            });
            self.subflows.len() - 1
        });
        self.subflows[place].heard_us = report.time_us;
        let (now, delay) = (
            1e-6 * report.time_us as f64,
            1e-6 * f64::from(report.rtt_us),
        );
        let Some(groups) = self.detector.on_delay(place, now, now - delay, delay) else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        for (subflow, lowest) in self.subflows.iter_mut().zip(groups) {
            let group = lowest as u32 + 1;
            if subflow.group != group {
                subflow.group = group;
                changes.push(Change {
                    subflow: subflow.socket,
                    token: report.token,
                    group: Some(group),
                });
            }
        }
        changes
    }

    fn groups(&self, token: u32) -> Groups {
        let numbers = self.subflows.iter().map(|one| one.group).collect();
        Groups { token, numbers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of subflows 10 and 20 of connection 7, every 10 ms until `end_s`. Queues of 0 or 10
    /// ms alternate with the detector's intervals of 200 ms; subflow 20's is the same or, if they
    /// are not shared, has twice the period.
    fn reports(shared: bool, end_s: u32) -> Vec<Report> {
        let report = |subflow, step: u32, period| Report {
            subflow,
            time_us: u64::from(step) * 10_000,
            token: 7,
            rtt_us: 20_000 + 10_000 * (step / period % 2),
        };
        (0..100 * end_s)
            .flat_map(|step| {
                let second = if shared { 20 } else { 40 };
                [report(10, step, 20), report(20, step, second)]
            })
            .collect()
    }

    fn numbers(decisions: &Decisions) -> Vec<u32> {
        decisions.connections[&7].groups(7).numbers
    }

    #[test]
    fn a_record_has_the_offsets_of_its_structure() {
        let bytes: Vec<u8> = (0..24).collect();
        let read = Report::read(&bytes).expect("24 bytes");
        assert_eq!(read.subflow.to_ne_bytes()[0], 0);
        assert_eq!(read.time_us.to_ne_bytes()[0], 8);
        assert_eq!(read.token.to_ne_bytes()[0], 16);
        assert_eq!(read.rtt_us.to_ne_bytes()[0], 20);
        assert_eq!(Report::read(&bytes[..23]), None);
    }

    #[test]
    fn subflows_with_one_queue_stay_together_and_others_part() {
        let mut together = Decisions::default();
        together.update(&reports(true, 10), 0);
        assert_eq!(numbers(&together), [1, 1]);
        let mut apart = Decisions::default();
        apart.update(&reports(false, 10), 0);
        assert_eq!(numbers(&apart), [1, 2]);
    }

    /// One group first, then the second subflow alone. The map has what the last change says.
    #[test]
    fn only_changes_are_entered() {
        let mut decisions = Decisions::default();
        let changed = decisions.update(&reports(false, 10), 0);
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].to_string(), "token 00000007: groups 1 2");
        let entry = |subflow, group| Change {
            subflow,
            token: 7,
            group: Some(group),
        };
        let expected = [entry(10, 1), entry(20, 1), entry(20, 2)];
        assert_eq!(decisions.take_changes(), expected);
        assert_eq!(decisions.take_changes(), []);
    }

    #[test]
    fn a_silent_subflow_takes_the_groups_of_its_connection_with_it() {
        let mut decisions = Decisions::default();
        let reports = reports(false, 10);
        decisions.update(&reports, 10_000_000);
        decisions.take_changes();
        let mut first = reports[reports.len() - 2];
        first.time_us += SILENT_US;
        decisions.update(&[first], first.time_us);
        assert!(decisions.take_changes().is_empty() && decisions.connections.contains_key(&7));
        decisions.update(&[], first.time_us + 20_000);
        let removed = decisions.take_changes();
        assert_eq!(removed.len(), 2);
        assert!(removed.iter().all(|change| change.group.is_none()));
        assert!(decisions.connections.is_empty());
    }

    /// The seventeenth begins anew, alone.
    #[test]
    fn a_connection_with_many_subflows_begins_anew() {
        let mut decisions = Decisions::default();
        for subflow in 1..=17 {
            let report = Report {
                subflow,
                ..reports(true, 1)[0]
            };
            decisions.update(&[report], 0);
        }
        assert_eq!(decisions.connections[&7].subflows.len(), 1);
    }
}
