//! The forwarder: the thread that moves packets between devices and the emulator in real time.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use anabranch_net::{Backlog, Time};
use anabranch_scenario::recorder::Snapshot;
use rustix::event::epoll;
use rustix::io::Errno;
use serde::Serialize;

use crate::error::{Context, Error};
use crate::hosts::set_realtime_priority;
use crate::network::batch::{Batch, Batches};
use crate::network::clock::{Clock, PS_PER_NS};
use crate::network::emulator::{Device, Emulator, Tap};
use crate::network::packet;

/// The largest packet that IPv4 allows, bytes.
const MAX_PACKET_BYTES: usize = 65_535;
/// Packets read from one device before due packets are delivered.
const MAX_READS: usize = 64;
/// The longest wait of a thread, ps, before it checks whether it should stop.
pub const MAX_WAIT: Time = 100_000_000_000;
/// Devices handled per call of epoll.
const EVENTS: usize = 64;
/// The epoll token of the server's device; the token of a path is its row.
const SERVER: u64 = u64::MAX;

/// The devices of all hosts.
#[derive(Debug)]
pub struct Devices {
    /// The users' devices, one per path, by row.
    pub paths: Vec<OwnedFd>,
    /// The server's device.
    pub server: OwnedFd,
}

impl Devices {
    fn get(&self, device: Device) -> &OwnedFd {
        match device {
            Device::Path(row) => &self.paths[row],
            Device::Server => &self.server,
        }
    }
}

/// The counters of all links and paths at one sample time, and the backlog of each link.
pub type LinkCounters = (Snapshot, Vec<Backlog>);

/// The result of a run, as the forwarder sees it.
#[derive(Debug)]
pub struct ForwarderReport<T> {
    /// The counters at each sample time.
    pub counters: Vec<LinkCounters>,
    /// Lateness of the packets delivered.
    pub lateness: Lateness,
    /// Packets that a device rejected.
    pub rejected: u64,
    /// The observer of the packets.
    pub tap: T,
}

/// Forwards packets until the last of the `sample_times`, which increase, or until `stop` is set.
/// When `idle` is set, takes the remaining samples at once.
///
/// # Errors
/// If a device or the observer fails.
pub fn forward<T: Tap>(
    emulator: Emulator<T>,
    devices: &Devices,
    clock: Clock,
    sample_times: &[Time],
    idle: &AtomicBool,
    stop: &AtomicBool,
) -> Result<ForwarderReport<T>, Error> {
    // If either fails, packets are only later, which `check` and the lateness of a run show.
    let _ = set_realtime_priority();
    let _awake = keep_processors_awake();
    let epoll = watch(devices).context("watching the devices")?;
    let mut forwarder = Forwarder {
        emulator,
        clock,
        buffer: vec![0; packet::HEADER_BYTES + MAX_PACKET_BYTES],
        batches: Batches::default(),
        writer: Writer {
            devices,
            lateness: Lateness::default(),
            rejected: 0,
        },
        counters: Vec::with_capacity(sample_times.len()),
    };
    let mut sample_times = sample_times.iter().copied().peekable();
    let mut ready = Vec::with_capacity(EVENTS);
    let mut moderation = Moderation::default();
    while let Some(&sample_at) = sample_times.peek()
        && !stop.load(Ordering::Relaxed)
    {
        forwarder.emulator.tap.check()?;
        let now = forwarder.deliver(sample_at)?;
        if now >= sample_at || idle.load(Ordering::Relaxed) {
            let counters = forwarder.emulator.snapshot(sample_at);
            forwarder.counters.push(counters);
            sample_times.next();
            continue;
        }
        let next = forwarder.emulator.next_due().unwrap_or(sample_at);
        let mut wait_until = next.min(sample_at).min(now + MAX_WAIT);
        let earliest = moderation.wake_up(now).min(sample_at);
        if earliest > now {
            thread::sleep(Duration::from_nanos((earliest - now) / PS_PER_NS));
            wait_until = now; // Look only whether packets have arrived.
        }
        let timeout = Clock::timeout(now, wait_until);
        ready.clear();
        let room = rustix::buffer::spare_capacity(&mut ready);
        match epoll::wait(&epoll, room, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::new(format!("waiting for packets: {error}"))),
        }
        for event in &ready {
            let device = match event.data.u64() {
                SERVER => Device::Server,
                row => Device::Path(row as usize),
            };
            forwarder.read(device, sample_at)?;
        }
    }
    Ok(ForwarderReport {
        counters: forwarder.counters,
        lateness: forwarder.writer.lateness,
        rejected: forwarder.writer.rejected,
        tap: forwarder.emulator.tap,
    })
}

