//! A connection's side of RACK-TLP: its two timers, and the probe.

use anabranch_net::Time;
use anabranch_scenario::time::SECOND;

use crate::calendar::Event;
use crate::connection::rack::{Detected, Probe};
use crate::connection::timer::TimerEvent;
use crate::connection::{Connection, World};
use crate::ecn::Bits;
use crate::network::Acknowledgement;

/// What the probe timeout has beyond two RTTs (Linux' `TCP_TIMEOUT_MIN`, two ticks of 1 ms).
const SLACK: Time = SECOND / 500;

/// How long a peer may delay an acknowledgement (Linux' `TCP_RTO_MIN`).
const LONGEST_ACK_DELAY: Time = SECOND / 5;

impl Connection {
    /// Detects losses by send times at an acknowledgement, after the scoreboard has processed it;
    /// true if a recovery begins.
    #[cold]
    pub(super) fn detect_by_time(
        &mut self,
        world: &mut World,
        r: usize,
        ack: &Acknowledgement,
    ) -> bool {
        let path = &mut self.paths[r];
        let Some(rack) = &mut path.rack else {
            return false;
        };
        let detected = rack.on_ack(&mut path.sender, ack, world.now, path.rto.smoothed());
        self.on_detected(world, r, &detected);
        detected.loss
    }

    /// Applies what RACK has detected on path `r`.
    fn on_detected(&mut self, world: &mut World, r: usize, detected: &Detected) {
        let losses = [detected.loss, detected.repaired_by_probe];
        for _ in losses.iter().filter(|&&loss| loss) {
            self.controller.on_loss(r);
            self.paths[r].totals.loss_events += 1;
        }
        if detected.repaired_by_probe && !detected.loss {
            self.controller.on_recovered(r);
        }
        if let Some(time) = detected.late_at {
            self.schedule_rack(world, r, time);
        }
    }

    /// A timer event of RACK.
    pub fn on_rack_timer(&mut self, world: &mut World, r: u16) {
        let index = usize::from(r);
        // As for the retransmission timer: this may be another connection by now.
        let Some(rack) = self.paths.get_mut(index).and_then(|p| p.rack.as_mut()) else {
            return;
        };
        let events = [&mut rack.reordering, &mut rack.probing].map(|t| t.on_event(world.now));
        for event in events {
            if let TimerEvent::Later(time) = event {
                self.schedule_rack(world, index, time);
            }
        }
        if events[0] == TimerEvent::Expired {
            self.detect_late(world, index);
        }
        if events[1] == TimerEvent::Expired {
            self.send_probe(world, index);
        }
    }

    /// The reordering window of a late packet is over.
    fn detect_late(&mut self, world: &mut World, r: usize) {
        let path = &mut self.paths[r];
        let Some(rack) = &mut path.rack else { return };
        let detected = rack.detect(&mut path.sender, world.now, path.rto.smoothed());
        self.on_detected(world, r, &detected);
        self.report_losses(world.now, r);
        self.open_window(world.now, r);
        if detected.loss {
            self.retransmit(world, r);
        }
        self.fill_windows(world);
    }

    /// Starts the probe's timer anew: new data was sent, or acknowledged.
    #[cold]
    pub(super) fn restart_probing(&mut self, world: &mut World, r: usize) {
        let path = &mut self.paths[r];
        let Some(rack) = &mut path.rack else { return };
        // A lone packet's acknowledgement may be delayed: by 200 ms, as far as Linux knows
        // (`tcp_schedule_loss_probe`).
        let lone = path.sender.outstanding() == 1 && world.tcp.keys.delayed_acks;
        let delay = if lone { LONGEST_ACK_DELAY } else { 0 };
        let wait = path
            .rto
            .smoothed()
            .map_or(SECOND, |srtt| 2 * srtt + delay + SLACK);
        let rto_at = path.timer.deadline();
        if let Some(time) = rack.restart_probing(&path.sender, world.now, wait, rto_at) {
            self.schedule_rack(world, r, time);
        }
    }

    /// Sends new data beyond the window, or the last packet again (section 7.3).
    fn send_probe(&mut self, world: &mut World, r: usize) {
        let path = &self.paths[r];
        let end = path.sender.next();
        if !path
            .rack
            .as_ref()
            .is_some_and(|rack| rack.may_probe(&path.sender))
        {
            return;
        }
        let again = !self.send_queued_or_new(world, r);
        if again {
            let path = &mut self.paths[r];
            path.totals.retransmitted_packets += 1;
            let data = path.data_of(end - 1);
            self.transmit(world, r, end - 1, data, Bits::default());
        }
        let path = &mut self.paths[r];
        if let Some(rack) = &mut path.rack {
            let sent_at = world.now;
            rack.probing.stop();
            rack.probe = Some(Probe {
                sent_at,
                end,
                again,
            });
        }
        self.restart_timer(world, r);
    }

    /// Sends the next data of the path's queue, or new data; false if there is none.
    fn send_queued_or_new(&mut self, world: &mut World, r: usize) -> bool {
        let Some(scheduler) = &mut self.linux_scheduler else {
            return self.send_scheduled(world, r);
        };
        let Some((data, again)) = scheduler.take(r) else {
            return false;
        };
        self.paths[r].totals.retransmitted_packets += u64::from(again);
        self.send_first(world, r, data);
        true
    }

    fn schedule_rack(&self, world: &mut World, r: usize, time: Time) {
        let event = Event::Rack {
            connection: self.number,
            path: r as u16,
        };
        world.network.calendar.push(time, event);
    }
}
