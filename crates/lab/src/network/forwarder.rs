//! The forwarder: the thread that moves packets between devices and the emulator in real time.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anabranch_net::{Backlog, Time};
use anabranch_scenario::recorder::Snapshot;
use rustix::event::epoll;
use rustix::io::Errno;

use crate::error::{Context, Error};
use crate::hosts::sys::set_realtime_priority;
use crate::network::clock::{Clock, PS_PER_NS};
use crate::network::emulator::{Delivery, Device, Emulator, Tap};
use crate::network::lateness::Lateness;
use crate::network::moderation::Moderation;

/// The largest packet that IPv4 allows, bytes.
const MAX_PACKET_BYTES: usize = 65_535;
/// Packets read from one device before due packets are delivered.
const BATCH: usize = 64;
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

/// The counters of all links and paths at one sample time, and the backlog of each link.
pub type LinkCounters = (Snapshot, Vec<Backlog>);

/// The result of a run, as the forwarder sees it.
#[derive(Debug)]
pub struct ForwarderReport<T> {
    /// The counters at each sample time.
    pub counters: Vec<LinkCounters>,
    /// How late packets were delivered.
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
        devices,
        clock,
        buffer: vec![0; MAX_PACKET_BYTES],
        counters: Vec::with_capacity(sample_times.len()),
        lateness: Lateness::default(),
        rejected: 0,
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
        lateness: forwarder.lateness,
        rejected: forwarder.rejected,
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
    devices: &'a Devices,
    clock: Clock,
    buffer: Vec<u8>,
    counters: Vec<LinkCounters>,
    lateness: Lateness,
    rejected: u64,
}

impl<T: Tap> Forwarder<'_, T> {
    /// Delivers what is due by now, but at most until `sample_at`, and returns the current time.
    fn deliver(&mut self, sample_at: Time) -> Result<Time, Error> {
        loop {
            let now = self.clock.now();
            match self.emulator.deliver(now.min(sample_at)) {
                Some(delivery) => self.write(delivery, now)?,
                None => return Ok(now),
            }
        }
    }

    fn write(&mut self, delivery: Delivery, now: Time) -> Result<(), Error> {
        self.lateness.count(delivery.due, now);
        let device = match delivery.to {
            Device::Path(row) => self.devices.paths[row].as_fd(),
            Device::Server => self.devices.server.as_fd(),
        };
        match rustix::io::write(device, &delivery.packet) {
            Ok(_) => Ok(()),
            // The device is down, or the host has no memory: counted, and reported as a warning.
            Err(Errno::IO | Errno::NOBUFS | Errno::INVAL) => {
                self.rejected += 1;
                Ok(())
            }
            Err(error) => Err(Error::new(format!("writing to a TUN device: {error}"))),
        }
    }

    /// Reads packets from a device. Packets that were due earlier are delivered first, so that time
    /// never decreases at a link.
    fn read(&mut self, device: Device, sample_at: Time) -> Result<(), Error> {
        let now = self.deliver(sample_at)?;
        if now >= sample_at {
            return Ok(());
        }
        let from = match device {
            Device::Path(row) => &self.devices.paths[row],
            Device::Server => &self.devices.server,
        };
        for _ in 0..BATCH {
            match rustix::io::read(from, &mut self.buffer[..]) {
                Ok(bytes) => {
                    let packet = self.buffer[..bytes].to_vec();
                    self.emulator.send(now, device, packet);
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
