//! Each rule's share of a bottleneck, beside the simulator's.

use anabranch_control::{Info, RULES};
use anabranch_scenario::{Record, Scenario, Virtual};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// The mean share of the user with two paths.
fn share(run: impl Fn(u64) -> Record) -> f64 {
    let of_a_run = |seed| {
        let goodput_mbps = run(seed).flows.goodput_mbps;
        goodput_mbps[0] / goodput_mbps.iter().sum::<f64>()
    };
    SEEDS.map(of_a_run).sum::<f64>() / SEEDS.count() as f64
}

#[test]
fn two_paths_against_one_share_as_in_the_simulator_with_lia() {
    let few = RULES.iter().filter(|rule| rule.name == "lia");
    shares_are_those_of_the_simulator(few);
}

#[test]
#[ignore = "slow: make test-all"]
fn two_paths_against_one_share_as_in_the_simulator_with_every_rule() {
    shares_are_those_of_the_simulator(RULES.iter());
}

/// The standard error of a mean over three seeds is at most 0.026 on either backend, so that their
/// difference is within 0.075 with a probability of 95 %: 15 % of the smallest share.
fn shares_are_those_of_the_simulator(rules: impl Iterator<Item = &'static Info>) {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../examples/two_against_one.toml"
    );
    let scenario = Scenario::load(file.as_ref(), &[]).expect("a scenario");
    for rule in rules {
        let scenario = scenario.with_algorithm(rule.name).expect("a rule");
        let quic = share(|seed| {
            let simulation = anabranch_quic::Simulation::new(&scenario, seed);
            simulation.expect("it is supported").finish()
        });
        let sim = share(|seed| anabranch_sim::Simulation::new(&scenario, seed).finish());
        println!("{}: quic {quic:.3}, sim {sim:.3}", rule.name);
        assert!(
            (quic - sim).abs() < 0.15 * sim,
            "{}: {quic} {sim}",
            rule.name
        );
    }
}
