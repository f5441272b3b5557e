//! NADA's law against RFC 8698.

use anabranch_control::{MediaReport, Nada, nada};
use proptest::prelude::*;

const RMIN: f64 = 150e3;
const RMAX: f64 = 1.5e6;

fn report(congestion: f64, ramps_up: bool, received: f64) -> MediaReport {
    MediaReport {
        congestion,
        ramps_up,
        received,
        rtt: 0.08,
        interval: 0.1,
    }
}

/// A sender that has reached this rate by ramp-up.
fn at(rate: f64, congestion: f64) -> Nada {
    let mut sender = Nada::new(RMIN, RMAX);
    // gamma = 50 / (80 + 100 + 120) = 1/6, equation 3, so that received x 7/6 is the rate.
    sender.on_report(&report(congestion, true, rate * 6.0 / 7.0));
    sender
}

/// Equations 1 and 2. At 100 ms the warped delay is 50 exp(-0.5) = 30.33 ms; at 50 ms it is the
/// delay itself. A loss ratio of 2 % is 10 x 2^2 = 40 ms.
#[test]
fn the_congestion_signal_is_delay_and_a_penalty_of_losses() {
    assert_eq!(nada::congestion(0.1, false, 0.0), 0.1);
    assert!((nada::congestion(0.1, true, 0.0) - 0.030_326_533).abs() < 1e-9);
    assert!((nada::congestion(0.05, true, 0.0) - 0.05).abs() < 1e-12);
    assert!((nada::congestion(0.0, false, 0.02) - 0.04).abs() < 1e-12);
}

/// Equations 3 and 4: by a sixth at a round trip of 80 ms, and never down.
#[test]
fn ramp_up_increases_the_rate_received() {
    assert!((at(600e3, 0.0).rate() - 600e3).abs() < 1e-6);
    let mut sender = at(600e3, 0.0);
    sender.on_report(&report(0.0, true, 300e3));
    assert!((sender.rate() - 600e3).abs() < 1e-6);
}

/// Equations 5 to 7 from 1 Mbit/s, where the reference is 10 x 1.5 = 15 ms. There the rate stays.
/// At 40 ms it changes by -0.5 x 0.2 x (25 / 500) = -0.5 %, and by -0.5 x 2 x (25 / 500) = -5 % in
/// the first report after 15 ms.
#[test]
fn the_gradual_update_has_its_equilibrium_at_the_reference() {
    let mut sender = at(1e6, 0.015);
    sender.on_report(&report(0.015, false, 1e6));
    assert!((sender.rate() - 1e6).abs() < 1e-3);
    sender.on_report(&report(0.040, false, 1e6));
    assert!((sender.rate() - 0.945e6).abs() < 1e-3, "{}", sender.rate());
}

proptest! {
    #[test]
    fn the_rate_is_within_its_bounds_and_falls_with_congestion(
        rate in 160e3..1.4e6,
        before in 0.0..0.5,
        low in 0.0..0.5,
        more in 0.001..0.5,
    ) {
        let after = |congestion: f64| {
            let mut sender = at(rate, before);
            sender.on_report(&report(congestion, false, rate));
            sender.rate()
        };
        let (first, second) = (after(low), after(low + more));
        prop_assert!((RMIN..=RMAX).contains(&first) && (RMIN..=RMAX).contains(&second));
        prop_assert!(second <= first);
        prop_assert!(second < first || first == RMIN || second == RMAX);
    }
}
