//! A controller of another program: it is told the events of all paths and answers with windows.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

use crate::controller::{Ack, Controller, Phase, SMALLEST_SSTHRESH_ONE_PATH, within_bounds};
use crate::coupling::Coupling;
use crate::delivery::{Delivery, Event, Sample, Stamp};
use crate::path::Path;
use crate::rule::Rule;
use crate::scalar::Scalar;

/// Kinds of [`Happening`]: `anabranch_kind` of `anabranch.h`, which has their meanings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the header explains them, by these names")]
pub enum Kind {
    #[default]
    Opened = 0,
    Acked = 1,
    Lost = 2,
    Congestion = 3,
    Recovered = 4,
    Timeout = 5,
    Ecn = 6,
    Keep = 7,
    Spurious = 8,
    Idle = 9,
    Threshold = 10,
    Sent = 11,
    Sample = 12,
    AppLimited = 13,
}

/// An event of a path: `anabranch_event` of `anabranch.h`, which has the meanings of its fields.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the header explains them, by these names")]
pub struct Happening {
    pub kind: Kind,
    pub path: usize,
    pub window_limited: bool,
    pub app_limited: bool,
    pub now: f64,
    pub packets: f64,
    pub rtt: Option<f64>,
    pub sent_at: f64,
    pub delivered: f64,
    pub delivery_rate: f64,
    pub in_flight: f64,
}

/// The answers for a path, which hold until they are changed: `anabranch_path` of `anabranch.h`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Answer {
    /// The window, packets; at least 1.
    pub window: f64,
    /// The window below which the path is in slow start, packets.
    pub ssthresh: f64,
    /// The rate at which it sends at most, packets/s; infinite if it is not paced.
    pub pacing_rate: f64,
}

/// The beginning of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Number of paths that it has at most.
    pub most_paths: usize,
    /// The first window of each path, packets.
    pub initial_window: f64,
    /// The smallest slow start threshold, packets.
    pub smallest_ssthresh: f64,
}

/// Makes the controllers of connections.
pub trait Foreign: Debug + Send + Sync {
    /// Whether they are told of each packet and pace.
    fn is_per_packet(&self) -> bool;

    /// The controller of a connection that begins.
    fn open(&self, start: &Start) -> Box<dyn Listener>;
}

/// The controller of one connection.
pub trait Listener: Debug + Send + Sync {
    /// Hears an event, and may change the answers for every open path.
    fn hear(&mut self, event: &Happening, answers: &mut [Answer]);
}

/// The rule of the machinery that measures beside a foreign controller: it changes no window and
/// keeps the newest sample. By delivery rates, so that the machinery changes none either, except at
/// timeouts and idle times, where the answers follow.
#[derive(Clone, Debug)]
pub(super) struct Told;

impl Rule for Told {
    const NAME: &'static str = "foreign";
    const SUMMARY: &'static str = "A controller of another program";
    const SOURCE: &'static str = "the user";
    const BY_RATE: bool = true;
    type Memory<S: Scalar> = Sample;

    /// Never called: not in the table.
    fn with(_values: &[f64]) -> Told {
        Told
    }

    fn increase<S: Scalar>(&self, _r: usize, _paths: &[Path<S>]) -> S {
        S::of(0)
    }

    fn on_event(
        &self,
        path: &Path<f64>,
        newest: &mut Sample,
        _delivery: &mut Delivery,
        event: &Event,
    ) -> f64 {
        if let Event::Acked(sample) = event {
            *newest = **sample;
        }
        path.window
    }
}

/// A controller with the methods of [`Controller`], whose windows are those of a [`Listener`].
#[derive(Debug)]
pub struct ForeignController {
    library: Arc<dyn Foreign>,
    start: Start,
    /// Measures RTTs and deliveries, and holds the windows.
    measures: Controller<Told>,
    /// `None` before the first path.
    listener: Option<Box<dyn Listener>>,
    answers: Vec<Answer>,
    now: f64,
}

