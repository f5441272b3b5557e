//! A hostile peer of the multiplexer.

use super::*;

/// End of a tunnel to which a hostile peer sends frames, after a first frame that is right.
struct Attacked(Mux);

fn frame(kind: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("short");
    [
        &[kind],
        &stream.to_be_bytes()[..],
        &length.to_be_bytes(),
        body,
    ]
    .concat()
}

/// Data of stream 1 from this position on.
fn data(position: u64, bytes: &[u8]) -> Vec<u8> {
    data_of(1, position, bytes)
}

fn data_of(stream: u32, position: u64, bytes: &[u8]) -> Vec<u8> {
    let mut frame = frame(DATA, stream, bytes);
    frame.splice(7..7, position.to_be_bytes());
    frame
}

/// The end of stream 1.
fn end(position: u64) -> Vec<u8> {
    frame(END, 1, &position.to_be_bytes())
}

const HELLO: u8 = 1;
const DATAGRAM: u8 = 2;
const CLOSE: u8 = 4;
const OPEN: u8 = 5;
const DATA: u8 = 6;
const CREDIT: u8 = 7;
const END: u8 = 8;
const RECEIVED: u8 = 9;
const RESET: u8 = 10;
const STOP: u8 = 11;
const FORGOTTEN: u8 = 12;
const INVITE: u8 = 13;
const JOIN: u8 = 14;
const HEARD: u8 = 15;
const LEFT: u8 = 16;

impl Attacked {
    fn new() -> Attacked {
        let mut mux = Mux::new(Role::Far, LIMITS);
        let mut hello = Vec::new();
        Mux::new(Role::Near, LIMITS).transmit(Lane::Bulk, &mut hello);
        mux.receive(Lane::Bulk, &hello, Instant::now())
            .expect("right");
        Attacked(mux)
    }

    fn gets(&mut self, frames: &[Vec<u8>]) -> Result<(), String> {
        self.0.receive(Lane::Bulk, &frames.concat(), Instant::now())
    }
}

#[test]
fn a_peer_that_breaks_the_protocol_gets_one_clear_error() {
    let open = |id| frame(OPEN, id, b"");
    let window = [0, 1].map(|i| data(i << 15, &[0; 1 << 15])).to_vec();
    let beyond = "the peer has sent more in a stream than it may";
    let twice = "the peer has sent a part of a stream twice";
    let elsewhere = "the peer has ended a stream elsewhere than it may";
    let holes: Vec<_> = (0..65).map(|i| data(2 * i + 1, b"!")).collect();
    let five: Vec<_> = (0..5).map(|i| open(2 * i + 1)).collect();
    let cases = [
        (vec![frame(0, 0, b"")], "frame of kind 0 and 0 bytes"),
        (vec![frame(17, 0, b"")], "frame of kind 17 and 0 bytes"),
        (vec![frame(END, 1, b"!")], "frame of kind 8 and 1 bytes"),
        (
            vec![frame(CREDIT, 1, b"123")],
            "frame of kind 7 and 3 bytes",
        ),
        (
            vec![frame(HELLO, 0, &[3; 13])],
            "the peer has said HELLO twice",
        ),
        (
            vec![open(2)],
            "the peer has opened stream 2, which it must not",
        ),
        (
            vec![open(0)],
            "the peer has opened stream 0, which it must not",
        ),
        (
            vec![open(1), open(1)],
            "the peer has opened stream 1, which it must not",
        ),
        (five, "the peer has opened more streams than it may"),
        (
            [vec![open(1)], window, vec![data(1 << 16, b"!")]].concat(),
            beyond,
        ),
        (vec![open(1), data(u64::MAX, b"!")], beyond),
        (vec![open(1), data(3, b"!"), end(5), data(4, b"!!")], beyond),
        (vec![open(1), data(0, b"ab"), data(1, b"b")], twice),
        (vec![open(1), data(2, b"c"), data(0, b"abc")], twice),
        (vec![open(1), data(2, b"cd"), data(3, b"d")], twice),
        (vec![open(1), data(3, b"d"), data(2, b"cd")], twice),
        (
            [vec![open(1)], holes].concat(),
            "the peer has sent a stream in too many pieces",
        ),
        (vec![open(1), data(3, b"d"), end(3)], elsewhere),
        (vec![open(1), data(3, b"d"), end(4), end(5)], elsewhere),
        (vec![open(1), end(1 << 17)], elsewhere),
        (vec![frame(INVITE, 0, b"")], "frame of kind 13 and 0 bytes"),
        (
            vec![frame(JOIN, 0, &[7; 16])],
            "the peer joins the tunnel in the tunnel",
        ),
        (
            vec![open(1), frame(FORGOTTEN, 1, b"")],
            "the peer has forgotten an open stream",
        ),
        (vec![frame(CLOSE, 0, b"bye")], "by the peer: bye"),
    ];
    for (frames, reason) in cases {
        assert_eq!(Attacked::new().gets(&frames), Err(reason.to_owned()));
    }
    let mut first = Mux::new(Role::Far, LIMITS);
    let version = first.receive(Lane::Bulk, &frame(HELLO, 0, &[4, 1, 2]), Instant::now());
    let expected = "the peer has protocol version 4, and this gateway 3";
    assert_eq!(version, Err(expected.to_owned()));
}

