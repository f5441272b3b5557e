//! Values that a run can only approximate.

use anabranch_scenario::Scenario;

/// Warnings of a scenario with this size of files.
fn size_warnings(size: &str) -> Vec<String> {
    let text = format!(
        "algorithm = 'lia'\nmeasure.duration_s = 10\n\
         links.a = {{ rate_mbps = 10, delay_ms = 5 }}\n\
         [[flows]]\nname = 'f'\npaths = [['a']]\n\
         workload.poisson = {{ rate_per_s = 1, size.{size} }}\n"
    );
    match Scenario::parse(text.as_bytes(), "heavy.toml", &[]) {
        Ok(scenario) => scenario.warnings(),
        Err(error) => panic!("{error}"),
    }
}

/// smallest = 90 909 bytes; draws of 53 bits and columns of 63 end at 9.2e18 bytes, so that the
/// mean lacks (90 909 / 9.2e18)^0.1 / 1.1 = 3.6 %. 31 bits would lack 33 %.
#[test]
fn a_tail_too_heavy_for_its_mean_is_a_warning() {
    let warnings = size_warnings("pareto = { mean_bytes = 1e6, shape = 1.1 }");
    assert_eq!(
        warnings,
        [
            "heavy.toml: flows[0].workload.poisson.size.pareto: the mean size is 9.639e5 bytes \
             instead of 1.000e6 (96 % of it), because no file is larger than 9.2e18 bytes: \
             raise shape"
        ]
    );
}

/// L = 2^63 leaves 0.3202 of a mean of 1e15 bytes (`the_largest_file_takes_its_share_of_any_mean`).
#[test]
fn a_lognormal_too_wide_for_its_mean_is_a_warning() {
    let warnings = size_warnings("lognormal = { mean_bytes = 1e15, sigma = 5 }");
    let expected = "size.lognormal: the mean size is 3.202e14 bytes instead of 1.000e15 (32 % of it), \
                    because no file is larger than 9.2e18 bytes: lower sigma";
    assert!(warnings[0].contains(expected), "{warnings:?}");
}

#[test]
fn the_tails_of_the_papers_are_no_warning() {
    let sizes = [
        "pareto = { mean_bytes = 3e4, shape = 1.2 }",
        "pareto = { mean_bytes = 1e5, shape = 1.5 }",
        "lognormal = { mean_bytes = 1e5, sigma = 5 }",
        "weibull = { mean_bytes = 1e5, shape = 0.1 }",
    ];
    for size in sizes {
        assert_eq!(size_warnings(size), [""; 0]);
    }
}

/// Warnings of two links of 10 and 20 Mbps with these keys of a flow over both of them.
fn warnings(flow: &str) -> Vec<String> {
    let text = format!(
        "algorithm = 'lia'\nmeasure = {{ duration_s = 60, warmup_s = 20 }}\n\
         links.a = {{ rate_mbps = 10, delay_ms = 5 }}\n\
         links.b = {{ rate_mbps = 20, delay_ms = 5 }}\n\
         [[flows]]\nname = 'f'\npaths = [['a'], ['b']]\n{flow}\n"
    );
    match Scenario::parse(text.as_bytes(), "odd.toml", &[]) {
        Ok(scenario) => scenario.warnings(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_link_in_both_directions_of_a_path_is_a_warning() {
    let over = |back: &str| {
        let path = format!("paths = [['a'], {{ links = ['b'], back = ['{back}'] }}]");
        let text = format!(
            "algorithm = 'lia'\nmeasure.duration_s = 60\n\
             links.a = {{ rate_mbps = 10, delay_ms = 5 }}\n\
             links.b = {{ rate_mbps = 20, delay_ms = 5 }}\n\
             [[flows]]\nname = 'f'\n{path}\n"
        );
        Scenario::parse(text.as_bytes(), "odd.toml", &[])
            .expect("it is valid")
            .warnings()
    };
    assert_eq!(over("a"), [""; 0]);
    assert_eq!(
        over("b"),
        [
            "odd.toml: flows[0].paths[1].back: link \"b\" carries the path's data, too: ACKs and \
             data wait in one queue, as on a half-duplex medium: give the other direction a link \
             of its own"
        ]
    );
}

#[test]
fn a_flow_outside_the_measurement_is_a_warning() {
    assert_eq!(
        warnings("start_s = 70"),
        [
            "odd.toml: flows[0].start_s: flow \"f\" starts at 70 s, but the run ends at 60 s: it \
             sends nothing"
        ]
    );
    assert_eq!(
        warnings("stop_s = 20"),
        [
            "odd.toml: flows[0].stop_s: flow \"f\" stops at 20 s, but the measurement begins at \
             20 s: its goodput is 0"
        ]
    );
    assert_eq!(warnings("start_s = 59\nstop_s = 61"), [""; 0]);
}

/// 1448 of 1500 bytes are payload: 300 files/s of 12 500 bytes are 30 Mbps, on the wire 31.077.
/// Over link a alone 100 of them are 10.359 Mbps.
#[test]
fn files_that_arrive_faster_than_the_links_are_a_warning() {
    let poisson = |rate| format!("rate_per_s = {rate}, size.exponential.mean_bytes = 12500");
    let both = |rate| warnings(&format!("workload.poisson = {{ {} }}", poisson(rate)));
    assert_eq!(both(280), [""; 0]);
    assert_eq!(
        both(300),
        [
            "odd.toml: flows[0].workload: files arrive at 31.077 Mbps, 1.036 times the 30 Mbps of \
             the paths: the number of unfinished files grows until the run ends: lower rate_per_s \
             or mean_bytes"
        ]
    );
    let on_a = |count: u32, clients: u32| {
        warnings(&format!(
            "workload.gateway = {{ clients = 1, {} }}\n[[flows]]\nname = 'g'\npaths = [['a']]\n\
             count = {count}\nworkload.gateway = {{ clients = {clients}, {} }}",
            poisson(10),
            poisson(5)
        ))
    };
    assert_eq!(on_a(4, 4), [""; 0]);
    assert_eq!(
        on_a(4, 5),
        [
            "odd.toml: links.a: files arrive at 10.359 Mbps, 1.036 times the 10 Mbps of the link: \
             the number of unfinished files grows until the run ends: lower rate_per_s or \
             mean_bytes"
        ]
    );
}

#[test]
fn a_rule_that_needs_marks_and_has_none_is_a_warning() {
    let with = |algorithm: &str, ecn: &str| {
        let text = format!(
            "algorithm = '{algorithm}'\nmeasure.duration_s = 60\ntcp.ecn = {ecn}\n\
             links.a = {{ rate_mbps = 10, delay_ms = 5 }}\n\
             [[flows]]\nname = 'f'\npaths = [['a']]\n"
        );
        Scenario::parse(text.as_bytes(), "marks.toml", &[])
            .expect("it is valid")
            .warnings()
    };
    let warning = "marks.toml: flows[0].algorithm: dctcp reduces by the share of marks that \
                   acknowledgements count, and without it halves its window as reno does: set \
                   tcp.ecn = \"accurate\"";
    for ecn in ["true", "false"] {
        assert_eq!(with("dctcp", ecn), [warning]);
        assert_eq!(with("reno", ecn), [""; 0]);
    }
    assert_eq!(with("dctcp", "'accurate'"), [""; 0]);
    let warning = "marks.toml: flows[0].algorithm: beta_ecn has no effect without marks: set \
                   tcp.ecn = true";
    assert_eq!(with("reno:beta_ecn=0.8", "false"), [warning]);
    assert_eq!(with("reno:beta_ecn=0.8", "true"), [""; 0]);
}
