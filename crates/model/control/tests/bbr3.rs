//! The test cases of draft-ietf-ccwg-bbr-06, appendix A, on one BBRv3 connection over one
//! bottleneck whose rate, buffer, losses and delays a test changes when the connection is in the
//! state that the case names. A test has the case's number. All 22 cases are here.
//!
//! Where the draft's text does not lead to what it describes, the test says so:
//!
//! - A.4: with a rate 10 % lower Drain, which sends at half the rate, still ends by what is in
//!   flight. It ends by time where the rate falls to 40 %.
//! - A.6: `inflight_longterm` "is updated appropriately, regardless of the application-limited
//!   state", but `HandleInflightTooHigh` (section 5.5.10.2) updates it only where the lost packet
//!   is not application-limited. The test is of the pseudocode.
//! - A.18, A.19: the connection returns to PROBE_UP by way of PROBE_REFILL (section 5.5.11.2).

use anabranch_control::rules::Bbr3State::{
    self, Drain, ProbeBwCruise, ProbeBwDown, ProbeBwRefill, ProbeBwUp, ProbeRtt, Startup,
};

use bottleneck::{Application, Flow, Link, MBIT};

mod bottleneck;

// STARTUP and DRAIN.

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

// The states of PROBE_BW.

/// A connection that has just entered a state of PROBE_BW, after its first cycle, and so long
/// before the next ProbeRTT that the test is over by then.
fn in_state(state: Bbr3State, link: Link) -> Flow {
    let mut flow = Flow::new(link);
    flow.run_until("cruise", 120.0, |flow| flow.state() == ProbeBwCruise);
    flow.run_until("up", 120.0, |flow| flow.state() == ProbeBwUp);
    enter(&mut flow, state);
    flow
}

/// The same over a buffer of a quarter of the BDP, whose losses have set `inflight_longterm`. A
/// probe is not the precautionary one after such losses.
fn bounded(state: Bbr3State, mbps: f64, rtt: f64) -> Flow {
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

// Bandwidths that are small, change, or are policed.

/// 64 kbit/s and 20 ms: a BDP of a tenth of a packet.
#[test]
fn a_14_correctly_managing_sub_packet_bdps() {
    let mut flow = Flow::new(Link::new(0.064, 0.02, 100.0));
    assert!(flow.link.bdp() < 0.11);
    flow.run_until("cruise", 60.0, |flow| flow.state() == ProbeBwCruise);
    let (delivered, began) = (flow.delivered, flow.now);
    let end = flow.now + 40.0;
    while flow.now < end {
        flow.step();
        assert!(
            flow.controller.window(0) >= 4.0,
            "{}",
            flow.controller.window(0)
        );
    }
    let bw = flow.bbr().bw;
    assert!(
        (bw / flow.link.rate - 1.0).abs() < 0.05,
        "{bw} of {}",
        flow.link.rate
    );
    let goodput = (flow.delivered - delivered) as f64 / (flow.now - began);
    assert!(
        goodput > 0.9 * flow.link.rate,
        "{goodput} of {}",
        flow.link.rate
    );
}

/// From 10 to 100 Mbit/s, over a buffer whose losses have set `inflight_longterm`.
#[test]
fn a_15_increasing_bandwidth_10x_and_ensuring_full_bandwidth_is_reached() {
    let mut flow = bounded(ProbeBwUp, 10.0, 0.04);
    flow.run_until("cruise", 10.0, |flow| flow.state() == ProbeBwCruise);
    flow.link = Link::new(100.0, 0.04, 1e3);
    let mut rounds = 0;
    let mut doublings = 0;
    let mut before = (flow.bbr().round_count, f64::INFINITY, 0.0);
    while flow.bbr().max_bw < 0.95 * 100.0 * MBIT {
        flow.step();
        let bbr = flow.bbr();
        if bbr.round_count > before.0 {
            rounds += 1;
            let step = bbr.cwnd / bbr.probe_up_acked_per_inc;
            doublings += u32::from(bbr.state == ProbeBwUp && step > 1.5 * before.2);
            before = (bbr.round_count, bbr.probe_up_acked_per_inc, step);
        }
        assert!(rounds < 250, "{bbr:?}", bbr = flow.bbr());
    }
    // The BDP grows from 33 to 333 packets: 2^8 packets more per round trip are enough.
    assert!((4..20).contains(&doublings), "{doublings}");
    // A wait of up to 63 round trips, 9 doublings of the step, and 3 s of waits between two probes.
    assert!(rounds < 200, "{rounds} round trips");
}

#[test]
fn a_16_decreasing_bandwidth_10x_and_ensuring_max_bandwidth_adapts_down() {
    let mut flow = in_state(ProbeBwCruise, Link::new(100.0, 0.04, 333.0));
    flow.link = Link::new(10.0, 0.04, 33.0);
    let began = flow.now;
    flow.run_until("short term", 2.0, |flow| {
        flow.bbr().bw_shortterm < 20.0 * MBIT
    });
    assert!(flow.now - began < 1.5, "{} s", flow.now - began);
    let up = |flow: &mut Flow| {
        flow.run_until("up", 30.0, |flow| flow.state() == ProbeBwUp);
        flow.run_until("down", 30.0, |flow| flow.state() == ProbeBwDown);
    };
    up(&mut flow);
    up(&mut flow);
    up(&mut flow);
    let max_bw = flow.bbr().max_bw;
    assert!((0.9..1.05).contains(&(max_bw / (10.0 * MBIT))), "{max_bw}");
}

/// A policer of 10 Mbit/s and 100 packets before a link of 100 Mbit/s.
#[test]
fn a_17_handling_token_bucket_policers() {
    let mut link = Link::new(100.0, 0.04, 1e3);
    link.policer = Some((10.0 * MBIT, 100.0));
    let mut flow = Flow::new(link);
    flow.run_until("cruise", 60.0, |flow| flow.state() == ProbeBwCruise);
    flow.run_until("short term", 30.0, |flow| {
        flow.bbr().bw_shortterm < f64::INFINITY && flow.bbr().inflight_shortterm < f64::INFINITY
    });
    flow.run_for(20.0);
    let (delivered, lost, began) = (flow.delivered, flow.lost, flow.now);
    flow.run_for(20.0);
    let rate = (flow.delivered - delivered) as f64 / (flow.now - began);
    assert!((0.75..1.01).contains(&(rate / (10.0 * MBIT))), "{rate}");
    let lost = (flow.lost - lost) as f64 / (flow.delivered - delivered) as f64;
    assert!(lost < 0.05, "{lost}");
}

// PROBE_RTT.

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

// Recoveries that turn out to be spurious.

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