/// The first bytes of earlier versions, which used yamux.
#[test]
fn a_peer_of_version_1_is_refused() {
    let mut mux = Mux::new(Role::Far, LIMITS);
    let window_update = [0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0];
    assert!(
        mux.receive(Lane::Bulk, &window_update, Instant::now())
            .is_err()
    );
}

#[test]
fn a_peer_that_confirms_what_was_not_sent_gets_an_error() {
    let position = |kind, position: u64| frame(kind, 0, &position.to_be_bytes());
    let refused = Err("the peer has confirmed what was not sent".to_owned());
    for (lane, kind) in [(Lane::Express, HEARD), (Lane::Bulk, LEFT)] {
        let mut attacked = Attacked::new();
        assert!(attacked.0.join() && !attacked.0.join());
        attacked.0.keep_alive(Lane::Express);
        attacked.0.transmit(Lane::Express, &mut Vec::new());
        let mut gets = |frame: Vec<u8>| attacked.0.receive(lane, &frame, Instant::now());
        // ALIVE has 7 bytes.
        assert_eq!(gets(position(kind, 8)), refused);
        assert_eq!(gets(position(kind, 7)), Ok(()));
    }
}

/// A peer that joins and leaves and reads nothing.
#[test]
fn what_is_sent_again_is_bounded() {
    let mut attacked = Attacked::new();
    let credit = |id| frame(CREDIT, id, &u64::MAX.to_be_bytes());
    let id = attacked.0.open(Instant::now()).expect("free");
    attacked.gets(&[credit(id)]).expect("right");
    let mut kept = 0;
    for _ in 0..100 {
        if !attacked.0.join() {
            continue;
        }
        for _ in 0..100 {
            let _ = attacked.0.poll_write(id, &[7; 40_000], &cx());
            attacked.0.tick(Instant::now());
            let mut sent = Vec::new();
            attacked.0.transmit(Lane::Express, &mut sent);
            kept += sent.len();
        }
        let left = frame(LEFT, 0, &0_u64.to_be_bytes());
        attacked.gets(&[left]).expect("right");
    }
    assert!((100_000..600_000).contains(&kept), "{kept}");
}

