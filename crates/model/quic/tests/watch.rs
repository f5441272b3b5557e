//! Paths that die and return, as `PathWatch` judges them: in a model of a gateway's two ends, and
//! in the backend, which judges by it too. All in virtual time.

use std::time::{Duration, Instant};

use anabranch_quic::Simulation;
use anabranch_quic::watch::{Advice, Load, PathWatch};
use anabranch_scenario::{Record, Scenario, Virtual};

/// One way, ms.
const DELAY: u64 = 10;

/// How often ends ask for advice, ms.
const STEP: u64 = 25;

/// An end that sends a packet every 10 ms while its path is open.
struct End {
    watch: PathWatch,
    silent_since: Option<Instant>,
    /// When acknowledgements arrive.
    acknowledged: Vec<u64>,
    closes: Vec<u64>,
}

/// A path between `near`, which probes and opens, and `far`; another path always works.
struct Model {
    start: Instant,
    /// When each direction loses everything, ms: near's, far's.
    down: [(u64, u64); 2],
    ends: [End; 2],
    answers: Vec<u64>,
    opened: Vec<u64>,
}

impl Model {
    fn new(down: [(u64, u64); 2]) -> Model {
        let start = Instant::now();
        let end = || {
            let mut watch = PathWatch::new(start);
            watch.opened(start);
            End {
                watch,
                silent_since: None,
                acknowledged: Vec::new(),
                closes: Vec::new(),
            }
        };
        Model {
            start,
            down,
            ends: [end(), end()],
            answers: Vec::new(),
            opened: Vec::new(),
        }
    }

    fn passes(&self, direction: usize, at: u64) -> bool {
        let (from, to) = self.down[direction];
        !(from..to).contains(&at)
    }

    fn run(&mut self, until: u64) {
        let mut is_open = true;
        for at in 0..until {
            let now = self.start + Duration::from_millis(at);
            if is_open && at % 10 == 0 {
                for side in 0..2 {
                    let arrives = self.passes(side, at);
                    let end = &mut self.ends[side];
                    end.silent_since.get_or_insert(now);
                    // Acknowledgements return over the other path.
                    end.acknowledged.extend(arrives.then_some(at + 2 * DELAY));
                }
            }
            for end in &mut self.ends {
                if end.acknowledged.first() == Some(&at) {
                    end.acknowledged.remove(0);
                    // There is always more on its way.
                    end.silent_since = is_open.then_some(now);
                }
            }
            if self.answers.first() == Some(&at) {
                self.answers.remove(0);
                let rtt = Duration::from_millis(2 * DELAY);
                self.ends[0].watch.answered(now, rtt);
            }
            if at % STEP != 0 {
                continue;
            }
            for side in 0..2 {
                let end = &mut self.ends[side];
                let rtt = Duration::from_millis(2 * DELAY);
                if is_open {
                    end.watch.heard(end.silent_since, Some(rtt));
                }
                match (end.watch.advice(now, true), side) {
                    (Some(Advice::Close), _) => {
                        end.closes.push(at);
                        is_open = false;
                    }
                    (Some(Advice::Probe), 0) => {
                        let both = self.passes(0, at) && self.passes(1, at + DELAY);
                        self.answers.extend(both.then_some(at + 2 * DELAY));
                    }
                    (Some(Advice::Open), 0) => {
                        self.opened.push(at);
                        is_open = true;
                        self.ends.iter_mut().for_each(|end| end.watch.opened(now));
                    }
                    (Some(Advice::Renew), _) => panic!("renewed at {at} ms"),
                    _ => {}
                }
            }
            if !is_open {
                for end in &mut self.ends {
                    end.acknowledged.clear();
                    if end.silent_since.take().is_some() {
                        end.watch.closed(now);
                    }
                }
            }
        }
    }
}

