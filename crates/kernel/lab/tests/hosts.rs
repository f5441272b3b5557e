//! Real hosts, and their removal. Needs root; each test takes a few seconds.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{Hosts, TWO_LINKS, can_create_hosts, file, lab};
use anabranch_lab::network::emulator::Tap;
use anabranch_lab::network::packet::Packet;
use anabranch_lab::{Lab, exit_on_panic};
use anabranch_net::{Backlog, Fate, MILLISECOND, Time};
use anabranch_scenario::Scenario;
use rustix::process::{Pid, Signal, kill_process};

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text.as_bytes(), "test", &[]).expect("the scenario is valid")
}

#[test]
fn reno_over_two_links_fills_them_and_both_paths_are_used() {
    if !can_create_hosts() {
        return;
    }
    let lab = Lab::build(&scenario(TWO_LINKS), 1, None).unwrap();
    let outcome = lab.run(()).unwrap();
    assert_eq!(outcome.algorithms, ["reno", "reno"]);
    let (flows, paths, links) = (
        &outcome.record.flows,
        &outcome.record.paths,
        &outcome.record.links,
    );
    assert_eq!((flows.len(), paths.len(), links.len()), (2, 3, 2));
    for (path, packets) in paths.sent_packets.iter().enumerate() {
        assert!(*packets > 100, "path {path} sent {packets} packets");
    }
    // Paths deliver at most what the links carry, 8 and 4 Mbps minus 52 bytes of 1500 for headers,
    // and most of it. Flows can deliver more: data behind a gap is counted when the gap is filled.
    let arrived: f64 = paths.goodput_mbps.iter().sum();
    assert!(arrived < 12.0 * 1448.0 / 1500.0 + 0.05, "{arrived} Mbps");
    let total: f64 = flows.goodput_mbps.iter().sum();
    assert!((8.0..15.0).contains(&total), "{total} Mbps");
    // 10 and 20 ms without queues; 40 packets of 1500 bytes wait 60 and 120 ms.
    let rtts: Vec<f64> = paths.rtt_ms.iter().map(|rtt| rtt.round()).collect();
    assert!((10.0..75.0).contains(&rtts[0]), "{rtts:?}");
    assert!((20.0..150.0).contains(&rtts[1]), "{rtts:?}");
    // 30 samples of 2 users, 3 paths and 2 links.
    let record = &outcome.record;
    assert_eq!(record.flow_samples.len(), 60);
    assert_eq!(record.path_samples.len(), 90);
    assert_eq!(record.link_samples.len(), 60);
    assert!(
        record
            .path_samples
            .window_packets
            .iter()
            .any(|&window| window > 5.0)
    );
    // Every lost data packet was dropped by a link, with a cause.
    let lost: u64 = flows.lost_packets.iter().sum();
    let overflow: u64 = paths.lost_overflow.iter().sum();
    assert_eq!(lost, overflow);
}

#[test]
fn users_keep_multipath_tcp_if_packets_of_the_handshake_are_lost() {
    if !can_create_hosts() {
        return;
    }
    // The third packet of the handshake and the first data packet are both lost with probability
    // 0.4 * 0.4 = 4/25.
    let text = r#"
algorithm = "reno"
measure = { duration_s = 6, warmup_s = 1 }
links.A = { rate_mbps = 100, delay_ms = 5, loss.bernoulli.probability = 0.4 }
flows = [{ name = "two", count = 40, paths = [["A"], ["A"]] }]
"#;
    let lab = Lab::build(&scenario(text), 1, None).unwrap();
    let warnings = lab.run(()).unwrap().warnings;
    let fell_back = |warning: &&String| warning.contains("fell back");
    assert_eq!(warnings.iter().find(fell_back), None);
}

