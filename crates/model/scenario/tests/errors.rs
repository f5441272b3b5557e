//! Every bad scenario gives one line that names file, line and key, and says what was expected.

use anabranch_scenario::Scenario;

/// A good scenario; each case makes one thing in it bad. `name` is line 1, `rate_mbps` of R1 13.
pub const GOOD: &str = r#"name = "two links"
algorithm = "lia"
seeds = [1, 2]

[measure]
duration_s = 120
warmup_s = 20

[tcp]
packet_bytes = 1500

[links.R1]
rate_mbps = 10
delay_ms = 60
queue.red = {}

[links.R2]
rate_mbps = 20
delay_ms = 60
loss.bernoulli = { probability = 0.01 }
down = [{ from_s = 10, to_s = 20 }]

[[flows]]
name = "type1"
count = 10
paths = [["R1"], ["R2", "R1"]]

[[flows]]
name = "type2"
paths = [{ links = ["R1"], return_delay_ms = 60 }]
algorithm = "reno"
workload.file = { bytes = 1e6 }
stop_s = 100
"#;

/// The error of a text with these overrides, or "no error".
pub fn error(text: impl AsRef<[u8]>, overrides: &[(&str, &str)]) -> String {
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    match Scenario::parse(text.as_ref(), "bad.toml", &overrides) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Each case: what of `GOOD` is replaced, by what, and the error, without `bad.toml:`.
pub fn assert_errors(cases: &[[&str; 3]]) {
    for [good, bad, expected] in cases {
        assert_eq!(
            GOOD.matches(good).count(),
            1,
            "{good} stands once in the good scenario"
        );
        assert_eq!(
            error(GOOD.replace(good, bad), &[]),
            format!("bad.toml:{expected}"),
            "{bad}"
        );
    }
}

#[test]
fn the_good_scenario_is_good() {
    assert_eq!(error(GOOD, &[]), "no error");
}

#[test]
#[rustfmt::skip]
fn a_key_that_is_unknown_or_missing() {
    assert_errors(&[
        ["name = \"two links\"", "nmae = 1", "1: nmae: unknown key, expected one of name, description, algorithm, seeds, measure, tcp, links, flows (did you mean name?)"],
        ["rate_mbps = 10", "rate_mpbs = 10", "13: links.R1.rate_mpbs: unknown key, expected one of rate_mbps, trace_file, delay_ms, queue, loss, arq, jitter_ms, keeps_order, reorder, down (did you mean rate_mbps?)"],
        ["probability = 0.01", "p = 0.01", "20: links.R2.loss.bernoulli.p: unknown key, expected probability"],
        ["return_delay_ms = 60", "delay_ms = 60", "30: flows[1].paths[0].delay_ms: unknown key, expected one of links, return_delay_ms, back, start_s"],
        ["duration_s = 120", "", "5: measure.duration_s: missing key"],
        ["name = \"type2\"", "", "28: flows[1].name: missing key"],
        ["bytes = 1e6", "", "32: flows[1].workload.file.bytes: missing key"],
        ["[measure]\nduration_s = 120\nwarmup_s = 20", "", "1: measure: missing key"],
    ]);
}

#[test]
#[rustfmt::skip]
fn a_value_of_the_wrong_type() {
    assert_errors(&[
        ["\"two links\"", "5", "1: name: expected a string, got 5"],
        ["rate_mbps = 10", "rate_mbps = \"fast\"", "13: links.R1.rate_mbps: expected a number, got \"fast\""],
        ["rate_mbps = 10", "rate_mbps = true", "13: links.R1.rate_mbps: expected a number, got true"],
        ["rate_mbps = 10", "rate_mbps = [1]", "13: links.R1.rate_mbps: expected a number, got a list"],
        ["rate_mbps = 10", "rate_mbps = { a = 1 }", "13: links.R1.rate_mbps: expected a number, got a table"],
        ["[1, 2]", "[1, 18446744073709551616]", "3: seeds[1]: expected a number of at most 64 bits, got 18446744073709551616"],
        ["[1, 2]", "[1, -1]", "3: seeds[1]: expected a whole number of at least 0, got -1"],
        ["packet_bytes = 1500", "delayed_acks = 1", "10: tcp.delayed_acks: expected a boolean, got 1"],
        ["packet_bytes = 1500", "recovery = \"sacks\"", "10: tcp.recovery: unknown value \"sacks\", expected one of sack, rack, newreno (did you mean sack?)"],
        ["[[\"R1\"], [\"R2\", \"R1\"]]", "\"R1\"", "26: flows[0].paths: expected a list, got \"R1\""],
        ["[[\"R1\"], [\"R2\", \"R1\"]]", "[\"R1\"]", "26: flows[0].paths[0]: expected a list of links, got \"R1\""],
        ["[\"R2\", \"R1\"]]", "[\"R2\", 1]]", "26: flows[0].paths[1][1]: expected a string, got 1"],
        ["queue.red = {}", "queue.red = 3", "15: links.R1.queue.red: expected a table, got 3"],
        ["queue.red = {}", "queue = \"red\"", "15: links.R1.queue.red: expected a table, got a string"],
        ["loss.bernoulli = { probability = 0.01 }", "loss = 0.01", "20: links.R2.loss: expected a table, such as loss.bernoulli = { probability = 0.01 }, got 0.01"],
        ["workload.file = { bytes = 1e6 }", "workload.bulk = {}", "32: flows[1].workload.bulk: expected workload = \"bulk\""],
        ["queue.red = {}", "queue = [100]", "15: links.R1.queue: expected a table, such as queue.drop_tail = { packets = 100 }, got a list"],
        ["queue.red = {}", "queue.red = [25, 50, 100]", "15: links.R1.queue.red: expected a table, got a list"],
        ["packet_bytes = 1500", "recovery = 3", "10: tcp.recovery: expected a string"],
        ["[measure]\nduration_s = 120\nwarmup_s = 20\n", "measure = [120, 20]\n", "5: measure: expected a table, got a list"],
        ["queue.red = {}", "queue = 3", "15: links.R1.queue: expected a table, such as queue.drop_tail = { packets = 100 }, got 3"],
        ["queue.red = {}", "queue.sfq = {}", "15: links.R1.queue: unknown value \"sfq\", expected one of drop_tail, red, codel, fq_codel, pie, dualpi2, policer"],
        ["queue.red = {}", "queue.policer = { rate_mbps = 5, burst_bytes = 1499 }", "15: links.R1.queue.policer.burst_bytes: expected at least tcp.packet_bytes, which is 1500, got 1499: no full packet would ever pass"],
        ["queue.red = {}", "queue.codel = { target_ms = 0 }", "15: links.R1.queue.codel.target_ms: expected a number above 0, got 0"],
        ["queue.red = {}", "queue.fq_codel = { flows = 1e6 }", "15: links.R1.queue.fq_codel.flows: expected 1 to 65536 queues, got 1000000"],
        ["queue.red = {}", "queue.pie = { quantum_bytes = 3 }", "15: links.R1.queue.pie.quantum_bytes: unknown key, expected one of target_ms, tupdate_ms, alpha, beta, max_burst_ms, limit_packets, derandomize, ecn"],
        ["queue.red = {}", "queue.dualpi2 = { classic_share = 2 }", "15: links.R1.queue.dualpi2.classic_share: expected a probability from 0 to 1, got 2"],
        ["packet_bytes = 1500", "ecn = \"accurat\"", "10: tcp.ecn: expected true, false or \"accurate\", got \"accurat\""],
        ["packet_bytes = 1500", "ecn = 1", "10: tcp.ecn: expected true, false or \"accurate\", got 1"],
        ["queue.red = {}", "queue.red = {}\nqueue.drop_tail = {}", "15: links.R1.queue: expected a table with one key, such as queue.drop_tail = { packets = 100 }"],
        ["workload.file = { bytes = 1e6 }", "workload = \"bulky\"", "32: flows[1].workload: unknown value \"bulky\", expected one of bulk, file, on_off, poisson, gateway, messages, media (did you mean bulk?)"],
    ]);
}

#[test]
#[rustfmt::skip]
fn a_number_out_of_range() {
    assert_errors(&[
        ["rate_mbps = 10", "rate_mbps = -3", "13: links.R1.rate_mbps: expected a number above 0, got -3"],
        ["rate_mbps = 10", "rate_mbps = 0", "13: links.R1.rate_mbps: expected a number above 0, got 0"],
        ["rate_mbps = 10", "rate_mbps = nan", "13: links.R1.rate_mbps: expected a number above 0, got NaN"],
        ["rate_mbps = 10", "rate_mbps = inf", "13: links.R1.rate_mbps: expected a number above 0, got inf"],
        ["rate_mbps = 10", "rate_mbps = 1e9", "13: links.R1.rate_mbps: expected 0.001 to 1000000 Mbps, got 1000000000"],
        ["rate_mbps = 20\ndelay_ms = 60", "rate_mbps = 20\ndelay_ms = -1", "19: links.R2.delay_ms: expected a number of at least 0, got -1"],
        ["probability = 0.01", "probability = 1.01", "20: links.R2.loss.bernoulli.probability: expected a probability from 0 to 1, got 1.01"],
        ["return_delay_ms = 60", "start_s = -1", "30: flows[1].paths[0].start_s: expected a number of at least 0, got -1"],
        ["return_delay_ms = 60", "start_s = 1e8", "30: flows[1].paths[0].start_s: expected 0 to 10000000 s, got 100000000"],
        ["return_delay_ms = 60", "return_delay_ms = 1e7", "30: flows[1].paths[0].return_delay_ms: expected 0 to 1000000 ms, got 10000000"],
        ["count = 10", "count = 0", "25: flows[0].count: expected a whole number from 1 to 4294967295, got 0"],
        ["count = 10", "count = 99999999999999999999", "25: flows[0].count: expected a number of at most 64 bits, got 99999999999999999999"],
        ["count = 10", "count = 2.5", "25: flows[0].count: expected a whole number from 1 to 4294967295, got 2.5"],
        ["bytes = 1e6", "bytes = 0.5", "32: flows[1].workload.file.bytes: expected a whole number of bytes, at least 1, got 0.5"],
        ["file = { bytes = 1e6 }", "on_off = { on_s = 1e-9, off_s = 1 }", "32: flows[1].workload.on_off.on_s: expected 0.000001 to 10000000 s, got 0.000000001"],
        ["file = { bytes = 1e6 }", "poisson = { rate_per_s = 2, size.pareto = { mean_bytes = 1e5, shape = 1 } }", "32: flows[1].workload.poisson.size.pareto.shape: expected a number above 1, got 1"],
        ["file = { bytes = 1e6 }", "poisson = { rate_per_s = 2, size.exponential = { mean_bytes = 1e99 } }", &format!("32: flows[1].workload.poisson.size.exponential.mean_bytes: expected 1 to 1000000000000000 bytes, got 1{}", "0".repeat(99))],
        ["file = { bytes = 1e6 }", "gateway = { clients = 1, rate_per_s = 1e9, size.exponential = { mean_bytes = 1e5 } }", "32: flows[1].workload.gateway.rate_per_s: expected 0.000001 to 1000000 per s, got 1000000000"],
        ["file = { bytes = 1e6 }", "gateway = { clients = 1, rate_per_s = 1, size.exponential = { mean_bytes = 1e5 }, adjust.gamma = 1.2 }", "32: flows[1].workload.gateway.adjust.gamma: expected a probability from 0 to 1, got 1.2"],
        ["file = { bytes = 1e6 }", "gateway = { clients = 1, rate_per_s = 1, size.exponential = { mean_bytes = 1e5 }, adjust.samples = 1 }", "32: flows[1].workload.gateway.adjust.samples: expected 2 to 1000000 samples, got 1"],
        ["file = { bytes = 1e6 }", "gateway = { clients = 1, rate_per_s = 1, size.exponential = { mean_bytes = 1e5 }, adjust.max_kappa = 0.5 }", "32: flows[1].workload.gateway.adjust.max_kappa: expected 1 to 1000000 packets, got 0.5"],
        ["file = { bytes = 1e6 }", "gateway = { clients = 1, rate_per_s = 1, size.exponential = { mean_bytes = 1e5 }, adjust.max_kappa = 'all' }", "32: flows[1].workload.gateway.adjust.max_kappa: expected a number or \"active\", got \"all\""],
        ["file = { bytes = 1e6 }", "gateway = { clients = 1, rate_per_s = 1, size.exponential = { mean_bytes = 1e5 }, adjust.guard = 'slope' }", "32: flows[1].workload.gateway.adjust.guard: expected true, false or \"growth\", got \"slope\""],
        ["file = { bytes = 1e6 }", "poisson = { rate_per_s = 2, size.lognormal = { mean_bytes = 1e5, sigma = 6 } }", "32: flows[1].workload.poisson.size.lognormal.sigma: expected 0.01 to 5 as sigma, got 6"],
        ["file = { bytes = 1e6 }", "poisson = { rate_per_s = 2, size.weibull = { mean_bytes = 1e5, shape = 0 } }", "32: flows[1].workload.poisson.size.weibull.shape: expected a number above 0, got 0"],
        ["file = { bytes = 1e6 }", "messages = { size_bytes = 0, interval_ms = 1 }", "32: flows[1].workload.messages.size_bytes: expected a whole number of bytes, at least 1, got 0"],
        ["packet_bytes = 1500", "initial_ssthresh_packets = 0", "10: tcp.initial_ssthresh_packets: expected a number above 0, or inf, got 0"],
        ["packet_bytes = 1500", "packet_bytes = 65536", "10: tcp.packet_bytes: expected 1 to 65535 bytes, got 65536"],
        ["duration_s = 120", "duration_s = 1e9", "6: measure.duration_s: expected 0 to 10000000 s, got 1000000000"],
        ["warmup_s = 20", "sample_ms = 1e-7", "7: measure.sample_ms: expected 0.001 to 10000000000 ms, got 0.0000001"],
    ]);
}

#[test]
#[rustfmt::skip]
fn unknown_names_are_errors() {
    assert_errors(&[
        ["[\"R2\", \"R1\"]]", "[\"R2\", \"R9\"]]", "26: flows[0].paths[1][1]: unknown link \"R9\", expected one of R1, R2"],
        ["links = [\"R1\"]", "links = [\"uplink\"]", "30: flows[1].paths[0].links[0]: unknown link \"uplink\", expected one of R1, R2"],
        ["algorithm = \"reno\"", "algorithm = \"lia:alpha=2\"", "31: flows[1].algorithm: unknown parameter \"alpha\": lia takes none"],
        ["algorithm = \"reno\"", "algorithm = \"balia\"\nparameters = { cap = 2, gain = 3 }", "32: flows[1].parameters.gain: unknown parameter \"gain\" of balia: expected one of cap"],
        ["algorithm = \"reno\"", "algorithm = \"balia\"\nparameters = { cap = 0 }", "32: flows[1].parameters.cap: balia: cap = 0 is out of range: expected a number from 1 to inf"],
        ["algorithm = \"reno\"", "parameters = { cap = 2 }", "31: flows[1].parameters: expected an algorithm of the flow's own beside its parameters"],
        ["algorithm = \"reno\"", "algorithm = \"balia:cap=2\"\nparameters = { cap = 2 }", "32: flows[1].parameters: expected parameters here or in the algorithm, got \"balia:cap=2\" as well"],
        ["algorithm = \"lia\"", "", "23: flows[0].algorithm: expected an algorithm, such as \"lia\", here, at the top of the file or with --algorithm, got none"],
        ["rate_mbps = 10", "trace_file = \"none.trace\"", "13: links.R1.trace_file: none.trace: file not found"],
        ["rate_mbps = 10", "trace_file = \".\"", "13: links.R1.trace_file: .: expected a file, got a directory"],
    ]);
}

#[test]
fn an_algorithm_that_does_not_exist() {
    let message = error(GOOD.replace("\"lia\"", "\"lai\""), &[]);
    let start = "bad.toml:2: algorithm: unknown algorithm \"lai\": expected one of reno, ";
    assert!(message.starts_with(start), "{message}");
    let cases = [
        ["LIA", "lia"],
        ["ollia", "olia"],
        ["maxx", "max"],
        ["balia:cup=2", "cap"],
        ["lia:cuopling=shared", "coupling"],
        ["lia:coupling=nevr", "never"],
    ];
    for [wrong, meant] in cases {
        let message = error(GOOD.replace("\"lia\"", &format!("\"{wrong}\"")), &[]);
        let end = format!("(did you mean {meant}?)");
        assert!(message.ends_with(&end), "{message}");
    }
}

#[test]
#[rustfmt::skip]
fn things_that_contradict_each_other() {
    assert_errors(&[
        ["rate_mbps = 10", "", "12: links.R1: expected rate_mbps or trace_file, got neither"],
        ["rate_mbps = 10", "rate_mbps = 10\ntrace_file = \"../../../examples/lte.trace\"", "14: links.R1.trace_file: expected rate_mbps or trace_file, got both"],
        ["queue.red = {}", "queue.drop_tail = {}", "15: links.R1.queue.drop_tail: expected packets, bytes or both, got neither"],
        ["queue.red = {}", "queue.red = { min_packets = 60 }", "15: links.R1.queue.red: expected min_packets < mid_packets < max_packets, got 60, 50, 100"],
        ["queue.red = {}", "queue.red = { average_weight = 0 }", "15: links.R1.queue.red.average_weight: expected a weight above 0, got 0"],
        ["to_s = 20 }", "to_s = 10 }", "21: links.R2.down[0].to_s: expected more than from_s, which is 10, got 10"],
        ["to_s = 20 }", "to_s = 20 }, { from_s = 15, to_s = 30 }", "21: links.R2.down[1].from_s: expected at least 20, the end of the outage before, got 15"],
        ["to_s = 20 }", "to_s = 20 }, { from_s = 2, to_s = 5 }", "21: links.R2.down[1].from_s: expected at least 20, the end of the outage before, got 2"],
        ["warmup_s = 20", "warmup_s = 120", "7: measure.warmup_s: expected less than duration_s, which is 120, got 120"],
        ["packet_bytes = 1500", "packet_bytes = 52", "10: tcp.packet_bytes: expected more than header_bytes, which is 52, got 52"],
        ["[1, 2]", "[]", "3: seeds: expected at least one seed, got none"],
        ["[1, 2]", "[1, 1]", "3: seeds[1]: expected each seed once, got 1 twice"],
        ["[[\"R1\"], [\"R2\", \"R1\"]]", "[]", "26: flows[0].paths: expected at least one path, such as [[\"R1\"]], got none"],
        ["[\"R2\", \"R1\"]]", "[]]", "26: flows[0].paths[1]: expected at least one link, got none"],
        ["[\"R2\", \"R1\"]]", "[\"R2\", \"R2\"]]", "26: flows[0].paths[1][1]: expected each link once in a path, got \"R2\" again"],
        ["return_delay_ms = 60", "start_s = 1", "30: flows[1].paths[0].start_s: expected at most the flow's start_s, which is 0, got 1: the first path opens with its user"],
        ["return_delay_ms = 60", "return_delay_ms = 60, back = [\"R2\"]", "30: flows[1].paths[0].return_delay_ms: expected either return_delay_ms or back, got both: the links of back have delays of their own"],
        ["return_delay_ms = 60", "back = [\"R2\", \"R2\"]", "30: flows[1].paths[0].back[1]: expected each link once in a path, got \"R2\" again"],
        ["return_delay_ms = 60", "back = [\"R3\"]", "30: flows[1].paths[0].back[0]: unknown link \"R3\", expected one of R1, R2"],
        ["[\"R2\", \"R1\"]]", "{ links = [\"R1\"], start_s = 9 }, [\"R2\"]]", "26: flows[0].paths[2].start_s: expected at least 9, the start_s of the path before it, got 0: list the paths in the order in which they open"],
        ["name = \"type2\"", "name = \"type1\"", "29: flows[1].name: expected a unique name, got \"type1\" again"],
        ["file = { bytes = 1e6 }", "media = {}", "32: flows[1].workload.media: expected rate_mbps or nada, got neither"],
        ["file = { bytes = 1e6 }", "media = { rate_mbps = 1, nada = {} }", "32: flows[1].workload.media: expected rate_mbps or nada, got both"],
        ["file = { bytes = 1e6 }", "media.nada = { min_mbps = 2 }", "32: flows[1].workload.media.nada.min_mbps: expected at most max_mbps, which is 1.5, got 2"],
        ["file = { bytes = 1e6 }", "messages = {}", "32: flows[1].workload.messages: expected size_bytes and interval_ms, or list, or file, got none"],
        ["file = { bytes = 1e6 }", "messages = { size_bytes = 9 }", "32: flows[1].workload.messages: expected size_bytes and interval_ms, or list, or file, got size_bytes without interval_ms"],
        ["file = { bytes = 1e6 }", "messages = { interval_ms = 9 }", "32: flows[1].workload.messages: expected size_bytes and interval_ms, or list, or file, got interval_ms without size_bytes"],
        ["file = { bytes = 1e6 }", "messages = { interval_ms = 9, size_bytes = 9, file = \"x\" }", "32: flows[1].workload.messages: expected size_bytes and interval_ms, or list, or file, got more than one of them"],
        ["file = { bytes = 1e6 }", "messages.list = [{ time_s = 2, bytes = 1 }, { time_s = 1, bytes = 1 }]", "32: flows[1].workload.messages.list[1].time_s: expected at least 2, the time_s of the message before, got 1"],
        ["file = { bytes = 1e6 }", "messages.file = \"none.csv\"", "32: flows[1].workload.messages.file: none.csv: file not found"],
        ["stop_s = 100", "packet_bytes = 52", "33: flows[1].packet_bytes: expected more than tcp.header_bytes, which is 52, got 52"],
        ["name = \"type2\"", "name = \"\"", "29: flows[1].name: expected a name, got \"\""],
        ["stop_s = 100", "stop_s = 5\nstart_s = 5", "33: flows[1].stop_s: expected more than start_s + start_spread_s, which is 5, got 5"],
        ["stop_s = 100", "stop_s = 5\nstart_spread_s = 10", "33: flows[1].stop_s: expected more than start_s + start_spread_s, which is 10, got 5"],
    ]);
}

/// Estimates. By count, 10^6 users of 2 paths: 1200 samples in tables with room for 2^31 rows of 48
/// B and 2^32 of 72 + 4 B are 400 GiB; 1024 + 2 x 2048 B of state, 4.8 GiB. By sample_ms:
/// 6 x 10^7 samples of 11 users, 21 paths and 2 links have room for 2^30 rows of 48 B, 2^31 of
/// 72 + 4 B and 2^27 of 44 B, 205.5 GiB. By rate_per_s: 1.2 x 10^8 files in 2^27 rows of 32 B, and
/// each with a connection, 1024 + 2048 B, because 10 Mbps carry next to nothing of the 800
/// Gbps that they offer.
#[test]
#[rustfmt::skip]
fn a_scenario_too_large_for_the_memory() {
    assert_errors(&[
        ["count = 10", "count = 1e6", "25: flows[0].count: expected a run that needs at most 4 GiB, got an estimate of 405.1 GiB: lower count or raise measure.max_memory_gib"],
        ["warmup_s = 20", "sample_ms = 0.002", "7: measure.sample_ms: expected a run that needs at most 4 GiB, got an estimate of 205.5 GiB: raise sample_ms or raise measure.max_memory_gib"],
        ["file = { bytes = 1e6 }", "poisson = { rate_per_s = 1e6, size.exponential = { mean_bytes = 1e5 } }", "32: flows[1].workload.poisson.rate_per_s: expected a run that needs at most 4 GiB, got an estimate of 347.3 GiB: lower rate_per_s or raise measure.max_memory_gib"],
    ]);
}

/// A gateway holds 1.2 x 10^8 files in lists, not as connections: 64 B each and 2^27 rows of 32 B.
#[test]
fn a_gateway_with_too_many_files_is_refused() {
    let gateway = "gateway = { clients = 10, rate_per_s = 1e5, size.exponential.mean_bytes = 1e5 }";
    let text = GOOD.replace("file = { bytes = 1e6 }", gateway);
    let expected = "bad.toml:32: flows[1].workload.gateway.rate_per_s: expected a run that needs at \
                    most 4 GiB, got an estimate of 11.2 GiB: lower rate_per_s or raise \
                    measure.max_memory_gib";
    assert_eq!(error(text, &[]), expected);
}

#[test]
fn a_gateway_adjusts_the_kappa_of_vegas_over_one_path() {
    let good = GOOD.replace(
        "workload.file = { bytes = 1e6 }",
        "workload.gateway = { clients = 9, rate_per_s = 1, size.exponential.mean_bytes = 1e5, adjust = {} }",
    );
    let with = |algorithm, paths| {
        error(
            &good,
            &[("flows[1].algorithm", algorithm), ("flows[1].paths", paths)],
        )
    };
    let (one, two) = ("[[\"R1\"]]", "[[\"R1\"], [\"R2\"]]");
    assert_eq!(with("\"vegas:kappa=9\"", one), "no error");
    let expected = "bad.toml:32: flows[1].workload.gateway.adjust: expected a flow that runs multcp or vegas over one path";
    assert_eq!(
        with("\"reno\"", one),
        format!("{expected}, got reno over 1")
    );
    assert_eq!(
        with("\"vegas\"", two),
        format!("{expected}, got vegas over 2")
    );
}

/// Even if it is hardly ever sampled: see above, with one path.
#[test]
fn two_million_files_of_10_gb_are_refused() {
    let text = GOOD
        .replace("bytes = 1e6", "bytes = 10e9")
        .replace("name = \"type2\"", "name = \"type2\"\ncount = 2e6")
        .replace("warmup_s = 20", "sample_ms = 60e3");
    let expected = "bad.toml:30: flows[1].count: expected a run that needs at most 4 GiB, \
                    got an estimate of 6.2 GiB: lower count or raise measure.max_memory_gib";
    assert_eq!(error(text, &[]), expected);
}

#[test]
fn a_long_list_is_cut() {
    let links: String = (1..=30)
        .map(|i| format!("\n[links.L{i}]\nrate_mbps = 1\ndelay_ms = 1\n"))
        .collect();
    let text = GOOD.replace("[\"R2\", \"R1\"]]", "[\"L31\"]]") + &links;
    let message = error(text, &[]);
    let end = "L17, L18 and 12 more (did you mean L11?)";
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn control_characters_stay_out_of_the_line() {
    let text = GOOD.replace("\"lia\"", "\"l\\nia\\u001b\"");
    let message = error(text, &[]);
    assert!(!message.chars().any(char::is_control), "{message}");
}

/// 1000 flows of two paths each over 50 links of 400 Mbps, 10 ms and 400 packets, which 40 paths
/// cross. A packet has 1500 B, so that a link sends 33 333 per second: 333 + 1 on the wire and 400
/// in the queue, rings of 1024 x 48 and 512 x 16 B. Acknowledgements of all links, 16 668, share a
/// line, a ring of 32 768, which grows. A path has 2/40 of 400 + 667 + 1 packets, 53, and in a
/// timeout 1667 more: bits of three rings of 32 words, data of 8 B with room for 2048, 16 B each in
/// another path's list, and 64 words of the connection's bits.
#[test]
fn a_link_counts_once_however_many_flows_cross_it() {
    let text = shared_links(1000);
    let scenario = Scenario::parse(text.as_bytes(), "shared.toml", &[]).expect("it is good");
    let network = 50.0 * (1024.0 * 48.0 + 512.0 * 16.0) + 1.5 * 32_768.0 * 48.0;
    let window = 2.0 / 40.0 * (400.0 + 400e6 / 8.0 / 1500.0 * 0.02 + 1.0);
    let path = 3.0 * 32.0 * 8.0 + 2048.0 * 8.0 + window * 16.0;
    let users = 1000.0 * (1024.0 + 2.0 * 2048.0 + 1.2 * (2.0 * path + 64.0 * 8.0));
    let samples = 131_072.0 * 48.0 + 262_144.0 * (72.0 + 4.0) + 8192.0 * 44.0;
    let expected = network + users + samples;
    assert_eq!(scenario.memory_estimate(), expected as u64);
}

/// A backend without packets reads what a run of packets may not. All flows need the same, and
/// the first the ring that grows.
#[test]
fn a_scenario_is_read_without_the_memory_of_packets() {
    let text = shared_links(10).replace("[measure]", "[measure]\nmax_memory_gib = 0.0001");
    let message = error(text.clone(), &[]);
    let start = "bad.toml:6: flows[0].count: expected a run that needs at most 0.0001 GiB";
    assert!(message.starts_with(start), "{message}");
    let inputs = anabranch_scenario::Inputs::new();
    let read = Scenario::parse_with(text.as_bytes(), "bad.toml", &[], &inputs, None);
    let refused = read.expect("it is read").check_memory().unwrap_err();
    assert_eq!(refused.to_string(), message);
}

fn shared_links(flows: usize) -> String {
    let mut text = "algorithm = \"lia\"\n[measure]\nduration_s = 10\nsample_ms = 100\n".to_owned();
    for i in 0..flows {
        let (a, b) = (i % 50, (7 * i + 1) % 50);
        text += &format!("[[flows]]\nname = \"f{i}\"\npaths = [[\"l{a}\"], [\"l{b}\"]]\n");
    }
    for i in 0..50 {
        let queue = "queue.drop_tail.packets = 400";
        text += &format!("[links.l{i}]\nrate_mbps = 400\ndelay_ms = 10\n{queue}\n");
    }
    text
}
