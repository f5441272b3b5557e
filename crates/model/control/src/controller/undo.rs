//! Undo of a spurious timeout or loss (RFC 4015).

use alloc::boxed::Box;

use crate::controller::{Controller, Phase};
use crate::delivery::Event;
use crate::path::Path;
use crate::rule::Rule;

/// The state of a path before its last timeout or kept loss; `None` if that must not be undone.
pub(super) type BeforeLoss<R> = Option<Box<State<<R as Rule>::Memory<f64>>>>;

/// What a timeout or a loss changes on a path.
#[derive(Clone, Debug)]
pub(super) struct State<M> {
    phase: Phase,
    ssthresh: f64,
    path: Path<f64>,
    memory: M,
}

impl<R: Rule> Controller<R> {
    /// The last timeout of path `r`, or the last loss before which
    /// [`keep_for_undo`](Controller::keep_for_undo) was called, was spurious: nothing was lost. The
    /// endpoint reports this before the acknowledgement that shows it. Window, ssthresh and phase
    /// are as before, and so are the rule's memory and the path's counters of losses, because no
    /// loss happened.
    ///
    /// A timeout in recovery is not undone: there was a loss before it.
    pub fn on_spurious(&mut self, r: usize) {
        let before = self.before_loss.get_mut(r).and_then(Option::take);
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
        if !R::BY_RATE {
            self.memory[r] = before.memory;
        }
        let state = &mut self.state[r];
        state.phase = before.phase;
        state.ssthresh = before.ssthresh;
        state.timed_out = false;
        state.increase = f64::NAN;
        if R::BY_RATE {
            self.tell(r, &Event::Spurious);
        }
    }

    /// Keeps what a loss of path `r` is about to change, for
    /// [`on_spurious`](Controller::on_spurious). A timeout does so by itself.
    pub fn keep_for_undo(&mut self, r: usize) {
        self.before_loss.resize_with(self.paths.len(), || None);
        let state = &self.state[r];
        self.before_loss[r] = (state.phase != Phase::Recovery).then(|| {
            Box::new(State {
                phase: state.phase,
                ssthresh: state.ssthresh,
                path: self.paths[r],
                memory: self.memory[r],
            })
        });
    }
}
