//! Queues of links: published values where none are written.

use anabranch_net::{Codel, DualPi2, FqCodel, MILLISECOND, Pie, Policer, Queue, Red, Time};

use crate::file::key::{Fault, Key};
use crate::file::written;
use crate::model::number::{Count, Flows, PacketBytes, Positive, Probability, TimeoutMs};
use crate::resolve::picoseconds::picoseconds;

/// Default size of a drop-tail queue: this long at the link's rate, and at least this many packets.
const DEFAULT_QUEUE_S: f64 = 0.1;
const DEFAULT_QUEUE_PACKETS: f64 = 10.0;

pub(super) fn queue(
    key: &Key,
    queue: Option<&written::Queue>,
    mbps: f64,
    packet_bytes: PacketBytes,
) -> Result<Queue, Fault> {
    match queue {
        None => {
            let packets = DEFAULT_QUEUE_S * mbps * 1e6 / (8.0 * f64::from(packet_bytes.get()));
            let packets = packets.ceil().max(DEFAULT_QUEUE_PACKETS) as u32;
            Ok(Queue::DropTail {
                packets: Some(packets),
                bytes: None,
            })
        }
        Some(written::Queue::DropTail {
            packets: None,
            bytes: None,
        }) => Err(key
            .key("drop_tail")
            .fault("expected packets, bytes or both, got neither")),
        Some(written::Queue::DropTail { packets, bytes }) => Ok(Queue::DropTail {
            packets: packets.map(Count::get),
            bytes: bytes.map(|bytes| bytes.get()),
        }),
        Some(written::Queue::Red(written)) => red(&key.key("red"), written, mbps).map(Queue::Red),
        Some(written::Queue::Codel(written)) => Ok(Queue::Codel(codel(written))),
        Some(written::Queue::FqCodel(written)) => Ok(Queue::FqCodel(fq_codel(written))),
        Some(written::Queue::DualPi2(written)) => Ok(Queue::DualPi2(dualpi2(written))),
        Some(written::Queue::Pie(written)) => Ok(Queue::Pie(pie(written))),
        Some(written::Queue::Policer(written)) => {
            policer(&key.key("policer"), written, packet_bytes).map(Queue::Policer)
        }
    }
}

fn red(key: &Key, red: &written::Red, mbps: f64) -> Result<Red, Fault> {
    let draft = Red::scaled(mbps);
    let min_packets = red.min_packets.map_or(draft.min_packets, |x| x.get());
    let mid_packets = red.mid_packets.map_or(draft.mid_packets, |x| x.get());
    let max_packets = red.max_packets.map_or(draft.max_packets, |x| x.get());
    if !(min_packets < mid_packets && mid_packets < max_packets) {
        return Err(key.fault(format!(
            "expected min_packets < mid_packets < max_packets, \
             got {min_packets}, {mid_packets}, {max_packets}"
        )));
    }
    let average_weight = red.average_weight.map(|x| x.get());
    if average_weight == Some(0.0) {
        return Err(key
            .key("average_weight")
            .fault("expected a weight above 0, got 0"));
    }
    Ok(Red {
        min_packets,
        mid_packets,
        max_packets,
        mid_probability: red
            .mid_probability
            .map_or(draft.mid_probability, |x| x.get()),
        average_weight,
        limit_packets: red
            .limit_packets
            .map_or(max_packets.ceil() as u32, |x| x.get()),
        ecn: red.ecn.unwrap_or(draft.ecn),
    })
}

fn codel(written: &written::Codel) -> Codel {
    let published = Codel::default();
    Codel {
        target: time(written.target_ms, published.target),
        interval: time(written.interval_ms, published.interval),
        limit_packets: written
            .limit_packets
            .map_or(published.limit_packets, Count::get),
        ecn: written.ecn.unwrap_or(published.ecn),
    }
}

fn fq_codel(written: &written::FqCodel) -> FqCodel {
    let published = FqCodel::default();
    let limit = written.limit_packets;
    FqCodel {
        codel: Codel {
            target: time(written.target_ms, published.codel.target),
            interval: time(written.interval_ms, published.codel.interval),
            limit_packets: limit.map_or(published.codel.limit_packets, Count::get),
            ecn: written.ecn.unwrap_or(published.codel.ecn),
        },
        quantum_bytes: written
            .quantum_bytes
            .map_or(published.quantum_bytes, Count::get),
        flows: written.flows.map_or(published.flows, Flows::get),
    }
}

fn pie(written: &written::Pie) -> Pie {
    let published = Pie::default();
    let max_burst = written.max_burst_ms;
    Pie {
        target: time(written.target_ms, published.target),
        tupdate: time(written.tupdate_ms, published.tupdate),
        alpha: written.alpha.map_or(published.alpha, Positive::get),
        beta: written.beta.map_or(published.beta, Positive::get),
        max_burst: max_burst.map_or(published.max_burst, |ms| picoseconds(ms.get(), MILLISECOND)),
        limit_packets: written
            .limit_packets
            .map_or(published.limit_packets, Count::get),
        derandomize: written.derandomize.unwrap_or(published.derandomize),
        ecn: written.ecn.unwrap_or(published.ecn),
    }
}

fn dualpi2(written: &written::DualPi2) -> DualPi2 {
    let published = DualPi2::default();
    let (share, limit) = (written.classic_share, written.limit_packets);
    DualPi2 {
        target: time(written.target_ms, published.target),
        tupdate: time(written.tupdate_ms, published.tupdate),
        alpha: written.alpha.map_or(published.alpha, Positive::get),
        beta: written.beta.map_or(published.beta, Positive::get),
        coupling: written.coupling.map_or(published.coupling, Positive::get),
        step: time(written.step_ms, published.step),
        classic_share: share.map_or(published.classic_share, Probability::get),
        limit_packets: limit.map_or(published.limit_packets, Count::get),
    }
}

fn policer(
    key: &Key,
    written: &written::Policer,
    packet_bytes: PacketBytes,
) -> Result<Policer, Fault> {
    let burst_bytes = written.burst_bytes.get();
    if burst_bytes < packet_bytes.get() {
        return Err(key.key("burst_bytes").fault(format!(
            "expected at least tcp.packet_bytes, which is {packet_bytes}, got {burst_bytes}: no \
             full packet would ever pass"
        )));
    }
    Ok(Policer {
        bits_per_second: written.rate_mbps.get() * 1e6,
        burst_bytes,
    })
}

/// A time as written, or the published one.
fn time(written: Option<TimeoutMs>, published: Time) -> Time {
    written.map_or(published, |ms| picoseconds(ms.get(), MILLISECOND).max(1))
}
