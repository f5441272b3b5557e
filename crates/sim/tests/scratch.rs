mod common;
#[test]
fn file() {
    for iw in [2] {
        for seed in 1..=6 {
            let r = common::run(
                &format!(
                    r#"
algorithm="reno"
measure={{duration_s=100,warmup_s=20,sample_ms=1e6}}
tcp={{header_bytes=40,initial_window_packets={iw}}}
links.L={{rate_mbps=100,delay_ms=10,queue.drop_tail={{packets=100}}}}
[[flows]]
name="f"
count=10
paths=[["L"]]
start_spread_s=1
"#
                ),
                seed,
            );
            println!(
                "{} {} to {:?} ev {:?}",
                r.flows.delivered_bytes.iter().sum::<u64>() / 1460,
                r.links.dropped_overflow[0],
                r.flows.timeouts.iter().sum::<u64>(),
                r.paths.loss_events.iter().sum::<u64>()
            );
        }
    }
}
