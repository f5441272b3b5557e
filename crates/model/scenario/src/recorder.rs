//! Fills the tables of a Result from the counters of any backend.

use std::ops::{Add, AddAssign, Sub};

use anabranch_net::time::seconds;
use anabranch_net::{Attobits, Backlog, Cause, Counters, Time};

use crate::columns::{
    FlowRow, FlowSample, LinkRow, LinkSample, MediaRow, PathRow, PathSample, Record, TransferRow,
};
use crate::scenario::Scenario;
use crate::users::UserSlot;

/// All counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Time since the start of the run.
    pub time: Time,
    /// Payload received, bytes, and files completed, per user.
    pub users: Vec<(u64, u64)>,
    /// Per path of a user.
    pub paths: Vec<PathTotals>,
    /// Per link.
    pub links: Vec<Counters>,
}

/// The state of a path at one moment, summed over a user's connections.
#[derive(Clone, Copy, Debug)]
pub struct PathGauge {
    /// Congestion windows, packets; `None` if one was invalid, so that the sample is discarded.
    pub window: Option<f64>,
    /// Packets sent and neither acknowledged nor declared lost.
    pub in_flight: u64,
    /// Sum of the smoothed RTTs, s.
    pub rtt_sum_s: f64,
    /// Connections with an RTT.
    pub measured: u32,
    /// The lowest path that is coupled with this one, of the user's newest connection.
    pub group: u32,
}

/// The state of a user's only connection at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserGauge {
    /// Weight of weighted Vegas, packets; else 0.
    pub kappa: f64,
    /// Data in a gateway that was never sent, packets.
    pub buffer_packets: u64,
}

/// A path without a connection: a window of 0 packets, which is valid.
impl Default for PathGauge {
    fn default() -> Self {
        PathGauge {
            window: Some(0.0),
            in_flight: 0,
            rtt_sum_s: 0.0,
            measured: 0,
            group: 0,
        }
    }
}

impl PathGauge {
    /// Adds the window of a connection, packets; `None` is an invalid one and discards the sample.
    pub fn add_window(&mut self, window: Option<f64>) {
        let both = self.window.zip(window);
        self.window = both.map(|(sum, window)| sum + window);
    }

    fn rtt_ms(&self) -> f64 {
        1e3 * self.rtt_sum_s / f64::from(self.measured)
    }
}

/// Records samples during a run and totals at its end.
#[derive(Debug)]
pub struct Recorder {
    record: Record,
    slots: Vec<UserSlot>,
    /// When each user's last file was complete.
    done_at: Vec<Option<Time>>,
    /// The counters when the warm-up ended, and at the last sample.
    warm: Option<Snapshot>,
    last: Snapshot,
    /// Means over the samples since the warm-up, of each path and each link.
    windows: Vec<Mean>,
    queues: Vec<Mean>,
}

/// A running mean.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// The mean; NaN without a value.
    fn get(&self) -> f64 {
        self.sum / f64::from(self.count)
    }
}

impl Recorder {
    /// A recorder for a run of these users; `start` holds the counters at its begin.
    pub fn new(start: Snapshot, slots: Vec<UserSlot>) -> Recorder {
        Recorder {
            done_at: vec![None; slots.len()],
            slots,
            windows: vec![Mean::default(); start.paths.len()],
            queues: vec![Mean::default(); start.links.len()],
            last: start,
            record: Record::default(),
            warm: None,
        }
    }

    /// The samples so far; totals come with [`finish`](Self::finish).
    pub fn so_far(&self) -> &Record {
        &self.record
    }

    /// Ends the warm-up: totals are counted from here.
    pub fn warm_up_ends(&mut self, snapshot: Snapshot) {
        self.warm = Some(snapshot);
    }

    /// A file of the user with this index is complete.
    pub fn transfer(&mut self, user: usize, started_at: Time, bytes: u64, now: Time) {
        self.done_at[user] = Some(now);
        let user = &self.slots[user];
        self.record.transfers.push(TransferRow {
            flow: user.flow,
            user: user.number,
            start_s: seconds(started_at),
            bytes,
            duration_s: seconds(now - started_at),
        });
    }

