//! The forwarder: the thread that moves packets between devices and the emulator in real time.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anabranch_net::{Backlog, Time};
use anabranch_scenario::recorder::Snapshot;
use rustix::event::epoll;
use rustix::io::Errno;

use crate::error::{Context, Error};
use crate::hosts::sys::set_realtime_priority;
use crate::network::batch::{Batch, Batches};
use crate::network::clock::{Clock, PS_PER_NS};
use crate::network::emulator::{Device, Emulator, Tap};
use crate::network::lateness::Lateness;
use crate::network::moderation::Moderation;
use crate::network::offload;

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
        buffer: vec![0; offload::HEADER_BYTES + MAX_PACKET_BYTES],
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
                    if let Some(packet) = offload::packet(&self.buffer[..bytes]) {
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
