//! Two connections of a tunnel.

use super::*;

/// Data that a stream may send before it is bulk, bytes.
const LITTLE: usize = 256 << 10;

fn joined() -> Tunnel {
    let mut tunnel = Tunnel::new();
    tunnel.settle();
    tunnel.run(Step::Join);
    tunnel
}

/// Sends and delivers everything of this connection.
fn deliver(tunnel: &mut Tunnel, end: usize, lane: Lane) {
    while tunnel.ends[end].poll_ready(lane, &cx()).is_ready() {
        tunnel.run(Step::Transmit(end, lane));
    }
    tunnel.run(Step::Arrive(end, lane, usize::MAX));
}

/// Writes in the only stream, and delivers over this connection. Returns the bytes that arrive of
/// it.
fn write(tunnel: &mut Tunnel, bytes: usize, lane: Lane) -> usize {
    tunnel.run(Step::Write(0, 0, bytes));
    deliver(tunnel, 0, lane);
    let read = tunnel.read(1, 1, 1 << 20);
    deliver(tunnel, 1, Lane::Express);
    read
}

#[test]
fn a_stream_that_sends_much_takes_the_bulk_connection_until_it_rests() {
    let mut tunnel = joined();
    tunnel.run(Step::Open(0));
    deliver(&mut tunnel, 0, Lane::Express);
    tunnel.run(Step::Accept(1));
    let mut little = 0;
    while little < LITTLE {
        let read = write(&mut tunnel, 16_000, Lane::Express);
        assert!(read > 0, "after {little} bytes");
        little += read;
    }
    assert_eq!(write(&mut tunnel, 100, Lane::Express), 0);
    assert_eq!(write(&mut tunnel, 100, Lane::Bulk), 200);
    // Half of it is forgotten in each second, and some hundred bytes were more.
    for lane in [Lane::Bulk, Lane::Bulk, Lane::Bulk, Lane::Express] {
        assert_eq!(write(&mut tunnel, 100, lane), 100, "{lane:?}");
        tunnel.run(Step::Wait(1000));
    }
}

#[test]
fn what_sends_little_does_not_wait_for_the_bulk_connection() {
    let mut tunnel = joined();
    for _ in 0..2 {
        tunnel.run(Step::Open(0));
    }
    deliver(&mut tunnel, 0, Lane::Express);
    for _ in 0..2 {
        tunnel.run(Step::Accept(1));
    }
    let mut sent = 0;
    while sent <= LITTLE {
        sent += write(&mut tunnel, 16_000, Lane::Express);
    }
    tunnel.run(Step::Write(0, 0, 16_000));
    tunnel.run(Step::Write(0, 1, 1));
    deliver(&mut tunnel, 0, Lane::Express);
    assert_eq!((tunnel.read(1, 1, 1), tunnel.read(1, 3, 9)), (0, 1));
}

/// Data that arrives earlier would be of a stream that the peer does not know yet, and be
/// discarded.
#[test]
fn data_stays_behind_the_frame_that_opens_its_stream() {
    let mut tunnel = Tunnel::new();
    tunnel.settle();
    tunnel.run(Step::Open(0));
    tunnel.run(Step::Join);
    assert_eq!(write_unread(&mut tunnel, 100, Lane::Express), 0);
    deliver(&mut tunnel, 0, Lane::Bulk);
    tunnel.run(Step::Accept(1));
    assert_eq!(tunnel.read(1, 1, 1000), 100);
}

fn write_unread(tunnel: &mut Tunnel, bytes: usize, lane: Lane) -> usize {
    tunnel.run(Step::Write(0, 0, bytes));
    tunnel.run(Step::Transmit(0, lane));
    tunnel.on_way[0][lane as usize].len()
}

/// A stream could otherwise be forgotten before its end was confirmed, which is an error.
#[test]
fn frames_about_a_stream_stay_in_order_when_the_second_connection_joins() {
    let mut tunnel = Tunnel::new();
    tunnel.settle();
    tunnel.run(Step::Open(0));
    tunnel.run(Step::Shutdown(0, 0));
    deliver(&mut tunnel, 0, Lane::Bulk);
    tunnel.run(Step::Accept(1));
    assert_eq!(tunnel.read(1, 1, 1), 0);
    tunnel.run(Step::Join);
    // It resets its half, and has now forgotten the stream.
    tunnel.run(Step::DropWriter(1, 0));
    tunnel.run(Step::DropReader(1, 0));
    deliver(&mut tunnel, 1, Lane::Express);
    deliver(&mut tunnel, 1, Lane::Bulk);
    let done = tunnel.ends[0].poll_shutdown(1, &cx());
    assert!(matches!(done, Poll::Ready(Ok(()))));
}

#[test]
fn what_the_second_connection_has_not_delivered_is_sent_again_over_the_first() {
    let mut tunnel = joined();
    tunnel.run(Step::Open(0));
    deliver(&mut tunnel, 0, Lane::Express);
    tunnel.run(Step::Accept(1));
    assert_eq!(write(&mut tunnel, 20_000, Lane::Express), 20_000);
    // Only 5000 bytes of these arrive.
    tunnel.run(Step::Write(0, 0, 12_000));
    tunnel.run(Step::Transmit(0, Lane::Express));
    tunnel.run(Step::Arrive(0, Lane::Express, 5000));
    tunnel.run(Step::Open(0));
    tunnel.run(Step::Leave(0));
    assert!(!tunnel.ends[0].can_join(), "the peer has not left it");
    tunnel.on_way[0][1].clear();
    deliver(&mut tunnel, 0, Lane::Bulk);
    deliver(&mut tunnel, 1, Lane::Bulk);
    while tunnel.ends[0].poll_ready(Lane::Bulk, &cx()).is_ready() {
        tunnel.run(Step::Transmit(0, Lane::Bulk));
    }
    // A frame of 12 000 and 15 bytes, and the one that opens a stream.
    assert_eq!(tunnel.on_way[0][0].len(), 12_000 + 15 + 7);
    deliver(&mut tunnel, 0, Lane::Bulk);
    assert_eq!(tunnel.read(1, 1, 1 << 20), 12_000);
    assert_eq!(tunnel.ends[1].accept(), Some(3));
    assert!(tunnel.ends.iter().all(Mux::can_join));
}
