//! Detection by send times, by examples. One unit of time between transmissions, an RTT of 100.

use super::*;

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
