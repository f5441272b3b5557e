//! A connection's sending side where Linux' scheduler assigns data to paths.

use crate::calendar::Event;
use crate::connection::linux_scheduler::{LinuxScheduler, burst, fragment};
use crate::connection::timer::TimerEvent;
use crate::connection::{Connection, World};

impl Connection {
    /// Fills every path's window.
    pub(super) fn send_as_linux(&mut self, world: &mut World) {
        let Some(mut scheduler) = self.linux_scheduler.take() else {
            return;
        };
        scheduler.write(&self.paths, world.tcp, self.data_una, self.data_end);
        self.assign(&mut scheduler, world);
        for r in 0..self.paths.len() {
            self.send_queued(&mut scheduler, world, r);
        }
        let event_at = scheduler.restart_timer(self.data_una, self.data_next, world.now);
        if let Some(time) = event_at {
            let event = Event::Resend(self.number);
            world.network.calendar.push(time, event);
        }
        self.linux_scheduler = Some(scheduler);
    }

    /// Assigns data in bursts, while the path that would finish first has room. A path sends once
    /// the next one is chosen, so that its timer starts after that (`mptcp_push_release`).
    fn assign(&mut self, scheduler: &mut LinuxScheduler, world: &mut World) {
        let min_rto = world.tcp.min_rto;
        let mut chosen = None;
        while self.data_next < scheduler.written() {
            scheduler.set_interval(&self.paths, world.now, min_rto);
            let soonest = scheduler.soonest(&self.paths, &self.controller);
            let Some(r) = soonest.filter(|&r| scheduler.has_room(&self.paths, world.tcp, r)) else {
                return;
            };
            if let Some(before) = chosen.replace(r).filter(|&before| before != r) {
                self.send_queued(scheduler, world, before);
            }
            let rate = self.controller.path(r).rate();
            scheduler.average_rate(&self.paths, world.tcp, r, rate);
            let mut left = burst(world.tcp);
            while left > 0 && scheduler.has_room(&self.paths, world.tcp, r) {
                scheduler.set_interval(&self.paths, world.now, min_rto);
                for _ in 0..left.min(fragment(world.tcp)) {
                    let Some(data) = self.next_new(world.tcp, scheduler.written()) else {
                        return;
                    };
                    scheduler.assign(r, data);
                }
                left -= left.min(fragment(world.tcp));
            }
        }
    }

    /// Sends what waits at a path as far as its window has room.
    fn send_queued(&mut self, scheduler: &mut LinuxScheduler, world: &mut World, r: usize) {
        while self.paths[r].has_room() {
            if self.retransmit(world, r) {
                continue;
            }
            let Some((data, again)) = scheduler.take(r) else {
                break;
            };
            self.paths[r].totals.retransmitted_packets += u64::from(again);
            self.send_first(world, r, data);
        }
        let path = &mut self.paths[r];
        path.window_limited = !path.has_room();
    }

    /// The event of the timer after which an idle path sends the oldest data again.
    pub fn on_resend_timer(&mut self, world: &mut World) {
        // As for the other timers: this may be another connection by now.
        let Some(scheduler) = &mut self.linux_scheduler else {
            return;
        };
        match scheduler.resend_timer.on_event(world.now) {
            TimerEvent::Stale => {}
            TimerEvent::Later(time) => {
                let event = Event::Resend(self.number);
                world.network.calendar.push(time, event);
            }
            TimerEvent::Expired => {
                scheduler.on_expired(&self.paths);
                scheduler.resend(&self.paths, world.tcp, self.data_una, self.data_next);
                self.send_as_linux(world);
            }
        }
    }
}
