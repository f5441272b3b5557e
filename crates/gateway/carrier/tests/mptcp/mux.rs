//! The multiplexer without I/O: two ends over every cut of the bytes.

mod hostile;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anabranch_carrier::Limits;
use anabranch_carrier::mptcp::mux::{Lane, Mux, Role};
use proptest::prelude::*;
use tokio::io::ReadBuf;
use tokio::time::Instant;

/// Limits that are small, so that they are reached.
const LIMITS: Limits = Limits {
    streams: 4,
    buffer_bytes: 40_000,
    tunnel_buffer_bytes: 200_000,
    handshake: Duration::ZERO,
};

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Both ends of a tunnel and the bytes between them.
struct Tunnel {
    ends: [Mux; 2],
    /// Data that each end has sent over each connection and the other one has not received.
    on_way: [[Vec<u8>; 2]; 2],
    now: Instant,
    streams: HashMap<u32, [Half; 2]>,
}

/// An end's record of a stream.
#[derive(Default)]
struct Half {
    written: Vec<u8>,
    read: Vec<u8>,
    has_writer: bool,
    has_reader: bool,
    has_ended: bool,
    /// Whether the end was read.
    is_complete: bool,
    /// Whether reading has failed.
    has_failed: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Accept(usize),
    Write(usize, usize, usize),
    Shutdown(usize, usize),
    Read(usize, usize, usize),
    DropWriter(usize, usize),
    DropReader(usize, usize),
    Transmit(usize, Lane),
    /// A part of the data on its way arrives.
    Arrive(usize, Lane, usize),
    Wait(u64),
    /// A second connection joins.
    Join,
    /// An end leaves the second connection.
    Leave(usize),
}

fn lane() -> impl Strategy<Value = Lane> {
    prop_oneof![Just(Lane::Bulk), Just(Lane::Express)]
}

fn step() -> impl Strategy<Value = Step> {
    let (end, stream) = (0..2_usize, 0..6_usize);
    let at = || (end.clone(), stream.clone());
    let bytes = prop_oneof![0..20_usize, 0..50_000_usize];
    prop_oneof![
        2 => end.clone().prop_map(Step::Open),
        3 => end.clone().prop_map(Step::Accept),
        6 => (at(), bytes.clone()).prop_map(|((end, stream), n)| Step::Write(end, stream, n)),
        2 => at().prop_map(|(end, stream)| Step::Shutdown(end, stream)),
        6 => (at(), bytes.clone()).prop_map(|((end, stream), n)| Step::Read(end, stream, n)),
        1 => at().prop_map(|(end, stream)| Step::DropWriter(end, stream)),
        1 => at().prop_map(|(end, stream)| Step::DropReader(end, stream)),
        6 => (end.clone(), lane()).prop_map(|(end, lane)| Step::Transmit(end, lane)),
        8 => (end.clone(), lane(), bytes).prop_map(|(end, lane, n)| Step::Arrive(end, lane, n)),
        1 => (0..3000_u64).prop_map(Step::Wait),
        1 => Just(Step::Join),
        1 => end.prop_map(Step::Leave),
    ]
}

impl Tunnel {
    fn new() -> Tunnel {
        Tunnel {
            ends: [Role::Near, Role::Far].map(|role| Mux::new(role, LIMITS)),
            on_way: Default::default(),
            now: Instant::now(),
            streams: HashMap::new(),
        }
    }

    fn add(&mut self, end: usize, id: u32) {
        let halves = self.streams.entry(id).or_default();
        let half = &mut halves[end];
        assert!(
            !half.has_reader && half.written.is_empty(),
            "{id} is used twice"
        );
        (half.has_writer, half.has_reader) = (true, true);
    }

    /// The `nth` stream of an end for which `has` holds.
    fn pick(&self, end: usize, nth: usize, has: impl Fn(&Half) -> bool) -> Option<u32> {
        let mut ids: Vec<u32> = self.streams.keys().copied().collect();
        ids.retain(|id| has(&self.streams[id][end]));
        ids.sort_unstable();
        ids.get(nth).copied()
    }

