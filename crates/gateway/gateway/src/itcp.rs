//! I-TCP: the weight of a tunnel follows the gateway's buffer.
//!
//! Each gateway adjusts the tunnel in its own direction, by the samples of its own buffer: data
//! Each gateway adjusts the tunnel in its own direction, by samples of its own buffer: data that
//! streams have accepted and that was never sent. Data that local connections could not

use std::time::Duration;

use anabranch_control::{Adjuster, BufferSample, RateAdjustment};
use anabranch_scenario::Adjust;
use tokio::time::{Instant, sleep};

use crate::carrier::{PathState, Tunnel};
use crate::random;

/// A tunnel whose weight is adjusted.
trait Buffer {
    /// Data accepted and never sent, bytes.
    fn unsent_bytes(&self) -> u64;
    /// Data accepted since the start, bytes.
    fn accepted_bytes(&self) -> u64;
    /// Paths over which it is sent.
    fn paths(&self) -> Vec<PathState>;
    /// Changes the weight.
    fn set_kappa(&self, kappa: f64);
}

impl Buffer for Tunnel {
    fn unsent_bytes(&self) -> u64 {
        (**self).unsent_bytes()
    }

    fn accepted_bytes(&self) -> u64 {
        (**self).accepted_bytes()
    }

    fn paths(&self) -> Vec<PathState> {
        (**self).paths()
    }

    fn set_kappa(&self, kappa: f64) {
        (**self).set_kappa(kappa);
    }
}

/// Adjusts the weight of this tunnel, if that is configured. Does not return.
pub async fn adjust(tunnel: &Tunnel, itcp: Option<Adjust>) {
    match itcp {
        Some(itcp) => adjust_forever(tunnel, itcp.parameters(), uniform).await,
        None => std::future::pending().await,
    }
}

async fn adjust_forever(
    buffer: &impl Buffer,
    parameters: RateAdjustment,
    mut draw: impl FnMut() -> f64,
) {
    let started = Instant::now();
    let mut adjuster = Adjuster::new(parameters, parameters.max_kappa);
    buffer.set_kappa(adjuster.kappa());
    let mut next = started;
    loop {
        // From sample to sample, so that the time a sample takes does not add up.
        next += Duration::from_secs_f64(adjuster.wait_s(&mut draw));
        sleep(next.saturating_duration_since(Instant::now())).await;
        let Some(sample) = sample(buffer, started.elapsed()) else {
            continue; // no path has a round-trip time yet
        };
        adjuster.sample(&sample);
        buffer.set_kappa(adjuster.kappa());
    }
}

/// A sample of the buffer, in packets of the paths' mean size.
fn sample(buffer: &impl Buffer, age: Duration) -> Option<BufferSample> {
    let paths = buffer.paths();
    let used = paths.iter().filter_map(|path| {
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
        buffer_packets: buffer.unsent_bytes() as f64 / packet_bytes,
        arrived_packets: buffer.accepted_bytes() as f64 / packet_bytes,
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
    use std::net::IpAddr;

    use super::*;
    use crate::carrier::Condition;

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

    /// A tunnel that gives one sample after the other, split over two paths.
    struct Rows {
        /// Weights that were set, the first before any sample.
        kappas: RefCell<Vec<f64>>,
    }

    impl Rows {
        fn row(&self) -> BufferSample {
            row(u32::try_from(self.kappas.borrow().len()).expect("few") - 1)
        }
    }

    impl Buffer for Rows {
        fn unsent_bytes(&self) -> u64 {
            (self.row().buffer_packets * f64::from(PACKET)) as u64
        }

        fn accepted_bytes(&self) -> u64 {
            (self.row().arrived_packets * f64::from(PACKET)) as u64
        }

        /// A quarter of the window on a path of half the rate per packet, and the rest so that the
        /// sum of the expected rates is the sample's; and a path that is not open.
        fn paths(&self) -> Vec<PathState> {
            let BufferSample {
                window, base_rtt, ..
            } = self.row();
            let (first, second) = (window / 4.0, window * 3.0 / 4.0);
            let first_rate = first / (2.0 * base_rtt);
            let second_rate = window / base_rtt - first_rate;
            vec![
                path(first, Some(2.0 * base_rtt)),
                path(0.0, None),
                path(second, Some(second / second_rate)),
            ]
        }

        fn set_kappa(&self, kappa: f64) {
            self.kappas.borrow_mut().push(kappa);
        }
    }

    fn path(window_packets: f64, base_rtt_s: Option<f64>) -> PathState {
        PathState {
            name: "path".to_owned(),
            condition: Condition::Up,
            local: None::<IpAddr>,
            sent_bytes: 0,
            received_bytes: 0,
            sent_packets: 0,
            lost_packets: 0,
            rtt_s: base_rtt_s,
            base_rtt_s,
            window_packets,
            mtu_bytes: PACKET.into(),
            deaths: 0,
        }
    }

    /// Weights that the gateway sets, and those of the samples by hand.
    async fn weights(guard: bool) -> (Vec<f64>, Vec<f64>) {
        let parameters = RateAdjustment {
            samples: ROUND,
            period_s: PERIOD_S,
            max_queue_packets: 500.0,
            guard,
            ..Adjust::default().parameters()
        };
        let buffer = Rows {
            kappas: RefCell::default(),
        };
        let until = Duration::from_secs_f64(row(ALL - 1).age_s + 0.1);
        let _ = tokio::time::timeout(until, adjust_forever(&buffer, parameters, || DRAW)).await;
        let mut adjuster = Adjuster::new(parameters, parameters.max_kappa);
        let mut expected = vec![adjuster.kappa()];
        for i in 0..ALL {
            adjuster.sample(&row(i));
            expected.push(adjuster.kappa());
        }
        (buffer.kappas.into_inner(), expected)
    }

    #[tokio::test(start_paused = true)]
    async fn kappas_are_those_of_the_samples_with_and_without_the_guard() {
        let mut all = Vec::new();
        for guard in [false, true] {
            let (kappas, expected) = weights(guard).await;
            assert_eq!(kappas.len(), expected.len());
            let changes = expected.windows(2).filter(|pair| pair[0] != pair[1]);
            let changes = changes.count();
            assert!(changes >= 4, "{changes} changes test little");
            for (i, (kappa, expected)) in kappas.iter().zip(&expected).enumerate() {
                let off = (kappa / expected - 1.0).abs();
                assert!(
                    off < 1e-9,
                    "sample {i}, guard {guard}: {kappa}, not {expected}"
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
        struct Empty;
        impl Buffer for Empty {
            fn unsent_bytes(&self) -> u64 {
                0
            }
            fn accepted_bytes(&self) -> u64 {
                0
            }
            fn paths(&self) -> Vec<PathState> {
                vec![path(10.0, None), path(0.0, Some(0.1))]
            }
            fn set_kappa(&self, _: f64) {}
        }
        assert!(sample(&Empty, Duration::ZERO).is_none());
    }
}