/// Down from 1 to 4 s: the last acknowledgement comes at 1010 ms, of what was sent at 990 ms. The
/// path is dead 500 ms later, and the next look at 1525 ms. Probes follow every 500 ms from 2025 ms
/// on, looked for every 25 ms; the one at 4025 ms is answered at 4045 ms.
#[test]
fn near_closes_a_dead_path_and_opens_it_when_it_answers() {
    let mut model = Model::new([(1000, 4000); 2]);
    model.run(6000);
    assert_eq!(model.ends[0].closes, [1525]);
    assert_eq!(model.opened, [4050]);
}

/// Only what `far` sends is lost: `near` hears of its own packets over the other path. `far` closes
/// the path, and `near` opens it again when a probe's answer comes back.
#[test]
fn far_closes_a_path_whose_loss_near_does_not_see() {
    let mut model = Model::new([(0, 0), (1000, 4000)]);
    model.run(6000);
    let [near, far] = &model.ends;
    assert_eq!((near.closes.len(), far.closes.as_slice()), (0, &[1525][..]));
    assert_eq!(model.opened, [4050]);
}

#[test]
fn a_path_without_an_outage_is_never_closed() {
    let mut model = Model::new([(0, 0); 2]);
    model.run(6000);
    assert!(model.ends.iter().all(|end| end.closes.is_empty()));
}

/// The library sends rarely after many losses: the path answers, but nothing is acknowledged.
#[test]
fn a_path_that_answers_probes_only_is_renewed_after_a_second() {
    let start = Instant::now();
    let after = |ms| start + Duration::from_millis(ms);
    let rtt = Duration::from_millis(20);
    let mut watch = PathWatch::new(start);
    watch.opened(start);
    let mut renewed = None;
    for ms in (0..2000).step_by(25) {
        watch.heard(Some(start), Some(rtt));
        match watch.advice(after(ms), true) {
            Some(Advice::Probe) => watch.answered(after(ms), rtt),
            Some(Advice::Renew) => {
                renewed = Some(ms);
                break;
            }
            other => assert_eq!(other, None),
        }
    }
    assert_eq!(renewed, Some(1025));
}

/// A path of 40 ms at one end, which is asked every 25 ms while another works.
struct Asked {
    start: Instant,
    watch: PathWatch,
    at: u64,
}

impl Asked {
    const RTT: Duration = Duration::from_millis(40);

    fn new() -> Asked {
        let start = Instant::now();
        let mut watch = PathWatch::new(start);
        watch.opened(start);
        let at = 0;
        Asked { start, watch, at }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.at)
    }

    /// Until `end`, ms: it receives, has this in flight since then, and answers; when it was left.
    fn until(
        &mut self,
        end: u64,
        receives: bool,
        in_flight: Option<u64>,
        answers: bool,
    ) -> Option<u64> {
        let silent_since = in_flight.map(|_| self.now());
        while self.at < end {
            self.at += STEP;
            let now = self.now();
            self.watch.heard(silent_since, Some(Self::RTT));
            let load = Load {
                received_bytes: if receives { self.at } else { 0 },
                in_flight_bytes: in_flight.unwrap_or(0),
                base_rtt: Self::RTT,
            };
            self.watch.carries(now, load);
            match self.watch.advice(now, true) {
                Some(Advice::Leave) => return Some(self.at),
                Some(Advice::Probe) if answers => self.watch.answered(now, Self::RTT),
                Some(Advice::Probe) | None => {}
                Some(other) => panic!("{other:?} at {} ms", self.at),
            }
        }
        None
    }
}

/// Nothing arrives after 1000 ms. The first look at which this lasts for 50 ms is at 1050 ms; the
/// probe that it causes should be answered after 1.5 round trips, 60 ms, and is not at 1125 ms.
#[test]
fn a_path_on_which_data_stops_and_no_probe_is_answered_is_left() {
    let mut asked = Asked::new();
    assert_eq!(asked.until(1000, true, None, true), None);
    assert_eq!(asked.until(2000, false, None, false), Some(1125));
    let mut asked = Asked::new();
    assert_eq!(asked.until(1000, true, None, true), None);
    assert_eq!(
        asked.until(9000, false, None, true),
        None,
        "its peer has stopped"
    );
}