    fn half(&mut self, end: usize, id: u32) -> &mut Half {
        &mut self.streams.get_mut(&id).expect("known")[end]
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Open(end) => {
                if let Some(id) = self.ends[end].open(self.now) {
                    // The number may have had another stream, which is over at both ends.
                    self.streams.remove(&id);
                    self.add(end, id);
                }
            }
            Step::Accept(end) => {
                if let Some(id) = self.ends[end].accept() {
                    self.add(end, id);
                }
            }
            Step::Write(end, nth, bytes) => {
                let Some(id) = self.pick(end, nth, |half| half.has_writer && !half.has_ended)
                else {
                    return;
                };
                let at = self.half(end, id).written.len();
                let data: Vec<u8> = (at..at + bytes)
                    .map(|i| (i * 31 + id as usize) as u8)
                    .collect();
                let written = self.ends[end].poll_write(id, &data, &cx());
                if let Poll::Ready(Ok(written)) = written {
                    self.half(end, id).written.extend(&data[..written]);
                }
            }
            Step::Shutdown(end, nth) => {
                if let Some(id) = self.pick(end, nth, |half| half.has_writer) {
                    let _ = self.ends[end].poll_shutdown(id, &cx());
                    self.half(end, id).has_ended = true;
                }
            }
            Step::Read(end, nth, bytes) => {
                if let Some(id) = self.pick(end, nth, |half| half.has_reader) {
                    self.read(end, id, bytes);
                }
            }
            Step::DropWriter(end, nth) => {
                if let Some(id) = self.pick(end, nth, |half| half.has_writer) {
                    self.half(end, id).has_writer = false;
                    self.ends[end].drop_writer(id);
                }
            }
            Step::DropReader(end, nth) => {
                if let Some(id) = self.pick(end, nth, |half| half.has_reader) {
                    self.half(end, id).has_reader = false;
                    self.ends[end].drop_reader(id);
                }
            }
            Step::Transmit(end, lane) => {
                let (mux, on_way) = (&mut self.ends[end], &mut self.on_way[end][lane as usize]);
                let before = on_way.len();
                let ready = mux.poll_ready(lane, &cx()).is_ready();
                mux.transmit(lane, on_way);
                assert!(ready || on_way.len() == before);
                assert!(mux.is_joined() || lane == Lane::Bulk || on_way.len() == before);
                // A record, and frames about streams.
                assert!(on_way.len() - before < (16 << 10) + 5000);
            }
            Step::Arrive(end, lane, bytes) => {
                let on_way = &mut self.on_way[end][lane as usize];
                let bytes = bytes.min(on_way.len());
                let data: Vec<u8> = on_way.drain(..bytes).collect();
                let received = self.ends[1 - end].receive(lane, &data, self.now);
                assert_eq!(received, Ok(()), "an honest peer");
            }
            Step::Wait(ms) => {
                self.now += Duration::from_millis(ms);
                self.ends.iter_mut().for_each(|end| end.tick(self.now));
            }
            Step::Join => {
                if self.ends.iter().all(Mux::can_join) {
                    self.on_way.iter_mut().for_each(|lanes| lanes[1].clear());
                    assert!(self.ends.iter_mut().all(Mux::join));
                }
            }
            Step::Leave(end) => self.ends[end].leave(),
        }
    }

    /// Reads once. Returns the number of bytes.
    fn read(&mut self, end: usize, id: u32, bytes: usize) -> usize {
        let mut space = vec![0; bytes.max(1)];
        let mut buffer = ReadBuf::new(&mut space);
        let result = self.ends[end].poll_read(id, &mut buffer, self.now, &cx());
        let data = buffer.filled();
        let halves = self.streams.get_mut(&id).expect("known");
        halves[end].read.extend(data);
        let (read, written) = (&halves[end].read, &halves[1 - end].written);
        let from = read.len() - data.len();
        assert!(written.get(from..read.len()) == Some(data), "other data");
        match result {
            Poll::Ready(Ok(())) if data.is_empty() => {
                assert!(halves[1 - end].has_ended, "an end that nobody has sent");
                assert_eq!(written.len(), read.len(), "data is missing");
                halves[end].is_complete = true;
            }
            Poll::Ready(Err(_)) => halves[end].has_failed = true,
            _ => {}
        }
        data.len()
    }

    /// Delivers everything and reads everything, until nothing changes.
    fn settle(&mut self) {
        let mut moved = 1;
        while moved > 0 {
            moved = 0;
            for end in [0, 1] {
                for end in [0, 1].repeat(LIMITS.streams) {
                    self.run(Step::Accept(end));
                }
                for lane in Lane::ALL {
                    self.run(Step::Transmit(end, lane));
                    moved += self.on_way[end][lane as usize].len();
                    self.run(Step::Arrive(end, lane, usize::MAX));
                }
                let ids: Vec<u32> = self.streams.keys().copied().collect();
                for id in ids {
                    if self.half(1 - end, id).has_reader {
                        moved += self.read(1 - end, id, 20_000);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Whatever the cuts of the bytes, the delays and failures of connections and the actions of
    /// users, data is read as it was written, in order, and an end is an end of everything.
    /// Afterwards everything arrives, every end is acknowledged, and all streams can be opened
    /// again.
    #[test]
    fn every_byte_arrives_once_and_in_order(steps in prop::collection::vec(step(), 1..300)) {
        let mut tunnel = Tunnel::new();
        for end in [0, 1] {
            tunnel.run(Step::Transmit(end, Lane::Bulk));
            tunnel.run(Step::Arrive(end, Lane::Bulk, usize::MAX));
        }
        steps.into_iter().for_each(|step| tunnel.run(step));
        tunnel.settle();
        for (id, halves) in &tunnel.streams {
            for end in [0, 1] {
                let (sender, receiver) = (&halves[end], &halves[1 - end]);
                if sender.has_ended && receiver.has_reader && !receiver.has_failed {
                    prop_assert!(receiver.is_complete, "stream {}", id);
                }
                prop_assert!(!receiver.is_complete || sender.has_ended);
            }
        }
        let ids: Vec<u32> = tunnel.streams.keys().copied().collect();
        for id in ids {
            for end in [0, 1] {
                let half = tunnel.half(end, id);
                let (has_writer, has_reader) = (half.has_writer, half.has_reader);
                (half.has_writer, half.has_reader) = (false, false);
                if has_writer && half.has_ended {
                    let done = tunnel.ends[end].poll_shutdown(id, &cx());
                    prop_assert!(done.is_ready(), "stream {} is not acknowledged", id);
                }
                if has_writer { tunnel.ends[end].drop_writer(id) }
                if has_reader { tunnel.ends[end].drop_reader(id) }
            }
        }
        tunnel.settle();
        prop_assert_eq!(tunnel.ends.each_ref().map(Mux::unsent_bytes), [0, 0]);
        for end in [0, 1] {
            tunnel.streams.clear();
            let opened = (0..LIMITS.streams).filter_map(|_| tunnel.ends[end].open(tunnel.now));
            prop_assert_eq!(opened.count(), LIMITS.streams);
            prop_assert_eq!(tunnel.ends[end].open(tunnel.now), None);
        }
    }
}

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
