//! Scenarios from bytes: each value is chosen by the next bytes, and by zeros at their end, so that
//! a changed byte changes one value and what follows it.

use anabranch_control::RULES;
use anabranch_scenario::Scheduler;

/// Bytes that choose.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// The next byte.
    fn byte(&mut self) -> usize {
        self.0.split_off_first().copied().unwrap_or_default().into()
    }

    /// One of these.
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.byte() % of.len()]
    }

    /// A number from `low` to `high`.
    fn number(&mut self, low: f64, high: f64) -> f64 {
        let fraction = (self.byte() * 256 + self.byte()) as f64 / 65535.0;
        low + fraction * (high - low)
    }

    /// From 1 to `most` of what `item` makes.
    fn several(
        &mut self,
        most: usize,
        mut item: impl FnMut(&mut Self, usize) -> String,
    ) -> Vec<String> {
        let count = 1 + self.byte() % most;
        (0..count).map(|i| item(self, i)).collect()
    }
}

/// A scenario of up to 3 links and 4 flows, which all stop sending after 2 s if it is `ending`, and
/// ends when all must have arrived. With `two_way` acknowledgements may return over links.
pub fn scenario(input: &mut Input<'_>, ending: bool, two_way: bool) -> String {
    let duration_s = if ending { 600 } else { 10 };
    let tcp = tcp(input);
    let links = input.several(3, |input, i| format!("[links.L{i}]\n{}\n", link(input)));
    let flows = input.several(4, |input, i| {
        format!(
            "[[flows]]\nname = \"f{i}\"\n{}\n",
            flow(input, links.len(), ending, two_way)
        )
    });
    // Chosen last, so that the inputs from before these keys choose the rest as they did.
    let impairments: Vec<String> = links.iter().map(|_| impairments(input)).collect();
    let tcp = newer(input, tcp);
    let links: Vec<String> = links
        .into_iter()
        .zip(impairments)
        .map(|(link, impairments)| impaired(newer(input, link), &impairments))
        .collect();
    let (links, flows) = (links.concat(), flows.concat());
    let sample_ms = if ending { 1000 } else { 100 };
    format!(
        "measure = {{ duration_s = {duration_s}, sample_ms = {sample_ms} }}\n{tcp}\n{links}{flows}"
    )
}

fn tcp(input: &mut Input<'_>) -> String {
    let schedulers: Vec<&str> = Scheduler::ALL.iter().map(|one| one.name()).collect();
    format!(
        "[tcp]\nprofile = \"{}\"\nrecovery = \"{}\"\nscheduler = \"{}\"\necn = {}\nundo = {}\n\
         delayed_acks = {}\nquick_acks = {}\nhost_jitter_us = {}\npacket_bytes = {}\n\
         receive_buffer_packets = {}\ninitial_window_packets = {}",
        input.one(&["rfc", "linux"]),
        input.one(&["sack", "newreno", "rack"]),
        input.one(&schedulers),
        input.one(&["false", "true"]),
        input.one(&["false", "true"]),
        input.one(&["false", "true"]),
        input.one(&["false", "true"]),
        input.one(&["0", "100", "5000"]),
        input.one(&["1500", "100", "576"]),
        input.one(&["100000", "1", "7", "50"]),
        input.one(&["10", "1", "3"]),
    )
}

fn link(input: &mut Input<'_>) -> String {
    let rate = match input.byte() % 5 {
        0 => String::from("trace_file = \"lte.trace\""),
        _ => format!("rate_mbps = {}", input.number(1.0, 6.0)),
    };
    let queue = input.one(&[
        "",
        "queue.drop_tail = { packets = 1 }",
        "queue.drop_tail = { packets = 20 }",
        "queue.drop_tail = { bytes = 9000 }",
        "queue.red = {}",
        "queue.codel = { target_ms = 3, interval_ms = 40 }",
        "queue.fq_codel = { flows = 2, quantum_bytes = 300, limit_packets = 20 }",
        "queue.pie = { target_ms = 5, max_burst_ms = 0 }",
        "queue.policer = { rate_mbps = 1, burst_bytes = 15000 }",
    ]);
    let loss = input.one(&[
        "",
        "loss.bernoulli = { probability = 0.02 }",
        "loss.gilbert_elliott = { good_to_bad = 0.01, bad_to_good = 0.7 }",
    ]);
    let down = match input.byte() % 3 {
        0 => {
            let from_s = input.number(0.0, 2.0);
            format!(
                "down = [{{ from_s = {from_s}, to_s = {} }}]",
                from_s + input.number(0.001, 0.8)
            )
        }
        _ => String::new(),
    };
    format!(
        "{rate}\ndelay_ms = {}\n{queue}\n{loss}\n{down}",
        input.number(0.0, 60.0)
    )
}

