//! Groups of paths, each a connection of its own to the rule.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::bottleneck::Detector;
use crate::controller::Ack;
use crate::controller::{Controller, SMALLEST_SSTHRESH_ONE_PATH};
use crate::coupling::Coupling;
use crate::path::Path;
use crate::rule::Rule;

/// The groups of a controller's paths, and the copies of a group's paths that the rule is given.
#[derive(Clone, Debug)]
pub(super) struct Grouping<M> {
    /// Decides on the groups; without one they do not change.
    detector: Option<Detector>,
    /// For each path the lowest path of its group.
    groups: Vec<usize>,
    /// The paths of a group, copied for one call of the rule.
    pub paths: Vec<Path<f64>>,
    /// The memory of these paths, copied with them.
    pub memory: Vec<M>,
}

impl<M: Copy> Grouping<M> {
    /// The groups of this coupling, without paths; `None` if all are one group.
    pub fn new(coupling: Coupling) -> Option<Grouping<M>> {
        (coupling != Coupling::Always).then(|| Grouping {
            detector: Detector::new(coupling),
            groups: Vec::new(),
            paths: Vec::new(),
            memory: Vec::new(),
        })
    }

    /// Appends a path: to the first group, until it is shown to be separate, or as its own group if
    /// no paths are coupled.
    pub fn add_path(&mut self) {
        let own = self.groups.len();
        self.groups
            .push(if self.detector.is_some() { 0 } else { own });
        if let Some(detector) = &mut self.detector {
            detector.add_path();
        }
    }

    /// The lowest path of the group of path `r`.
    pub fn group(&self, r: usize) -> usize {
        self.groups[r]
    }

    /// Whether path `r` is the only one of its group.
    pub fn is_alone(&self, r: usize) -> bool {
        let group = self.groups[r];
        self.groups.iter().filter(|&&other| other == group).count() == 1
    }

    /// Path `r` was acknowledged; its delay may change the groups.
    #[cold]
    #[inline(never)]
    pub fn on_ack(&mut self, r: usize, ack: &Ack) {
        let measured = |delay: &f64| delay.is_finite() && *delay >= 0.0;
        let delay = ack.queue_delay.or(ack.rtt).filter(measured);
        if let (Some(detector), Some(delay)) = (&mut self.detector, delay)
            && let Some(groups) = detector.on_delay(r, ack.now, ack.sent_at, delay)
        {
            self.groups = groups;
        }
    }

    /// Packets of path `r` were declared lost.
    pub fn on_lost(&mut self, r: usize, packets: u32) {
        if let Some(detector) = &mut self.detector {
            detector.on_lost(r, packets);
        }
    }

    /// Copies the paths of the group of path `r`, and their memory; gives its place among them.
    pub fn gather(&mut self, r: usize, paths: &[Path<f64>], memory: &[M]) -> usize {
        self.paths.clear();
        self.memory.clear();
        let mut place = 0;
        for (other, &group) in self.groups.iter().enumerate() {
            if group == self.groups[r] {
                if other == r {
                    place = self.paths.len();
                }
                self.paths.push(paths[other]);
                self.memory.push(memory[other]);
            }
        }
        place
    }

    /// Copies the memory of the group of path `r` back.
    pub fn scatter(&mut self, r: usize, memory: &mut [M]) {
        let mut copies = self.memory.drain(..);
        for (other, &group) in self.groups.iter().enumerate() {
            if group == self.groups[r]
                && let Some(copy) = copies.next()
            {
                memory[other] = copy;
            }
        }
    }
}

impl<R: Rule> Controller<R> {
    /// Sets which paths the rule couples; the default is all. What was detected before is lost.
    pub fn set_coupling(&mut self, coupling: Coupling) {
        self.grouping = Grouping::new(coupling).map(Box::new);
        if let Some(grouping) = &mut self.grouping {
            self.paths.iter().for_each(|_| grouping.add_path());
        }
    }

    /// The lowest path of the group of path `r`: the paths of a group are coupled.
    pub fn group(&self, r: usize) -> usize {
        self.grouping
            .as_ref()
            .map_or(0, |grouping| grouping.group(r))
    }

    /// Counts packets of path `r` that were declared lost, for the detection of shared bottlenecks
    /// alone. The window changes with [`on_loss`](Controller::on_loss).
    pub fn on_lost(&mut self, r: usize, packets: u32) {
        if let Some(grouping) = &mut self.grouping {
            grouping.on_lost(r, packets);
        }
    }

    /// The rule's increase at this moment. One and two paths have arms of their own, to unroll the
    /// rule's loops.
    #[inline]
    pub(super) fn increase_now(&mut self, r: usize) -> f64 {
        if self.grouping.is_some() {
            return self.apply(r, |rule, r, paths, _| rule.increase(r, paths));
        }
        match self.paths.as_slice() {
            paths @ [_] => self.rule.increase(0, paths),
            paths @ [_, _] => self.rule.increase(r, paths),
            paths => self.rule.increase(r, paths),
        }
    }

    /// Calls the rule with a path's place in its group, and with the group's paths and memory.
    #[cold]
    #[inline(never)]
    pub(super) fn apply(
        &mut self,
        r: usize,
        law: impl FnOnce(&R, usize, &[Path<f64>], &mut [R::Memory<f64>]) -> f64,
    ) -> f64 {
        let Some(grouping) = &mut self.grouping else {
            return law(&self.rule, r, &self.paths, &mut self.memory);
        };
        let place = grouping.gather(r, &self.paths, &self.memory);
        let change = law(&self.rule, place, &grouping.paths, &mut grouping.memory);
        grouping.scatter(r, &mut self.memory);
        change
    }

    /// The smallest ssthresh of path `r`, packets.
    pub(super) fn smallest_ssthresh(&self, r: usize) -> f64 {
        match &self.grouping {
            Some(grouping) if grouping.is_alone(r) => {
                self.smallest_ssthresh.max(SMALLEST_SSTHRESH_ONE_PATH)
            }
            _ => self.smallest_ssthresh,
        }
    }
}
