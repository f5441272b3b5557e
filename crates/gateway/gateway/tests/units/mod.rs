//! Parts of the gateway by themselves, without a network.

mod destinations;
mod limits;
mod wire;

use std::future::pending;
use std::time::Duration;

use anabranch_gateway::counters::Counters;
use anabranch_gateway::names::dns::{addresses, parse_query, queries};
use anabranch_gateway::traffic::tasks::Tasks;
use anabranch_gateway::wire::Name;
use tokio::time::timeout;

/// Type AAAA, type A and class IN.
const AAAA: u16 = 28;
const A: u16 = 1;
const IN: u16 = 1;

/// `www.a.test` is an alias of `a.test`, with one address of each family; the names are
/// compressed.
fn answer() -> Vec<u8> {
    let mut answer = vec![0, 0, 0x81, 0x80, 0, 1, 0, 3, 0, 0, 0, 0];
    answer.extend(b"\x03www\x01a\x04test\0\0\x01\0\x01");
    answer.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x10");
    answer.extend(b"\xc0\x10\0\x01\0\x01\0\0\0\x1e\0\x04\xc0\0\x02\x01");
    answer.extend(b"\x01a\xc0\x12\0\x1c\0\x01\0\0\0\x78\0\x10");
    answer.extend(b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01");
    answer
}

#[test]
fn an_answer_has_the_addresses_of_a_chain_and_the_shortest_time() {
    let expected = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().expect("an address"));
    let found = addresses(&answer()).expect("an answer");
    assert_eq!(found, (expected.to_vec(), Duration::from_secs(30)));
    for end in 0..answer().len() {
        assert_eq!(addresses(&answer()[..end]), None, "{end}");
    }
    let with_code = |code: u8| {
        let mut answer = answer();
        answer[3] |= code;
        addresses(&answer).is_some()
    };
    let no_such_name = 3;
    let (format_error, server_failure, refused) = (1, 2, 5);
    assert!(with_code(no_such_name));
    assert!(
        ![format_error, server_failure, refused]
            .map(with_code)
            .contains(&true)
    );
}

#[test]
fn addresses_of_other_names_than_the_one_asked_for_count_for_nothing() {
    let asked = b"\x05victi\x04test\0\0\x01\0\x01";
    let other = b"\x05other\x04test\0\0\x01\0\x01\0\0\x01\x2c\0\x04\x06\x06\x06\x06";
    let own = b"\x05VICTI\xc0\x12\0\x01\0\x01\0\0\0\x1e\0\x04\xc0\0\x02\x01";
    let loops = b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x0c";
    let answer = |records: &[&[u8]]| {
        let head = [0, 0, 0x81, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
        [&head[..], asked, &records.concat()].concat()
    };
    let found = |records: &[&[u8]]| addresses(&answer(records)).expect("an answer").0;
    let expected = ["192.0.2.1".parse::<std::net::IpAddr>().expect("an address")];
    assert_eq!(found(&[other, own]), expected);
    assert_eq!(found(&[loops, own]), expected);
    assert!(found(&[other]).is_empty());
    // A pointer that leads to itself.
    assert_eq!(
        addresses(&answer(&[b"\xc0\x1d\0\x01\0\x01\0\0\0\0\0\0"])),
        None
    );
}

#[test]
fn own_queries_are_queries() {
    let name: Name = "www.example.org".parse().expect("a name");
    for (query, kind) in queries(&name).iter().zip([AAAA, A]) {
        let parsed = parse_query(query).expect("a query");
        let mut question = b"\x03www\x07example\x03org\0".to_vec();
        question.extend([kind, IN].map(u16::to_be_bytes).as_flattened());
        assert_eq!(parsed.question, question);
    }
}

#[test]
fn the_table_has_every_counter_once_and_metrics_in_succession() {
    let counters = Counters::default();
    counters.refused_limit.add(3);
    let held = counters.active_connections.hold();
    let table = counters.table();
    let row = |name, label| {
        let mut rows = table
            .iter()
            .filter(|row| (row.name, row.label) == (name, label));
        let row = rows.next().expect("a row");
        assert_eq!(rows.next(), None);
        row.value
    };
    assert_eq!(row("refused", Some(("reason", "limit"))), 3);
    assert_eq!(row("connections_active", None), 1);
    drop(held);
    assert_eq!(counters.active_connections.value(), 0);
    // 8 bytes per counter: none is missing from the table.
    assert_eq!(table.len() * 8, size_of::<Counters>());
    let mut names: Vec<_> = table.iter().map(|row| row.name).collect();
    names.dedup();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

const SOON: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_supervised_task_fails_the_gateway_and_ends_its_tasks() {
    let tasks = Tasks::default();
    let other = tasks.spawn(pending());
    drop(tasks.supervise("listener", async { panic!("a bug") }));
    let failure = timeout(SOON, tasks.failed()).await;
    let failure = failure.expect("it has failed").to_string();
    assert!(failure.starts_with("listener: "), "{failure}");
    assert!(failure.contains("a bug"), "{failure}");
    let ended = timeout(SOON, other).await.expect("soon");
    assert_eq!(ended.expect("no panic"), None);
    tasks.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_client_s_task_ends_nothing_else() {
    let tasks = Tasks::default();
    assert!(tasks.spawn(async { panic!("a bug") }).await.is_err());
    let supervised = tasks.supervise("listener", pending());
    assert!(timeout(SOON, tasks.failed()).await.is_err());
    assert!(!tasks.closed().is_cancelled());
    tasks.close().await;
    supervised.await.expect("it has ended");
}
