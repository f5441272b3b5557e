//! draft
use crate::common::run;

fn mbps(spec: &str, paths: &str, tcp: &str, from: f64, to: f64, seeds: u64) -> (f64, f64) {
    let mut sum = 0.0; let mut timeouts = 0;
    for seed in 1..=seeds {
        let record = run(&format!(r#"
algorithm = "{spec}"
tcp = {{ {tcp} }}
measure = {{ duration_s = {to}, warmup_s = {from} }}
links.A = {{ rate_mbps = 20, delay_ms = 10, down = [{{ from_s = 6, to_s = 1000 }}] }}
links.B = {{ rate_mbps = 20, delay_ms = 30, loss.bernoulli = {{ probability = 0.01 }} }}
[[flows]]
name = "user"
paths = [{paths}]
start_spread_s = 0
"#), seed);
        sum += record.flows.goodput_mbps[0]; timeouts += record.flows.timeouts[0];
    }
    (sum / seeds as f64, timeouts as f64 / seeds as f64)
}

#[test]
fn draft() {
    for tcp in ["profile = 'linux'", "", "profile = 'linux', send_buffer_windows = 16"] {
        for (from, to) in [(6.0, 33.0), (10.0, 40.0), (30.0, 100.0)] {
            for spec in ["reno", "lia", "olia", "balia", "wvegas", "coupled"] {
                let two = mbps(spec, r#"["A"], ["B"]"#, tcp, from, to, 8);
                let one = mbps(spec, r#"["B"]"#, tcp, from, to, 8);
                println!("{tcp:40} {from} {to} {spec:8} {two:?} {one:?} ratio {:.3}", two.0 / one.0);
            }
        }
    }
}