    /// The totals of a user that sends media, at the end of the run.
    pub fn media(&mut self, row: MediaRow) {
        self.record.media.push(row);
    }

    /// Adds one row per user, path and link.
    pub fn sample(
        &mut self,
        snapshot: Snapshot,
        user_gauges: &[UserGauge],
        gauges: &[PathGauge],
        backlogs: &[Backlog],
    ) {
        let time_s = seconds(snapshot.time);
        let span_s = seconds(snapshot.time - self.last.time);
        for (row, user) in self.slots.iter().enumerate() {
            let received = snapshot.users[row].0;
            self.record.flow_samples.push(FlowSample {
                time_s,
                flow: user.flow,
                user: user.number,
                delivered_bytes: received,
                goodput_mbps: mbps(received - self.last.users[row].0, span_s),
                kappa: user_gauges[row].kappa,
                buffer_packets: user_gauges[row].buffer_packets,
            });
        }
        for (path, (user, number)) in path_rows(&self.slots, gauges.len()).enumerate() {
            let (gauge, totals) = (&gauges[path], snapshot.paths[path] - self.last.paths[path]);
            self.record.path_samples.push(PathSample {
                time_s,
                flow: user.flow,
                user: user.number,
                path: number,
                window_packets: gauge.window.unwrap_or(f64::NAN),
                rtt_ms: gauge.rtt_ms(),
                one_way_delay_ms: totals.one_way_delay_ms(),
                in_flight_packets: gauge.in_flight,
                goodput_mbps: mbps(totals.delivered_bytes, span_s),
                lost_packets: totals.lost_packets(),
                group: gauge.group,
            });
        }
        for (link, backlog) in backlogs.iter().enumerate() {
            let (now, before) = (&snapshot.links[link], &self.last.links[link]);
            self.record.link_samples.push(LinkSample {
                time_s,
                link: link as u32,
                queue_packets: backlog.packets.into(),
                queue_bytes: backlog.bytes,
                throughput_mbps: throughput_mbps(before, now, snapshot.time - self.last.time),
                dropped_packets: now.lost() - before.lost(),
            });
        }
        if self.warm.is_some() {
            for (mean, gauge) in self.windows.iter_mut().zip(gauges) {
                gauge.window.into_iter().for_each(|window| mean.add(window));
            }
            for (mean, backlog) in self.queues.iter_mut().zip(backlogs) {
                mean.add(f64::from(backlog.packets));
            }
        }
        self.last = snapshot;
    }

    /// Fills the totals from the end of the warm-up to `end`.
    pub fn finish(mut self, end: Snapshot, scenario: &Scenario) -> Record {
        let warm = self
            .warm
            .take()
            .unwrap_or_else(|| Snapshot { ..end.clone() });
        let span_s = seconds(end.time - warm.time);
        let paths: Vec<PathTotals> = end
            .paths
            .iter()
            .zip(&warm.paths)
            .map(|(end, warm)| *end - *warm)
            .collect();
        self.flow_rows(&warm, &end, &paths, span_s);
        self.path_rows(&paths, span_s);
        self.link_rows(&warm, &end, scenario);
        self.record
    }

    fn flow_rows(&mut self, warm: &Snapshot, end: &Snapshot, paths: &[PathTotals], span_s: f64) {
        for (row, user) in self.slots.iter().enumerate() {
            let first = user.first_path as usize;
            let last = self
                .slots
                .get(row + 1)
                .map_or(paths.len(), |next| next.first_path as usize);
            let sum = paths[first..last]
                .iter()
                .fold(PathTotals::default(), |a, b| a + *b);
            // Data that waited out of order when the warm-up ended had arrived before.
            let received = (end.users[row].0 - warm.users[row].0).min(sum.delivered_bytes);
            let stop = [user.stop, self.done_at[row]].into_iter().flatten().min();
            self.record.flows.push(FlowRow {
                flow: user.flow,
                user: user.number,
                start_s: seconds(user.start),
                stop_s: seconds(stop.map_or(end.time, |stop| stop.min(end.time))),
                goodput_mbps: mbps(received, span_s),
                delivered_bytes: received,
                sent_packets: sum.sent_packets,
                lost_packets: sum.lost_packets(),
                marked_packets: sum.marked_packets,
                retransmitted_packets: sum.retransmitted_packets,
                timeouts: sum.timeouts,
                spurious_timeouts: sum.spurious_timeouts,
                transfers_done: end.users[row].1 - warm.users[row].1,
            });
        }
    }