/// Data that one connection has delivered waits for data of the other one.
#[test]
fn data_that_is_ahead_waits_and_counts_in_the_window() {
    let mut attacked = Attacked::new();
    let second = vec![
        frame(OPEN, 1, b""),
        data(3, b"d"),
        data(4, b"e"),
        data(1, b"b"),
    ];
    attacked.gets(&second).expect("right");
    let read = |attacked: &mut Attacked| {
        let mut space = [0; 9];
        let mut buffer = ReadBuf::new(&mut space);
        let read = attacked.0.poll_read(1, &mut buffer, Instant::now(), &cx());
        (read.is_ready(), buffer.filled().to_vec())
    };
    assert_eq!(attacked.0.accept(), Some(1));
    assert_eq!(read(&mut attacked), (false, vec![]));
    attacked.gets(&[data(0, b"a"), end(5)]).expect("right");
    assert_eq!(read(&mut attacked), (true, b"ab".to_vec()));
    assert_eq!(read(&mut attacked), (false, vec![]));
    attacked.gets(&[data(2, b"c")]).expect("right");
    assert_eq!(read(&mut attacked), (true, b"cde".to_vec()));
    assert_eq!(read(&mut attacked), (true, vec![]), "the end");
}

#[test]
fn a_peer_that_sends_and_reads_nothing_is_refused() {
    let mut attacked = Attacked::new();
    let churn = [
        frame(OPEN, 1, b""),
        frame(STOP, 1, b""),
        frame(RESET, 1, b""),
    ];
    let mut rounds = 0;
    let refused = loop {
        if let Err(refused) = attacked.gets(&churn) {
            break refused;
        }
        rounds += 1;
        assert!(rounds < 10_000, "no end");
    };
    assert_eq!(refused, "the peer sends, and reads nothing");
    // It had opened more than once.
    assert!(rounds > 10, "{rounds}");
}

#[test]
fn datagrams_that_are_not_taken_are_bounded() {
    let mut attacked = Attacked::new();
    for size in (0..20_000).rev() {
        attacked
            .gets(&[frame(DATAGRAM, 0, &vec![0; size])])
            .expect("right");
    }
    // The last ones, of at most 255 bytes.
    let kept = std::iter::from_fn(|| attacked.0.receive_datagram());
    assert_eq!(kept.map(|datagram| datagram.len()).max(), Some(255));
}

#[test]
fn only_the_stream_that_is_not_read_stops_and_only_its_queue_waits() {
    let mut tunnel = Tunnel::new();
    tunnel.settle();
    for _ in 0..2 {
        tunnel.run(Step::Open(0));
    }
    let (slow, fast) = (1, 3);
    let data = vec![7; 100_000];
    while tunnel.ends[0].poll_write(slow, &data, &cx()).is_ready() {
        tunnel.run(Step::Transmit(0, Lane::Bulk));
    }
    tunnel.run(Step::Arrive(0, Lane::Bulk, usize::MAX));
    assert_eq!(tunnel.ends[0].accepted_bytes(), 65_536 + 40_000);
    assert!(tunnel.ends[0].poll_write(fast, &data, &cx()).is_ready());
    tunnel.run(Step::Transmit(0, Lane::Bulk));
    tunnel.run(Step::Arrive(0, Lane::Bulk, usize::MAX));
    let mut space = [0; 4000];
    let mut buffer = ReadBuf::new(&mut space);
    let read = tunnel.ends[1].poll_read(fast, &mut buffer, tunnel.now, &cx());
    assert!(matches!(read, Poll::Ready(Ok(()))) && buffer.filled() == [7; 4000]);
}

