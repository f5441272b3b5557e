//! The states of PROBE_BW.

use super::bottleneck::{Application, Flow, Link};
use anabranch_control::rules::Bbr3State::{
    self, ProbeBwCruise, ProbeBwDown, ProbeBwRefill, ProbeBwUp, ProbeRtt, Startup,
};

/// A connection that has just entered a state of PROBE_BW, after its first cycle, and so long
/// before the next ProbeRTT that the test is over by then.
pub fn in_state(state: Bbr3State, link: Link) -> Flow {
    let mut flow = Flow::new(link);
    flow.run_until("cruise", 120.0, |flow| flow.state() == ProbeBwCruise);
    flow.run_until("up", 120.0, |flow| flow.state() == ProbeBwUp);
    enter(&mut flow, state);
    flow
}

/// The same over a buffer of a quarter of the BDP, whose losses have set `inflight_longterm`. A
/// probe is not the precautionary one after such losses.
pub fn bounded(state: Bbr3State, mbps: f64, rtt: f64) -> Flow {
    let mut link = Link::new(mbps, rtt, 0.0);
    link.buffer = link.bdp() / 4.0;
    let mut flow = Flow::new(link);
    flow.run_until("bound", 120.0, |flow| {
        flow.bbr().inflight_longterm < f64::INFINITY
    });
    enter(&mut flow, state);
    while flow.bbr().prev_probe_too_high {
        enter(&mut flow, state);
    }
    flow
}

fn enter(flow: &mut Flow, state: Bbr3State) {
    // A probe begins 2 to 3 s after a ProbeRTT (section 5.3.3.8.3), the next ProbeRTT 5 s after it.
    let is_early = |flow: &Flow| flow.now - flow.bbr().probe_rtt_min_stamp < 3.5;
    loop {
        assert!(flow.now < 300.0, "{:?}", flow.bbr());
        flow.run_until("another state", 120.0, |flow| flow.state() != state);
        flow.run_until("state", 120.0, |flow| flow.state() == state);
        if is_early(flow) {
            return;
        }
    }
}

#[test]
fn a_5_exiting_probe_up_on_bandwidth_plateau() {
    let mut flow = in_state(ProbeBwUp, Link::new(10.0, 0.04, 1e4));
    assert_eq!(flow.state().pacing_gain(), 1.25);
    assert_eq!(flow.state().cwnd_gain(), 2.25);
    assert!(!flow.bbr().full_bw_now);
    flow.run_until("exit", 10.0, |flow| flow.state() != ProbeBwUp);
    let bbr = flow.bbr();
    assert_eq!(
        (bbr.state, bbr.full_bw_now, bbr.full_bw_count),
        (ProbeBwDown, true, 3)
    );
    assert_eq!(flow.lost, 0);
}

#[test]
fn a_6_exiting_probe_up_on_loss_when_application_limited() {
    let mut flow = in_state(ProbeBwUp, Link::new(10.0, 0.1, 1e4));
    flow.set_application(Application::Limited(400.0));
    flow.run_for(0.3); // All packets that were sent before are acknowledged.
    assert_eq!(flow.state(), ProbeBwUp);
    let (longterm, before) = (flow.bbr().inflight_longterm, flow.lost);
    flow.link.lose_every = 10;
    flow.run_until("exit", 2.0, |flow| flow.state() != ProbeBwUp);
    // PROBE_DOWN begins, and so little is in flight that it may end at the same acknowledgement.
    assert!(matches!(flow.state(), ProbeBwDown | ProbeBwCruise));
    assert_eq!(
        (flow.bbr().cycle_stamp, flow.bbr().undo_state),
        (flow.now, Some(ProbeBwUp))
    );
    assert!(flow.lost > before);
    assert!(flow.bbr().prev_probe_too_high);
    // See the head of mod.rs: the lost packets are application-limited.
    assert_eq!(flow.bbr().inflight_longterm, longterm);
}

/// The application lets the path become idle between packets, so that no ProbeRTT is due.
#[test]
fn a_7_never_exiting_probe_up_or_startup_when_application_limited_with_no_loss() {
    let link = Link::new(10.0, 0.04, 1e4);
    for (state, mut flow) in [
        (Startup, Flow::new(link.clone())),
        (ProbeBwUp, in_state(ProbeBwUp, link)),
    ] {
        flow.set_application(Application::Limited(10.0));
        for _ in 0..6000 {
            flow.run_for(0.01);
            assert_eq!(flow.state(), state, "after {} s", flow.now);
        }
        assert_eq!(flow.lost, 0);
    }
}

#[test]
fn a_8_exiting_probe_down_on_inflight() {
    for mut flow in [
        in_state(ProbeBwDown, Link::new(10.0, 0.04, 1e4)),
        bounded(ProbeBwUp, 10.0, 0.04),
    ] {
        flow.run_until("down", 10.0, |flow| flow.state() == ProbeBwDown);
        assert_eq!(flow.state().pacing_gain(), 0.9);
        flow.run_until("exit", 10.0, |flow| flow.state() != ProbeBwDown);
        let bbr = flow.bbr();
        assert_eq!(bbr.state, ProbeBwCruise);
        assert!(flow.in_flight() <= (bbr.max_bw * bbr.min_rtt).max(4.0));
        // The headroom of 15 % (section 2.8), at least one packet.
        let headroom = (0.15 * bbr.inflight_longterm).max(1.0);
        let free = bbr.inflight_longterm == f64::INFINITY
            || flow.in_flight() <= bbr.inflight_longterm - headroom;
        assert!(free, "{} of {}", flow.in_flight(), bbr.inflight_longterm);
    }
}

