//! What a middlebox or a strange receiver can do to a connection: SACK reneging.

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anabranch_kernel::{Subflow, connections, load};
use common::middle::{Middle, Packet};
use common::network::{Host, Network, connect};
use common::{can_load, counter, names_are_ours, wait_until};
use etherparse::TcpOptions;

/// A receiver that takes back what it acknowledged selectively, on behalf of the server. Of a burst, it
/// lets the first packet pass and drops the others. Before the first one's acknowledgement it puts
/// another one, that says that the second arrived, not the first. So the sender sees an acknowledgement
/// up to a packet that it has as selectively acknowledged, and no word of that any more.
#[derive(Default)]
enum Receiver {
    /// Hands on all.
    #[default]
    Honest,
    /// Waits for a burst.
    Armed,
    /// Knows the first packet of the burst, perhaps the second, and perhaps the first one's acknowledgement.
    Waiting {
        first: Packet,
        second: Option<Packet>,
        acknowledgement: Option<Packet>,
    },
    /// Drops data.
    Reneged,
}

impl Receiver {
    fn judge(&mut self, packet: Packet) -> Vec<Packet> {
        let is_data = matches!(packet.from(), Host::Client) && !packet.data.is_empty();
        match self {
            Receiver::Armed if is_data => {
                *self = Receiver::Waiting {
                    first: packet.clone(),
                    second: None,
                    acknowledgement: None,
                };
                vec![packet]
            }
            Receiver::Waiting {
                first,
                second,
                acknowledgement,
            } => {
                if is_data && packet.tcp.sequence_number == first.end() {
                    *second = Some(packet);
                } else if is_data {
                    return vec![];
                } else if packet.tcp.acknowledgment_number == first.end() {
                    *acknowledgement = Some(packet);
                } else {
                    return vec![packet];
                }
                let (Some(second), Some(acknowledgement)) = (second, acknowledgement) else {
                    return vec![];
                };
                let sack = with_sack(acknowledgement, first, second);
                let answers = vec![sack, acknowledgement.clone()];
                *self = Receiver::Reneged;
                answers
            }
            Receiver::Reneged if is_data => vec![],
            _ => vec![packet],
        }
    }
}

/// What the receiver would have sent had `second` arrived without `first`.
fn with_sack(acknowledgement: &Packet, first: &Packet, second: &Packet) -> Packet {
    // RFC 2018: two bytes that do nothing, then SACK with one block.
    let mut options = acknowledgement.tcp.options.as_slice().to_vec();
    options.extend([1, 1, 5, 10]);
    options.extend(first.end().to_be_bytes());
    options.extend(second.end().to_be_bytes());
    let mut sack = acknowledgement.clone();
    sack.tcp.acknowledgment_number = first.tcp.sequence_number;
    sack.tcp.options = TcpOptions::try_from_slice(&options).unwrap();
    sack
}

/// The client's subflows, that over the middle first.
fn subflows() -> Vec<Subflow> {
    let mut subflows: Vec<_> = connections()
        .unwrap()
        .into_iter()
        .flat_map(|connection| connection.subflows)
        .collect();
    subflows.sort_by_key(|subflow| subflow.local);
    subflows
}

#[test]
fn spike() {
    if !can_load() {
        return;
    }
    let _names = names_are_ours();
    for links in [1, 2] {
        let network = Network::new(0, None);
        let receiver = Arc::new(Mutex::new(Receiver::Honest));
        let judging = receiver.clone();
        let _middle = Middle::on(&network, 0, move |packet| {
            judging.lock().unwrap().judge(packet)
        });
        if links == 2 {
            network.add_link(1, None);
            network.add_endpoint(1, "");
        }
        for name in ["reno", "lia", "vegas_k"] {
            let _loaded = (name != "reno").then(|| load(&name.parse().unwrap()).unwrap());
            for multipath in [false, true] {
                let sink = network.sink();
                let counts = [
                    "TCPSACKReneging",
                    "TCPSackRecovery",
                    "TCPTimeouts",
                    "TCPLossUndo",
                ];
                let counters = || network.inside(Host::Client, move || counts.map(counter));
                let look = || network.inside(Host::Client, subflows);
                let before = counters();
                let mut stream = network.inside(Host::Client, move || connect(name, multipath));
                stream.write_all(&[0; 1000]).unwrap();
                wait_until("hello", || sink.received() == 1000);
                thread::sleep(Duration::from_millis(100));
                println!("{name} {multipath} {:?}", look());
                *receiver.lock().unwrap() = Receiver::Armed;
                stream.write_all(&[0; 14000]).unwrap();
                wait_until("reneged", || counters()[0] > before[0]);
                println!("  in loss {:?}", look());
                *receiver.lock().unwrap() = Receiver::Honest;
                wait_until("all", || sink.received() == 15000);
                thread::sleep(Duration::from_millis(100));
                println!("  after {:?} {before:?} {:?}", look(), counters());
            }
        }
    }
}
