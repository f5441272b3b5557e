//! A source of media and its receiver, for every backend in virtual time: frames as datagrams,
//! reports, and the rate that follows them.

use std::collections::VecDeque;

use anabranch_control::nada::{ALPHA, DELTA, LOGWIN, MULTILOSS, QEPS, congestion};
use anabranch_control::{LOSS_INTERVAL_GAIN, MediaReport, Nada};
use anabranch_net::Time;
use anabranch_net::time::{from_seconds, seconds};

use crate::columns::MediaRow;
use crate::model::flows::{Media, Workload};
use crate::model::number::RateMbps;
use crate::scenario::Scenario;
use crate::users::UserSlot;

/// The delay of a queue is the smallest of this many packets (RFC 8698, section 5.1.1).
const TAPS: usize = 15;

/// A frame that is on its way, or of which something was lost.
#[derive(Debug)]
struct Frame {
    sent_at: Time,
    /// Packets whose fate is not known.
    pending: u32,
    lost: bool,
    late: bool,
}

/// The user of a source, and the path of its packets.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// The row of its user.
    pub user: u32,
    /// The row of the user's path.
    pub path_row: usize,
    /// The delay of reports.
    pub return_delay: Time,
    /// Bytes of headers.
    pub header_bytes: u16,
    /// Bytes of payload in a full packet.
    pub payload: u64,
    /// When the user stops.
    pub stop: Option<Time>,
}

/// A user's source, the receiver's observations, and what is counted for its row of the result.
#[derive(Debug)]
pub struct Source {
    /// The path of its packets.
    pub way: Way,
    began: Time,
    counts_from: Time,
    frames_per_s: f64,
    late: Time,
    rate: Rate,
    /// Packets sent.
    sent: u64,
    /// Frames by number, from `first` on.
    frames: VecDeque<Frame>,
    first: u64,
    receiver: Receiver,
    /// Reports on their way.
    reports: VecDeque<MediaReport>,
    totals: Totals,
}

#[derive(Debug)]
enum Rate {
    Constant(f64),
    Nada(Nada),
}

#[derive(Debug, Default)]
struct Totals {
    rate_sum: f64,
    rates: u64,
    packets: u64,
    lost_packets: u64,
    delays: Vec<Time>,
    frames: u64,
    late_frames: u64,
    lost_frames: u64,
}

impl Way {
    /// The way of the media of a user, whose slot is the `user`-th; `None` for another workload.
    pub fn new<'a>(scenario: &'a Scenario, user: u32, slot: &UserSlot) -> Option<(Way, &'a Media)> {
        let flow = &scenario.flows[slot.flow as usize];
        let Workload::Media(media) = &flow.workload else {
            return None;
        };
        let header_bytes = scenario.tcp.header_bytes;
        let way = Way {
            user,
            path_row: slot.first_path as usize,
            return_delay: from_seconds(flow.paths[0].return_delay_ms.get() * 1e-3),
            header_bytes: header_bytes as u16,
            payload: u64::from(flow.packet_bytes.get() - header_bytes),
            stop: slot.stop,
        };
        Some((way, media))
    }
}

impl Source {
    /// A source that begins at `now`; its row counts what is sent from `counts_from` on.
    pub fn new(media: &Media, way: Way, now: Time, counts_from: Time) -> Source {
        let bits = |rate: RateMbps| rate.get() * 1e6;
        let rate = match (&media.rate_mbps, &media.nada) {
            (Some(rate), _) => Rate::Constant(bits(*rate)),
            (None, nada) => {
                let nada = nada.clone().unwrap_or_default();
                Rate::Nada(Nada::new(bits(nada.min_mbps), bits(nada.max_mbps)))
            }
        };
        Source {
            way,
            began: now,
            counts_from,
            frames_per_s: media.frames_per_s.get(),
            late: from_seconds(media.late_ms.get() * 1e-3),
            rate,
            sent: 0,
            frames: VecDeque::new(),
            first: 0,
            receiver: Receiver::default(),
            reports: VecDeque::new(),
            totals: Totals::default(),
        }
    }

    /// Whether the receiver reports.
    pub fn has_feedback(&self) -> bool {
        matches!(self.rate, Rate::Nada(_))
    }