    fn path_rows(&mut self, paths: &[PathTotals], span_s: f64) {
        for (row, (user, number)) in path_rows(&self.slots, paths.len()).enumerate() {
            let totals = &paths[row];
            self.record.paths.push(PathRow {
                flow: user.flow,
                user: user.number,
                path: number,
                goodput_mbps: mbps(totals.delivered_bytes, span_s),
                delivered_bytes: totals.delivered_bytes,
                sent_packets: totals.sent_packets,
                lost_overflow: totals.lost[Cause::Overflow as usize],
                lost_red: totals.lost[Cause::Red as usize],
                lost_random: totals.lost[Cause::Random as usize],
                lost_down: totals.lost[Cause::Down as usize],
                lost_aqm: totals.lost[Cause::Aqm as usize],
                loss_probability: share(totals.lost_packets(), totals.sent_packets),
                loss_events: totals.loss_events,
                marked_packets: totals.marked_packets,
                mark_events: totals.mark_events,
                retransmitted_packets: totals.retransmitted_packets,
                timeouts: totals.timeouts,
                spurious_timeouts: totals.spurious_timeouts,
                window_packets: self.windows[row].get(),
                rtt_ms: totals.rtt_ms(),
                one_way_delay_ms: totals.one_way_delay_ms(),
            });
        }
    }

    fn link_rows(&mut self, warm: &Snapshot, end: &Snapshot, scenario: &Scenario) {
        for (row, link) in scenario.links.iter().enumerate() {
            let (now, before) = (&end.links[row], &warm.links[row]);
            let dropped = |cause| now.dropped(cause).packets - before.dropped(cause).packets;
            let arrived = now.arrived.packets - before.arrived.packets;
            let accepted = now.accepted.packets - before.accepted.packets;
            let throughput_mbps = throughput_mbps(before, now, end.time - warm.time);
            let offered_mbps = link.config.rate.mbps_between(warm.time, end.time);
            self.record.links.push(LinkRow {
                link: row as u32,
                rate_mbps: link.rate_mbps(),
                throughput_mbps,
                utilization: match throughput_mbps {
                    0.0 => 0.0,
                    _ => throughput_mbps / offered_mbps,
                },
                arrived_packets: arrived,
                dropped_overflow: dropped(Cause::Overflow),
                dropped_red: dropped(Cause::Red),
                dropped_random: dropped(Cause::Random),
                dropped_down: dropped(Cause::Down),
                dropped_aqm: dropped(Cause::Aqm),
                marked_packets: now.marked - before.marked,
                loss_probability: share(now.lost() - before.lost(), arrived),
                queue_packets: self.queues[row].get(),
                queue_ms: (now.waited_ps - before.waited_ps) as f64 * 1e-9 / accepted as f64,
            });
        }
    }
}

/// The user and the number of each path, in the order of the record's rows.
fn path_rows(slots: &[UserSlot], paths: usize) -> impl Iterator<Item = (&UserSlot, u32)> {
    let ends = slots
        .iter()
        .skip(1)
        .map(|next| next.first_path)
        .chain([paths as u32]);
    slots
        .iter()
        .zip(ends)
        .flat_map(|(user, end)| (0..end - user.first_path).map(move |number| (user, number)))
}

