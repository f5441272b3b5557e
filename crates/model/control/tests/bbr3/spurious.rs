//! Recoveries that turn out to be spurious.

use super::bottleneck::{Flow, Link};
use super::probe_bw::{bounded, in_state};
use anabranch_control::rules::Bbr3State::{ProbeBwDown, ProbeBwRefill, ProbeBwUp};

/// Six packets are late by half a round trip: more than 2 % of what is in flight is declared lost.
#[test]
fn a_18_handling_spurious_fast_recovery() {
    let mut flow = bounded(ProbeBwUp, 10.0, 0.1);
    flow.link.buffer = 1e4;
    let bound = flow.bbr().inflight_longterm;
    flow.link.late = (6, 0.05);
    flow.run_until("recovery", 2.0, |flow| flow.state() != ProbeBwUp);
    assert!(flow.lost > 0);
    let bbr = flow.bbr();
    assert_eq!((bbr.state, bbr.undo_state), (ProbeBwDown, Some(ProbeBwUp)));
    assert_eq!(bbr.undo_bw_shortterm, f64::INFINITY);
    assert_eq!(bbr.undo_inflight_shortterm, f64::INFINITY);
    let saved = bbr.undo_inflight_longterm;
    assert!(saved >= bound, "{saved} of {bound}");
    flow.run_until("undo", 1.0, |flow| flow.state() != ProbeBwDown);
    returns_to_probe_up(flow, saved);
}

/// Acknowledgements are late by 0.13 s more than the timeout: all in flight is declared lost
/// before the first one arrives.
#[test]
fn a_19_handling_spurious_rto_recovery() {
    let mut flow = in_state(ProbeBwUp, Link::new(10.0, 0.1, 1e4));
    flow.run_for(0.05);
    assert_eq!(flow.state(), ProbeBwUp);
    flow.link.late = (u32::MAX, 1.13);
    flow.run_until("timeout", 3.0, |flow| flow.state() != ProbeBwUp);
    flow.link.late = (0, 0.0);
    assert_eq!(flow.bbr().undo_state, Some(ProbeBwUp));
    let saved = flow.bbr().undo_inflight_longterm;
    flow.run_until("undo", 3.0, |flow| flow.state() == ProbeBwRefill);
    returns_to_probe_up(flow, saved);
}

fn returns_to_probe_up(mut flow: Flow, inflight_longterm: f64) {
    let bbr = flow.bbr();
    assert_eq!((bbr.state, bbr.undo_state), (ProbeBwRefill, None));
    assert_eq!(bbr.bw_shortterm, f64::INFINITY);
    assert_eq!(bbr.inflight_shortterm, f64::INFINITY);
    assert!(bbr.inflight_longterm >= inflight_longterm);
    flow.run_until("probe", 3.0, |flow| flow.state() == ProbeBwUp);
}
