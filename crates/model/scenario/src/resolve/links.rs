//! Links: traces read, queues sized.

use anabranch_net::{self as net, LinkConfig, Loss, MILLISECOND, Rate, SECOND, Steps, Time};
use indexmap::IndexMap;

use crate::file::key::{Fault, Key};
use crate::file::written;
use crate::model::links::Link;
use crate::model::number::PacketBytes;
use crate::origin::Files;
use crate::resolve::impairments::{arq, impairments};
use crate::resolve::link_trace::{self, LinkTrace};
use crate::resolve::picoseconds::picoseconds;
use crate::resolve::queues::queue;

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
    let trace = if link_trace::is_csv(&text) {
        link_trace::parse(&text).map(Trace::Link)
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
