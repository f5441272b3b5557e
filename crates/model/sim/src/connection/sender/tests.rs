//! The scoreboard, by examples.

use super::*;

fn ack(cumulative: PacketNumber, selective: PacketNumber) -> Acknowledgement {
    Acknowledgement {
        sent_at: 0,
        connection: 0,
        cumulative,
        selective,
        data_cumulative: 0,
        path: 0,
        ecn: Default::default(),
    }
}

fn arrive(sender: &mut Sender, sequences: [PacketNumber; 3]) {
    for sequence in sequences {
        sender.on_ack(&ack(0, sequence));
    }
}

fn sender(selective: bool, packets: u32) -> Sender {
    let mut sender = Sender::new(selective);
    (0..packets).for_each(|_| {
        sender.send_new();
    });
    sender
}

#[test]
fn three_arrivals_above_a_hole_declare_it_lost() {
    let mut sender = sender(true, 6);
    assert!(!sender.on_ack(&ack(0, 1)).loss);
    assert!(!sender.on_ack(&ack(0, 2)).loss);
    assert!(sender.on_ack(&ack(0, 3)).loss);
    // 6 sent, 3 arrived, 1 lost.
    assert_eq!(sender.in_flight(), 2);
    assert_eq!(sender.send_lost(), Some(0));
    assert_eq!(sender.in_flight(), 3);
    // 4 and 5 arrive, then the retransmission fills the hole.
    sender.on_ack(&ack(0, 4));
    sender.on_ack(&ack(0, 5));
    let outcome = sender.on_ack(&ack(6, 0));
    assert_eq!(
        outcome,
        AckOutcome {
            delivered: 1,
            advanced: true,
            recovered: true,
            loss: false
        }
    );
    assert_eq!(sender.in_flight(), 0);
}

#[test]
fn losses_of_one_window_are_one_event() {
    let mut sender = sender(true, 10);
    // 0 and 4 are lost: arrivals 1, 2, 3 then 5, 6, 7.
    let events: Vec<bool> = [1, 2, 3, 5, 6, 7]
        .iter()
        .map(|&s| sender.on_ack(&ack(0, s)).loss)
        .collect();
    assert_eq!(events, [false, false, true, false, false, false]);
    assert_eq!([sender.send_lost(), sender.send_lost()], [Some(0), Some(4)]);
    assert_eq!(sender.send_lost(), None);
}

#[test]
fn a_loss_after_recovery_is_another_event() {
    let mut sender = sender(true, 4);
    arrive(&mut sender, [1, 2, 3]);
    sender.send_lost();
    (0..6).for_each(|_| {
        sender.send_new();
    });
    // 4 to 9 sent in recovery; 4 is lost; the hole at 0 is filled last.
    arrive(&mut sender, [5, 6, 7]);
    let outcome = sender.on_ack(&ack(4, 0));
    assert!(outcome.recovered && outcome.loss);
    assert_eq!(sender.send_lost(), Some(4));
}

#[test]
fn a_timeout_declares_all_lost_that_has_not_arrived() {
    let mut sender = sender(true, 5);
    sender.on_ack(&ack(0, 2));
    sender.on_timeout();
    assert_eq!(sender.in_flight(), 0);
    let again: Vec<PacketNumber> = std::iter::from_fn(|| sender.send_lost()).collect();
    assert_eq!(again, [0, 1, 3, 4]);
    assert!(
        !sender.on_ack(&ack(1, 0)).loss,
        "the timeout was the loss event"
    );
}

#[test]
fn an_undone_timeout_leaves_in_flight_what_was_not_sent_again() {
    for selective in [true, false] {
        let mut sender = sender(selective, 5);
        sender.on_timeout();
        assert_eq!(sender.send_lost(), Some(0));
        // The acknowledgement of the first transmission of packet 0.
        sender.on_ack(&ack(1, 0));
        sender.undo_timeout();
        assert_eq!((sender.in_flight(), sender.send_lost()), (4, None));
        assert!(!sender.is_recovering());
    }
    // Packet 1 is lost after all: found as any other.
    let mut sender = sender(true, 5);
    sender.on_timeout();
    sender.send_lost();
    sender.on_ack(&ack(1, 0));
    sender.undo_timeout();
    let losses = [2, 3, 4].map(|sequence| sender.on_ack(&ack(1, sequence)).loss);
    assert_eq!(losses, [false, false, true]);
    assert_eq!(sender.send_lost(), Some(1));
}

#[test]
fn without_sack_each_partial_acknowledgement_shows_one_hole() {
    let mut sender = sender(false, 10);
    // 0 and 4 are lost; 1, 2, 3 and 5 to 9 arrive as eight duplicates.
    let events: Vec<bool> = (0..8).map(|_| sender.on_ack(&ack(0, 1)).loss).collect();
    assert_eq!(events.iter().position(|&loss| loss), Some(2));
    assert_eq!([sender.send_lost(), sender.send_lost()], [Some(0), None]);
    assert_eq!(sender.in_flight(), 2, "10 sent, 8 duplicates");
    let outcome = sender.on_ack(&ack(4, 0));
    assert!(!outcome.recovered && !outcome.loss);
    assert_eq!(sender.send_lost(), Some(4));
    assert!(sender.on_ack(&ack(10, 4)).recovered);
    assert_eq!(sender.in_flight(), 0);
}

#[test]
fn duplicates_of_an_old_recovery_do_not_start_a_new_one() {
    let mut sender = sender(false, 8);
    sender.on_timeout();
    while sender.send_lost().is_some() {}
    let outcome = [0; 4].map(|_| sender.on_ack(&ack(0, 9)));
    assert!(outcome.iter().all(|outcome| !outcome.loss));
}

#[test]
fn duplicates_after_a_timeout_do_not_free_the_window() {
    let mut sender = sender(false, 8);
    sender.on_timeout();
    sender.send_lost();
    (0..4).for_each(|_| {
        sender.on_ack(&ack(0, 9));
    });
    // Packet 0 is in flight again; 1 to 7 wait for it to open the window.
    assert_eq!(sender.in_flight(), 1);
    sender.on_ack(&ack(1, 0));
    assert_eq!(sender.in_flight(), 0);
}

/// Ten packets, of which 0, 4 and 8 are lost, and the acknowledgements of 1 to 7, too: that of 9
/// reports the three blocks, the latest first. Below the third highest arrival, 6, are 0 and 4.
#[test]
fn blocks_report_what_lost_acknowledgements_did() {
    let mut sender = sender(true, 10);
    sender.on_blocks(0, &[9..10, 5..8, 1..4]);
    assert_eq!(
        sender.take_newly_lost(),
        2,
        "and not what a later block reports"
    );
    let outcome = sender.on_ack(&ack(0, 9));
    assert_eq!((outcome.delivered, outcome.loss), (7, true));
    assert_eq!([sender.send_lost(), sender.send_lost()], [Some(0), Some(4)]);
    assert_eq!(sender.send_lost(), None);
    // The same blocks again, and what is acknowledged already, are nothing new.
    sender.on_blocks(4, &[9..10, 5..8]);
    assert_eq!(sender.on_ack(&ack(4, 9)).delivered, 1, "only 0");
}

/// What is acknowledged cumulatively by the same acknowledgement is not lost.
#[test]
fn nothing_below_the_cumulative_number_is_lost() {
    let mut sender = sender(true, 10);
    sender.on_blocks(4, &[9..10, 7..8, 5..6]);
    assert!(sender.on_ack(&ack(4, 9)).loss);
    assert_eq!(sender.take_newly_lost(), 1);
    assert_eq!([sender.send_lost(), sender.send_lost()], [Some(4), None]);
}