    fn counts(&self, sent_at: Time) -> bool {
        sent_at >= self.counts_from
    }

    /// Takes the next frame at `now`: its number, and the sizes of its packets' payloads.
    pub fn next_frame(&mut self, now: Time) -> (u64, Vec<u64>) {
        let rate = match &self.rate {
            Rate::Constant(rate) => *rate,
            Rate::Nada(nada) => nada.rate(),
        };
        let bytes = ((rate / 8.0 / self.frames_per_s).round() as u64).max(1);
        let payload = self.way.payload;
        let (full, rest) = ((bytes / payload) as usize, bytes % payload);
        let mut sizes = vec![payload; full];
        sizes.extend((rest > 0).then_some(rest));
        if self.counts(now) {
            self.totals.rate_sum += rate;
            self.totals.rates += 1;
            self.totals.packets += sizes.len() as u64;
        }
        self.frames.push_back(Frame {
            sent_at: now,
            pending: sizes.len() as u32,
            lost: false,
            late: false,
        });
        (self.first + self.frames.len() as u64 - 1, sizes)
    }

    /// When the frame after `number` is sent; `None` if the source has stopped by then.
    pub fn time_after(&self, number: u64) -> Option<Time> {
        let time = self.began + from_seconds((number + 1) as f64 / self.frames_per_s);
        self.way.stop.is_none_or(|stop| time < stop).then_some(time)
    }

    /// Numbers a packet.
    pub fn number_packet(&mut self) -> u64 {
        self.sent += 1;
        self.sent - 1
    }

    /// A packet of `bytes` of payload arrives.
    pub fn on_packet(&mut self, now: Time, sent_at: Time, packet: u64, bytes: u64) {
        if self.counts(sent_at) {
            self.totals.delays.push(now - sent_at);
        }
        if self.has_feedback() {
            self.receiver.on_packet(now, now - sent_at, packet, bytes);
        }
    }

    /// The fate of a packet of frame `number` is known at `now`.
    pub fn settle(&mut self, now: Time, number: u64, is_lost: bool) {
        let place = (number - self.first) as usize;
        let (counts_from, late) = (self.counts_from, self.late);
        let Some(frame) = self.frames.get_mut(place) else {
            return;
        };
        frame.pending -= 1;
        frame.lost |= is_lost;
        frame.late |= now - frame.sent_at > late;
        self.totals.lost_packets += u64::from(is_lost && frame.sent_at >= counts_from);
        while let Some(frame) = self.frames.front()
            && frame.pending == 0
        {
            self.totals.count(frame, counts_from);
            self.frames.pop_front();
            self.first += 1;
        }
    }

    /// The receiver's report at `now`; `None` before the first packet.
    pub fn report(&mut self, now: Time) -> Option<Time> {
        let return_s = seconds(self.way.return_delay);
        let report = self.receiver.report(now, return_s)?;
        self.reports.push_back(report);
        Some(now + self.way.return_delay)
    }

    /// A report reaches the sender.
    pub fn on_report(&mut self) {
        if let (Rate::Nada(nada), Some(report)) = (&mut self.rate, self.reports.pop_front()) {
            nada.on_report(&report);
        }
    }

    /// The row of the result at the end of the run. Frames that are neither whole nor late at
    /// `end` are not counted.
    fn row(&mut self, end: Time, flow: u32, user: u32) -> MediaRow {
        for frame in &mut self.frames {
            frame.late |= frame.pending > 0 && end - frame.sent_at > self.late;
            if frame.pending == 0 || frame.late {
                self.totals.count(frame, self.counts_from);
            }
        }
        let totals = &mut self.totals;
        totals.delays.sort_unstable();
        MediaRow {
            flow,
            user,
            rate_mbps: totals.rate_sum * 1e-6 / totals.rates as f64,
            packets: totals.packets,
            lost_packets: totals.lost_packets,
            delay_median_ms: quantile_ms(&totals.delays, 0.5),
            delay_p99_ms: quantile_ms(&totals.delays, 0.99),
            frames: totals.frames,
            late_frames: totals.late_frames,
            lost_frames: totals.lost_frames,
            freezes: totals.late_frames + totals.lost_frames,
        }
    }
}

