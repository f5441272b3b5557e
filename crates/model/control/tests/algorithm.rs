//! Specifications of algorithms.

use crate::common::{path, rule};
use anabranch_control::{Algorithm, RULES};
use proptest::prelude::*;

fn error(spec: &str) -> String {
    Algorithm::parse(spec).unwrap_err().message
}

#[test]
fn every_rule_is_found_by_its_names_and_prints_its_own() {
    for info in RULES {
        for name in info.aliases.iter().chain([&info.name]) {
            let algorithm = Algorithm::parse(name).unwrap();
            assert_eq!(algorithm.name(), info.name);
            assert_eq!(algorithm.to_string(), info.name);
        }
    }
    assert_eq!(Algorithm::parse("max").unwrap().name(), "lia");
}

#[test]
fn no_name_is_taken_twice() {
    let mut names: Vec<_> = RULES
        .iter()
        .flat_map(|info| info.aliases.iter().chain([&info.name]))
        .collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn another_backoff_at_marks_is_of_rules_that_take_a_mark_as_a_loss() {
    for info in RULES {
        let spec = format!("{}:beta_ecn=0.8", info.name);
        if info.takes_marks_as_losses() {
            let algorithm = Algorithm::parse(&spec).unwrap();
            assert_eq!(algorithm.to_string(), spec);
            assert_eq!(algorithm.beta_ecn(), Some(0.8));
            assert_ne!(algorithm, Algorithm::parse(info.name).unwrap());
        } else {
            let start = format!(
                "{}: beta_ecn is of rules that take a mark as a loss",
                info.name
            );
            assert!(error(&spec).starts_with(&start), "{}", error(&spec));
        }
    }
    assert_eq!(
        error("reno:beta_ecn=1"),
        "reno: beta_ecn = 1 is out of range: expected a number from 0.5 to 0.95"
    );
    assert_eq!(
        error("cubic:beta_ecn=0.8:beta_ecn=0.8"),
        "cubic: beta_ecn is given twice"
    );
}

#[test]
fn every_default_is_allowed() {
    for info in RULES {
        for parameter in info.parameters {
            Algorithm::new(info.name, &[(parameter.name, parameter.default)]).unwrap();
        }
    }
}

#[test]
fn the_properties_of_a_rule_name_rules_and_parameters_that_exist() {
    for info in RULES {
        let studied = Algorithm::parse(info.studied_as).unwrap();
        assert_eq!(studied.name(), info.name, "STUDIED_AS");
        if let Some(other) = info.variant_of {
            assert!(
                RULES.iter().any(|info| info.name == other),
                "{}: VARIANT_OF",
                info.name
            );
        }
        if let Some(weight) = info.weight {
            let mut parameters = info.parameters.iter();
            let found = parameters.any(|parameter| parameter.name == weight);
            assert!(found, "{}: WEIGHT is no parameter", info.name);
        }
    }
}

/// It is read and changed by `weight` and `set_weight`.
#[test]
fn the_weight_of_a_rule_is_the_parameter_that_it_names() {
    for info in RULES {
        let Some(name) = info.weight else {
            let mut controller = rule(info.name).controller(1, 1.0);
            controller.set_weight(2.5);
            assert_eq!(
                controller.weight(),
                None,
                "{}: WEIGHT is not set",
                info.name
            );
            continue;
        };
        let loaded = Algorithm::new(info.name, &[(name, 2.5)]).unwrap();
        let mut controller = loaded.controller(1, 1.0);
        assert_eq!(controller.weight(), Some(2.5), "{}: weight()", info.name);
        controller.set_weight(3.5);
        assert_eq!(
            controller.weight(),
            Some(3.5),
            "{}: set_weight()",
            info.name
        );
    }
}

#[test]
fn parameters_reach_the_rule() {
    // a_r = 20 / 10 = 2 on the slower path: a cut of 10/2 * 1.5, or without the cap 10/2 * 2.
    let paths = [path(20.0, 0.1), path(10.0, 0.1)];
    assert_eq!(rule("balia").decrease(1, &paths), 7.5);
    assert_eq!(rule("balia:cap=inf").decrease(1, &paths), 10.0);
    // beta 1, eta 0 and the 1-norm: 1 / sum w.
    let increase: f64 = rule("generalized:norm=1:eta=0:beta=1").increase(1, &paths);
    assert!((increase - 1.0 / 30.0).abs() < 1e-12);
}

#[test]
fn only_what_differs_from_the_defaults_is_printed_in_the_order_of_the_table() {
    let spec = |text| Algorithm::parse(text).unwrap().to_string();
    assert_eq!(
        spec("generalized:norm=2:beta=0.2:eta=0"),
        "generalized:eta=0:norm=2"
    );
    assert_eq!(spec(" balia : cap = inf "), "balia:cap=inf");
    assert_eq!(spec("max"), "lia");
    assert_eq!(Algorithm::parse("balia:cap=1.5"), Algorithm::parse("balia"));
    assert_ne!(Algorithm::parse("balia:cap=2"), Algorithm::parse("balia"));
}

#[test]
fn an_unknown_algorithm_lists_the_known_ones() {
    let names: Vec<_> = RULES.iter().map(|info| info.name).collect();
    assert_eq!(
        error("bbr9"),
        format!(
            "unknown algorithm \"bbr9\": expected one of {}",
            names.join(", ")
        )
    );
}

#[test]
fn an_unknown_parameter_lists_those_of_the_algorithm() {
    assert_eq!(
        error("wvegas:alpha=2"),
        "unknown parameter \"alpha\" of wvegas: expected one of total_alpha, min_alpha, drain, vegas"
    );
    assert_eq!(
        error("reno:a=2"),
        "unknown parameter \"a\": reno takes none"
    );
}

#[test]
fn a_value_out_of_range_says_what_was_expected() {
    assert_eq!(
        error("balia:cap=0.5"),
        "balia: cap = 0.5 is out of range: expected a number from 1 to inf"
    );
    assert_eq!(
        error("ewtcp:a=101"),
        "ewtcp: a = 101 is out of range: expected a number from 0 to 100"
    );
    assert_eq!(
        error("rsf-db:d_s=0"),
        "rsf-db: d_s = 0 is out of range: expected a number from 0.0001 to 100 s"
    );
    assert_eq!(
        error("generalized:norm=3"),
        "generalized: norm = 3 is out of range: expected one of 1, 2, inf"
    );
    assert_eq!(
        error("balia:cap=nan"),
        "balia: cap = NaN is out of range: expected a number from 1 to inf"
    );
}

#[test]
fn a_specification_that_cannot_be_parsed_says_what_was_expected() {
    assert_eq!(
        error("balia:cap"),
        "balia: expected parameter=value, got \"cap\""
    );
    assert_eq!(
        error("balia:cap=big"),
        "balia: cap expects a number, got \"big\""
    );
    assert_eq!(error("balia:cap=2:cap=3"), "balia: cap is given twice");
    assert!(error("").starts_with("unknown algorithm \"\": expected one of reno, "));
}

proptest! {
    #[test]
    fn a_printed_specification_parses_to_the_same_algorithm(n in 0..RULES.len(), values in prop::collection::vec(0.0..1.0, 3)) {
        let info = &RULES[n];
        let value = |(parameter, x): (&anabranch_control::Parameter, &f64)| match parameter.choices {
            [] => (parameter.name, parameter.min + x * (parameter.max.min(1e3) - parameter.min)),
            choices => (parameter.name, choices[(x * choices.len() as f64) as usize]),
        };
        let parameters: Vec<_> = info.parameters.iter().zip(&values).map(value).collect();
        let algorithm = Algorithm::new(info.name, &parameters).unwrap();
        prop_assert_eq!(Algorithm::parse(&algorithm.to_string()).unwrap(), algorithm);
    }

    #[test]
    fn parsing_never_panics(text in "\\PC*") {
        let _ = Algorithm::parse(&text);
        let _ = Algorithm::parse(&format!("balia:{text}"));
    }
}
