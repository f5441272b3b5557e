//! Detection by send times, by examples. One unit of time between transmissions, an RTT of 100.

use super::*;
use crate::ecn::Bits;

/// Packets sent one unit apart from 0 on.
fn sent(packets: u64) -> (Rack, Sender) {
    let (mut rack, mut sender) = (Rack::default(), Sender::new(true));
    for now in 0..packets {
        let sequence = sender.send_new();
        rack.on_sent(now, sequence);
    }
    (rack, sender)
}

/// An acknowledgement 100 after its packet was sent.
fn ack(
    rack: &mut Rack,
    sender: &mut Sender,
    cumulative: u64,
    selective: u64,
    at: Time,
) -> Detected {
    let ack = Acknowledgement {
        sent_at: at,
        connection: 0,
        cumulative,
        selective,
        data_cumulative: 0,
        path: 0,
        ecn: Default::default(),
    };
    sender.on_ack(&ack);
    rack.on_ack(sender, &ack, at + 100, None)
}

#[test]
fn a_packet_is_lost_a_quarter_of_an_rtt_after_one_sent_later_has_arrived() {
    let (mut rack, mut sender) = sent(3);
    let detected = ack(&mut rack, &mut sender, 0, 1, 1);
    // Sent at 0, with an RTT of 100 and a window of 25.
    assert_eq!((detected.loss, detected.late_at), (false, Some(125)));
    assert!(rack.detect(&mut sender, 125, None).loss);
    assert_eq!(sender.send_lost(), Some(0));
    assert_eq!(sender.send_lost(), None);
}

#[test]
fn a_lost_retransmission_is_lost_when_a_packet_sent_after_it_arrives() {
    let (mut rack, mut sender) = sent(4);
    (1..4).for_each(|sequence| {
        ack(&mut rack, &mut sender, 0, sequence, sequence);
    });
    assert_eq!(sender.send_lost(), Some(0));
    rack.on_sent(103, 0);
    sender.send_new();
    rack.on_sent(104, 4);
    // Nothing sent after the retransmission has arrived, then packet 4 has.
    rack.detect(&mut sender, 204, None);
    assert!(!sender.has_lost());
    let detected = ack(&mut rack, &mut sender, 0, 4, 104);
    assert!(!detected.loss, "the same recovery");
    assert_eq!(sender.send_lost(), Some(0));
}

#[test]
fn after_a_spurious_timeout_what_was_sent_before_it_can_be_lost() {
    let (mut rack, mut sender) = sent(3);
    sender.on_timeout();
    rack.on_timeout();
    sender.send_lost();
    rack.on_sent(90, 0);
    // The original of packet 0 arrives.
    let first = Acknowledgement {
        sent_at: 0,
        connection: 0,
        cumulative: 1,
        selective: 0,
        data_cumulative: 0,
        path: 0,
        ecn: Default::default(),
    };
    sender.on_ack(&first);
    sender.undo_timeout();
    rack.after_timeout(true);
    rack.on_ack(&mut sender, &first, 100, None);
    // Packet 1 is lost after all.
    let detected = ack(&mut rack, &mut sender, 1, 2, 2);
    assert_eq!(detected.late_at, Some(126));
    assert!(rack.detect(&mut sender, 126, None).loss);
    assert_eq!(sender.send_lost(), Some(1));
}

/// A duplicate SACK of a packet: what was sent at this time had arrived before.
fn duplicate(rack: &mut Rack, sender: &mut Sender, cumulative: u64, selective: u64, at: Time) {
    let mut ack = Acknowledgement {
        sent_at: at,
        connection: 0,
        cumulative,
        selective,
        data_cumulative: 0,
        path: 0,
        ecn: Default::default(),
    };
    ack.ecn.set(Bits::DUPLICATE);
    sender.on_ack(&ack);
    rack.on_ack(sender, &ack, at + 100, None);
}

fn window(rack: &Rack, sender: &Sender) -> Time {
    rack.window.window(sender, rack.min_rtt, Some(80))
}

/// Packet 0 arrives after three that were sent later and declared it lost: on a path that reorders
/// three arrivals declare nothing lost any more.
#[test]
fn on_a_path_that_reorders_only_time_declares_packets_lost() {
    let (mut rack, mut sender) = sent(12);
    (1..4).for_each(|sequence| {
        ack(&mut rack, &mut sender, 0, sequence, sequence);
    });
    assert_eq!(sender.send_lost(), Some(0));
    rack.on_sent(103, 0);
    // The first transmission of packet 0, not the second.
    ack(&mut rack, &mut sender, 4, 0, 0);
    let detected: Vec<Detected> = (5..9)
        .map(|sequence| ack(&mut rack, &mut sender, 4, sequence, sequence))
        .collect();
    assert!(!sender.has_lost());
    // Packet 4 was sent at 4: 4 + 100 + 25.
    assert!(detected.iter().all(|it| !it.loss && it.late_at != Some(0)));
    assert_eq!(rack.reordering.deadline(), Some(129));
    rack.detect(&mut sender, 129, None);
    assert_eq!(sender.send_lost(), Some(4));
}

/// A retransmission that fills its hole is no reordering.
#[test]
fn a_retransmission_that_arrives_late_is_no_reordering() {
    let (mut rack, mut sender) = sent(8);
    (1..4).for_each(|sequence| {
        ack(&mut rack, &mut sender, 0, sequence, sequence);
    });
    assert_eq!(sender.send_lost(), Some(0));
    rack.on_sent(103, 0);
    ack(&mut rack, &mut sender, 4, 0, 103);
    assert_eq!(window(&rack, &sender), 0, "in recovery");
}

/// Section 6.2, step 4: a quarter of the smallest RTT, 25, more in a round trip with a duplicate,
/// up to the smoothed RTT, 80, until 16 recoveries have passed without one.
#[test]
fn the_window_grows_with_duplicates_and_is_forgotten_after_16_recoveries() {
    let (mut rack, mut sender) = sent(4);
    ack(&mut rack, &mut sender, 0, 1, 1);
    duplicate(&mut rack, &mut sender, 0, 1, 1);
    assert_eq!(window(&rack, &sender), 25, "no reordering is known");
    // Packet 0 arrives behind packet 1.
    ack(&mut rack, &mut sender, 2, 0, 0);
    assert_eq!(window(&rack, &sender), 25);
    for (times, expected) in [(1, 50), (1, 50)] {
        (0..times).for_each(|_| duplicate(&mut rack, &mut sender, 2, 0, 1));
        assert_eq!(window(&rack, &sender), expected, "once per round trip");
    }
    // The next round trip begins with packet 4.
    for (last, expected) in [(4, 75), (5, 80), (6, 80)] {
        ack(&mut rack, &mut sender, last, last - 1, last);
        let sequence = sender.send_new();
        rack.on_sent(last, sequence);
        duplicate(&mut rack, &mut sender, last, 0, last);
        assert_eq!(window(&rack, &sender), expected);
    }
    for recovery in 1..=16 {
        assert_eq!(window(&rack, &sender), 80, "after {recovery} recoveries");
        sender.declare_lost(sender.next() - 1);
        sender.begins_recovery();
        let una = sender.next();
        // The acknowledgement before the last of the recovery, and the last.
        ack(&mut rack, &mut sender, una - 1, una - 2, 50);
        ack(&mut rack, &mut sender, una, una - 1, 50);
        let sequence = sender.send_new();
        rack.on_sent(60, sequence);
    }
    assert_eq!(window(&rack, &sender), 25);
}
