//! Values that a run can only approximate.

use anabranch_scenario::Scenario;

/// What a scenario with this size of files warns of.
fn size_warnings(size: &str) -> Vec<String> {
    let text = format!(
        "algorithm = 'lia'\nmeasure.duration_s = 10\n\
         links.a = {{ rate_mbps = 10, delay_ms = 5 }}\n\
         [[flows]]\nname = 'f'\npaths = [['a']]\n\
         workload.poisson = {{ rate_per_s = 1, size.pareto = {size} }}\n"
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
    let warnings = size_warnings("{ mean_bytes = 1e6, shape = 1.1 }");
    assert_eq!(
        warnings,
        [
            "heavy.toml: flows[0].workload.poisson.size.pareto: the mean size is 9.639e5 bytes \
             instead of 1.000e6 (96 % of it), because no file is larger than 9.2e18 bytes: \
             raise shape"
        ]
    );
}

#[test]
fn the_tails_of_the_papers_are_no_warning() {
    let sizes = [
        "{ mean_bytes = 3e4, shape = 1.2 }",
        "{ mean_bytes = 1e5, shape = 1.5 }",
    ];
    for size in sizes {
        assert_eq!(size_warnings(size), [""; 0]);
    }
}
