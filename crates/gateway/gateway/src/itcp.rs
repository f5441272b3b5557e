//! I-TCP: the weight of a tunnel follows the gateway's buffer.
//!
//! Each gateway adjusts the tunnel in its own direction, by samples of its own buffer: data that
//! streams have accepted and that was never sent.

use std::time::Duration;

use anabranch_control::{Adjuster, BufferSample, RateAdjustment};
use anabranch_scenario::Adjust;
use tokio::time::{Instant, sleep};

use crate::carrier::{PathState, Tunnel};
use crate::random;

/// Adjusts the weight of this tunnel, if that is configured. Does not return.
pub async fn adjust(tunnel: &Tunnel, itcp: Option<Adjust>) {
    match itcp {
        Some(itcp) => {
            let held = || Held {
                unsent_bytes: tunnel.unsent_bytes(),
                accepted_bytes: tunnel.accepted_bytes(),
                paths: tunnel.paths(),
            };
            let set_kappa = |kappa| tunnel.set_kappa(kappa);
            adjust_forever(held, set_kappa, itcp.parameters(), uniform).await;
        }
        None => std::future::pending().await,
    }
}

/// State of a tunnel that a sample is taken of.
struct Held {
    /// Data accepted and never sent, bytes.
    unsent_bytes: u64,
    /// Data accepted since the start, bytes.
    accepted_bytes: u64,
    /// Paths over which it is sent.
    paths: Vec<PathState>,
}

async fn adjust_forever(
    held: impl Fn() -> Held,
    set_kappa: impl Fn(f64),
    parameters: RateAdjustment,
    mut draw: impl FnMut() -> f64,
) {
    let started = Instant::now();
    let mut adjuster = Adjuster::new(parameters, parameters.max_kappa);
    set_kappa(adjuster.kappa());
    let mut next = started;
    loop {
        // From sample to sample, so that the time a sample takes does not add up.
        next += Duration::from_secs_f64(adjuster.wait_s(&mut draw));
        sleep(next.saturating_duration_since(Instant::now())).await;
        let Some(sample) = sample(&held(), started.elapsed()) else {
            continue; // no path has a round-trip time yet
        };
        adjuster.sample(&sample);
        set_kappa(adjuster.kappa());
    }
}

/// A sample of the buffer, in packets of the paths' mean size.
fn sample(held: &Held, age: Duration) -> Option<BufferSample> {
    let used = held.paths.iter().filter_map(|path| {
        let base_rtt_s = path.base_rtt_s.filter(|&rtt_s| rtt_s > 0.0)?;
        (path.window_packets > 0.0).then_some((path.window_packets, base_rtt_s, path.mtu_bytes))
    });
    let (mut window, mut rate, mut bytes) = (0.0, 0.0, 0.0);
    for (packets, base_rtt_s, mtu_bytes) in used {
        window += packets;
        rate += packets / base_rtt_s;
        bytes += packets * f64::from(mtu_bytes);
    }
    if window == 0.0 {
        return None;
    }
    let packet_bytes = (bytes / window).max(1.0);
    Some(BufferSample {
        age_s: age.as_secs_f64(),
        buffer_packets: held.unsent_bytes as f64 / packet_bytes,
        arrived_packets: held.accepted_bytes as f64 / packet_bytes,
        window,
        // The window over this time is the sum of the paths' expected rates.
        base_rtt: window / rate,
    })
}

