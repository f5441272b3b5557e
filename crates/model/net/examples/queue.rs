//! Sends recorded arrivals through a queue with its published values: `queue NAME RATE_MBPS`, NAME
//! one of drop_tail, codel, fq_codel, pie, pie_derandomized, dualpi2.
//!
//! Each line of the input is an arrival, in order: time (s), flow (a number), bytes, and whether
//! ECN-capable: 0, 1 (ECT(0)) or 2 (ECT(1)). Each line of the output is a packet transmitted or
//! dropped: flow, time of arrival (s), `sent`, `marked` or `dropped`, and the time it waited until
//! then (ms).

use std::io::{BufWriter, Write, stdin, stdout};

use anabranch_net::time::{from_seconds, seconds};
use anabranch_net::{
    Codel, Departure, DualPi2, Fate, FqCodel, Link, LinkConfig, Offer, Pie, Queue, QueuedLink, Time,
};

struct Arrival {
    at: Time,
    flow: u64,
    bytes: u32,
    ecn_capable: bool,
    low_delay: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, mbps] = arguments.as_slice() else {
        return Err("usage: queue drop_tail|codel|fq_codel|pie|pie_derandomized|dualpi2 RATE_MBPS < arrivals".into());
    };
    let queue = match name.as_str() {
        "drop_tail" => Queue::DropTail {
            packets: Some(1000),
            bytes: None,
        },
        "codel" => Queue::Codel(Codel::default()),
        "fq_codel" => Queue::FqCodel(FqCodel::default()),
        "pie" => Queue::Pie(Pie::default()),
        "pie_derandomized" => Queue::Pie(Pie {
            derandomize: true,
            ..Pie::default()
        }),
        "dualpi2" => Queue::DualPi2(DualPi2::default()),
        other => return Err(format!("unknown queue {other:?}").into()),
    };
    let config = LinkConfig {
        queue,
        ..LinkConfig::constant(mbps.parse::<f64>()? * 1e6, 0)
    };
    let arrivals = stdin().lines().map(|line| parse(&line?));
    let arrivals: Vec<Arrival> = arrivals.collect::<Result<_, _>>()?;
    let mut out = BufWriter::new(stdout().lock());
    match QueuedLink::new(&config, 1) {
        Some(link) => queued(link, &arrivals, &mut out)?,
        None => fifo(Link::new(config, 1), &arrivals, &mut out)?,
    }
    Ok(out.flush()?)
}

fn parse(line: &str) -> Result<Arrival, Box<dyn std::error::Error>> {
    let mut fields = line.split_whitespace();
    let mut field = || {
        fields
            .next()
            .ok_or(format!("expected four numbers: {line}"))
    };
    let (at, flow, bytes, ecn) = (field()?, field()?, field()?, field()?);
    Ok(Arrival {
        at: from_seconds(at.parse()?),
        flow: flow.parse()?,
        bytes: bytes.parse()?,
        ecn_capable: ecn != "0",
        low_delay: ecn == "2",
    })
}

fn row(
    out: &mut impl Write,
    (flow, at): (u64, Time),
    fate: &str,
    wait: Time,
) -> std::io::Result<()> {
    writeln!(out, "{flow} {} {fate} {}", seconds(at), 1e3 * seconds(wait))
}

fn fifo(mut link: Link, arrivals: &[Arrival], out: &mut impl Write) -> std::io::Result<()> {
    for arrival in arrivals {
        let Arrival { at: now, bytes, .. } = *arrival;
        let waited_before = link.counters(now).waited_ps;
        let (fate, marked) = match arrival.ecn_capable {
            true => link.offer_ecn_capable(now, bytes),
            false => (link.offer(now, bytes), false),
        };
        let packet = (arrival.flow, now);
        match fate {
            Fate::Delivered { .. } => {
                let waited = link.counters(now).waited_ps - waited_before;
                let fate = if marked { "marked" } else { "sent" };
                row(out, packet, fate, waited as Time)?;
            }
            Fate::Dropped(_) => row(out, packet, "dropped", 0)?,
        }
    }
    Ok(())
}

fn queued(
    mut link: QueuedLink<(u64, Time)>,
    arrivals: &[Arrival],
    out: &mut impl Write,
) -> std::io::Result<()> {
    for arrival in arrivals {
        start_until(&mut link, arrival.at, out)?;
        link.offer(
            arrival.at,
            Offer {
                packet: (arrival.flow, arrival.at),
                bytes: arrival.bytes,
                flow: arrival.flow,
                ecn_capable: arrival.ecn_capable,
                low_delay: arrival.low_delay,
            },
        );
        dropped(&mut link, arrival.at, out)?;
    }
    start_until(&mut link, Time::MAX, out)
}

fn start_until(
    link: &mut QueuedLink<(u64, Time)>,
    end: Time,
    out: &mut impl Write,
) -> std::io::Result<()> {
    while let Some(now) = link.next_start()
        && now <= end
    {
        if let Some(Departure { packet, marked, .. }) = link.start(now) {
            let fate = if marked { "marked" } else { "sent" };
            row(out, packet, fate, now - packet.1)?;
        }
        dropped(link, now, out)?;
    }
    Ok(())
}

fn dropped(
    link: &mut QueuedLink<(u64, Time)>,
    now: Time,
    out: &mut impl Write,
) -> std::io::Result<()> {
    for (packet, _) in link.take_dropped() {
        row(out, packet, "dropped", now - packet.1)?;
    }
    Ok(())
}