/// Data that a link delivered within a time, per that time, rounded down to a millionth of a bit
/// per
/// second: never above the link's rate.
fn throughput_mbps(before: &Counters, now: &Counters, span: Time) -> f64 {
    let rate = (now.delivered - before.delivered).checked_div(Attobits::from(span));
    rate.map_or(f64::NAN, |rate| rate as f64 / 1e12)
}

fn mbps(bytes: u64, span_s: f64) -> f64 {
    bytes as f64 * 8e-6 / span_s
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

// Counters of a path.

/// Counts of one path. The counts of an interval are the difference of two of these.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathTotals {
    /// Data packets sent, retransmissions included.
    pub sent_packets: u64,
    /// Data packets sent again.
    pub retransmitted_packets: u64,
    /// Packets that reached the receiver for the first time.
    pub delivered_packets: u64,
    /// Payload delivered, bytes.
    pub delivered_bytes: u64,
    /// Packets lost, by `anabranch_net::Cause`.
    pub lost: [u64; Cause::COUNT],
    /// Reductions of the window after losses.
    pub loss_events: u64,
    /// Packets that arrived marked (CE, RFC 3168).
    pub marked_packets: u64,
    /// Reductions of the window after marks.
    pub mark_events: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Timeouts that were undone, because nothing was lost.
    pub spurious_timeouts: u64,
    /// Sum of the RTT samples.
    pub rtt_sum_s: f64,
    /// Number of RTT samples.
    pub rtt_samples: u64,
    /// Sum over delivered packets of the time from sender to receiver.
    pub one_way_sum_s: f64,
}

impl PathTotals {
    fn combine(self, o: Self, int: fn(u64, u64) -> u64, float: fn(f64, f64) -> f64) -> Self {
        PathTotals {
            sent_packets: int(self.sent_packets, o.sent_packets),
            retransmitted_packets: int(self.retransmitted_packets, o.retransmitted_packets),
            delivered_packets: int(self.delivered_packets, o.delivered_packets),
            delivered_bytes: int(self.delivered_bytes, o.delivered_bytes),
            lost: std::array::from_fn(|cause| int(self.lost[cause], o.lost[cause])),
            loss_events: int(self.loss_events, o.loss_events),
            marked_packets: int(self.marked_packets, o.marked_packets),
            mark_events: int(self.mark_events, o.mark_events),
            timeouts: int(self.timeouts, o.timeouts),
            spurious_timeouts: int(self.spurious_timeouts, o.spurious_timeouts),
            rtt_sum_s: float(self.rtt_sum_s, o.rtt_sum_s),
            rtt_samples: int(self.rtt_samples, o.rtt_samples),
            one_way_sum_s: float(self.one_way_sum_s, o.one_way_sum_s),
        }
    }

    /// Packets lost, of every cause.
    pub fn lost_packets(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Mean RTT in ms; NaN without a sample.
    pub fn rtt_ms(&self) -> f64 {
        mean_ms(self.rtt_sum_s, self.rtt_samples)
    }

    /// Mean one-way delay in ms; NaN without a delivery.
    pub fn one_way_delay_ms(&self) -> f64 {
        mean_ms(self.one_way_sum_s, self.delivered_packets)
    }
}

/// The mean in ms; NaN if `count` is 0, where `sum_s`, a difference of sums, may be a rounding
/// error.
fn mean_ms(sum_s: f64, count: u64) -> f64 {
    if count == 0 {
        f64::NAN
    } else {
        1e3 * sum_s / count as f64
    }
}

impl Add for PathTotals {
    type Output = PathTotals;
    fn add(self, other: PathTotals) -> PathTotals {
        self.combine(other, |a, b| a + b, |a, b| a + b)
    }
}

impl AddAssign for PathTotals {
    fn add_assign(&mut self, other: PathTotals) {
        *self = *self + other;
    }
}

impl Sub for PathTotals {
    type Output = PathTotals;
    fn sub(self, other: PathTotals) -> PathTotals {
        self.combine(other, |a, b| a - b, |a, b| a - b)
    }
}