#[test]
fn files_are_received_completely_and_depend_on_the_seed() {
    if !can_create_hosts() {
        return;
    }
    let text = r#"
algorithm = "cubic"
measure.duration_s = 3
links.A = { rate_mbps = 40, delay_ms = 2 }
links.B = { rate_mbps = 40, delay_ms = 2 }
flows = [
  { name = "file", paths = [["A"], ["B"]], workload.file.bytes = 300_001 },
  { name = "web", paths = [["A"]], workload.poisson = { rate_per_s = 20, size.exponential.mean_bytes = 2e4 }, stop_s = 2 },
  { name = "speech", paths = [["B"]], workload.on_off = { on_s = 0.5, off_s = 5 } },
]
"#;
    let outcome = Lab::build(&scenario(text), 7, None)
        .unwrap()
        .run(())
        .unwrap();
    let record = outcome.record;
    let transfers = &record.transfers;
    let file = transfers
        .flow
        .iter()
        .position(|&flow| flow == 0)
        .expect("the file arrived");
    assert_eq!(transfers.bytes[file], 300_001);
    assert_eq!(record.flows.delivered_bytes[0], 300_001);
    // 20 files per second for 2 s: fewer than 15 or more than 70 have a probability below 1e-4.
    let web: Vec<u64> = (0..transfers.len())
        .filter(|&row| transfers.flow[row] == 1)
        .map(|row| transfers.bytes[row])
        .collect();
    assert!((15..70).contains(&web.len()), "{} files", web.len());
    assert_eq!(record.flows.delivered_bytes[1], web.iter().sum::<u64>());
    assert_eq!(record.flows.transfers_done[1], web.len() as u64);
    // Half a second at 40 Mbps is 2.5 MB; data already written to the socket is still sent.
    let speech = record.flows.delivered_bytes[2];
    assert!((1_000_000..4_000_000).contains(&speech), "{speech} bytes");
}

#[test]
fn unsupported_scenarios_are_errors_of_one_line() {
    if !can_create_hosts() {
        return;
    }
    let error_of = |text: String, chosen: Option<&str>| {
        Lab::build(&scenario(&text), 1, chosen)
            .unwrap_err()
            .to_string()
    };
    let gateway = "[[flows]]\nname = \"g\"\npaths = [[\"A\"]]\n\
                   workload.gateway = { clients = 2, rate_per_s = 1, size.exponential.mean_bytes = 1e4 }";
    let one = TWO_LINKS.split("flows = [").next().unwrap().to_owned();
    for (text, chosen, expected) in [
        (
            format!("{one}\n{gateway}"),
            None,
            "flows.g.workload: a gateway is not available on kernel",
        ),
        (
            format!(
                "{one}\n[[flows]]\nname = \"m\"\npaths = [[\"A\"]]\n\
                 workload.media = {{ rate_mbps = 1 }}"
            ),
            None,
            "flows.m.workload: a media source is not available on kernel",
        ),
        (
            format!("{one}\n[[flows]]\nname = \"p\"\npaths = [[\"A\"]]\npacket_bytes = 900"),
            None,
            "flows.p.packet_bytes: a packet size of its own is not available on kernel",
        ),
        (
            format!("tcp.scheduler = \"round-robin\"\n{TWO_LINKS}"),
            None,
            "tcp.scheduler: round-robin is not",
        ),
        (
            TWO_LINKS.replace("\"reno\"", "\"generalized\""),
            None,
            "`anabranch-kernel load generalized`",
        ),
        (
            TWO_LINKS.to_owned(),
            Some("balia:cap=inf"),
            "parameters are set when an algorithm is loaded",
        ),
    ] {
        let error = error_of(text, chosen);
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn ignored_keys_are_reported_in_a_warning() {
    if !can_create_hosts() {
        return;
    }
    let short = TWO_LINKS.replace("duration_s = 3, warmup_s = 1", "duration_s = 0.2");
    let warning = |keys: &str| {
        let lab = Lab::build(&scenario(&format!("{keys}\n{short}")), 1, None).unwrap();
        let warnings = lab.run(()).unwrap().warnings;
        let mut keys = warnings.into_iter();
        keys.find(|warning| warning.contains("no effect"))
    };
    assert_eq!(warning("tcp.initial_window_packets = 4"), None);
    assert_eq!(
        warning("tcp.header_bytes = 0").as_deref(),
        Some("tcp.header_bytes has no effect on kernel (docs/reference/lab.md)")
    );
    assert_eq!(
        warning("tcp.min_ssthresh_packets = 2").as_deref(),
        Some("tcp.min_ssthresh_packets has no effect on kernel (docs/reference/lab.md)")
    );
}

#[test]
fn programs_run_in_a_host_with_its_algorithm() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let show = "ip -brief address; ip route; ip mptcp endpoint; exit 7";
    let command = [
        "exec",
        scenario.to_str().unwrap(),
        "two",
        "--",
        "sh",
        "-c",
        show,
    ];
    let output = lab(&command).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "10.0.0.1/32",
        "10.0.0.2/32",
        "congctl reno",
        "id 2 subflow dev path1",
    ] {
        assert!(stdout.contains(expected), "{expected:?} is not in {stdout}");
    }
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn no_host_is_left_of_a_lab_that_is_killed_or_interrupted() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let scenario = scenario.to_str().unwrap();
    for signal in [Signal::INT, Signal::KILL] {
        let mut run = lab(&["run", scenario, "--set", "measure.duration_s=60"])
            .spawn()
            .unwrap();
        let hosts = Hosts::of(&run);
        thread::sleep(Duration::from_millis(300)); // connections are open by now
        kill_process(Pid::from_child(&run), signal).unwrap();
        run.wait().unwrap();
        hosts.wait_for_their_end();
    }
}

