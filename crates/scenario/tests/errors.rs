//! Every bad scenario gives one line that names file, line and key, and says what was expected.

use anabranch_scenario::Scenario;

/// A good scenario; each case below makes one thing in it bad. Line 1 is `name`.
const GOOD: &str = r#"name = "two links"
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
