//! Bandwidths that are small, change, or are policed.

use super::bottleneck::{Flow, Link, MBIT};
use super::probe_bw::{bounded, in_state};
use anabranch_control::rules::Bbr3State::{ProbeBwCruise, ProbeBwDown, ProbeBwUp};

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
