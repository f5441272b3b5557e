//! Random states of a connection, extremes included.

use anabranch_control::rules::WvegasMemory;
use anabranch_control::{MAX_WINDOW, Path, Scalar, Soft};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::evaluation::MAX_PATHS;

/// A connection, and the path to evaluate.
#[derive(Clone, Debug)]
pub struct State {
    pub r: usize,
    pub paths: Vec<Path<Soft>>,
    pub memory: Vec<WvegasMemory<Soft>>,
}

/// The same states in every run.
pub fn states(count: usize) -> impl Iterator<Item = State> {
    let (strategy, mut runner) = (state(), TestRunner::deterministic());
    (0..count).map(move |_| strategy.new_tree(&mut runner).unwrap().current())
}

/// Up to `2^bits - 1`, each order of magnitude equally often.
fn magnitude(bits: u32) -> impl Strategy<Value = u64> {
    (0..=bits, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1))
}

/// A value of `magnitude(bits)`, or one of the two bounds.
fn between(low: u64, high: u64, bits: u32) -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(low),
        1 => Just(high),
        8 => magnitude(bits).prop_map(move |n| (low + n).min(high)),
    ]
}

/// The windows of CUBIC's epoch, packets, its age, us, and its round trips, 2^-32: below a window
/// now and then, and 0.
fn epoch() -> impl Strategy<Value = [u64; 5]> {
    [
        magnitude(24).boxed(),
        magnitude(24).boxed(),
        magnitude(24).boxed(),
        magnitude(32).boxed(),
        magnitude(60).boxed(),
    ]
}

/// Windows from 1 to 2^24 packets with a fraction of 32 bits, RTTs from 1 us to 60 s.
fn path() -> impl Strategy<Value = Path<Soft>> {
    let window = (
        between(1, MAX_WINDOW as u64, 24),
        prop_oneof![Just(0), any::<u32>()],
    );
    let times = (between(1, 60_000_000, 26), magnitude(26), magnitude(26));
    let losses = (magnitude(32), magnitude(32), magnitude(32));
    let fields = (window, times, losses, epoch());
    fields.prop_map(|((whole, fraction), (base, queue, round), losses, epoch)| {
        let s = |us: u64| Soft::of(us) / Soft::of(1_000_000);
        let rtt = s((base + queue).min(60_000_000));
        let base_rtt = s(base);
        Path {
            window: Soft::from_f64(whole as f64 + f64::from(fraction) / 2f64.powi(32)),
            rtt,
            base_rtt,
            round_rtt: s((base + round).min(60_000_000)),
            queue_delay: (rtt - base_rtt).max(Soft::of(0)),
            since_loss: Soft::of(losses.0),
            between_losses: Soft::of(losses.1),
            loss_interval: Soft::of(losses.2) / Soft::of(4),
            peak: Soft::of(epoch[0]) / Soft::of(8),
            prior_peak: Soft::of(epoch[1]) / Soft::of(8),
            epoch_window: Soft::of(epoch[2]) / Soft::of(8),
            age: s(epoch[3]),
            rounds: Soft::of(epoch[4]) / Soft::of(1 << 32),
        }
    })
}

fn memory() -> impl Strategy<Value = WvegasMemory<Soft>> {
    (magnitude(20), magnitude(32), magnitude(26)).prop_map(|(alpha, rate, delay)| WvegasMemory {
        alpha: Soft::of(alpha) / Soft::of(16),
        equilibrium_rate: Soft::of(rate) / Soft::of(16),
        queue_delay: Soft::of(delay) / Soft::of(1_000_000),
    })
}

/// One to eight paths; sometimes two of them the same, so that there are ties.
fn state() -> impl Strategy<Value = State> {
    let paths = prop::collection::vec((path(), memory()), 1..=MAX_PATHS);
    (paths, 0..MAX_PATHS, 0..4 * MAX_PATHS).prop_map(|(paths, r, twin)| {
        let (mut paths, memory): (Vec<_>, Vec<_>) = paths.into_iter().unzip();
        if twin < paths.len() {
            paths[twin] = paths[0];
        }
        State {
            r: r % paths.len(),
            paths,
            memory,
        }
    })
}
