//! Links: traces read, queues sized, impairments checked.

use anabranch_net as net;
use anabranch_net::{
    Arq, Codel, Displacement, DualPi2, FqCodel, Impairments, LinkConfig, Loss, MILLISECOND, Pie,
    Policer, Queue, Rate, Red, Reorder, SECOND, Steps, Time,
};
use indexmap::IndexMap;

use crate::file::key::{Fault, Key};
use crate::file::written;
use crate::model::links::Link;
use crate::model::number::{
    Count, DelayMs, Flows, LaterMs, PacketBytes, Positive, Probability, RateMbps, TimeS, TimeoutMs,
};
use crate::scenario::Files;

pub(super) fn links(
    links: &IndexMap<String, written::Link>,
    packet_bytes: PacketBytes,
    files: &mut Files<'_>,
) -> Result<Vec<Link>, Fault> {
    let key = Key::root("links");
    if links.is_empty() {
        return Err(key.fault("expected at least one link, such as [links.R1]"));
    }
    links
        .iter()
        .map(|(name, link)| {
            let config = config(&key.key(name), link, packet_bytes, files)?;
            Ok(Link {
                name: name.clone(),
                config,
            })
        })
        .collect()
}

fn config(
    key: &Key,
    link: &written::Link,
    packet_bytes: PacketBytes,
    files: &mut Files<'_>,
) -> Result<LinkConfig, Fault> {
    let trace = trace(key, link, files)?;
    let rate = rate(key, link, &trace)?;
    let (loss, more_delay) = match trace {
        Some(Trace::Link(trace)) => (trace_loss(key, link, trace.loss)?, trace.delay),
        _ => (loss(&link.loss), None),
    };
    Ok(LinkConfig {
        delay: picoseconds(link.delay_ms.get(), MILLISECOND)
            + more_delay
                .as_ref()
                .map_or(0, |more| more.smallest() as Time),
        impairments: impairments(
            key,
            link,
            more_delay
                .map(|more| more.map(|delay| delay - more.smallest()))
                .filter(|more| more.constant().is_none()),
        )?,
        queue: queue(
            &key.key("queue"),
            link.queue.as_ref(),
            rate.mean_mbps(),
            packet_bytes,
        )?,
        loss: arq(link.arq.as_ref(), loss),
        down: down(&key.key("down"), &link.down)?,
        rate,
    })
}

/// The trace of a link: mahimahi's, of the rate alone, or of rate, delay and loss.
enum Trace {
    Rate(net::Trace),
    Link(LinkTrace),
}

fn trace(key: &Key, link: &written::Link, files: &mut Files<'_>) -> Result<Option<Trace>, Fault> {
    let Some(file) = &link.trace_file else {
        return Ok(None);
    };
    let key = key.key("trace_file");
    let content = files
        .content(file)
        .map_err(|reason| key.fault(format!("{file}: {reason}")))?;
    let text = String::from_utf8_lossy(&content);
    let trace = if is_csv(&text) {
        parse(&text).map(Trace::Link)
    } else {
        let read = net::Trace::parse(&text).map(Trace::Rate);
        read.map_err(|error| error.to_string())
    };
    trace
        .map(Some)
        .map_err(|error| key.fault(format!("{file}: {error}")))
}

fn rate(key: &Key, link: &written::Link, trace: &Option<Trace>) -> Result<Rate, Fault> {
    let of_trace = match trace {
        Some(Trace::Rate(trace)) => Some(Rate::Trace(trace.clone())),
        Some(Trace::Link(LinkTrace { rate, .. })) => rate.clone().map(Rate::Steps),
        None => None,
    };
    match (link.rate_mbps, of_trace) {
        (Some(mbps), None) => Ok(Rate::Constant {
            bits_per_second: mbps.get() * 1e6,
        }),
        (None, Some(rate)) => Ok(rate),
        (None, None) if trace.is_some() => {
            Err(key.fault("expected rate_mbps here or as a column of the trace, got neither"))
        }
        (None, None) => Err(key.fault("expected rate_mbps or trace_file, got neither")),
        (Some(_), Some(_)) => Err(key
            .key("trace_file")
            .fault("expected rate_mbps or trace_file, got both")),
    }
}

