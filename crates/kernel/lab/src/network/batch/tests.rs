//! Batches of packets, split again as the kernel splits them (`tcp_gso_segment`).

use proptest::prelude::*;

use super::*;
use crate::network::packet::tests::tcp;

/// A timestamp option, and the same one millisecond later.
const TIMES: [[u8; 12]; 2] = [
    [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 5],
    [1, 1, 8, 10, 0, 0, 0, 8, 0, 0, 0, 5],
];

/// Length of the headers of `segment`, bytes.
const HEADERS: usize = 52;

/// A packet with a partial checksum, as a host sends it. `time` is its timestamp option; its
/// payload depends on its sequence number.
fn segment(port: u16, id: u16, sequence: u32, time: usize, payload: usize, flags: u8) -> Packet {
    let mut bytes = tcp(0, port, sequence, TIMES[time].len() + payload, flags);
    bytes[ID..][..2].copy_from_slice(&id.to_be_bytes());
    bytes[DATA_OFFSET] = 0x80;
    bytes[MIN_HEADERS..HEADERS].copy_from_slice(&TIMES[time]);
    for (byte, number) in bytes[HEADERS..].iter_mut().zip(0..) {
        *byte = sequence.wrapping_add(number) as u8;
    }
    correct_lengths(&mut bytes);
    Packet {
        bytes,
        checksum: Some(TCP_CHECKSUM),
    }
}

/// A write: the device and, for each packet, the time at which it was due and the packet.
type Written = Vec<(Device, Vec<(Time, Packet)>)>;

/// Writes packets that are due at 0, 1, ....
fn written(packets: &[(Device, Packet)]) -> Written {
    let mut writes = Vec::new();
    let mut write = |batch: &Batch| -> Result<(), ()> {
        let packets = split(&batch.buffer);
        assert_eq!(packets.len(), batch.dues.len());
        let dues = batch.dues.iter().copied();
        writes.push((batch.to, dues.zip(packets).collect()));
        Ok(())
    };
    let mut batches = Batches::default();
    for ((to, packet), due) in packets.iter().cloned().zip(0..) {
        let delivery = Delivery { due, to, packet };
        batches.add(&delivery, &mut write).unwrap();
    }
    batches.flush(&mut write).unwrap();
    assert_eq!(batches.flush(&mut write), Ok(false), "nothing is left");
    writes
}

/// The number of packets in each write to the server.
fn sizes(packets: impl IntoIterator<Item = Packet>) -> Vec<usize> {
    let packets: Vec<_> = packets
        .into_iter()
        .map(|packet| (Device::Server, packet))
        .collect();
    let writes = written(&packets);
    writes.iter().map(|(_, packets)| packets.len()).collect()
}

/// The packets that are sent for what is written to a device.
fn split(buffer: &[u8]) -> Vec<Packet> {
    let whole = packet::packet(buffer).expect("there is a header");
    let [headers, payload] =
        [2, 4].map(|at| usize::from(u16::from_ne_bytes([buffer[at], buffer[at + 1]])));
    if buffer[1] == 0 {
        assert_eq!([headers, payload], [0, 0]);
        return vec![whole];
    }
    assert_eq!(buffer[..2], [1, 1], "a partial checksum, TCP over IPv4");
    assert_checksums(&whole);
    let (head, data) = whole.bytes.split_at(headers);
    let segments = data.chunks(payload).len();
    let segment = |(number, data): (usize, &[u8])| {
        let mut bytes = [head, data].concat();
        let id = word(head, ID).wrapping_add(number as u16);
        let before = (number * payload) as u32;
        let sequence = double_word(head, SEQUENCE).wrapping_add(before);
        bytes[ID..][..2].copy_from_slice(&id.to_be_bytes());
        bytes[SEQUENCE..][..4].copy_from_slice(&sequence.to_be_bytes());
        if number + 1 < segments {
            bytes[FLAGS] &= !PSH;
        }
        correct_lengths(&mut bytes);
        Packet {
            bytes,
            checksum: whole.checksum,
        }
    };
    data.chunks(payload).enumerate().map(segment).collect()
}

/// The checksums of IP and TCP are right as the receiver computes them: the sums are 0xffff.
fn assert_checksums(packet: &Packet) {
    let bytes = packet.clone().complete();
    assert_eq!(usize::from(word(&bytes, LENGTH)), bytes.len());
    assert_eq!(sum(&bytes[..IP_BYTES], 0), 0xffff);
    let tcp_bytes = (bytes.len() - IP_BYTES) as u16;
    let pseudo_header = [&bytes[ADDRESSES], &[0, TCP], &tcp_bytes.to_be_bytes()].concat();
    assert_eq!(sum(&bytes[IP_BYTES..], sum(&pseudo_header, 0)), 0xffff);
}

/// Consecutive segments with this payload each.
fn segments<const N: usize>(payloads: [usize; N]) -> [Packet; N] {
    let (mut id, mut sequence) = (u16::MAX, u32::MAX - 100); // both wrap around
    payloads.map(|payload| {
        let packet = segment(4000, id, sequence, 0, payload, ACK);
        id = id.wrapping_add(1);
        sequence = sequence.wrapping_add(payload as u32);
        packet
    })
}

#[test]
fn consecutive_segments_are_written_at_once() {
    assert_eq!(sizes(segments([1448; 3])), [3]);
}