/// The clone is the controller of a new connection with as many paths: what a program of others has
/// in memory cannot be copied.
impl Clone for ForeignController {
    fn clone(&self) -> ForeignController {
        let Start {
            most_paths,
            initial_window,
            smallest_ssthresh,
        } = self.start;
        let library = Arc::clone(&self.library);
        let mut new = ForeignController::new(library, most_paths, initial_window);
        new.set_smallest_ssthresh(smallest_ssthresh);
        self.answers.iter().for_each(|_| new.add_path());
        new
    }
}

impl ForeignController {
    /// A controller of no path yet, and of `most_paths` at most.
    pub fn new(
        library: Arc<dyn Foreign>,
        most_paths: usize,
        initial_window: f64,
    ) -> ForeignController {
        ForeignController {
            library,
            start: Start {
                most_paths,
                initial_window: within_bounds(initial_window),
                smallest_ssthresh: SMALLEST_SSTHRESH_ONE_PATH,
            },
            measures: Controller::new(Told, 0, initial_window),
            listener: None,
            answers: Vec::new(),
            now: 0.0,
        }
    }

    fn tell(&mut self, r: usize, kind: Kind) {
        self.tell_of(Happening {
            kind,
            path: r,
            ..Happening::default()
        });
    }

    /// Tells the listener of an event at the newest time known; its answers take effect.
    fn tell_of(&mut self, event: Happening) {
        let now = self.now;
        let (library, start) = (&self.library, &self.start);
        let listener = self.listener.get_or_insert_with(|| library.open(start));
        listener.hear(&Happening { now, ..event }, &mut self.answers);
        for (r, answer) in self.answers.iter().enumerate() {
            self.measures.paths[r].window = within_bounds(answer.window);
            self.measures.state[r].ssthresh = answer.ssthresh;
        }
    }

    fn passes(&mut self, now: f64) {
        self.now = self.now.max(now);
    }

    fn initial_answer(&self) -> Answer {
        Answer {
            window: self.start.initial_window,
            ssthresh: f64::INFINITY,
            pacing_rate: f64::INFINITY,
        }
    }
}

/// The methods of [`Controller`] by the same names: what an endpoint reports.
#[allow(missing_docs, reason = "Controller explains them, by these names")]
impl ForeignController {
    pub fn add_path(&mut self) {
        self.measures.add_path();
        self.answers.push(self.initial_answer());
        self.tell(self.answers.len() - 1, Kind::Opened);
    }

    pub fn reset_path(&mut self, r: usize) {
        self.measures.reset_path(r);
        self.answers[r] = self.initial_answer();
        self.tell(r, Kind::Opened);
    }

    pub fn set_ssthresh(&mut self, r: usize, packets: f64) {
        if packets.is_finite() {
            self.tell_of(Happening {
                kind: Kind::Threshold,
                path: r,
                packets,
                ..Happening::default()
            });
        }
    }

    pub fn set_smallest_ssthresh(&mut self, packets: f64) {
        self.start.smallest_ssthresh = packets.max(1.0);
    }

    pub fn on_ack(&mut self, r: usize, ack: &Ack) {
        self.measures.on_ack(r, ack);
        self.passes(ack.now);
        self.tell_of(Happening {
            kind: Kind::Acked,
            path: r,
            window_limited: ack.window_limited,
            packets: f64::from(ack.packets),
            rtt: ack.rtt,
            sent_at: ack.sent_at,
            ..Happening::default()
        });
    }

    pub fn on_lost(&mut self, r: usize, packets: u32) {
        if !self.is_by_rate() {
            self.tell_of_lost(r, f64::from(packets));
        }
    }

    fn tell_of_lost(&mut self, r: usize, packets: f64) {
        self.tell_of(Happening {
            kind: Kind::Lost,
            path: r,
            packets,
            ..Happening::default()
        });
    }

    pub fn on_loss(&mut self, r: usize) {
        self.measures.on_loss(r);
        self.tell(r, Kind::Congestion);
    }

    pub fn on_mark(&mut self, r: usize) {
        self.tell(r, Kind::Ecn);
    }

    pub fn on_recovered(&mut self, r: usize) {
        self.measures.on_recovered(r);
        self.tell(r, Kind::Recovered);
    }