/// A closed tunnel reports no end where data is missing, and an end where everything was received.
#[test]
fn closing_makes_no_end_of_what_is_incomplete() {
    let mut tunnel = Tunnel::new();
    tunnel.settle();
    for _ in 0..2 {
        tunnel.run(Step::Open(0));
    }
    let (complete, cut) = (1, 3);
    assert!(
        tunnel.ends[0]
            .poll_write(complete, b"all", &cx())
            .is_ready()
    );
    assert!(tunnel.ends[0].poll_shutdown(complete, &cx()).is_pending());
    tunnel.run(Step::Transmit(0, Lane::Bulk));
    assert!(tunnel.ends[0].poll_write(cut, b"some", &cx()).is_ready());
    assert!(tunnel.ends[0].poll_shutdown(cut, &cx()).is_pending());
    tunnel.ends[0].close(Some("test"));
    let credit = frame(CREDIT, cut, &u64::MAX.to_be_bytes());
    tunnel.ends[0]
        .receive(Lane::Bulk, &credit, tunnel.now)
        .expect("right");
    let mut on_way = std::mem::take(&mut tunnel.on_way[0][0]);
    while tunnel.ends[0].poll_ready(Lane::Bulk, &cx()).is_ready() {
        tunnel.ends[0].transmit(Lane::Bulk, &mut on_way);
    }
    let closed = tunnel.ends[1].receive(Lane::Bulk, &on_way, tunnel.now);
    assert_eq!(closed, Err("by the peer: test".to_owned()));
    tunnel.ends[1].close(None);
    let mut read = |id| {
        let mut space = [0; 100];
        let mut buffer = ReadBuf::new(&mut space);
        let first = tunnel.ends[1].poll_read(id, &mut buffer, tunnel.now, &cx());
        let bytes = buffer.filled().len();
        let mut buffer = ReadBuf::new(&mut space);
        let then = tunnel.ends[1].poll_read(id, &mut buffer, tunnel.now, &cx());
        let kind = |result: Poll<std::io::Result<()>>| match result {
            Poll::Ready(result) => result.map_err(|error| error.kind()),
            Poll::Pending => panic!("nothing comes any more"),
        };
        (bytes, kind(first), kind(then))
    };
    assert_eq!(read(complete), (3, Ok(()), Ok(())));
    let reset = Err(ErrorKind::ConnectionReset);
    assert_eq!(read(cut), (0, reset, reset));
}

#[test]
fn datagrams_do_not_stop_streams() {
    let mut tunnel = Tunnel::new();
    tunnel.settle();
    tunnel.run(Step::Open(0));
    assert!(tunnel.ends[0].poll_write(1, &[7; 40_000], &cx()).is_ready());
    let mut sent = 0;
    while tunnel.ends[0].unsent_bytes() > 0 {
        (0..300).for_each(|_| tunnel.ends[0].send_datagram(vec![0; 1200].into()));
        tunnel.run(Step::Transmit(0, Lane::Bulk));
        sent += 1;
        assert!(sent < 12, "{}", tunnel.ends[0].unsent_bytes());
    }
    tunnel.run(Step::Arrive(0, Lane::Bulk, usize::MAX));
    assert!(tunnel.ends[1].receive_datagram().is_some());
}

/// Random frames of a hostile peer: an error or not, but never a panic, and memory is bounded.
fn hostile_frame() -> impl Strategy<Value = Vec<u8>> {
    let body = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..20),
        (0..60_000_usize).prop_map(|n| vec![7; n]),
        any::<u64>().prop_map(|limit| limit.to_be_bytes().to_vec()),
    ];
    let kinds = prop::sample::select(vec![
        DATAGRAM, OPEN, DATA, DATA, CREDIT, END, RECEIVED, RESET, STOP,
    ]);
    let position = 0..1000_u64;
    (kinds, 0..9_u32, position, body).prop_map(|(kind, stream, position, body)| {
        let at = position.to_be_bytes();
        match kind {
            DATA => data_of(stream, position, &body),
            DATAGRAM => frame(kind, stream, &body),
            CREDIT | END => frame(kind, stream, &at),
            _ => frame(kind, stream, &[]),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn hostile_frames_do_no_harm(
        frames in prop::collection::vec((hostile_frame(), any::<bool>()), 1..100),
        garbage in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let mut attacked = Attacked::new();
        let own = attacked.0.open(Instant::now()).expect("free");
        let mut sent = Vec::new();
        for (frame, reads) in frames {
            let _ = attacked.0.poll_write(own, &[1; 5000], &cx());
            if attacked.gets(&[frame]).is_err() {
                return Ok(());
            }
            if reads {
                sent.clear();
                attacked.0.transmit(Lane::Bulk, &mut sent);
            }
        }
        let _ = attacked.gets(&[garbage]);
    }
}
