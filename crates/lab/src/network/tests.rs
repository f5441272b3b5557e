//! The network with a clock of our own: what it does to a list of packets.

use anabranch_net::MILLISECOND;
use anabranch_scenario::users::user_slots;
use proptest::prelude::*;

use super::*;
use crate::address::{SERVER, of_path};
use crate::packet::tests::tcp;

/// Two links in series for user 0, of which user 1 takes the second only. 1500 bytes take 1.2 ms at
/// 10 Mbps and 2.4 ms at 5 Mbps.
const LINKS: &str = r#"
algorithm = "reno"
measure.duration_s = 1
links.near = { rate_mbps = 10, delay_ms = 10 }
links.far = { rate_mbps = 5, delay_ms = 20, queue.drop_tail = { packets = 2 } }
flows = [
  { name = "long", paths = [{ links = ["near", "far"], return_delay_ms = 7 }] },
  { name = "short", paths = [["far"]] },
]
"#;

fn network() -> Network<()> {
    let scenario = Scenario::parse(LINKS.as_bytes(), "test", &[]).expect("it is valid");
    Network::new(&scenario, &user_slots(&scenario, 1), 1, ())
}

fn data(user: usize, number: u32) -> Vec<u8> {
    tcp(user, 4000, number * 1460, 1460, 0x10)
}

/// From the server to path 0 of a user.
fn answer(user: usize) -> Vec<u8> {
    let mut packet = tcp(user, 5001, 0, 0, 0x10);
    packet[12..16].copy_from_slice(&SERVER.octets());
    packet[16..20].copy_from_slice(&of_path(user, 0).octets());
    packet
}

fn dues(network: &mut Network<()>, now: Time) -> Vec<(f64, Device)> {
    let all = std::iter::from_fn(|| network.deliver(now));
    all.map(|delivery| (delivery.due as f64 / MILLISECOND as f64, delivery.to))
        .collect()
}

#[test]
fn a_packet_takes_the_links_of_its_path() {
    let mut network = network();
    network.send(0, Device::Path(0), data(0, 0));
    // 1.2 + 10 ms, then 2.4 + 20 ms.
    assert_eq!(
        dues(&mut network, 40 * MILLISECOND),
        [(33.6, Device::Server)]
    );
}

#[test]
fn nothing_is_delivered_before_it_is_due() {
    let mut network = network();
    network.send(0, Device::Path(1), data(1, 0));
    assert_eq!(network.deliver(22_399_999_999), None);
    assert_eq!(network.next_due(), Some(22_400_000_000));
    assert!(network.deliver(22_400_000_000).is_some());
}

#[test]
fn an_answer_takes_the_return_delay_of_its_path_and_no_link() {
    let mut network = network();
    for user in [0, 1, 0] {
        network.send(0, Device::Server, answer(user));
    }
    let (long, short) = (Device::Path(0), Device::Path(1));
    let expected = [(7.0, long), (7.0, long), (20.0, short)];
    assert_eq!(dues(&mut network, 40 * MILLISECOND), expected);
}

#[test]
fn what_a_link_drops_is_counted_on_its_path() {
    let mut network = network();
    // One in transmission, two waiting: the fourth and fifth are too many.
    for number in 0..5 {
        network.send(0, Device::Path(1), data(1, number));
    }
    assert_eq!(dues(&mut network, 100 * MILLISECOND).len(), 3);
    let (counters, backlogs) = network.snapshot(100 * MILLISECOND);
    assert_eq!(counters.paths[1].lost, [2, 0, 0, 0]);
    assert_eq!(counters.paths[1].delivered_bytes, 3 * 1460);
    assert_eq!(counters.paths[0].sent_packets, 0);
    assert_eq!(counters.links[1].arrived.packets, 5);
    assert_eq!(backlogs[1].packets, 0);
}

#[test]
fn what_goes_to_nobody_is_gone() {
    let mut network = network();
    let mut stranger = answer(0);
    stranger[16..20].copy_from_slice(&[10, 0, 0, 2]); // a second path, which user 0 does not have
    network.send(0, Device::Server, stranger);
    network.send(0, Device::Server, answer(2));
    network.send(0, Device::Server, vec![0x60; 40]); // IPv6
    network.send(0, Device::Path(0), vec![0x60; 40]);
    assert_eq!(network.next_due(), None);
}

/// Offers packets at given times and picks up what is due at others.
fn carry(packets: &[(Time, usize)], looks: &[Time]) -> Vec<Delivery> {
    let mut network = network();
    let mut deliveries = Vec::new();
    let mut events: Vec<(Time, Option<usize>)> = looks.iter().map(|&time| (time, None)).collect();
    events.extend(packets.iter().map(|&(time, user)| (time, Some(user))));
    events.sort_by_key(|&(time, user)| (time, user.is_some()));
    for (number, (time, user)) in events.into_iter().enumerate() {
        // As the forwarder does: what was due before comes first.
        deliveries.extend(std::iter::from_fn(|| network.deliver(time)));
        if let Some(user) = user {
            network.send(time, Device::Path(user), data(user, number as u32));
        }
    }
    deliveries.extend(std::iter::from_fn(|| network.deliver(Time::MAX)));
    deliveries
}

proptest! {
    /// A forwarder that comes late delivers late, but links don't notice: a packet is due when it
    /// would have been due anyway.
    #[test]
    fn when_nobody_looks_nothing_changes(
        packets in prop::collection::vec((0..100 * MILLISECOND, 0_usize..2), 1..60),
        looks in prop::collection::vec(0..200 * MILLISECOND, 0..30),
    ) {
        let due = |looks: &[Time]| -> Vec<(Time, Device)> {
            carry(&packets, looks).iter().map(|it| (it.due, it.to)).collect()
        };
        prop_assert_eq!(due(&looks), due(&[]));
    }

    /// Packets that arrive over one link arrive as far apart as it takes to transmit them.
    #[test]
    fn a_link_never_delivers_faster_than_its_rate(
        packets in prop::collection::vec((0..100 * MILLISECOND, 0_usize..2), 2..60),
    ) {
        let deliveries = carry(&packets, &[]);
        for pair in deliveries.windows(2) {
            prop_assert!(pair[1].due - pair[0].due >= 2_400_000_000);
        }
    }
}
