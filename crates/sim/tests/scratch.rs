mod common;
#[test]
fn file() {
    let r = common::run(
        r#"
algorithm="reno"
measure.duration_s=10
links.L={rate_mbps=12,delay_ms=10}
[[flows]]
name="f"
paths=[["L"]]
workload.file={bytes=100000}
"#,
        1,
    );
    println!(
        "{:?}\n{:?}\n{:?}\n{:?}",
        r.flows, r.paths, r.links, r.transfers
    );
}