/// A BDP of 83 packets and an RTT of 100 ms: 63 round trips are longer than the longest wait, 3 s.
/// The wait is over before the next ProbeRTT.
#[test]
fn a_9_exiting_probe_down_after_max_time() {
    let mut flow = in_state(ProbeBwDown, Link::new(10.0, 0.1, 1e4));
    while flow.now + flow.bbr().bw_probe_wait > flow.bbr().probe_rtt_min_stamp + 4.9 {
        enter(&mut flow, ProbeBwDown);
    }
    flow.link.rate *= 0.9;
    let began = flow.now;
    let wait = flow.bbr().bw_probe_wait;
    assert!((2.0..3.0).contains(&wait));
    flow.run_until("exit", 10.0, |flow| flow.state() != ProbeBwDown);
    assert_eq!(flow.state(), ProbeBwRefill);
    let stayed = flow.now - began;
    assert!(
        stayed > wait && stayed < wait + 0.1,
        "{stayed} s of {wait} s"
    );
}

/// Each round trip `extra_acked` is the largest excess of the last ten, and the window has it
/// beside two BDP: the link stays busy.
#[test]
fn a_13_achieving_expected_cruise_bandwidth_on_a_link_with_aggregation() {
    let mut flow = in_state(ProbeBwCruise, Link::new(10.0, 0.04, 1e4));
    let before = flow.bbr().extra_acked;
    flow.link.aggregation = 0.06;
    flow.run_for(0.5);
    let bbr = flow.bbr();
    // 50 packets at once, of which some were due.
    assert!(
        bbr.extra_acked > before + 20.0,
        "{before}, {}",
        bbr.extra_acked
    );
    assert_eq!(bbr.max_inflight.max(bbr.cwnd), bbr.max_inflight);
    let aggregated = bbr.extra_acked;
    let more = bbr.max_inflight - 2.0 * bbr.bdp;
    assert!((more - bbr.extra_acked).abs() < 1e-9, "{more}");
    let (delivered, began) = (flow.delivered, flow.now);
    flow.run_for(1.8); // 30 times the aggregation, before the next ProbeRTT
    let rate = (flow.delivered - delivered) as f64 / (flow.now - began);
    assert!(rate > 0.95 * flow.link.rate, "{rate} of {}", flow.link.rate);
    // Ten round trips after the aggregation has ended it is forgotten.
    flow.link.aggregation = 0.0;
    let round = flow.bbr().round_count;
    flow.run_until("rounds", 5.0, |flow| flow.bbr().round_count > round + 14);
    assert!(
        flow.bbr().extra_acked < aggregated / 2.0,
        "{}",
        flow.bbr().extra_acked
    );
}

#[test]
fn a_21_handling_loss_during_probe_up_after_inflight_longterm_is_set() {
    let mut flow = bounded(ProbeBwUp, 10.0, 0.1);
    let before = flow.bbr().inflight_longterm;
    assert!(before < f64::INFINITY && !flow.bbr().full_bw_now);
    flow.link.buffer = 0.0;
    flow.link.lose_every = 5;
    flow.run_until("loss", 5.0, |flow| flow.state() != ProbeBwUp);
    let bbr = flow.bbr();
    assert_eq!(bbr.state, ProbeBwDown);
    assert!(bbr.prev_probe_too_high && !bbr.full_bw_now);
    assert_eq!(bbr.undo_state, Some(ProbeBwUp));
    // Not below Beta = 0.7 of what was aimed at.
    let target = bbr.bdp.min(bbr.cwnd);
    assert!(
        bbr.inflight_longterm < before,
        "{} of {before}",
        bbr.inflight_longterm
    );
    assert!(bbr.inflight_longterm >= 0.7 * target);
}

#[test]
fn a_22_handling_application_limited_sending_during_probe_refill() {
    let mut flow = in_state(ProbeBwRefill, Link::new(10.0, 0.1, 1e4));
    let max_bw = flow.bbr().max_bw;
    flow.set_application(Application::Limited(50.0));
    flow.run_until("up", 1.0, |flow| flow.state() != ProbeBwRefill);
    assert_eq!(flow.state(), ProbeBwUp);
    assert_eq!(flow.bbr().max_bw, max_bw);
    flow.run_for(1.0);
    assert_eq!((flow.state(), flow.bbr().max_bw), (ProbeBwUp, max_bw));
    flow.set_application(Application::Endless);
    flow.run_until("down", 10.0, |flow| flow.state() == ProbeBwDown);
    assert!((flow.bbr().max_bw / flow.link.rate - 1.0).abs() < 0.02);
    assert_ne!(flow.state(), ProbeRtt);
}
