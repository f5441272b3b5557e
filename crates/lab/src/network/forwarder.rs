//! The thread that carries packets between devices, through the network, as the clock says.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_net::{Backlog, Time};
use anabranch_scenario::recorder::Snapshot;
use rustix::event::epoll;
use rustix::io::Errno;

use crate::error::{Context, Error};
use crate::hosts::sys::run_in_real_time;
use crate::network::clock::Clock;
use crate::network::emulator::{Delivery, Device, Network, Tap};
use crate::network::lateness::Lateness;

/// The largest packet that IPv4 allows, bytes.
const LARGEST: usize = 65_535;
/// Packets read from one device before others are delivered that are due meanwhile.
const BATCH: usize = 8;
/// The longest wait of a thread, ps, after which it looks whether it should stop.
pub const LONGEST_WAIT: Time = 100_000_000_000;
/// Devices looked at in one go.
const EVENTS: usize = 64;
/// The name of the server's device among the events; paths go by their row.
const SERVER: u64 = u64::MAX;

/// The devices of all hosts.
#[derive(Debug)]
pub struct Devices {
    /// The users' ends of the paths, by row.
    pub paths: Vec<OwnedFd>,
    /// The server's.
    pub server: OwnedFd,
}

/// The counters of all links and paths at one moment, and what waits at each link.
pub type Counted = (Snapshot, Vec<Backlog>);

/// What a forwarder leaves.
#[derive(Debug)]
pub struct Forwarded<T> {
    /// The counters at each of the moments asked for.
    pub counted: Vec<Counted>,
    /// How late packets were delivered.
    pub lateness: Lateness,
    /// Packets that a device did not take.
    pub refused: u64,
    /// What saw the packets.
    pub tap: T,
}

/// Carries packets until the last of the `marks`, increasing times at which counters are taken, or
/// until `stop`. `u64::MAX` as the last mark is never.
///
/// # Errors
/// If a device fails.
pub fn forward<T: Tap>(
    network: Network<T>,
    devices: &Devices,
    clock: Clock,
    marks: &[Time],
    idle: &AtomicBool,
    stop: &AtomicBool,
) -> Result<Forwarded<T>, Error> {
    // Without them the forwarder works too, only later: `check` and the lateness of a run tell.
    let _ = run_in_real_time();
    let _awake = keep_awake();
    let events = watch(devices).context("watching the devices")?;
    let mut forwarder = Forwarder {
        network,
        devices,
        clock,
        buffer: vec![0; LARGEST],
        forwarded: Forwarded {
            counted: Vec::with_capacity(marks.len()),
            lateness: Lateness::default(),
            refused: 0,
            tap: (),
        },
    };
    let mut marks = marks.iter().copied().peekable();
    let mut ready = Vec::with_capacity(EVENTS);
    while let Some(&mark) = marks.peek()
        && !stop.load(Ordering::Relaxed)
    {
        let now = forwarder.deliver(mark)?;
        if now >= mark || idle.load(Ordering::Relaxed) {
            let counted = forwarder.network.snapshot(mark);
            forwarder.forwarded.counted.push(counted);
            marks.next();
            continue;
        }
        let next = forwarder.network.next_due().unwrap_or(mark).min(mark);
        let timeout = Clock::span(now, next.min(now + LONGEST_WAIT));
        ready.clear();
        match epoll::wait(
            &events,
            rustix::buffer::spare_capacity(&mut ready),
            Some(&timeout),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::new(format!("waiting for packets: {error}"))),
        }
        for event in &ready {
            let device = match event.data.u64() {
                SERVER => Device::Server,
                row => Device::Path(row as usize),
            };
            forwarder.take(device, mark)?;
        }
    }
    let Forwarder {
        network, forwarded, ..
    } = forwarder;
    Ok(Forwarded {
        counted: forwarded.counted,
        lateness: forwarded.lateness,
        refused: forwarded.refused,
        tap: network.tap,
    })
}

/// Keeps idle processors from falling asleep until the file is closed, by whatever: one that sleeps
/// takes tens of microseconds to notice a packet's time, one of a busy host's guests milliseconds.
fn keep_awake() -> io::Result<File> {
    let mut quality = File::options().write(true).open("/dev/cpu_dma_latency")?;
    let most_us = 0i32;
    quality.write_all(&most_us.to_ne_bytes())?;
    Ok(quality)
}

fn watch(devices: &Devices) -> rustix::io::Result<OwnedFd> {
    let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let paths = devices.paths.iter().zip(0..);
    for (device, name) in paths.chain([(&devices.server, SERVER)]) {
        let data = epoll::EventData::new_u64(name);
        epoll::add(&events, device, data, epoll::EventFlags::IN)?;
    }
    Ok(events)
}

struct Forwarder<'a, T> {
    network: Network<T>,
    devices: &'a Devices,
    clock: Clock,
    buffer: Vec<u8>,
    forwarded: Forwarded<()>,
}

impl<T: Tap> Forwarder<'_, T> {
    /// Delivers what is due by now, or by `mark` if that is earlier, and says what time it is.
    fn deliver(&mut self, mark: Time) -> Result<Time, Error> {
        loop {
            let now = self.clock.now();
            match self.network.deliver(now.min(mark)) {
                Some(delivery) => self.hand_over(delivery, now)?,
                None => return Ok(now),
            }
        }
    }

    fn hand_over(&mut self, delivery: Delivery, now: Time) -> Result<(), Error> {
        self.forwarded.lateness.count(delivery.due, now);
        let device = match delivery.to {
            Device::Path(row) => self.devices.paths[row].as_fd(),
            Device::Server => self.devices.server.as_fd(),
        };
        match rustix::io::write(device, &delivery.packet) {
            Ok(_) => Ok(()),
            // The host has taken its device down, or has no memory: its loss, but not unnoticed.
            Err(Errno::IO | Errno::NOBUFS | Errno::INVAL) => {
                self.forwarded.refused += 1;
                Ok(())
            }
            Err(error) => Err(Error::new(format!("writing to a TUN device: {error}"))),
        }
    }

    /// Takes packets from a device. What was due before they came is delivered first, so the links
    /// see time go forward.
    fn take(&mut self, device: Device, mark: Time) -> Result<(), Error> {
        let now = self.deliver(mark)?;
        if now >= mark {
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
                    self.network.send(now, device, packet);
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                // The host has taken the device down.
                Err(Errno::IO) => break,
                Err(error) => {
                    return Err(Error::new(format!("reading from a TUN device: {error}")));
                }
            }
        }
        Ok(())
    }
}
