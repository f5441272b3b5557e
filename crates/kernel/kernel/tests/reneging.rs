//! SACK reneging: a receiver discards data that it has acknowledged selectively, which RFC 2018
//! allows.
//!
//! Linux (`tcp_check_sack_reneging` and `tcp_enter_loss` in net/ipv4) detects it when an
//! acknowledgement ends just before a packet that is marked as selectively acknowledged. It waits
//! half a round trip, at least 10 ms, declares all packets lost, requests a threshold from the
//! congestion control and starts from a window of 1.

use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::common::middlebox::{Middlebox, Packet};
use crate::common::network::{Host, Network, connect};
use crate::common::{can_load, counter, lock_names, wait_until};
use anabranch_kernel::{Subflow, connections, load};
use etherparse::TcpOptions;

/// The middlebox in front of the server. Of a burst it forwards the first packet and drops the
/// others. Before the first one's acknowledgement it inserts another, as if the second had arrived
/// and the first had not.
#[derive(Default)]
struct Receiver {
    stage: Stage,
    /// The client's port: an earlier connection that closes still sends packets.
    port: u16,
    /// End of the data sent by the client; `acknowledged` is that of the data acknowledged.
    sent: u32,
    acknowledged: u32,
}

#[derive(Default)]
enum Stage {
    #[default]
    Honest,
    /// Waits for a burst.
    Armed,
    /// Has forwarded the first packet of the burst, `start` to `end`. Waits for the second and for
    /// the acknowledgement.
    Begun {
        start: u32,
        end: u32,
        second_end: Option<u32>,
        acknowledgement: Option<Packet>,
    },
    /// Drops data.
    Reneged,
}

impl Receiver {
    fn handle(&mut self, packet: Packet) -> Vec<Packet> {
        if !self.has_counted(&packet) {
            return vec![packet];
        }
        let is_data = matches!(packet.from(), Host::Client) && !packet.data.is_empty();
        match &mut self.stage {
            Stage::Armed if is_data && packet.tcp.sequence_number == self.acknowledged => {
                self.stage = Stage::Begun {
                    start: packet.tcp.sequence_number,
                    end: packet.end(),
                    second_end: None,
                    acknowledgement: None,
                };
                vec![packet]
            }
            Stage::Begun {
                start,
                end,
                second_end,
                acknowledgement,
            } => {
                if is_data && packet.tcp.sequence_number == *end {
                    *second_end = Some(packet.end());
                } else if !is_data && packet.tcp.acknowledgment_number == *end {
                    *acknowledgement = Some(packet);
                } else {
                    return if is_data { vec![] } else { vec![packet] };
                }
                let (Some(second_end), Some(acknowledgement)) = (*second_end, acknowledgement)
                else {
                    return vec![];
                };
                let sack = with_sack(acknowledgement, *start, *end..second_end);
                let packets = vec![sack, acknowledgement.clone()];
                self.stage = Stage::Reneged;
                packets
            }
            Stage::Reneged if is_data => vec![],
            _ => vec![packet],
        }
    }

    /// Whether it belongs to the newest connection.
    fn has_counted(&mut self, packet: &Packet) -> bool {
        let tcp = &packet.tcp;
        let port = match packet.from() {
            Host::Client => tcp.source_port,
            Host::Server => tcp.destination_port,
        };
        match packet.from() {
            Host::Client if tcp.syn => {
                self.port = port;
                self.sent = tcp.sequence_number.wrapping_add(1);
            }
            _ if port != self.port => return false,
            Host::Server => self.acknowledged = tcp.acknowledgment_number,
            Host::Client if packet.end().wrapping_sub(self.sent) < 1 << 31 => {
                self.sent = packet.end();
            }
            Host::Client => {}
        }
        true
    }

    fn has_all(&self) -> bool {
        self.sent == self.acknowledged
    }
}

/// An acknowledgement of all data before `next`, and of a later block.
fn with_sack(acknowledgement: &Packet, next: u32, block: Range<u32>) -> Packet {
    // Two NOPs, then kind 5 of 10 bytes: RFC 2018, section 3.
    let mut options = acknowledgement.tcp.options.as_slice().to_vec();
    options.extend([1, 1, 5, 10]);
    options.extend(block.start.to_be_bytes());
    options.extend(block.end.to_be_bytes());
    let mut sack = acknowledgement.clone();
    sack.tcp.acknowledgment_number = next;
    sack.tcp.options = TcpOptions::try_from_slice(&options).unwrap();
    sack
}

