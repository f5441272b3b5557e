//! Runs in virtual time, whatever they simulate.

use std::io;
use std::path::Path;

use anabranch_net::Time;
use anabranch_net::time::{from_seconds, seconds};

use crate::columns::Record;
use crate::scenario::Scenario;

/// A run of a scenario with one seed, in virtual time. The same scenario and seed give the same
/// bits on every machine, however the run is cut into [`run_until`](Virtual::run_until)s.
pub trait Virtual: Sized {
    /// The scenario.
    fn scenario(&self) -> &Scenario;

    /// The time that the run has reached.
    fn now(&self) -> Time;

    /// Handles the next event that is due by `until`; false if there is none, and the run has
    /// reached that time.
    fn step(&mut self, until: Time) -> bool;

    /// The samples so far.
    fn so_far(&self) -> &Record;

    /// Logs the connections in this folder, which exists and is empty, from now on, the begin of
    /// the run.
    fn write_log(&mut self, folder: &Path);

    /// The measurements of a run that has reached its end, and the first error of writing the log.
    fn conclude(self) -> (Record, io::Result<()>);

    /// The time that the run has reached, s.
    fn now_s(&self) -> f64 {
        seconds(self.now())
    }

    /// The time at which the run ends, s.
    fn duration_s(&self) -> f64 {
        self.scenario().measure.duration_s.get()
    }

    /// Continues the run to `time_s`, or to its end if that is earlier.
    fn run_until(&mut self, time_s: f64) {
        let until = from_seconds(time_s.min(self.duration_s()));
        while self.step(until) {}
    }

    /// Runs to the end and returns the measurements.
    fn finish(mut self) -> Record {
        self.run_until(self.duration_s());
        self.conclude().0
    }

    /// As [`finish`](Virtual::finish), with [`write_log`](Virtual::write_log).
    ///
    /// # Errors
    /// If the log could not be written.
    fn finish_with_log(mut self) -> io::Result<Record> {
        self.run_until(self.duration_s());
        let (record, log) = self.conclude();
        log.map(|()| record)
    }
}
