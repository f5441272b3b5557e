//! The emulator with a simulated clock.

use anabranch_net::MILLISECOND;
use anabranch_scenario::users::user_slots;
use proptest::prelude::*;

use super::*;
use crate::hosts::{SERVER, of_path, to_ipv6};
use crate::network::packet::tests::tcp;

/// Two links in series for user 0; user 1 uses the second only. 1500 bytes take 1.2 ms at 10 Mbps
/// and 2.4 ms at 5 Mbps.
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

fn emulator() -> Emulator<()> {
    with_return_way(LINKS, ReturnWay::Delay)
}

fn with_return_way<T: Tap + Default>(text: &str, return_way: ReturnWay) -> Emulator<T> {
    let scenario = Scenario::parse(text.as_bytes(), "test", &[]).expect("the scenario is valid");
    let slots = user_slots(&scenario, 1);
    Emulator::new(&scenario, &slots, return_way, 1, T::default())
}

/// The links to which packets were offered, in order.
#[derive(Default)]
struct Offered(Vec<usize>);

impl Tap for Offered {
    fn offered(&mut self, _: Time, link: usize, _: Backlog, _: &Packet, _: Fate) {
        self.0.push(link);
    }
}

fn data(user: usize, number: u32) -> Vec<u8> {
    tcp(user, 4000, number * 1460, 1460, 0x10)
}

/// From the server to path 0 of a user, without payload.
fn reply(user: usize) -> Vec<u8> {
    reply_of(user, 0)
}

fn reply_of(user: usize, bytes: usize) -> Vec<u8> {
    let mut packet = tcp(user, 5001, 0, bytes, 0x10);
    packet[12..16].copy_from_slice(&SERVER.octets());
    packet[16..20].copy_from_slice(&of_path(user, 0).octets());
    packet
}

fn dues<T: Tap>(emulator: &mut Emulator<T>, now: Time) -> Vec<(f64, Device)> {
    let all = std::iter::from_fn(|| emulator.deliver(now));
    all.map(|delivery| (delivery.due as f64 / MILLISECOND as f64, delivery.to))
        .collect()
}

#[test]
fn a_packet_traverses_the_links_of_its_path() {
    let mut emulator = emulator();
    emulator.send(0, Device::Path(0), data(0, 0));
    // 1.2 + 10 ms, then 2.4 + 20 ms.
    assert_eq!(
        dues(&mut emulator, 40 * MILLISECOND),
        [(33.6, Device::Server)]
    );
}

#[test]
fn no_packet_is_delivered_before_it_is_due() {
    let mut emulator = emulator();
    emulator.send(0, Device::Path(1), data(1, 0));
    assert_eq!(emulator.deliver(22_399_999_999), None);
    assert_eq!(emulator.next_due(), Some(22_400_000_000));
    assert!(emulator.deliver(22_400_000_000).is_some());
}

#[test]
fn a_reply_has_the_return_delay_of_its_path_and_traverses_no_link() {
    let mut emulator = emulator();
    for user in [0, 1, 0] {
        emulator.send(0, Device::Server, reply(user));
    }
    let (long, short) = (Device::Path(0), Device::Path(1));
    let expected = [(7.0, long), (7.0, long), (20.0, short)];
    assert_eq!(dues(&mut emulator, 40 * MILLISECOND), expected);
}

#[test]
fn a_reply_over_links_traverses_those_of_its_path_in_reverse_order() {
    let mut emulator = with_return_way::<Offered>(LINKS, ReturnWay::Links);
    // The second packet of user 0 waits for the first at `near`; user 1 sends over `far` to the
    // server, which is another instance than the one from the server.
    for _ in 0..2 {
        emulator.send(0, Device::Server, reply_of(0, 1460));
    }
    emulator.send(0, Device::Path(1), data(1, 0));
    // 2.4 + 20 ms, then 1.2 + 10 ms; the second leaves `far` 2.4 ms later, when `near` is free.
    let (user, server) = (Device::Path(0), Device::Server);
    let expected = [(22.4, server), (33.6, user), (36.0, user)];
    assert_eq!(dues(&mut emulator, 40 * MILLISECOND), expected);
    // The second instances of `near` and `far` are 2 and 3.
    assert_eq!(emulator.tap.0, [3, 3, 1, 2, 2]);
}

