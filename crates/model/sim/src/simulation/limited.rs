//! A law of every rule and scheduler: a window does not grow while something else limits the sender
//! (draft-ietf-ccwg-ratelimited-increase): the application, the scheduler, or flow control.
//!
//! The window that counts is the one before an acknowledgement: if the path had sent less, nothing
//! says that the network takes more. Linux' pacing keeps a window from being full all the time: it
//! then counts as full if it was in the last round trip, until what was sent by then is
//! acknowledged, and in slow start if more than half was used (`tcp_is_cwnd_limited`).

use std::collections::HashMap;

use anabranch_control::RULES;
use anabranch_scenario::Scheduler;
use anabranch_scenario::time::{from_seconds, seconds};
use proptest::prelude::*;
use proptest::sample;

use super::*;
use crate::network::PacketNumber;

/// A path's window, packets in flight and undone timeouts.
#[derive(Clone, Copy, Debug)]
struct State {
    started_at: Time,
    window: f64,
    in_flight: u32,
    whole: u32,
    spurious: u64,
    una: PacketNumber,
    next: PacketNumber,
    /// The most that was outstanding in the last round trip, if the path is paced.
    most_out: Option<u32>,
}

impl Simulation {
    fn states(&self) -> Vec<Vec<State>> {
        let states = |connection: &Connection| {
            let paths = connection.paths.iter().enumerate();
            let state = |(r, path): (usize, &crate::connection::subflow::Subflow)| State {
                started_at: connection.started_at,
                window: connection.controller.window(r),
                in_flight: path.sender.in_flight(),
                whole: path.window,
                spurious: path.totals.spurious_timeouts,
                una: path.sender.una(),
                next: path.sender.next(),
                most_out: connection
                    .linux_scheduler
                    .as_ref()
                    .and_then(|it| it.most_out(r)),
            };
            paths.map(state).collect()
        };
        self.connections.iter().map(states).collect()
    }

    /// Runs to the end and checks each event; gives how many acknowledgements were of paths that
    /// had filled their window, and of others.
    fn check_growth(&mut self) -> (u64, u64) {
        let (mut filled, mut others) = (0, 0);
        // The next packet of a path when its window was full last.
        let mut full_until = HashMap::new();
        let end = from_seconds(self.duration_s());
        while let Some((time, event)) = self.network.calendar.due(end) {
            self.now = time;
            let acknowledged = match event {
                Event::Return(line) => self.network.returning(line, 0),
                _ => None,
            };
            let before = self.states();
            self.handle(event);
            for (c, (before, after)) in before.iter().zip(self.states()).enumerate() {
                for (r, (before, after)) in before.iter().zip(after).enumerate() {
                    let is_acknowledged = acknowledged == Some((c as u32, r as u16));
                    let full = is_acknowledged && before.in_flight >= before.whole;
                    filled += u64::from(full);
                    others += u64::from(is_acknowledged && !full);
                    let undone = after.spurious > before.spurious;
                    let same = before.started_at == after.started_at;
                    let last_full = full_until.get(&(c, r, before.started_at));
                    let was_full = last_full.is_some_and(|&next| before.una < next);
                    let used = before
                        .most_out
                        .is_some_and(|most| was_full || 2 * most > before.whole);
                    assert!(
                        full || used || undone || !same || after.window <= before.window,
                        "path {r} at {} s: {before:?}, then {after:?}, {acknowledged:?}",
                        seconds(time)
                    );
                    if after.in_flight >= after.whole {
                        full_until.insert((c, r, after.started_at), after.next);
                    }
                }
            }
        }
        (filled, others)
    }
}