/// The client's subflows, the one over the middlebox first.
fn subflows() -> Vec<Subflow> {
    let connections = connections().unwrap().into_iter();
    let mut subflows: Vec<_> = connections.flat_map(|one| one.subflows).collect();
    subflows.sort_by_key(|subflow| subflow.local);
    subflows
}

/// Sends a packet, then a burst of ten whose receiver reneges. Returns the sender's subflows while
/// nothing is delivered, and after all is delivered and the window has grown as expected.
fn renege(
    network: &Network,
    receiver: &Mutex<Receiver>,
    name: &'static str,
    multipath: bool,
    links: usize,
    window: f64,
) -> [Vec<Subflow>; 2] {
    let sink = network.sink();
    let now = || network.inside(Host::Client, subflows);
    let reneged = || network.inside(Host::Client, || counter("TCPSACKReneging"));
    let before = reneged();
    let mut stream = network.inside(Host::Client, move || connect(name, multipath));
    stream.write_all(&[0; 1000]).unwrap();
    wait_until("all subflows have an RTT", || {
        let subflows = now();
        subflows.len() == links && subflows.iter().all(|subflow| subflow.rtt_ms > 0.0)
    });
    wait_until("a packet", || {
        sink.received() == 1000 && receiver.lock().unwrap().has_all()
    });

    receiver.lock().unwrap().stage = Stage::Armed;
    // Ten packets of up to 1448 bytes, for Multipath TCP 1428.
    stream.write_all(&[0; 14_000]).unwrap();
    wait_until("reneging", || reneged() == before + 1);
    let within = now();
    receiver.lock().unwrap().stage = Stage::Honest;
    wait_until("all data has arrived", || sink.received() == 15_000);
    wait_until("the middlebox's subflow has recovered", || {
        receiver.lock().unwrap().has_all()
    });
    // The client may still be processing the last acknowledgement.
    wait_until("the window has grown", || now()[0].window >= window);
    assert_eq!(reneged(), before + 1);
    [within, now()]
}

/// The burst fills the window of 10 (RFC 6928), so the acknowledgement of its first packet makes it
/// 11, and half of that is left: 5 whole packets. Nine are lost. Four of their acknowledgements
/// raise the window from 1 to 5, five fall in congestion avoidance: the kernel's Reno adds a
/// packet. NewReno with a fraction adds to 5.5 between `sum 1/w` = 0.86, if every packet ends a
/// round trip, and 5/5.5 = 0.91, if all five are of one, whose increase is computed once: at most
/// 6.409. A sender may declare the first packet lost earlier, if the middlebox is delayed by a busy
/// processor. Then half of 10 is left: Reno reaches 6 again, NewReno 5 + 0.93 to 5 + 5/5.
fn renege_as_reno(links: usize, expected: &[(&'static str, bool, Range<f64>)]) {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let receiver = Arc::new(Mutex::new(Receiver::default()));
    let handling = receiver.clone();
    let handle = move |packet| handling.lock().unwrap().handle(packet);
    let _middlebox = Middlebox::on(&network, 0, handle);
    for k in 1..links {
        network.add_link(k, None);
        network.add_endpoint(k, "");
    }
    for (name, multipath, window) in expected {
        let _loaded = (*name != "reno").then(|| load(&name.parse().unwrap()).unwrap());
        let [within, after] = renege(&network, &receiver, name, *multipath, links, window.start);
        let case = format!("{name}, Multipath TCP: {multipath}: {within:?} {after:?}");
        // The fraction is kept for when the window is at the threshold again.
        assert_eq!(within[0].window.floor(), 1.0, "{case}");
        assert_eq!(within[0].ssthresh, Some(5), "{case}");
        assert_eq!(after[0].ssthresh, Some(5), "{case}");
        assert!(window.contains(&after[0].window), "{case}");
        // Siblings are not affected.
        let siblings = &after[1..];
        assert!(siblings.iter().all(|one| one.ssthresh.is_none()), "{case}");
    }
}

#[test]
fn over_one_path_the_response_to_reneging_is_renos() {
    // Vegas adds at most a packet per round trip.
    let expected = [
        ("reno", true, 6.0..6.1),
        ("lia", true, 5.9..6.41),
        ("lia", false, 6.0..6.1),
        ("vegas_k", true, 5.0..6.6),
        ("vegas_k", false, 5.0..6.6),
    ];
    renege_as_reno(1, &expected);
}

#[test]
fn with_a_sibling_the_response_is_renos_and_the_sibling_is_not_affected() {
    // LIA adds at most NewReno's increase, and less here.
    let expected = [
        ("reno", true, 6.0..6.1),
        ("lia", true, 5.0..6.41),
        ("vegas_k", true, 5.0..6.6),
    ];
    renege_as_reno(2, &expected);
}