#[test]
fn both_directions_of_a_link_have_queues_of_their_own() {
    let mut emulator = with_return_way::<()>(LINKS, ReturnWay::Links);
    // One in transmission, two in the queue, two dropped; in each direction.
    for number in 0..5 {
        emulator.send(0, Device::Path(1), data(1, number));
        emulator.send(0, Device::Server, reply_of(1, 1460));
    }
    let delivered = dues(&mut emulator, 100 * MILLISECOND);
    for device in [Device::Path(1), Device::Server] {
        let times: Vec<f64> = delivered
            .iter()
            .filter(|(_, to)| *to == device)
            .map(|(due, _)| *due)
            .collect();
        assert_eq!(times, [22.4, 24.8, 27.2], "{device:?}");
    }
    // Losses of packets from the server are not losses of the user's data.
    let (counters, _) = emulator.snapshot(100 * MILLISECOND);
    assert_eq!(counters.paths[1].lost, [2, 0, 0, 0, 0]);
}

#[test]
fn both_directions_of_a_link_lose_other_packets_and_fail_together() {
    let text = LINKS.replace(
        "queue.drop_tail = { packets = 2 }",
        "loss.bernoulli.probability = 0.5, down = [{ from_s = 0.3, to_s = 0.4 }]",
    );
    let mut emulator = with_return_way::<()>(&text, ReturnWay::Links);
    let mut arrived = [Vec::new(), Vec::new()];
    for number in 0..100 {
        let now = u64::from(number) * 5 * MILLISECOND;
        emulator.send(now, Device::Path(1), data(1, number));
        emulator.send(now, Device::Server, reply_of(1, 1460));
        for (_, to) in dues(&mut emulator, now + 4 * MILLISECOND) {
            arrived[usize::from(to == Device::Server)].push(number);
        }
    }
    // Packet n is sent at 5 n ms and arrives 22.4 ms later, in the step of packet n + 4.
    let during_outage = |number: &u32| (64..84).contains(number);
    let of = |direction: &[u32]| {
        let outage = direction.iter().filter(|number| during_outage(number));
        (direction.len(), outage.count())
    };
    for direction in &arrived {
        let (packets, during_outage) = of(direction);
        assert_eq!(during_outage, 0);
        // 76 packets with probability 0.5: 38, standard deviation 4.4.
        assert!((20..57).contains(&packets), "{packets} packets");
    }
    assert_ne!(arrived[0], arrived[1]);
}

#[test]
fn a_drop_is_counted_on_its_path() {
    let mut emulator = emulator();
    // One in transmission, two in the queue: the fourth and fifth are dropped.
    for number in 0..5 {
        emulator.send(0, Device::Path(1), data(1, number));
    }
    assert_eq!(dues(&mut emulator, 100 * MILLISECOND).len(), 3);
    let (counters, backlogs) = emulator.snapshot(100 * MILLISECOND);
    assert_eq!(counters.paths[1].lost, [2, 0, 0, 0, 0]);
    assert_eq!(counters.paths[1].delivered_bytes, 3 * 1460);
    assert_eq!(counters.paths[0].sent_packets, 0);
    assert_eq!(counters.links[1].arrived.packets, 5);
    assert_eq!(backlogs[1].packets, 0);
}

#[test]
fn packets_to_unknown_destinations_are_dropped() {
    let mut emulator = emulator();
    let mut unknown = reply(0);
    unknown[16..20].copy_from_slice(&[10, 0, 0, 2]); // user 0 has no second path
    emulator.send(0, Device::Server, unknown);
    emulator.send(0, Device::Server, reply(2));
    emulator.send(0, Device::Server, vec![0x60; 40]); // IPv6, destination 6060:...
    emulator.send(0, Device::Path(0), vec![0x60; 40]);
    assert_eq!(emulator.next_due(), None);
}

#[test]
fn ipv6_takes_the_same_paths() {
    let mut emulator = emulator();
    let to = |address| {
        let mut packet = vec![0x60; 1500];
        packet[24..40].copy_from_slice(&to_ipv6(address).octets());
        packet
    };
    emulator.send(0, Device::Path(1), to(SERVER));
    emulator.send(0, Device::Server, to(of_path(1, 0)));
    let expected = [(20.0, Device::Path(1)), (22.4, Device::Server)];
    assert_eq!(dues(&mut emulator, 40 * MILLISECOND), expected);
}