/// The rows of the table of media at the end of a run, for each user of a flow of media.
pub fn rows(
    scenario: &Scenario,
    slots: &[UserSlot],
    sources: &mut [Source],
    end: Time,
) -> Vec<MediaRow> {
    let users = (0..).zip(slots);
    let row = |(user, slot): (u32, &UserSlot)| {
        let (way, media) = Way::new(scenario, user, slot)?;
        let mut never_begun = Source::new(media, way, end, end);
        let begun = sources.iter_mut().find(|source| source.way.user == user);
        let source = begun.unwrap_or(&mut never_begun);
        Some(source.row(end, slot.flow, slot.number))
    };
    users.filter_map(row).collect()
}

impl Totals {
    fn count(&mut self, frame: &Frame, from: Time) {
        if frame.sent_at >= from {
            self.frames += 1;
            self.lost_frames += u64::from(frame.lost);
            self.late_frames += u64::from(frame.late && !frame.lost);
        }
    }
}

/// The smallest of sorted delays that is at least as large as this share of them, ms; NaN of none.
fn quantile_ms(sorted: &[Time], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    let value = sorted.get(rank.max(1) - 1);
    value.map_or(f64::NAN, |&delay| seconds(delay) * 1e3)
}

/// Observations of a receiver of NADA (RFC 8698, sections 4.2 and 5.1).
#[derive(Debug, Default)]
struct Receiver {
    /// The smallest delay so far, and the delays of the last packets; `None` before the first.
    base: Option<Time>,
    last: VecDeque<Time>,
    /// The packets of the observation window: arrival, bytes, packets lost before it, and whether
    /// its queueing delay was above QEPS.
    window: VecDeque<(Time, u64, u64, bool)>,
    expected: u64,
    loss_ratio: f64,
    /// Packets since the last loss, and their average between losses; `None` without a loss.
    since_loss: f64,
    loss_interval: Option<f64>,
}

impl Receiver {
    fn on_packet(&mut self, now: Time, delay: Time, packet: u64, bytes: u64) {
        let base = self.base.map_or(delay, |base| base.min(delay));
        self.base = Some(base);
        self.last.push_back(delay);
        self.last.drain(..self.last.len().saturating_sub(TAPS));
        let lost = packet.saturating_sub(self.expected);
        self.expected = self.expected.max(packet + 1);
        self.count_losses(lost);
        let queues = seconds(delay - base) >= QEPS;
        self.window.push_back((now, bytes, lost, queues));
        let from = now.saturating_sub(from_seconds(LOGWIN));
        while self.window.front().is_some_and(|&(time, ..)| time < from) {
            self.window.pop_front();
        }
    }

    fn count_losses(&mut self, lost: u64) {
        self.since_loss += 1.0;
        if lost > 0 {
            let interval = self.since_loss;
            self.loss_interval = Some(self.loss_interval.map_or(interval, |average| {
                average + LOSS_INTERVAL_GAIN * (interval - average)
            }));
            self.since_loss = 0.0;
        }
    }

    fn report(&mut self, now: Time, return_s: f64) -> Option<MediaReport> {
        let (base, shortest) = (self.base?, *self.last.iter().min()?);
        let from = now.saturating_sub(from_seconds(LOGWIN));
        let window = self.window.iter().filter(|&&(time, ..)| time >= from);
        let (mut bytes, mut arrived, mut lost, mut queues) = (0, 0, 0, false);
        for &(_, size, before, queued) in window {
            bytes += size;
            arrived += 1;
            lost += before;
            queues |= queued;
        }
        let ratio = lost as f64 / ((arrived + lost).max(1)) as f64;
        self.loss_ratio += ALPHA * (ratio - self.loss_ratio);
        let expires = self
            .loss_interval
            .map_or(0.0, |average| MULTILOSS * average);
        let warps = self.loss_interval.is_some() && self.since_loss < expires;
        let rtt = seconds(self.last.back().copied().unwrap_or(base)) + return_s;
        Some(MediaReport {
            congestion: congestion(seconds(shortest - base), warps, self.loss_ratio),
            ramps_up: lost == 0 && !queues && arrived > 0,
            received: bytes as f64 * 8.0 / LOGWIN,
            rtt,
            interval: DELTA,
        })
    }
}