/// Without data before, silence says nothing.
#[test]
fn an_idle_path_is_not_left() {
    assert_eq!(Asked::new().until(9000, false, None, false), None);
}

/// Much in flight for more than 150 ms: at 175 ms. Little: it is probed then, and left when the
/// probe is not answered within 60 ms.
#[test]
fn a_path_that_acknowledges_nothing_is_left_and_if_little_is_in_flight_only_if_it_does_not_answer()
{
    assert_eq!(
        Asked::new().until(400, false, Some(100_000), false),
        Some(175)
    );
    assert_eq!(Asked::new().until(400, false, Some(1000), false), Some(250));
    assert_eq!(Asked::new().until(900, false, Some(1000), true), None);
}

/// It answers each time after it was left, so it is left 150 ms later each time; but after 500 ms
/// without an answer it is dead.
#[test]
fn a_path_that_often_pauses_is_left_ever_later() {
    let mut asked = Asked::new();
    for patience in 1..4 {
        let begin = asked.at;
        let left = asked.until(begin + 9000, false, Some(100_000), false);
        assert_eq!(left, Some(begin + patience * 150 + STEP));
        let now = asked.now();
        asked.watch.leaves(now, Asked::RTT);
        asked.at += STEP;
        let now = asked.now();
        asked.watch.answered(now, Asked::RTT);
        assert_eq!(asked.watch.advice(now, true), Some(Advice::Renew));
        asked.watch.opened(now);
    }
    let begin = asked.at;
    let dies =
        std::panic::catch_unwind(move || asked.until(begin + 9000, false, Some(100_000), false));
    let message = dies.expect_err("closed");
    let message = message.downcast_ref::<String>().expect("a message");
    assert_eq!(*message, format!("Close at {} ms", begin + 500 + STEP));
}

/// It is closed 500 ms after it was left, or after three round trips of the other path.
#[test]
fn a_path_that_was_left_is_closed_when_what_was_in_flight_is_known_to_be_lost() {
    for (other, closed) in [(40, 500), (300, 900)] {
        let mut asked = Asked::new();
        let start = asked.now();
        asked.watch.leaves(start, Duration::from_millis(other));
        assert!(!asked.watch.works(start));
        let after = |ms| start + Duration::from_millis(ms);
        assert_ne!(
            asked.watch.advice(after(closed - 1), true),
            Some(Advice::Close)
        );
        assert_eq!(asked.watch.advice(after(closed), true), Some(Advice::Close));
    }
}

#[test]
fn an_end_that_is_led_closes_a_path_later() {
    let start = Instant::now();
    let mut watch = PathWatch::led(start);
    watch.opened(start);
    watch.heard(Some(start), None);
    let after = |ms| start + Duration::from_millis(ms);
    assert_ne!(watch.advice(after(1000), true), Some(Advice::Close));
    assert_eq!(watch.advice(after(1001), true), Some(Advice::Close));
}

#[test]
fn a_path_that_answers_seconds_late_is_opened_only_if_no_other_works() {
    let start = Instant::now();
    let mut watch = PathWatch::new(start);
    watch.answered(start, Duration::from_secs(3));
    assert_ne!(watch.advice(start, true), Some(Advice::Open));
    assert_eq!(watch.advice(start, false), Some(Advice::Open));
}

#[test]
fn no_path_is_closed_while_none_works() {
    let start = Instant::now();
    let mut watch = PathWatch::new(start);
    watch.opened(start);
    watch.heard(Some(start), None);
    let late = start + Duration::from_secs(9);
    assert_eq!(watch.advice(late, false), Some(Advice::Probe));
    assert_eq!(watch.advice(late, true), Some(Advice::Close));
}