    pub fn on_timeout(&mut self, r: usize) {
        self.measures.on_timeout(r);
        self.tell(r, Kind::Timeout);
    }

    pub fn keep_for_undo(&mut self, r: usize) {
        self.measures.keep_for_undo(r);
        self.tell(r, Kind::Keep);
    }

    pub fn on_spurious(&mut self, r: usize) {
        self.measures.on_spurious(r);
        self.tell(r, Kind::Spurious);
    }

    pub fn on_idle(&mut self, r: usize, now: f64) {
        self.measures.on_idle(r, now);
        self.passes(now);
        self.tell(r, Kind::Idle);
    }

    pub fn on_packet_sent(&mut self, r: usize, now: f64, size: f64, in_flight: f64) -> Stamp {
        self.passes(now);
        self.tell_of(Happening {
            kind: Kind::Sent,
            path: r,
            packets: size,
            in_flight,
            ..Happening::default()
        });
        self.measures.on_packet_sent(r, now, size, in_flight)
    }

    pub fn on_packet_delivered(&mut self, r: usize, now: f64, packet: &Stamp) {
        self.measures.on_packet_delivered(r, now, packet);
    }

    pub fn on_packet_lost(&mut self, r: usize, now: f64, packet: &Stamp) {
        self.measures.on_packet_lost(r, now, packet);
        self.passes(now);
        self.tell_of_lost(r, packet.size);
    }

    pub fn on_packets_processed(&mut self, r: usize, now: f64, rtt: Option<f64>, in_flight: f64) {
        self.measures.memory[r] = Sample::default();
        self.measures.on_packets_processed(r, now, rtt, in_flight);
        self.passes(now);
        let sample = self.measures.memory[r];
        if sample.newly_acked > 0.0 {
            self.tell_of(Happening {
                kind: Kind::Sample,
                path: r,
                app_limited: sample.is_app_limited,
                packets: sample.newly_acked,
                rtt: sample.rtt,
                delivered: sample.delivered,
                delivery_rate: sample.delivery_rate,
                in_flight,
                ..Happening::default()
            });
        }
    }

    pub fn on_app_limited(&mut self, r: usize, in_flight: f64) {
        self.measures.on_app_limited(r, in_flight);
        self.tell_of(Happening {
            kind: Kind::AppLimited,
            path: r,
            in_flight,
            ..Happening::default()
        });
    }
}

/// The methods of [`Controller`] by the same names: what an endpoint reads, and what a foreign
/// controller has no use for.
#[allow(missing_docs, reason = "Controller explains them, by these names")]
impl ForeignController {
    pub fn window(&self, r: usize) -> f64 {
        self.measures.window(r)
    }

    pub fn ssthresh(&self, r: usize) -> f64 {
        self.measures.ssthresh(r)
    }

    pub fn pacing_rate(&self, r: usize) -> f64 {
        self.answers[r].pacing_rate
    }

    pub fn path(&self, r: usize) -> &Path<f64> {
        self.measures.path(r)
    }

    pub fn paths(&self) -> &[Path<f64>] {
        self.measures.paths()
    }

    pub fn phase(&self, r: usize) -> Phase {
        self.measures.phase(r)
    }

    pub fn is_by_rate(&self) -> bool {
        self.library.is_per_packet()
    }

    pub fn is_scalable(&self) -> bool {
        false
    }

    pub fn has_program(&self) -> bool {
        false
    }

    pub fn group(&self, _r: usize) -> usize {
        0
    }

    pub fn set_coupling(&mut self, _coupling: Coupling) {}

    pub fn set_beta_ecn(&mut self, _beta_ecn: Option<f64>) {}

    pub fn set_increase_per_round(&mut self, _per_round: bool) {}

    pub fn set_increase_per_ack(&mut self, _per_ack: bool) {}

    pub fn on_silence(&mut self, _r: usize) {}

    pub fn set_silent(&mut self, _r: usize, _left_out: bool) {}

    pub fn on_marked_share(&mut self, _r: usize, _share: f64) {}

    pub fn weight(&self) -> Option<f64> {
        None
    }

    pub fn set_weight(&mut self, _weight: f64) {}
}