/// Keeps idle processors out of sleep states until the file is closed, also by the end of the
/// process. A sleeping processor takes tens of microseconds to wake up, in a virtual machine on a
/// busy host milliseconds.
fn keep_processors_awake() -> io::Result<File> {
    let mut latency = File::options().write(true).open("/dev/cpu_dma_latency")?;
    let max_us = 0i32;
    latency.write_all(&max_us.to_ne_bytes())?;
    Ok(latency)
}

fn watch(devices: &Devices) -> rustix::io::Result<OwnedFd> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let paths = devices.paths.iter().zip(0..);
    for (device, token) in paths.chain([(&devices.server, SERVER)]) {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&epoll, device, data, epoll::EventFlags::IN)?;
    }
    Ok(epoll)
}

struct Forwarder<'a, T> {
    emulator: Emulator<T>,
    clock: Clock,
    buffer: Vec<u8>,
    /// Packets that may be followed by others to be written with them; empty outside `deliver`.
    batches: Batches,
    writer: Writer<'a>,
    counters: Vec<LinkCounters>,
}

/// Writes packets to devices.
struct Writer<'a> {
    devices: &'a Devices,
    lateness: Lateness,
    rejected: u64,
}

impl<T: Tap> Forwarder<'_, T> {
    /// Delivers what is due by now, but at most until `sample_at`, and returns the current time.
    fn deliver(&mut self, sample_at: Time) -> Result<Time, Error> {
        loop {
            let now = self.clock.now();
            let writer = &mut self.writer;
            let write = |batch: &Batch| writer.write(batch, now);
            match self.emulator.deliver(now.min(sample_at)) {
                Some(delivery) => self.batches.add(&delivery, write)?,
                // Writing takes time, in which other packets may have become due.
                None if self.batches.flush(write)? => {}
                None => return Ok(now),
            }
        }
    }

    /// Reads packets from a device. Packets that were due earlier are delivered first, so that time
    /// never decreases at a link.
    fn read(&mut self, device: Device, sample_at: Time) -> Result<(), Error> {
        let now = self.deliver(sample_at)?;
        if now >= sample_at {
            return Ok(());
        }
        let from = self.writer.devices.get(device);
        for _ in 0..MAX_READS {
            match rustix::io::read(from, &mut self.buffer[..]) {
                Ok(bytes) => {
                    if let Some(packet) = packet::packet(&self.buffer[..bytes]) {
                        self.emulator.send(now, device, packet);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                // The device is down.
                Err(Errno::IO) => break,
                Err(error) => {
                    return Err(Error::new(format!("reading from a TUN device: {error}")));
                }
            }
        }
        Ok(())
    }
}

impl Writer<'_> {
    fn write(&mut self, batch: &Batch, now: Time) -> Result<(), Error> {
        for &due in &batch.dues {
            self.lateness.count(due, now);
        }
        match rustix::io::write(self.devices.get(batch.to), &batch.buffer) {
            Ok(_) => Ok(()),
            // The device is down, or the host has no memory: counted, and reported as a warning.
            Err(Errno::IO | Errno::NOBUFS | Errno::INVAL) => {
                self.rejected += batch.dues.len() as u64;
                Ok(())
            }
            Err(error) => Err(Error::new(format!("writing to a TUN device: {error}"))),
        }
    }
}

// Lateness: the time from when a packet was due to when it was written to its device.

/// One microsecond, the width of the first bins, ps.
const US: Time = 1_000_000;
/// Bins per power of two: a bin is at most 1/1024 as wide as its lower edge, or 1 us.
const BINS: u64 = 1 << BIN_BITS;
const BIN_BITS: u32 = 10;
/// A run was too late if the 99th percentile of its lateness is above this, us.
pub const MAX_LATENESS_US: f64 = 1000.0;

/// A histogram of lateness. Bins are 1 us wide up to 2048 us and then twice as wide per power of
/// two, so that it has no upper end.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    counts: Vec<u64>,
    worst: Time,
}

/// Percentiles of the lateness of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatenessSummary {
    /// Packets delivered.
    pub packets: u64,
    /// Median, us.
    pub median_us: f64,
    /// 99th percentile, us.
    pub p99_us: f64,
    /// Maximum, us.
    pub worst_us: f64,
    /// Whether the 99th percentile is above [`MAX_LATENESS_US`].
    pub too_late: bool,
}

impl Lateness {
    /// Counts a packet that was due at one time and delivered at another.
    pub fn count(&mut self, due: Time, delivered: Time) {
        let late = delivered.saturating_sub(due);
        let bin = bin_of(late / US);
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
        self.worst = self.worst.max(late);
    }

