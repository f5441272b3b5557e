//! Undo of a spurious timeout (RFC 4015).

use alloc::boxed::Box;

use crate::controller::{Controller, Phase};
use crate::path::Path;
use crate::rule::Rule;

/// The state of a path before its last timeout; `None` if that must not be undone.
pub(super) type BeforeTimeout<R> = Option<Box<State<<R as Rule>::Memory<f64>>>>;

/// What a timeout changes on a path.
#[derive(Clone, Debug)]
pub(super) struct State<M> {
    phase: Phase,
    ssthresh: f64,
    path: Path<f64>,
    memory: M,
}

impl<R: Rule> Controller<R> {
    /// The last timeout of path `r` was spurious: nothing was lost. The endpoint reports this
    /// before the acknowledgement that shows it. Window, ssthresh and phase are as before the
    /// timeout, and so are the rule's memory and the path's counters of losses, because no loss
    /// happened.
    ///
    /// A timeout in recovery is not undone: there was a loss before it.
    pub fn on_spurious_timeout(&mut self, r: usize) {
        let before = self.before_timeout.get_mut(r).and_then(Option::take);
        let Some(before) = before else {
            return;
        };
        let path = &mut self.paths[r];
        *path = Path {
            window: before.path.window.max(path.window),
            since_loss: before.path.since_loss + path.since_loss,
            rtt: path.rtt,
            base_rtt: path.base_rtt,
            round_rtt: path.round_rtt,
            queue_delay: path.queue_delay,
            ..before.path
        };
        self.memory[r] = before.memory;
        let state = &mut self.state[r];
        state.phase = before.phase;
        state.ssthresh = before.ssthresh;
        state.timed_out = false;
        state.increase = f64::NAN;
    }

    /// Keeps what a timeout of path `r` is about to change.
    pub(super) fn keep_for_undo(&mut self, r: usize) {
        self.before_timeout.resize_with(self.paths.len(), || None);
        let state = &self.state[r];
        self.before_timeout[r] = (state.phase != Phase::Recovery).then(|| {
            Box::new(State {
                phase: state.phase,
                ssthresh: state.ssthresh,
                path: self.paths[r],
                memory: self.memory[r],
            })
        });
    }
}
