//! `coupling=shared`: decisions about which subflows of a connection a loaded program couples.
//!
//! The program reports RTTs (`bpf/groups.h`), and the simulator's detector decides on them. Nothing
//! here is a rule of its own.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, RingBuffer, RingBufferBuilder};
use rustix::time::{ClockId, clock_gettime};

mod decision;

pub use decision::Groups;
use decision::{Change, Decisions, Report};

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
            valid: map("groups_valid")?,
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