/// A user with two paths or three, limited by its application, by its receive buffer or not at all.
fn scenarios(scheduler: Scheduler) -> impl Strategy<Value = String> {
    // A rule by delivery rates sets its window from a model of the path: samples that the
    // application limits do not raise its bandwidth, but its window may return to it.
    let rules = RULES.iter().filter(|rule| !rule.by_rate);
    let rules: Vec<&str> = rules.map(|rule| rule.name).collect();
    let link = (
        1.0..20.0,
        1.0..150.0,
        5u32..100,
        sample::select(vec![0.0, 0.01]),
    );
    let links = prop::collection::vec(link, 2..=3);
    let workload = prop_oneof![
        Just(String::from("'bulk'")),
        (1u64..1_000_000).prop_map(|bytes| format!("{{ file.bytes = {bytes} }}")),
        (0.05..0.5, 0.05..1.0)
            .prop_map(|(on, off)| format!("{{ on_off = {{ on_s = {on}, off_s = {off} }} }}")),
        (1.0..10.0, 1e3..1e5).prop_map(|(rate, mean)| format!(
            "{{ poisson = {{ rate_per_s = {rate}, size.exponential.mean_bytes = {mean} }} }}"
        )),
    ];
    let tcp = (
        sample::select(vec!["rfc", "linux"]),
        prop_oneof![5u32..200, Just(100_000)],
        sample::select(vec!["inf", "20"]),
    );
    (sample::select(rules), links, workload, tcp).prop_map(
        move |(rule, links, workload, (profile, buffer, ssthresh))| {
            let tables = links.iter().enumerate().map(|(i, (mbps, ms, packets, loss))| {
                format!(
                    "links.L{i} = {{ rate_mbps = {mbps}, delay_ms = {ms}, queue.drop_tail.packets \
                     = {packets}, loss.bernoulli.probability = {loss} }}\n"
                )
            });
            let paths: Vec<String> = (0..links.len()).map(|i| format!("['L{i}']")).collect();
            format!(
                "algorithm = '{rule}'\nmeasure.duration_s = 4\n{}\
                 [tcp]\nprofile = '{profile}'\nscheduler = '{}'\n\
                 receive_buffer_packets = {buffer}\ninitial_ssthresh_packets = {ssthresh}\n\
                 [[flows]]\nname = 'user'\npaths = [{}]\nworkload = {workload}\n",
                tables.collect::<String>(),
                scheduler.name(),
                paths.join(", "),
            )
        },
    )
}

/// 64 cases, unless `PROPTEST_CASES` chooses others, as in `make test-all`.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 64;
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_window_does_not_grow_unless_it_limits_the_sender(
        text in sample::select(Scheduler::ALL).prop_flat_map(scenarios)
    ) {
        let scenario = Scenario::parse(text.as_bytes(), "limited", &[]).expect("valid");
        Simulation::new(&scenario, 1).check_growth();
    }
}

/// A path that was full before a timeout which is undone: found among 2000 cases.
#[test]
fn a_window_that_was_full_in_the_round_trip_of_an_undone_timeout_grows() {
    let text = "algorithm = 'ewtcp'\nmeasure.duration_s = 4\n\
        links.L0 = { rate_mbps = 1, delay_ms = 1, queue.drop_tail.packets = 45 }\n\
        links.L1 = { rate_mbps = 1, delay_ms = 126.30893772609704, queue.drop_tail.packets = 9 }\n\
        tcp = { profile = 'linux', scheduler = 'linux', receive_buffer_packets = 18 }\n\
        [[flows]]\nname = 'user'\npaths = [['L0'], ['L1']]\n\
        workload.poisson = { rate_per_s = 3.3801435564919196, \
        size.exponential.mean_bytes = 62874.15390731331 }\n";
    let scenario = Scenario::parse(text.as_bytes(), "undone", &[]).expect("valid");
    Simulation::new(&scenario, 1).check_growth();
}

/// The law is not empty: both kinds of acknowledgements occur with every scheduler, because the
/// receive buffer, of 40 packets, limits one path of 1000 Mbps once its window has grown, and a
/// window of 10 limits both at first.
#[test]
fn windows_limit_the_sender_at_first_and_the_receive_buffer_later() {
    for scheduler in Scheduler::ALL {
        let text = format!(
            "algorithm = 'reno'\nmeasure.duration_s = 3\n\
             links.A = {{ rate_mbps = 1000, delay_ms = 5 }}\n\
             links.B = {{ rate_mbps = 1000, delay_ms = 20 }}\n\
             tcp = {{ receive_buffer_packets = 40, scheduler = '{}' }}\n\
             flows = [{{ name = 'user', paths = [['A'], ['B']] }}]\n",
            scheduler.name()
        );
        let scenario = Scenario::parse(text.as_bytes(), "limited", &[]).expect("valid");
        let (filled, others) = Simulation::new(&scenario, 1).check_growth();
        println!("{}: {filled} and {others}", scheduler.name());
        assert!(filled > 10 && others > 1000, "{}", scheduler.name());
    }
}