#[test]
fn a_shorter_segment_is_the_last_of_its_batch() {
    assert_eq!(sizes(segments([1448, 1448, 1447, 1447])), [3, 1]);
    assert_eq!(sizes(segments([1447, 1448])), [1, 1]);
}

#[test]
fn a_batch_is_at_most_the_largest_packet() {
    // 52 + 45 * 1448 = 65 212 bytes, and one more would be 66 660.
    assert_eq!(sizes(segments([1448; 100])), [45, 45, 10]);
}

#[test]
fn the_flag_psh_ends_a_batch() {
    let mut packets = segments([1000; 4]);
    packets[1].bytes[FLAGS] |= PSH;
    assert_eq!(sizes(packets.clone()), [2, 2]);
    packets[0].bytes[FLAGS] |= PSH;
    assert_eq!(sizes(packets), [1, 1, 2]);
}

#[test]
fn a_segment_with_any_other_header_is_not_merged() {
    let [first, second] = segments([1000; 2]);
    assert_eq!(sizes([first.clone(), second.clone()]), [2]);
    // The checksums follow from the rest, and PSH may be set.
    let may_differ = |byte| [10, 11, 36, 37].contains(&byte);
    for byte in (0..HEADERS).filter(|&byte| !may_differ(byte)) {
        for bit in (0..8).map(|bit| 1 << bit) {
            if (byte, bit) == (FLAGS, PSH) {
                continue;
            }
            let mut other = second.clone();
            other.bytes[byte] ^= bit;
            let packets = [first.clone(), other];
            assert_eq!(sizes(packets), [1, 1], "byte {byte}, bit {bit:#x}");
        }
    }
    let complete = Packet::from(second.clone().complete());
    assert_eq!(sizes([first.clone(), complete]), [1, 1]);
    let devices = [(Device::Server, first), (Device::Path(0), second)];
    assert_eq!(written(&devices).len(), 2);
}

#[test]
fn segments_of_several_connections_are_merged_though_they_alternate() {
    let ports = [1, 2, 1, 2, 1];
    let packets = ports.iter().enumerate().map(|(number, &port)| {
        let id = (number / 2) as u16;
        segment(port, id, u32::from(id) * 500, 0, 500, ACK)
    });
    assert_eq!(sizes(packets), [3, 2]);
}

#[test]
fn more_connections_than_batches_lose_no_packet() {
    let packets = (0..2 * BATCHES as u16).map(|port| segment(port, 0, 0, 0, 500, ACK));
    assert_eq!(sizes(packets), [1; 2 * BATCHES]);
}

/// Differences of a packet from the next segment of its connection: each element makes one, if it
/// is small.
#[derive(Clone, Debug)]
struct Step {
    to_server: bool,
    port: u16,
    kind: u8,
    gap: u8,
    short: u8,
    time: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        any::<bool>(),
        0..3_u16,
        0..40_u8,
        0..20_u8,
        0..8_u8,
        0..20_u8,
    );
    let step = step.prop_map(|(to_server, port, kind, gap, short, time)| Step {
        to_server,
        port,
        kind,
        gap,
        short,
        time,
    });
    prop::collection::vec(step, 1..80)
}

/// The packets of these steps, each with its device.
fn packets(steps: &[Step]) -> Vec<(Device, Packet)> {
    let mut next = [[(0_u16, 0_u32); 3]; 2];
    let packet = |step: &Step| {
        let device = [Device::Path(0), Device::Server][usize::from(step.to_server)];
        let (id, sequence) = &mut next[usize::from(step.to_server)][usize::from(step.port)];
        let flags = match step.kind {
            0..3 => ACK | PSH,
            3 => 0x02,       // SYN
            4 => ACK | 0x01, // FIN
            5 => ACK | 0x40, // ECE
            6 => ACK | 0x80, // CWR
            _ => ACK,
        };
        let payload = match step.short {
            0 => 0,
            1 => 300,
            _ => 500,
        };
        *sequence = sequence.wrapping_add(u32::from(step.gap == 0));
        *id = id.wrapping_add(u16::from(step.gap == 1));
        let time = usize::from(step.time == 0);
        let mut packet = segment(step.port, *id, *sequence, time, payload, flags);
        if step.kind == 7 {
            packet = Packet::from(packet.complete());
        } else if step.kind == 8 {
            packet.bytes[PROTOCOL] = 17; // UDP
        }
        *sequence = sequence.wrapping_add(payload as u32);
        *id = id.wrapping_add(1);
        (device, packet)
    };
    steps.iter().map(packet).collect()
}

proptest! {
    /// Only segments of different connections overtake one another.
    #[test]
    fn a_host_receives_the_packets_that_were_sent(steps in steps()) {
        let sent = packets(&steps);
        let mut received = Vec::new();
        for (device, packets) in written(&sent) {
            for (due, packet) in packets {
                received.push((due as usize, device, packet));
            }
        }
        prop_assert_eq!(received.len(), sent.len());
        for (place, (number, device, packet)) in received.iter().enumerate() {
            prop_assert_eq!(&(*device, packet.clone()), &sent[*number]);
            for (later, other, overtaken) in &received[place + 1..] {
                if later < number && other == device {
                    prop_assert!(Mergeable::of(packet).is_some());
                    prop_assert!(Mergeable::of(overtaken).is_some());
                    prop_assert_ne!(&packet.bytes[CONNECTION], &overtaken.bytes[CONNECTION]);
                }
            }
        }
    }
}