/// Sends packets at given times, and delivers what is due at these and at `polls`.
fn run(packets: &[(Time, usize)], polls: &[Time]) -> Vec<Delivery> {
    let mut emulator = emulator();
    let mut deliveries = Vec::new();
    let mut events: Vec<(Time, Option<usize>)> = polls.iter().map(|&time| (time, None)).collect();
    events.extend(packets.iter().map(|&(time, user)| (time, Some(user))));
    events.sort_by_key(|&(time, user)| (time, user.is_some()));
    for (number, (time, user)) in events.into_iter().enumerate() {
        // As in the forwarder: earlier packets are delivered first.
        deliveries.extend(std::iter::from_fn(|| emulator.deliver(time)));
        if let Some(user) = user {
            emulator.send(time, Device::Path(user), data(user, number as u32));
        }
    }
    deliveries.extend(std::iter::from_fn(|| emulator.deliver(Time::MAX)));
    deliveries
}

proptest! {
    /// A late forwarder delivers late, but does not affect the links: packets are due at the same
    /// times.
    #[test]
    fn due_times_do_not_depend_on_polling(
        packets in prop::collection::vec((0..100 * MILLISECOND, 0_usize..2), 1..60),
        polls in prop::collection::vec(0..200 * MILLISECOND, 0..30),
    ) {
        let due = |polls: &[Time]| -> Vec<(Time, Device)> {
            run(&packets, polls).iter().map(|it| (it.due, it.to)).collect()
        };
        prop_assert_eq!(due(&polls), due(&[]));
    }

    /// Packets of one link arrive at least one transmission time apart.
    #[test]
    fn a_link_never_delivers_faster_than_its_rate(
        packets in prop::collection::vec((0..100 * MILLISECOND, 0_usize..2), 2..60),
    ) {
        let deliveries = run(&packets, &[]);
        for pair in deliveries.windows(2) {
            prop_assert!(pair[1].due - pair[0].due >= 2_400_000_000);
        }
    }
}

/// A link that displaces every packet of user 1 by two; user 0 has one of its own. Three packets of
/// user 1, 2.4 ms each and 20 ms, wait for others that are not displaced until they have been held.
#[test]
fn packets_of_a_link_may_overtake_one_another() {
    let displacing = LINKS.replace("queue.drop_tail = { packets = 2 }", "{}");
    let with = |reorder: &str| displacing.replace("{}", reorder);
    let late = with("reorder = { share = 1, packets = 2, hold_ms = 7 }");
    let mut emulator: Emulator<()> = with_return_way(&late, ReturnWay::Delay);
    (0..3).for_each(|number| emulator.send(0, Device::Path(1), data(1, number)));
    assert_eq!(emulator.next_due(), Some(29_400_000_000));
    let expected = [29.4, 31.8, 34.2].map(|due| (due, Device::Server));
    assert_eq!(dues(&mut emulator, 100 * MILLISECOND), expected);

    // One in three: with this seed the order changes, and all arrive.
    let some = with("reorder = { share = 0.3, packets = 3 }");
    let mut emulator: Emulator<()> = with_return_way(&some, ReturnWay::Delay);
    (0..40).for_each(|number| emulator.send(0, Device::Path(1), data(1, number)));
    let deliveries = std::iter::from_fn(|| emulator.deliver(1000 * MILLISECOND));
    let sequence = |delivery: Delivery| Segment::of(&delivery.packet.bytes).map(|it| it.sequence);
    let mut order: Vec<_> = deliveries.map(sequence).collect();
    assert!(!order.is_sorted());
    order.sort_unstable();
    let expected = (0..40).map(|number| Some(number * 1460));
    assert_eq!(order, expected.collect::<Vec<_>>());
}

/// A link of 12 Mbps, 1 ms per 1500 bytes, with CoDel or FQ-CoDel and no travel.
fn queued(queue: &str) -> Emulator<Fates> {
    let text = format!(
        "algorithm = 'reno'\nmeasure.duration_s = 1\n\
         links.L = {{ rate_mbps = 12, delay_ms = 1, queue.{queue} }}\n\
         flows = [{{ name = 'one', paths = [['L']] }}, {{ name = 'two', paths = [['L']] }}]"
    );
    with_return_way(&text, ReturnWay::Delay)
}

/// When the fate of each packet was known and what it is, ms; `None`: dropped.
#[derive(Default)]
struct Fates(Vec<(f64, Option<f64>)>);

