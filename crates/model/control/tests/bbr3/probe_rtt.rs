//! PROBE_RTT.

use super::bottleneck::{Application, Flow, Link};
use super::probe_bw::in_state;
use anabranch_control::rules::Bbr3State::{ProbeBwCruise, ProbeRtt};

#[test]
fn a_10_entering_and_exiting_probe_rtt() {
    let mut flow = Flow::new(Link::new(10.0, 0.04, 1e4));
    flow.run_until("cruise", 60.0, |flow| flow.state() == ProbeBwCruise);
    flow.run_until("probe RTT", 10.0, |flow| flow.state() == ProbeRtt);
    assert_eq!(flow.state().cwnd_gain(), 0.5);
    let (began, bdp, window) = (flow.now, flow.bbr().bdp, flow.bbr().max_inflight);
    flow.run_until("drained", 1.0, |flow| flow.in_flight() <= 0.5 * bdp);
    let (drained, round) = (flow.now, flow.bbr().round_count);
    flow.run_until("exit", 1.0, |flow| flow.state() != ProbeRtt);
    assert!(flow.now - drained >= 0.2 && flow.bbr().round_count > round);
    assert_eq!(flow.state(), ProbeBwCruise);
    assert!(flow.bbr().full_bw_reached);
    assert!(
        flow.controller.window(0) >= 0.9 * window,
        "{}",
        flow.controller.window(0)
    );
    // The next one comes 5 s later.
    flow.run_until("probe RTT", 10.0, |flow| flow.state() == ProbeRtt);
    let pause = flow.now - began;
    assert!((5.2..5.5).contains(&pause), "{pause} s");
    let delivered = flow.delivered;
    flow.run_for(1.0);
    assert!(flow.delivered - delivered > 600);
}

#[test]
fn a_11_skipping_probe_rtt_due_to_application_limited_sending() {
    let mut flow = in_state(ProbeBwCruise, Link::new(10.0, 0.04, 1e4));
    flow.set_application(Application::Paused);
    flow.run_for(5.5);
    assert_eq!(flow.in_flight(), 0.0);
    assert!(flow.now > flow.bbr().probe_rtt_min_stamp + 5.0);
    flow.set_application(Application::Endless);
    flow.run_until("restart", 0.1, |flow| flow.in_flight() > 0.0);
    assert!(flow.bbr().idle_restart);
    // Section 5.4.1: at exactly bw, which is paced 1 % lower.
    let rate = flow.controller.pacing_rate(0) / flow.bbr().bw;
    assert!((rate - 0.99).abs() < 1e-9, "{rate}");
    let end = flow.now + 1.0;
    while flow.now < end {
        flow.step();
        assert_ne!(flow.state(), ProbeRtt);
    }
    assert!(!flow.bbr().idle_restart);
}
