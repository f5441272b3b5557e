//! The same samples give the same weights as in the simulator.
//!
//! The files were written by a line added to `Connection::adjust` in crates/sim: gateway "one" of
//! papers/itcp/scenario_two.toml with C = 20 samples and a buffer of 500 packets, so that kappa
//! moves often; seed 1, 39 rounds, as printed and with the guard.

use std::cell::RefCell;
use std::net::IpAddr;

use super::*;
use crate::carrier::Condition;

#[derive(Clone, Copy)]
struct Recorded {
    age_s: f64,
    buffer_packets: f64,
    arrived_packets: f64,
    window: f64,
    base_rtt: f64,
    kappa: f64,
}

fn recorded(csv: &str) -> Vec<Recorded> {
    let rows = csv.lines().skip(1).map(|line| {
        let fields: Vec<f64> = line
            .split(',')
            .map(|field| field.parse().expect("a number"))
            .collect();
        let [
            age_s,
            buffer_packets,
            arrived_packets,
            window,
            base_rtt,
            kappa,
        ] = fields[..]
        else {
            panic!("{line}");
        };
        Recorded {
            age_s,
            buffer_packets,
            arrived_packets,
            window,
            base_rtt,
            kappa,
        }
    });
    rows.collect()
}

/// Packets of the simulator, bytes.
const PACKET: u16 = 1000;
const SAMPLES: u32 = 20;
const PERIOD_S: f64 = 0.5;

/// Gives the recorded samples one after the other, split over two paths.
struct Replay {
    rows: Vec<Recorded>,
    /// The weights that were set, the first before any sample.
    kappas: RefCell<Vec<f64>>,
}

impl Replay {
    fn row(&self) -> Recorded {
        self.rows[(self.kappas.borrow().len() - 1).min(self.rows.len() - 1)]
    }
}

impl Buffer for Replay {
    fn unsent_bytes(&self) -> u64 {
        (self.row().buffer_packets * f64::from(PACKET)) as u64
    }

    fn accepted_bytes(&self) -> u64 {
        (self.row().arrived_packets * f64::from(PACKET)) as u64
    }

    /// A quarter of the window on a path of half the rate per packet, and the rest so that the sum
    /// of the expected rates is the recorded one; and a path that is not open.
    fn paths(&self) -> Vec<PathState> {
        let Recorded {
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

/// Replays a recording at its own times.
async fn replay(csv: &str, guard: bool) -> (Vec<f64>, Vec<f64>) {
    let rows = recorded(csv);
    let round_s = f64::from(SAMPLES) * PERIOD_S;
    let firsts = rows.chunks(SAMPLES as usize).map(|round| round[0].age_s);
    let lasts = rows
        .chunks(SAMPLES as usize)
        .map(|round| round[SAMPLES as usize - 1].age_s);
    // The random waits of the recording: a period later than this the round began.
    let before = std::iter::once(0.0).chain(lasts);
    let mut draws = firsts
        .zip(before)
        .map(|(first, last)| (first - last - PERIOD_S) / round_s);
    let buffer = Replay {
        kappas: RefCell::default(),
        rows: rows.clone(),
    };
    let parameters = RateAdjustment {
        samples: SAMPLES,
        max_queue_packets: 500.0,
        guard,
        ..Adjust::default().parameters()
    };
    let until = Duration::from_secs_f64(rows.last().expect("rows").age_s + 0.1);
    let adjusting = adjust_forever(&buffer, parameters, || draws.next().unwrap_or(0.99));
    let _ = tokio::time::timeout(until, adjusting).await;
    let mut kappas = buffer.kappas.into_inner();
    assert_eq!(kappas.remove(0), 10.0);
    (kappas, rows.iter().map(|row| row.kappa).collect())
}

#[tokio::test(start_paused = true)]
async fn kappas_are_those_of_the_simulator_as_printed_and_with_the_guard() {
    for (csv, guard) in [
        (include_str!("printed.csv"), false),
        (include_str!("guard.csv"), true),
    ] {
        let (kappas, expected) = replay(csv, guard).await;
        assert_eq!(kappas.len(), 780);
        let changes = expected
            .windows(2)
            .filter(|pair| pair[0] != pair[1])
            .count();
        assert!(changes >= 4, "{changes} changes test little");
        for (i, (kappa, expected)) in kappas.iter().zip(&expected).enumerate() {
            let off = (kappa / expected - 1.0).abs();
            assert!(
                off < 1e-9,
                "sample {i}, guard {guard}: {kappa} instead of {expected}"
            );
        }
    }
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
