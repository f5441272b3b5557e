//! STARTUP and DRAIN.

use super::bottleneck::{Application, Flow, Link};
use anabranch_control::rules::Bbr3State::{Drain, ProbeRtt, Startup};

#[test]
fn a_1_exiting_startup_on_bandwidth_plateau() {
    for (mbps, rtt) in [(10.0, 0.04), (1.0, 0.2), (100.0, 0.01), (0.5, 0.5)] {
        let link = Link::new(mbps, rtt, 1e4);
        let rate = link.rate;
        let mut flow = Flow::new(link);
        flow.run_until("plateau", 60.0, |flow| flow.bbr().full_bw_count == 2);
        assert_eq!((flow.state(), flow.bbr().full_bw_reached), (Startup, false));
        flow.run_until("exit", 60.0, |flow| flow.state() != Startup);
        let bbr = flow.bbr();
        assert_eq!((bbr.state, bbr.full_bw_count), (Drain, 3));
        assert!(bbr.full_bw_now && bbr.full_bw_reached);
        assert!(
            (bbr.max_bw / rate - 1.0).abs() < 0.02,
            "{} of {rate}",
            bbr.max_bw
        );
        assert_eq!(flow.lost, 0);
    }
}

/// 60 packets per round trip of 200 ms, of which one in eight is lost: 7 ranges, at least the 6 of
/// `StartupFullLossCnt`.
#[test]
fn a_2_exiting_startup_on_loss_when_application_limited() {
    let mut flow = Flow::new(Link::new(10.0, 0.2, 1e4));
    flow.set_application(Application::Limited(300.0));
    flow.run_for(2.0);
    assert_eq!(flow.state(), Startup);
    assert_eq!(flow.lost, 0);
    flow.link.lose_every = 8;
    flow.run_until("exit", 3.0, |flow| flow.state() != Startup);
    let bbr = flow.bbr();
    assert!(bbr.full_bw_now && bbr.full_bw_reached);
    // In DRAIN for no time: what is in flight is less than the BDP.
    assert!(bbr.state.is_probe_bw());
    assert_eq!(bbr.drain_start_round, bbr.round_count);
    assert_eq!(bbr.undo_state, Some(Startup));
    assert!(bbr.inflight_longterm < 200.0, "{}", bbr.inflight_longterm);
}

/// The same with one loss of seven packets in a row per round trip, which is one range.
#[test]
fn one_range_of_losses_per_round_trip_does_not_end_startup() {
    let mut flow = Flow::new(Link::new(10.0, 0.2, 1e4));
    flow.set_application(Application::Limited(300.0));
    for _ in 0..10 {
        flow.run_for(0.2);
        flow.link.lose_every = 1;
        flow.run_for(7.0 / 300.0);
        flow.link.lose_every = 0;
    }
    assert!(flow.lost > 50, "{}", flow.lost);
    assert_eq!(flow.state(), Startup);
}

#[test]
fn a_3_exiting_drain_based_on_inflight() {
    let mut flow = Flow::new(Link::new(10.0, 0.04, 1e4));
    flow.run_until("drain", 60.0, |flow| flow.state() == Drain);
    assert_eq!(flow.state().pacing_gain(), 0.5);
    let bbr = flow.bbr();
    assert!((flow.controller.pacing_rate(0) / (0.5 * 0.99 * bbr.bw) - 1.0).abs() < 1e-9);
    let bdp = bbr.bw * bbr.min_rtt;
    while flow.state() == Drain {
        assert!(flow.in_flight() > bdp, "{} of {bdp}", flow.in_flight());
        let before = flow.in_flight();
        flow.step();
        // An acknowledgement ends it, and nothing else is between.
        assert!((flow.in_flight() - before).abs() <= 1.0);
    }
    assert!(flow.in_flight() <= bdp);
    assert!(flow.state().is_probe_bw());
    assert!(flow.bbr().round_count <= flow.bbr().drain_start_round + 3);
}

#[test]
fn a_4_exiting_drain_based_on_time() {
    for (left, by_time) in [(0.9, false), (0.4, true)] {
        let mut flow = Flow::new(Link::new(10.0, 0.04, 1e4));
        flow.run_until("drain", 60.0, |flow| flow.state() == Drain);
        flow.link.rate *= left;
        let bdp = flow.bbr().bw * flow.bbr().min_rtt;
        flow.run_until("exit", 60.0, |flow| flow.state() != Drain);
        assert!(flow.state().is_probe_bw());
        let rounds = flow.bbr().round_count - flow.bbr().drain_start_round;
        assert_eq!(
            (flow.in_flight() > bdp, rounds == 4),
            (by_time, by_time),
            "{rounds} rounds"
        );
    }
}

/// In flight are 25 packets; in ProbeRTT they fall below half the BDP or 4.
#[test]
fn a_20_entering_and_exiting_probe_rtt_during_startup() {
    let mut flow = Flow::new(Link::new(10.0, 0.1, 1e4));
    flow.set_application(Application::Limited(250.0));
    flow.run_until("probe RTT", 6.0, |flow| flow.state() == ProbeRtt);
    assert!(!flow.bbr().full_bw_reached);
    let began = flow.now;
    flow.run_until("exit", 2.0, |flow| flow.state() != ProbeRtt);
    assert_eq!(flow.state(), Startup);
    assert!(flow.now - began > 0.2);
    flow.set_application(Application::Endless);
    flow.run_until("search", 10.0, |flow| flow.state() != Startup);
    assert!((flow.bbr().max_bw / flow.link.rate - 1.0).abs() < 0.02);
}

/// Acknowledgements of 17 packets at once, every 20 ms.
#[test]
fn a_12_achieving_expected_startup_bandwidth_on_a_link_with_aggregation() {
    let mut link = Link::new(10.0, 0.04, 1e4);
    link.aggregation = 0.02;
    let rate = link.rate;
    let mut flow = Flow::new(link);
    let mut most: f64 = 0.0;
    while flow.state() == Startup {
        flow.step();
        let bbr = flow.bbr();
        // The samples do not exceed the rate by more than a packet per interval.
        assert!(bbr.max_bw <= 1.05 * rate, "{} of {rate}", bbr.max_bw);
        most = most.max(flow.controller.window(0) / (bbr.bdp + 1.0));
    }
    assert!(
        flow.bbr().max_bw >= 0.95 * rate,
        "{} of {rate}",
        flow.bbr().max_bw
    );
    assert!(flow.bbr().extra_acked >= 10.0, "{}", flow.bbr().extra_acked);
    assert!(most > 2.0, "{most} BDP");
}