/// Run as a process by the next test: a lab whose forwarder panics at the first packet after 1 s.
#[test]
#[ignore = "started by the test of a panic"]
fn a_lab_panics() {
    struct Panics;
    impl Tap for Panics {
        fn offered(&mut self, now: Time, _: usize, _: Backlog, _: &Packet, _: Fate) {
            assert!(now < 1000 * MILLISECOND, "panic of the test");
        }
    }
    exit_on_panic();
    let long = TWO_LINKS.replace("duration_s = 3", "duration_s = 15");
    let _ = Lab::build(&scenario(&long), 1, None).unwrap().run(Panics);
}

#[test]
fn no_host_is_left_of_a_lab_that_panics() {
    if !can_create_hosts() {
        return;
    }
    let panicking = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hosts::a_lab_panics", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let hosts = Hosts::of(&panicking);
    let output = panicking.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(101));
    assert!(String::from_utf8_lossy(&output.stderr).contains("panic of the test"));
    // The process ended at the panic, before the test harness could report it.
    assert!(!String::from_utf8_lossy(&output.stdout).contains("FAILED"));
    hosts.wait_for_their_end();
}

#[test]
fn a_second_program_joins_the_running_lab() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let scenario = scenario.to_str().unwrap();
    let mut first = lab(&["exec", scenario, "server", "--", "sleep", "60"])
        .spawn()
        .unwrap();
    let hosts = Hosts::of(&first);
    let namespace = |host: &str| {
        let command = [
            "exec",
            scenario,
            host,
            "--",
            "readlink",
            "/proc/self/ns/net",
        ];
        let output = lab(&command).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let names = hosts.names();
    for host in ["two", "one.0", "server"] {
        assert!(
            names.contains(&namespace(host)),
            "{host} is not one of {names:?}"
        );
    }
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(!names.contains(&namespace("two")));
}

#[test]
fn the_namespace_of_the_lab_itself_is_not_changed() {
    if !can_create_hosts() {
        return;
    }
    let state = || {
        // Without the list of algorithms and other addresses, which other tests may change.
        let show = "ip -o address | grep ' 10[.]'; ip rule; ip mptcp endpoint; ip mptcp limits; \
                    cd /proc/sys/net; grep . mptcp/* ipv4/tcp_congestion_control \
                    ipv4/tcp_[b-z]*mem ipv4/tcp_*save ipv4/tcp_sack ipv4/tcp_notsent_lowat \
                    ipv4/conf/all/* ipv4/tcp_orphan_retries ipv4/tcp_fin_timeout";
        let output = Command::new("sh").args(["-c", show]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let before = state();
    let short = TWO_LINKS.replace("duration_s = 3, warmup_s = 1", "duration_s = 1");
    Lab::build(&scenario(&short), 1, None)
        .unwrap()
        .run(())
        .unwrap();
    assert_eq!(state(), before);
}
