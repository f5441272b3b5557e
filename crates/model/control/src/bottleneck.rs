//! Detection of paths of a connection that share a bottleneck, from the delays of their packets.
//!
//! Time is an argument. A delay may have any constant offset, such as the propagation delay, so
//! that RTTs serve where the delay of the forward path is not known.

use alloc::vec;
use alloc::vec::Vec;

use crate::coupling::Coupling;

use correlation::Correlation;
use rfc8382::Rfc8382;

mod correlation;
mod delays;
mod rfc8382;

/// A detector of shared bottlenecks, for one connection.
#[derive(Clone, Debug)]
pub struct Detector(Method);

#[derive(Clone, Debug)]
enum Method {
    Correlation(Correlation),
    Rfc8382(Rfc8382),
}

impl Detector {
    /// The detector of this kind of coupling, without paths; `None` if it needs none.
    pub fn new(coupling: Coupling) -> Option<Detector> {
        let method = match coupling {
            Coupling::Always | Coupling::Never => return None,
            Coupling::Shared => Method::Correlation(Correlation::default()),
            Coupling::Rfc8382 => Method::Rfc8382(Rfc8382::default()),
        };
        Some(Detector(method))
    }

    /// Appends a path.
    pub fn add_path(&mut self) {
        match &mut self.0 {
            Method::Correlation(detector) => detector.add_path(),
            Method::Rfc8382(detector) => detector.add_path(),
        }
    }

    /// A packet of path `r` that was sent at `sent_at` (s) and had this delay (s) was acknowledged
    /// at `now` (s). The groups, if they were decided anew: for each path the lowest path of its
    /// group.
    pub fn on_delay(&mut self, r: usize, now: f64, sent_at: f64, delay: f64) -> Option<Vec<usize>> {
        match &mut self.0 {
            Method::Correlation(detector) => detector.on_delay(r, now, sent_at, delay),
            Method::Rfc8382(detector) => detector.on_delay(r, now, delay),
        }
    }

    /// Packets of path `r` were declared lost.
    pub fn on_lost(&mut self, r: usize, packets: u32) {
        if let Method::Rfc8382(detector) = &mut self.0 {
            detector.on_lost(r, packets);
        }
    }
}

/// One group of this many paths.
fn one_group(paths: usize) -> Vec<usize> {
    vec![0; paths]
}

/// Divides each group: two of its paths stay together if they are `alike`, or if a chain of paths
/// that are alike connects them.
fn divide(groups: &mut [usize], alike: impl Fn(usize, usize) -> bool) {
    let before = groups.to_vec();
    groups
        .iter_mut()
        .enumerate()
        .for_each(|(r, group)| *group = r);
    for i in 0..groups.len() {
        for j in i + 1..groups.len() {
            if before[i] == before[j] && alike(i, j) {
                let (a, b) = (groups[i], groups[j]);
                let lowest = a.min(b);
                for group in groups
                    .iter_mut()
                    .filter(|group| **group == a || **group == b)
                {
                    *group = lowest;
                }
            }
        }
    }
}