impl Tap for Fates {
    fn offered(&mut self, now: Time, _: usize, _: Backlog, _: &Packet, fate: Fate) {
        let ms = |time: Time| time as f64 / MILLISECOND as f64;
        self.0.push(match fate {
            Fate::Delivered { at } => (ms(now), Some(ms(at))),
            Fate::Dropped(_) => (ms(now), None),
        });
    }
}

/// Five packets of one flow, then one of another at the same time: with CoDel it is the last, with
/// FQ-CoDel (a quantum of one packet) it follows the first, whose transmission has begun, and the
/// second, which has the turn. Transmissions start when they are due, however late the forwarder
/// asks.
#[test]
fn packets_leave_a_queue_when_their_transmission_is_due() {
    for (queue, place) in [
        ("codel = {}", 5),
        ("fq_codel = { quantum_bytes = 1500 }", 1),
    ] {
        let mut emulator = queued(queue);
        for number in 0..5 {
            emulator.send(0, Device::Path(0), data(0, number));
        }
        emulator.send(0, Device::Path(1), data(1, 0));
        assert_eq!(emulator.next_due(), Some(0));
        let mut users = Vec::new();
        while let Some(delivery) = emulator.deliver(20 * MILLISECOND) {
            let expected = (users.len() as u64 + 2) * MILLISECOND;
            assert_eq!(delivery.due, expected, "{queue}");
            users.push(delivery.packet.bytes[12..16] == of_path(1, 0).octets());
        }
        assert_eq!(
            users.iter().position(|second| *second),
            Some(place),
            "{queue}"
        );
        let known: Vec<_> = emulator.tap.0.iter().map(|(at, _)| *at).collect();
        assert_eq!(known, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "{queue}");
        assert_eq!(emulator.snapshot(20 * MILLISECOND).0.paths[0].lost, [0; 5]);
    }
}

/// CoDel drops the first packet that leaves when the delay has been above 5 ms for 100 ms (RFC
/// 8289): packets of 1 ms at 1.1 per ms wait for k/11 ms, above 5 ms from the 55th on, which leaves
/// at 55 ms; the drop is in the ledger of the path and in the link's counters.
#[test]
fn what_codel_drops_is_counted_on_its_path() {
    let mut emulator = queued("codel = {}");
    for number in 0..220 {
        let now = u64::from(number) * 10 * MILLISECOND / 11;
        while emulator.deliver(now).is_some() {}
        emulator.send(now, Device::Path(0), data(0, number));
    }
    while emulator.deliver(1000 * MILLISECOND).is_some() {}
    let (snapshot, _) = emulator.snapshot(1000 * MILLISECOND);
    let lost = snapshot.paths[0].lost[Cause::Aqm as usize];
    let dropped: Vec<f64> = emulator
        .tap
        .0
        .iter()
        .filter(|it| it.1.is_none())
        .map(|it| it.0)
        .collect();
    assert!(
        lost > 0 && lost == dropped.len() as u64,
        "{lost} {dropped:?}"
    );
    assert_eq!(snapshot.links[0].dropped(Cause::Aqm).packets, lost);
    // Above the target from some 55 ms on, and for 100 ms before the first drop.
    assert!((150.0..170.0).contains(&dropped[0]), "{dropped:?}");
    let delivered = snapshot.paths[0].delivered_packets;
    assert_eq!(delivered + lost, 220);
}

/// The way back is a link that another user's data fills: a reply of 40 bytes waits for the 1.2 ms
/// of one packet, takes 0.032 ms, and travels for 10 ms.
#[test]
fn a_reply_waits_on_the_links_of_the_way_back() {
    let text = "algorithm = 'reno'\nmeasure.duration_s = 1\n\
         links.down = { rate_mbps = 10, delay_ms = 10 }\n\
         links.up = { rate_mbps = 10, delay_ms = 10 }\n\
         [[flows]]\nname = 'download'\npaths = [{ links = ['down'], back = ['up'] }]\n\
         [[flows]]\nname = 'upload'\npaths = [['up']]\n";
    let mut emulator: Emulator<()> = with_return_way(text, ReturnWay::Delay);
    emulator.send(0, Device::Path(1), data(1, 0));
    emulator.send(0, Device::Server, reply(0));
    assert_eq!(
        dues(&mut emulator, 40 * MILLISECOND),
        [(11.2, Device::Server), (11.232, Device::Path(0))]
    );
    assert_eq!(
        emulator.snapshot(40 * MILLISECOND).0.links[1]
            .arrived
            .packets,
        2
    );
}
