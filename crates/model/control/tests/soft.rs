//! `Soft` against `f64`: each operation within 2^-32 of the exact result, and every rule in it.

use crate::common::{all_rules, path, rule};
use anabranch_control::rules::{Vegas, Wvegas, WvegasMemory};
use anabranch_control::{Path, Rule, Scalar, Soft};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// 2^-32, and the error of `f64` itself.
const BOUND: f64 = 1.0001 / 4_294_967_296.0;

fn soft(x: f64) -> Soft {
    Soft::from_f64(x)
}

fn largest() -> f64 {
    f64::INFINITY
}

fn near(got: Soft, exact: f64) -> bool {
    (got.to_f64() - exact).abs() <= BOUND * exact.abs()
}

/// Numbers of any size and sign, and those that make operations hard: near each other, powers of 2.
fn number() -> impl Strategy<Value = f64> {
    let any_size = (1.0..2.0, -80i32..80, any::<bool>())
        .prop_map(|(m, e, neg): (f64, i32, bool)| m * 2f64.powi(e) * if neg { -1.0 } else { 1.0 });
    prop_oneof![
        4 => any_size,
        1 => (0u32..1000).prop_map(f64::from),
        1 => (-60i32..60).prop_map(|e| 2f64.powi(e)),
        1 => Just(0.0),
    ]
    .prop_map(|x| soft(x).to_f64())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn an_operation_is_the_exact_result_rounded(a in number(), b in number()) {
        let (x, y) = (soft(a), soft(b));
        // Numbers of 32 bits: their product is exact in f64. The others are rounded there too.
        prop_assert_eq!(x * y, soft(a * b), "{} * {}", a, b);
        prop_assert!(near(x * y, a * b), "{a} * {b}");
        prop_assert!(near(x + y, a + b), "{a} + {b}: {:?}", x + y);
        prop_assert!(near(x - y, a - b), "{a} - {b}: {:?}", x - y);
        if b != 0.0 {
            prop_assert!(near(x / y, a / b), "{a} / {b}: {:?}", x / y);
        }
        prop_assert!(near(soft(a.abs()).sqrt(), a.abs().sqrt()), "sqrt {a}");
        prop_assert_eq!(x.partial_cmp(&y), a.partial_cmp(&b), "{} and {}", a, b);
    }

    #[test]
    fn near_numbers_cancel_exactly(m in 1u64 << 31..(1 << 32) - 8, d in 0u64..8, e in -40i32..40) {
        let scale = 2f64.powi(e);
        let (a, b) = ((m + d) as f64 * scale, m as f64 * scale);
        prop_assert_eq!((soft(a) - soft(b)).to_f64(), d as f64 * scale);
        prop_assert_eq!((soft(b) - soft(a)).to_f64(), -(d as f64) * scale);
    }

    #[test]
    fn whole_numbers_below_2_to_the_32_are_exact(n in any::<u32>()) {
        prop_assert_eq!(Soft::of(n.into()).to_f64(), f64::from(n));
    }

    #[test]
    fn bits_and_f64_come_back(a in number()) {
        prop_assert_eq!(Soft::from_bits(soft(a).to_bits()), soft(a));
        prop_assert_eq!(soft(a).to_f64(), a);
        prop_assert_eq!(soft(-a).to_f64(), -a);
    }
}

#[test]
fn ties_round_away_from_zero() {
    // 2^32 + 1 needs 33 bits and lies midway between 2^32 and 2^32 + 2.
    assert_eq!(Soft::of((1 << 32) + 1).to_f64(), 4_294_967_298.0);
    assert_eq!(soft(-4_294_967_297.0).to_f64(), -4_294_967_298.0);
    // All ones carry into the next power of 2.
    assert_eq!(Soft::of(u64::MAX).to_f64(), 18_446_744_073_709_551_616.0);
}

#[test]
fn what_is_too_large_or_too_small_saturates() {
    let mut x = Soft::of(10);
    for _ in 0..40 {
        x = x * x;
    }
    assert_eq!(x, soft(largest()));
    assert_eq!(x * x, x);
    assert_eq!(x + x, x);
    assert_eq!(Soft::of(0) - x - x, soft(-largest()));

    let mut tiny = Soft::of(1) / Soft::of(10);
    for _ in 0..40 {
        tiny = tiny * tiny;
    }
    assert_eq!(tiny, Soft::of(0));
    assert_eq!(
        Soft::of(0) - Soft::of(1) / x * (Soft::of(1) / x),
        Soft::of(0),
        "no negative zero"
    );
}

#[test]
fn zero_infinity_and_nan_are_represented() {
    let (zero, one, minus) = (Soft::of(0), Soft::of(1), soft(-1.0));
    assert_eq!(one / zero, soft(largest()));
    assert_eq!(minus / zero, soft(-largest()));
    assert_eq!(zero / zero, zero);
    assert_eq!(zero / one, zero);
    assert_eq!(zero * minus, zero);
    assert_eq!(zero - zero, zero);
    assert_eq!(one - one, zero);
    assert_eq!(minus.sqrt(), zero);
    assert_eq!(soft(f64::NAN), zero);
    assert_eq!(
        soft(f64::MIN_POSITIVE / 8.0).to_f64(),
        f64::MIN_POSITIVE / 8.0
    );
    assert_eq!(soft(f64::INFINITY).to_f64(), f64::INFINITY);
    assert!(minus < zero && zero < one && one < soft(largest()));
}