/// Newer parts of scenarios: each a part, and the texts that may replace it.
const NEWER: &[(&str, &[&str])] = &[
    ("ecn = true", &["ecn = true", "ecn = \"accurate\""]),
    (
        "queue.red = {}",
        &[
            "queue.red = {}",
            "queue.dualpi2 = {}",
            "queue.dualpi2 = { target_ms = 3, tupdate_ms = 4, step_ms = 0.2, limit_packets = 20 }",
        ],
    ),
    (
        "max_burst_ms = 0",
        &["max_burst_ms = 0", "max_burst_ms = 0, derandomize = true"],
    ),
];

fn newer(input: &mut Input<'_>, mut text: String) -> String {
    for (part, choices) in NEWER {
        if text.contains(part) {
            text = text.replace(part, input.one(choices));
        }
    }
    text
}

/// CoDel, FQ-CoDel and DualPI2 have no links whose delay changes.
fn impaired(link: String, impairments: &str) -> String {
    match link.contains("codel") || link.contains("dualpi2") {
        true => link,
        false => format!("{link}{impairments}\n"),
    }
}

fn impairments(input: &mut Input<'_>) -> String {
    let jitter = input.one(&["", "jitter_ms = 3", "jitter_ms = 40"]);
    let order = input.one(&["", "keeps_order = false"]);
    let reorder = input.one(&[
        "",
        "reorder = { share = 0.1, packets = 1 }",
        "reorder = { share = 0.1, packets = 5, hold_ms = 30 }",
        "reorder = { share = 0.1, by_ms = 20 }",
    ]);
    let arq = input.one(&[
        "",
        "arq = { retries = 1, delay_ms = 20 }",
        "arq = { retries = 3, delay_ms = 2 }",
    ]);
    format!("{jitter}\n{order}\n{reorder}\n{arq}")
}

fn flow(input: &mut Input<'_>, links: usize, ending: bool, two_way: bool) -> String {
    let rules: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    let paths = input.several(3, |input, _| {
        let (first, second) = (input.byte() % links, input.byte() % links);
        let route = match first == second {
            true => format!("[\"L{first}\"]"),
            false => format!("[\"L{first}\", \"L{second}\"]"),
        };
        match input.byte() % 3 {
            0 if two_way => format!(
                "{{ links = {route}, back = [\"L{}\"] }}",
                input.byte() % links
            ),
            1 => format!(
                "{{ links = {route}, return_delay_ms = {} }}",
                input.number(0.0, 90.0)
            ),
            _ => route,
        }
    });
    let workload = match ending {
        true => input.one(&[
            "workload = \"bulk\"",
            "workload.file = { bytes = 30000 }",
            "workload.file = { bytes = 1 }",
            "workload.on_off = { on_s = 0.2, off_s = 0.3 }",
            "workload.poisson = { rate_per_s = 3, size.exponential = { mean_bytes = 9000 } }",
            "workload.gateway = { clients = 2, rate_per_s = 2, size.exponential = { mean_bytes = 9000 } }",
        ]),
        false => "workload = \"bulk\"",
    };
    let stop = if ending { "stop_s = 2" } else { "" };
    format!(
        "start_s = {}\n{stop}\npaths = [{}]\nalgorithm = \"{}\"\n{workload}",
        input.number(0.0, 1.0),
        paths.join(", "),
        input.one(&rules),
    )
}
