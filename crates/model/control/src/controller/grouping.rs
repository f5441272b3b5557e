//! Groups of paths, each a connection of its own to the rule, and silent paths, which are left out.

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
    coupling: Coupling,
    /// Decides on the groups; without one they do not change.
    detector: Option<Detector>,
    /// For each path the lowest path of its group.
    groups: Vec<usize>,
    /// For each path whether its siblings do not count it: it is silent.
    left_out: Vec<bool>,
    /// The paths of a group, copied for one call of the rule.
    pub paths: Vec<Path<f64>>,
    /// The memory of these paths, copied with them.
    pub memory: Vec<M>,
}

impl<M: Copy> Grouping<M> {
    /// The groups of this coupling, without paths.
    pub fn new(coupling: Coupling) -> Grouping<M> {
        Grouping {
            coupling,
            detector: Detector::new(coupling),
            groups: Vec::new(),
            left_out: Vec::new(),
            paths: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// Whether all paths are one group and none is left out.
    pub fn is_trivial(&self) -> bool {
        self.coupling == Coupling::Always && !self.left_out.contains(&true)
    }

    /// Appends a path: to the first group, until it is shown to be separate, or as its own group if
    /// no paths are coupled.
    pub fn add_path(&mut self) {
        let own = self.groups.len();
        let is_alone = self.coupling == Coupling::Never;
        self.groups.push(if is_alone { own } else { 0 });
        self.left_out.push(false);
        if let Some(detector) = &mut self.detector {
            detector.add_path();
        }
    }

    /// The lowest path of the group of path `r`.
    pub fn group(&self, r: usize) -> usize {
        self.groups[r]
    }

    /// Whether the rule is given the path `other` for path `r`. A path always counts for itself.
    fn counts(&self, other: usize, r: usize) -> bool {
        other == r || (self.groups[other] == self.groups[r] && !self.left_out[other])
    }

    /// Whether path `r` is coupled with no other.
    pub fn is_alone(&self, r: usize) -> bool {
        (0..self.groups.len()).all(|other| other == r || !self.counts(other, r))
    }

    /// Sets whether the siblings of path `r` leave it out.
    pub fn leave_out(&mut self, r: usize, left_out: bool) {
        self.left_out[r] = left_out;
    }

    /// Path `r` was acknowledged; its delay may change the groups.
    #[cold]
    #[inline(never)]
    pub fn on_ack(&mut self, r: usize, ack: &Ack) {
        self.left_out[r] &= ack.packets == 0;
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
        for other in 0..paths.len() {
            if self.counts(other, r) {
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
        let members = (0..memory.len()).filter(|&other| self.counts(other, r));
        for (other, copy) in members.zip(&self.memory) {
            memory[other] = *copy;
        }
    }
}

impl<R: Rule> Controller<R> {
    /// Sets which paths the rule couples; the default is all. What was detected before is lost, and
    /// no path is silent.
    pub fn set_coupling(&mut self, coupling: Coupling) {
        let mut grouping = Grouping::new(coupling);
        self.paths.iter().for_each(|_| grouping.add_path());
        self.grouping = (!grouping.is_trivial()).then(|| Box::new(grouping));
    }

    /// Path `r` is silent: two timeouts in a row, or it is closed. Its siblings do not count it
    /// until one of its packets is acknowledged, because its window, RTT and losses say nothing of
    /// what it can carry; OLIA would move window to it for ever. It counts for itself. A second
    /// [`on_timeout`](Controller::on_timeout) in a row does this.
    pub fn on_silence(&mut self, r: usize) {
        if self.rule.knows_paths_by_place() {
            return;
        }
        if self.grouping.is_none() {
            let mut grouping = Grouping::new(Coupling::Always);
            self.paths.iter().for_each(|_| grouping.add_path());
            self.grouping = Some(Box::new(grouping));
        }
        self.set_silent(r, true);
    }

    /// Sets whether the siblings of path `r` leave it out. Where none is and all paths are coupled,
    /// the rule is given the paths themselves.
    pub fn set_silent(&mut self, r: usize, left_out: bool) {
        if let Some(grouping) = &mut self.grouping {
            grouping.leave_out(r, left_out);
            if grouping.is_trivial() {
                self.grouping = None;
            }
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