/// A random number, uniform on [0, 1).
fn uniform() -> f64 {
    // The 53 bits of a double's significand.
    (u64::from_ne_bytes(random()) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anabranch_control::Guard;

    use super::*;

    /// Packets, bytes.
    const PACKET: u16 = 1000;

    /// Number of samples.
    const ALL: u32 = 400;
    /// Number of samples in a round.
    const ROUND: u32 = 20;

    const PERIOD_S: f64 = 0.5;

    /// The random waits: a quarter of a round before each.
    const DRAW: f64 = 0.25;

    /// Sample `i`, from 0: a buffer that grows and shrinks, over an RTT of 50 ms. The load falls
    /// from 0.96 to 0.8, and the guard acts above 0.9.
    fn row(i: u32) -> BufferSample {
        let round_s = f64::from(ROUND) * PERIOD_S;
        let rounds = f64::from(i / ROUND + 1);
        let samples = f64::from(i + 1);
        BufferSample {
            age_s: samples * PERIOD_S + rounds * DRAW * round_s,
            buffer_packets: (300.0 * (1.0 + (f64::from(i) / 17.0).sin())).round(),
            arrived_packets: (240.0 - 0.1 * samples) * samples,
            window: f64::from(20 + i % 8),
            base_rtt: 0.05,
        }
    }

    /// State that gives this sample: a quarter of the window on a path of half the rate per packet,
    /// and the rest so that the sum of the expected rates is the sample's; and a path that is not
    /// open.
    fn held(sample: &BufferSample) -> Held {
        let (first, second) = (sample.window / 4.0, sample.window * 3.0 / 4.0);
        let first_rate = first / (2.0 * sample.base_rtt);
        let second_rate = sample.window / sample.base_rtt - first_rate;
        Held {
            unsent_bytes: (sample.buffer_packets * f64::from(PACKET)) as u64,
            accepted_bytes: (sample.arrived_packets * f64::from(PACKET)) as u64,
            paths: vec![
                path(first, Some(2.0 * sample.base_rtt)),
                path(0.0, None),
                path(second, Some(second / second_rate)),
            ],
        }
    }

    fn path(window_packets: f64, base_rtt_s: Option<f64>) -> PathState {
        PathState {
            rtt_s: base_rtt_s,
            base_rtt_s,
            window_packets,
            mtu_bytes: PACKET.into(),
            ..PathState::default()
        }
    }

    /// Weights that the gateway sets, and those of the samples by hand.
    async fn weights(guard: Guard) -> (Vec<f64>, Vec<f64>) {
        let parameters = RateAdjustment {
            samples: ROUND,
            period_s: PERIOD_S,
            max_queue_packets: 500.0,
            guard,
            ..Adjust::default().parameters()
        };
        // Weights that were set, the first before any sample.
        let kappas = RefCell::new(Vec::new());
        let next = || held(&row(u32::try_from(kappas.borrow().len()).expect("few") - 1));
        let set_kappa = |kappa| kappas.borrow_mut().push(kappa);
        let until = Duration::from_secs_f64(row(ALL - 1).age_s + 0.1);
        let adjusting = adjust_forever(next, set_kappa, parameters, || DRAW);
        let _ = tokio::time::timeout(until, adjusting).await;
        let mut adjuster = Adjuster::new(parameters, parameters.max_kappa);
        let mut expected = vec![adjuster.kappa()];
        for i in 0..ALL {
            adjuster.sample(&row(i));
            expected.push(adjuster.kappa());
        }
        (kappas.into_inner(), expected)
    }

    #[tokio::test(start_paused = true)]
    async fn kappas_are_those_of_the_samples_with_and_without_the_guard() {
        let mut all = Vec::new();
        for guard in [Guard::Off, Guard::Load] {
            let (kappas, expected) = weights(guard).await;
            assert_eq!(kappas.len(), expected.len());
            let changes = expected.windows(2).filter(|pair| pair[0] != pair[1]);
            let changes = changes.count();
            assert!(changes >= 4, "{changes} changes test little");
            for (i, (kappa, expected)) in kappas.iter().zip(&expected).enumerate() {
                let off = (kappa / expected - 1.0).abs();
                assert!(
                    off < 1e-9,
                    "sample {i}, guard {guard:?}: {kappa}, not {expected}"
                );
            }
            all.push(expected);
        }
        assert!(all[0] != all[1], "the guard never acts");
    }

    #[test]
    fn draws_are_uniform() {
        let draws: Vec<f64> = (0..10_000).map(|_| uniform()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        // The standard deviation of the mean is 1 / sqrt(12 n) = 0.0029.
        let mean = draws.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 5.0 * 0.0029, "{mean}");
    }

    #[test]
    fn without_a_path_there_is_no_sample() {
        let held = Held {
            unsent_bytes: 0,
            accepted_bytes: 0,
            paths: vec![path(10.0, None), path(0.0, Some(0.1))],
        };
        assert!(sample(&held, Duration::ZERO).is_none());
    }
}