/// The losses of a trace, or those of the link where the trace has none.
fn trace_loss(key: &Key, link: &written::Link, trace: Option<Steps>) -> Result<Loss, Fault> {
    match trace {
        Some(_) if link.loss != written::Loss::None => Err(key
            .key("loss")
            .fault("expected loss here or as a column of the trace, got both")),
        Some(steps) => Ok(match steps.constant() {
            Some(probability) => Loss::Bernoulli { probability },
            None => Loss::Steps(steps),
        }),
        None => Ok(loss(&link.loss)),
    }
}

fn loss(loss: &written::Loss) -> Loss {
    match *loss {
        written::Loss::None => Loss::None,
        written::Loss::Bernoulli { probability } => Loss::Bernoulli {
            probability: probability.get(),
        },
        written::Loss::Periodic { packets } => Loss::Periodic {
            packets: u64::from(packets.get()),
        },
        written::Loss::GilbertElliott {
            good_to_bad,
            bad_to_good,
            loss_good,
            loss_bad,
        } => Loss::GilbertElliott {
            good_to_bad: good_to_bad.get(),
            bad_to_good: bad_to_good.get(),
            loss_good: loss_good.get(),
            loss_bad: loss_bad.get(),
        },
    }
}

fn down(key: &Key, outages: &[written::Outage]) -> Result<Vec<(Time, Time)>, Fault> {
    let mut up_since = 0.0;
    let mut down = Vec::new();
    for (i, outage) in outages.iter().enumerate() {
        let key = key.index(i);
        let (from_s, to_s) = (outage.from_s.get(), outage.to_s.get());
        if from_s < up_since {
            let message =
                format!("expected at least {up_since}, the end of the outage before, got {from_s}");
            return Err(key.key("from_s").fault(message));
        }
        let (from, to) = (picoseconds(from_s, SECOND), picoseconds(to_s, SECOND));
        if from >= to {
            let message = format!("expected more than from_s, which is {from_s}, got {to_s}");
            return Err(key.key("to_s").fault(message));
        }
        up_since = to_s;
        down.push((from, to));
    }
    Ok(down)
}

// Queues of links: published values where none are written.

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
        uniform: red.uniform.unwrap_or(draft.uniform),
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

// Links that delay packets by different times, reorder them, or send them again.

/// How long a displaced packet waits for others, if the file does not say.
const HOLD: LaterMs = LaterMs::constant(100.0);

/// The losses of a link that may send what it loses again.
pub(super) fn arq(arq: Option<&written::Arq>, loss: Loss) -> Loss {
    let Some(arq) = arq else { return loss };
    Loss::Repeated(Box::new(Arq {
        loss,
        retries: arq.retries.get(),
        delay: picoseconds(arq.delay_ms.get(), MILLISECOND),
    }))
}

/// The delays of a link beyond its smallest; `more_delay` is that of its trace.
pub(super) fn impairments(
    key: &Key,
    link: &written::Link,
    more_delay: Option<Steps>,
) -> Result<Impairments, Fault> {
    let jitter_ms = link.jitter_ms.map_or(0.0, |jitter| jitter.get());
    let impairments = Impairments {
        more_delay,
        jitter: picoseconds(jitter_ms, MILLISECOND),
        overtakes: !link.keeps_order,
        reorder: reorder(&key.key("reorder"), link.reorder.as_ref())?,
    };
    let queued = matches!(
        link.queue,
        Some(written::Queue::Codel(_) | written::Queue::FqCodel(_) | written::Queue::DualPi2(_))
    );
    if queued && (impairments != Impairments::default() || link.arq.is_some()) {
        return Err(key.key("queue").fault(
            "expected another queue, or none of jitter_ms, keeps_order, reorder, arq and a column \
             delay_ms: CoDel, FQ-CoDel and DualPI2 have no links whose delay changes",
        ));
    }
    Ok(impairments)
}

fn reorder(key: &Key, reorder: Option<&written::Reorder>) -> Result<Option<Reorder>, Fault> {
    let Some(reorder) = reorder else {
        return Ok(None);
    };
    let ps = |ms: LaterMs| picoseconds(ms.get(), MILLISECOND);
    let by = match (reorder.packets, reorder.by_ms) {
        (Some(count), None) => Displacement::Packets {
            count: count.get(),
            hold: ps(reorder.hold_ms.unwrap_or(HOLD)),
        },
        (None, Some(_)) if reorder.hold_ms.is_some() => {
            let message = "expected no hold_ms beside by_ms, because such a packet waits for none";
            return Err(key.key("hold_ms").fault(message));
        }
        (None, Some(by)) => Displacement::Delay(ps(by)),
        (None, None) => return Err(key.fault("expected packets or by_ms, got neither")),
        (Some(_), Some(_)) => {
            return Err(key
                .key("by_ms")
                .fault("expected packets or by_ms, got both"));
        }
    };
    let share = reorder.share.get();
    Ok(Some(Reorder { share, by }))
}