#[test]
fn a_path_without_an_rtt_does_not_count() {
    let silent = Path {
        rtt: f64::INFINITY,
        base_rtt: f64::INFINITY,
        ..path(10.0, 0.1)
    };
    let convert = |paths: &[Path<f64>]| -> Vec<Path<Soft>> {
        paths.iter().map(|path| path.map(Soft::from_f64)).collect()
    };
    let (both, alone) = (
        convert(&[path(10.0, 0.1), silent]),
        convert(&[path(10.0, 0.1)]),
    );
    for name in ["lia", "olia", "balia"] {
        let rule = rule(name);
        assert_eq!(rule.increase(0, &both), rule.increase(0, &alone), "{name}");
    }
}

/// A whole number below 2^bits, each order of magnitude equally often.
fn magnitude(bits: u32) -> impl Strategy<Value = u32> {
    (0..=bits, any::<u32>()).prop_map(|(bits, n)| (u64::from(n) & ((1 << bits) - 1)) as u32)
}

/// One to eight paths: windows from 1 to 2^24 packets, RTTs from 1 us to about a minute.
fn states() -> impl Strategy<Value = Vec<Path<f64>>> {
    let us = |us: u32| f64::from(us) * 1e-6;
    let fields = (
        magnitude(24),
        magnitude(25),
        magnitude(25),
        magnitude(24),
        magnitude(24),
    );
    let one = fields.prop_map(move |(window, base, queue, since, between)| Path {
        window: (window + 1).into(),
        rtt: us(base + 1 + queue),
        base_rtt: us(base + 1),
        round_rtt: us(base + 1 + queue / 2),
        queue_delay: us(queue),
        since_loss: since.into(),
        between_losses: between.into(),
        loss_interval: f64::from(since / 2 + between / 2),
        ..Path::default()
    });
    prop::collection::vec(one, 1..=8)
}

/// The stated bound. The longest chain, Balia's, has 24 roundings of 2^-32, including its sums over
/// eight paths: 5.6e-9.
const RULE_BOUND: f64 = 5.6e-9;

/// With `--nocapture` prints the largest error of every rule. If an increase cancels, the error is
/// relative to NewReno's, `1/w_r`. CUBIC is skipped: it is the kernel's own, and its cubes cancel
/// (1e-5).
#[test]
fn a_rule_in_soft_is_near_the_rule_in_f64() {
    println!("largest relative error of    I_r       D_r");
    for (info, rule) in all_rules().filter(|(info, _)| info.fluid) {
        let (mut increase, mut decrease) = (0.0f64, 0.0f64);
        for paths in samples(states(), 20_000) {
            let in_soft: Vec<_> = paths.iter().map(|path| path.map(Soft::from_f64)).collect();
            let scale = if info.increase_cancels {
                1.0 / paths[0].window
            } else {
                0.0
            };
            let (exact, got) = (
                rule.increase(0, &paths),
                rule.increase(0, &in_soft).to_f64(),
            );
            let error = (got - exact).abs() / exact.abs().max(scale);
            assert!(
                error <= RULE_BOUND,
                "{}: relative error of I {error:.1e} at {paths:?}: INCREASE_CANCELS?",
                info.name
            );
            increase = increase.max(error);
            let (exact, got) = (
                rule.decrease(0, &paths),
                rule.decrease(0, &in_soft).to_f64(),
            );
            let error = (got - exact).abs() / exact;
            assert!(
                error <= RULE_BOUND,
                "{}: relative error of D {error:.1e} at {paths:?}",
                info.name
            );
            decrease = decrease.max(error);
        }
        println!("{:24} {increase:9.1e} {decrease:9.1e}", info.name);
    }
}

/// A delay-based rule compares; near equality a rounding may change the result. A window of
/// 2^24 packets times the rounding of two RTTs is 2^24 2^-31 = 0.008 packets.
#[test]
fn a_round_in_soft_is_the_round_in_f64_unless_near_a_threshold() {
    let (vegas, wvegas) = (Vegas::with(&[1.0]), Wvegas::with(&[10.0, 2.0, 0.0, 0.0]));
    let near = |x: f64, turn: f64| (x - turn).abs() < 0.01;
    let (mut compared, mut skipped) = (0, 0);
    for mut paths in samples(states(), 20_000) {
        let mut memory = [WvegasMemory::<f64>::default(); 8];
        let mut soft_memory = [WvegasMemory::<Soft>::default(); 8];
        for r in (0..paths.len()).chain(0..paths.len()) {
            let path = paths[r];
            let q = path.round_rtt - path.base_rtt;
            let diff = path.window * q / path.round_rtt;
            let doubled = q / (2.0 * memory[r].queue_delay);
            let in_soft: Vec<_> = paths.iter().map(|path| path.map(Soft::from_f64)).collect();
            let exact = wvegas.on_round(r, &paths, &mut memory);
            let got = wvegas.on_round(r, &in_soft, &mut soft_memory).to_f64();
            if near(diff, 1.0)
                || near(diff, 2.0)
                || near(diff, memory[r].alpha)
                || near(doubled, 1.0)
            {
                skipped += 1;
                break;
            }
            compared += 1;
            let nothing = &mut [(); 8];
            let step = vegas.on_round(r, &paths, nothing);
            assert_eq!(
                vegas.on_round(r, &in_soft, nothing).to_f64(),
                step,
                "{path:?}"
            );
            assert!(
                (got - exact).abs() <= RULE_BOUND * path.window,
                "{path:?}: {got} {exact}"
            );
            paths[r].round_rtt = path.base_rtt + 3.0 * q;
        }
    }
    println!("{compared} rounds compared, {skipped} skipped");
    assert!(skipped * 20 < compared);
}

/// The same samples in every run.
fn samples<T: Strategy>(strategy: T, count: usize) -> impl Iterator<Item = T::Value> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(move |_| strategy.new_tree(&mut runner).unwrap().current())
}