fn with_outage(link: &str) -> Record {
    let text = format!(
        "
        algorithm = 'lia'
        measure = {{ duration_s = 16, sample_ms = 100 }}
        links.R1.rate_mbps = 10
        links.R1.delay_ms = 20
        links.R2.rate_mbps = 10
        links.R2.delay_ms = 20
        links.{link}.down = [{{ from_s = 5, to_s = 9 }}]
        flows = [{{ name = 'user', paths = [['R1'], ['R2']] }}]
        "
    );
    let scenario = Scenario::parse(text.as_bytes(), "a test", &[]);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let simulation = Simulation::new(&scenario, 1);
    simulation.expect("it is supported").finish()
}

/// Either the path over which acknowledgements return, or the other one. A dead path stops the
/// connection for 0.9 s and 14 round trips of 40 ms at most (`random/operations.rs`). It is opened
/// every 0.5 s; if that is lost just before the link returns, it is dead after 0.5 s more, and
/// closed, looked for every 0.1 s: it carries data again 1.5 s later at the latest.
#[test]
fn the_backend_closes_a_dead_path_and_opens_it_when_it_returns() {
    for (path, link) in [(0_u32, "R1"), (1, "R2")] {
        let record = with_outage(link);
        assert!(record.paths.timeouts[path as usize] >= 1, "{link}");
        let samples = &record.flow_samples;
        for row in 0..samples.len() {
            let time_s = samples.time_s[row];
            if (6.6..9.0).contains(&time_s) {
                assert!(samples.goodput_mbps[row] > 5.0, "{link} at {time_s} s");
            }
        }
        let samples = &record.path_samples;
        let mut rows = (0..samples.len()).filter(|row| samples.path[*row] == path);
        let first = rows.find(|row| samples.time_s[*row] > 9.0 && samples.goodput_mbps[*row] > 0.0);
        let first_s = samples.time_s[first.expect("it is used again")];
        assert!(first_s < 10.7, "{link}: {first_s} s");
        let last = rows.next_back().expect("samples");
        assert!(samples.goodput_mbps[last] > 1.0, "{link}");
    }
}

/// The goodput of a user, Mbps, the mean of four runs from 10 to 60 s. Path A drops everything from
/// the 6th second on, and path B loses 1 %.
fn after_the_death_of_a_path(rule: &str, paths: &str) -> f64 {
    let text = format!(
        "
        algorithm = '{rule}'
        measure = {{ duration_s = 60, warmup_s = 10 }}
        links.A = {{ rate_mbps = 20, delay_ms = 10, down = [{{ from_s = 6, to_s = 100 }}] }}
        links.B = {{ rate_mbps = 20, delay_ms = 30, loss.bernoulli.probability = 0.01 }}
        flows = [{{ name = 'user', paths = [{paths}] }}]
        "
    );
    let scenario = Scenario::parse(text.as_bytes(), "a test", &[]);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let of_seed = |seed| {
        let simulation = Simulation::new(&scenario, seed);
        let record = simulation.expect("it is supported").finish();
        record.flows.goodput_mbps[0]
    };
    (1..=4).map(of_seed).sum::<f64>() / 4.0
}

/// At 1 % NewReno has sqrt(1.5/0.01) = 12.2 packets per 60.6 ms, 2.3 Mbps, and so has each rule
/// over path B alone. The closed path takes a twelfth: it is opened every 0.5 s, and data is lost
/// on it. Counted as a path with a window of 1, it left LIA 85 %.
#[test]
fn a_path_beside_a_closed_one_has_nearly_what_the_rule_has_alone() {
    for rule in ["lia", "olia", "balia"] {
        let alone = after_the_death_of_a_path(rule, "['B']");
        let ratio = after_the_death_of_a_path(rule, "['A'], ['B']") / alone;
        assert!(ratio > 0.9, "{rule}: {ratio} of alone");
    }
}