    /// The percentiles, each the upper edge of its bin; NaN without a packet.
    pub fn summary(&self) -> LatenessSummary {
        let p99_us = self.percentile_us(0.99);
        LatenessSummary {
            packets: self.counts.iter().sum(),
            median_us: self.percentile_us(0.5),
            p99_us,
            worst_us: self.worst as f64 / US as f64,
            too_late: p99_us > MAX_LATENESS_US,
        }
    }

    fn percentile_us(&self, share: f64) -> f64 {
        let packets: u64 = self.counts.iter().sum();
        if packets == 0 {
            return f64::NAN;
        }
        let wanted = (share * packets as f64).ceil() as u64;
        let mut below = 0;
        let bin = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        bin.map_or(f64::NAN, |bin| upper_edge_us(bin) as f64)
    }
}

/// The bin of a lateness of `us`. The first `2 * BINS` bins are 1 us wide, each `BINS` further ones
/// twice as wide as those before.
fn bin_of(us: u64) -> usize {
    let shift = (us | BINS).ilog2() - BIN_BITS;
    (u64::from(shift) * BINS + (us >> shift)) as usize
}

fn upper_edge_us(bin: usize) -> u64 {
    let bin = bin as u64;
    let shift = (bin / BINS).saturating_sub(1);
    (bin - shift * BINS + 1) << shift
}

// Limits how often the forwarder wakes up, as network cards limit their interrupts: waking up
// costs more than forwarding a packet.

/// The least mean time between wake-ups, ps.
const INTERVAL: Time = 50_000_000;
/// Wake-ups that may happen at once after a pause. At the rates of the papers' scenarios there are
/// never more, so that packets are delivered when they are due.
const BURST: Time = 20;

/// A token bucket of wake-ups: `BURST` of them, one more every `INTERVAL`.
#[derive(Debug, Default)]
pub struct Moderation {
    /// Time at which the bucket is full again.
    full_at: Time,
}

impl Moderation {
    /// The earliest time of the next wake-up, which then counts. `now` must not decrease.
    pub fn wake_up(&mut self, now: Time) -> Time {
        let at = now.max(self.full_at.saturating_sub((BURST - 1) * INTERVAL));
        self.full_at = self.full_at.max(at) + INTERVAL;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_edges_of_bins() {
        let mut lateness = Lateness::default();
        for late_us in 0..100 {
            lateness.count(5, 5 + late_us * US);
        }
        // 0 to 99 us: half are at most 49 us late, 99 of 100 at most 98 us.
        let summary = lateness.summary();
        assert_eq!((summary.packets, summary.worst_us), (100, 99.0));
        assert_eq!((summary.median_us, summary.p99_us), (50.0, 99.0));
        assert!(!summary.too_late);
    }

    #[test]
    fn percentiles_have_no_upper_limit() {
        let mut lateness = Lateness::default();
        for late_ms in 1..=100 {
            lateness.count(0, late_ms * 1000 * US);
        }
        // 1 to 100 ms: the median is 50 ms and the 99th percentile 99 ms, each less than 1/1024
        // below the upper edge of its bin.
        let summary = lateness.summary();
        assert!((50_000.0..50_050.0).contains(&summary.median_us));
        assert!((99_000.0..99_100.0).contains(&summary.p99_us));
        assert!(summary.too_late);
    }

    #[test]
    fn a_bin_ends_where_the_next_begins() {
        for us in [0, 1, 1023, 1024, 2047, 2048, 2049, 4095, 4096, 123_456_789] {
            let bin = bin_of(us);
            let edge = upper_edge_us(bin);
            assert!(us < edge && edge - us <= 1 + us / BINS, "{us}: {edge}");
            assert_eq!(bin_of(edge), bin + 1, "{us}");
        }
    }

    #[test]
    fn percentiles_without_packets_are_nan() {
        assert!(Lateness::default().summary().median_us.is_nan());
    }

    #[test]
    fn wake_ups_are_immediate_until_the_bucket_is_empty() {
        let mut moderation = Moderation::default();
        for _ in 0..BURST {
            assert_eq!(moderation.wake_up(0), 0);
        }
        // One token every interval.
        assert_eq!(moderation.wake_up(0), INTERVAL);
        assert_eq!(moderation.wake_up(INTERVAL), 2 * INTERVAL);
        // After a pause of three intervals three are left, one of which is for now.
        for expected in [5, 5, 5, 6] {
            assert_eq!(moderation.wake_up(5 * INTERVAL), expected * INTERVAL);
        }
    }

    #[test]
    fn slower_wake_ups_are_never_delayed() {
        let mut moderation = Moderation::default();
        for number in 0..100 {
            let now = number * INTERVAL;
            assert_eq!(moderation.wake_up(now), now);
        }
    }
}