// Traces of rate, delay and loss together: CSV with named columns.

/// The columns of a trace that it has, as functions of time.
#[derive(Debug, Default)]
pub(super) struct LinkTrace {
    /// Bits per second.
    pub rate: Option<Steps>,
    /// Picoseconds beyond the link's delay.
    pub delay: Option<Steps>,
    /// Probabilities.
    pub loss: Option<Steps>,
}

const TIME: &str = "time_s";
const COLUMNS: [&str; 3] = ["rate_mbps", "delay_ms", "loss"];

/// Whether a text is such a trace, not one of mahimahi's.
pub(super) fn is_csv(text: &str) -> bool {
    text.trim_start().starts_with(TIME)
}

/// Reads the text of a trace.
///
/// # Errors
/// The line, what was expected there and what was found.
pub(super) fn parse(text: &str) -> Result<LinkTrace, String> {
    let mut lines = text.lines().map(str::trim).zip(1..);
    let header = lines.next().map_or("", |(line, _)| line);
    let names: Vec<&str> = header.split(',').map(str::trim).skip(1).collect();
    let mut places = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let Some(column) = COLUMNS.iter().position(|known| known == name) else {
            let known = COLUMNS.join(", ");
            return Err(format!(
                "line 1: unknown column {name:?}, expected one of {known}"
            ));
        };
        if names[..place].contains(name) {
            return Err(format!(
                "line 1: expected each column once, got {name:?} again"
            ));
        }
        places.push(column);
    }
    if places.is_empty() {
        return Err(format!(
            "line 1: expected {TIME} and one or more of {}",
            COLUMNS.join(", ")
        ));
    }
    let mut columns: [Vec<(Time, f64)>; 3] = Default::default();
    let mut last = None;
    for (line, number) in lines.filter(|(line, _)| !line.is_empty()) {
        let fault = |message: String| format!("line {number}: {message}");
        let values = numbers(line, names.len() + 1).map_err(fault)?;
        let time_s =
            TimeS::try_from(values[0]).map_err(|range| fault(format!("{TIME}: {range}")))?;
        let time = picoseconds(time_s.get(), SECOND);
        if let Some(before) = last.filter(|before| *before >= time) {
            let before_s = before as f64 / SECOND as f64;
            return Err(fault(format!(
                "{TIME}: expected more than {before_s}, the time before"
            )));
        }
        last = Some(time);
        for (&column, &value) in places.iter().zip(&values[1..]) {
            let value = converted(column, value)
                .map_err(|range| fault(format!("{}: {range}", COLUMNS[column])))?;
            columns[column].push((time, value));
        }
    }
    if last.is_none() {
        return Err("expected a line after the header, got none".to_owned());
    }
    if let Some((_, rate)) = columns[0].last()
        && *rate == 0.0
    {
        return Err(
            "expected a last rate_mbps above 0, got 0: nothing would ever arrive".to_owned(),
        );
    }
    let [rate, delay, loss] = columns.map(|steps| (!steps.is_empty()).then(|| Steps::new(steps)));
    Ok(LinkTrace { rate, delay, loss })
}

fn numbers(line: &str, count: usize) -> Result<Vec<f64>, String> {
    let read: Result<Vec<f64>, _> = line.split(',').map(|text| text.trim().parse()).collect();
    match read {
        Ok(values) if values.len() == count => Ok(values),
        _ => Err(format!(
            "expected {count} numbers, as the header has columns, found {line:?}"
        )),
    }
}

/// A value in the unit of its function.
fn converted(column: usize, value: f64) -> Result<f64, String> {
    match COLUMNS[column] {
        "rate_mbps" if value == 0.0 => Ok(0.0),
        "rate_mbps" => RateMbps::try_from(value).map(|mbps| mbps.get() * 1e6),
        "delay_ms" => DelayMs::try_from(value).map(|ms| picoseconds(ms.get(), MILLISECOND) as f64),
        _ => Probability::try_from(value).map(Probability::get),
    }
}

// Times as written to picoseconds.

/// A time of `x` units of `unit` picoseconds.
pub(super) fn picoseconds(x: f64, unit: Time) -> Time {
    (x * unit as f64).round() as Time
}
