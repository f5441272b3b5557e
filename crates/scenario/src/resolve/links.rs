//! Links: traces read, queues sized.

use anabranch_net::{LinkConfig, Loss, MILLISECOND, Rate, SECOND, Time, Trace};
use indexmap::IndexMap;

use crate::file::key::{Fault, Key};
use crate::file::written;
use crate::model::links::Link;
use crate::model::number::PacketBytes;
use crate::origin::Files;
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
    let rate = rate(key, link, files)?;
    Ok(LinkConfig {
        delay: picoseconds(link.delay_ms.get(), MILLISECOND),
        queue: queue(
            &key.key("queue"),
            link.queue.as_ref(),
            rate.mean_mbps(),
            packet_bytes,
        )?,
        loss: loss(&link.loss),
        down: down(&key.key("down"), &link.down)?,
        rate,
    })
}

fn rate(key: &Key, link: &written::Link, files: &mut Files<'_>) -> Result<Rate, Fault> {
    match (&link.rate_mbps, &link.trace_file) {
        (Some(mbps), None) => Ok(Rate::Constant {
            bits_per_second: mbps.get() * 1e6,
        }),
        (None, Some(file)) => {
            let key = key.key("trace_file");
            let text = files
                .content(file)
                .map_err(|reason| key.fault(format!("{file}: {reason}")))?;
            Trace::parse(&String::from_utf8_lossy(&text))
                .map(Rate::Trace)
                .map_err(|error| key.fault(format!("{file}: {error}")))
        }
        (None, None) => Err(key.fault("expected rate_mbps or trace_file, got neither")),
        (Some(_), Some(_)) => Err(key
            .key("trace_file")
            .fault("expected rate_mbps or trace_file, got both")),
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
