//! Samples of a path's delivery rate: draft-ietf-ccwg-bbr-06, section 4.1, which was
//! draft-cheng-iccrg-delivery-rate-estimation. Names are the draft's: `C.` is [`Delivery`], `P.`
//! is [`Stamp`], `RS.` is [`Sample`]. Volumes are in packets, times in s, rates in packets/s.

/// An interval may be so much shorter than the RTT with which it is compared: times are rounded.
const ACCURACY: f64 = 1e-6;

/// Nanoseconds per second: RTTs that a clock of this accuracy finds equal are equal.
const CLOCK: f64 = 1e9;

/// The sender's note of a packet that it sends (section 4.1.2.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stamp {
    /// Volume of the packet; 1 for a full one.
    pub size: f64,
    /// `P.packet_id`: counts transmissions.
    pub packet_id: u64,
    /// `P.send_time`.
    pub send_time: f64,
    /// `P.delivered`: `C.delivered` at that time.
    pub delivered: f64,
    /// `P.delivered_time`: `C.delivered_time` at that time.
    pub delivered_time: f64,
    /// `P.first_send_time`: `C.first_send_time` at that time.
    pub first_send_time: f64,
    /// `P.lost`: `C.lost` at that time.
    pub lost: f64,
    /// `P.tx_in_flight`: in flight with this packet.
    pub tx_in_flight: f64,
    /// `P.is_app_limited`: whether the application limited the sender at that time.
    pub is_app_limited: bool,
}

/// A sample of the delivery rate from an acknowledgement (section 4.1.2.1.3), and the state of the
/// path after it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// When the acknowledgement arrived.
    pub now: f64,
    /// `RS.rtt`: RTT of the newest packet that it acknowledges; `None` without a sample.
    pub rtt: Option<f64>,
    /// `RS.newly_acked`: volume that it acknowledges.
    pub newly_acked: f64,
    /// `RS.newly_lost`: volume declared lost since the sample before.
    pub newly_lost: f64,
    /// `RS.prior_delivered`: `C.delivered` when that packet was sent.
    pub prior_delivered: f64,
    /// `RS.delivered`: volume delivered since that packet was sent.
    pub delivered: f64,
    /// `RS.interval`: the longer of the times in which this volume was sent and was acknowledged.
    pub interval: f64,
    /// `RS.delivery_rate`; 0 without a reliable sample.
    pub delivery_rate: f64,
    /// `RS.is_app_limited`: whether the application limited the sender.
    pub is_app_limited: bool,
    /// `RS.tx_in_flight`: in flight when that packet was sent, with it.
    pub tx_in_flight: f64,
    /// `RS.lost`: volume declared lost since that packet was sent.
    pub lost: f64,
    /// `C.inflight`.
    pub in_flight: f64,
    /// `C.is_cwnd_limited`: whether the window was full at some time of the last round trip.
    pub is_cwnd_limited: bool,
}

impl Sample {
    /// `C.inflight` before the acknowledgement.
    pub fn prior_in_flight(&self) -> f64 {
        self.in_flight + self.newly_acked + self.newly_lost
    }
}

/// The sender's account of a path's deliveries (section 4.1.2.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delivery {
    /// `C.delivered`.
    pub delivered: f64,
    /// `C.lost`.
    pub lost: f64,
    /// `C.delivered_time`: when `delivered` last changed.
    pub delivered_time: f64,
    first_send_time: f64,
    /// `C.app_limited`: the value that `delivered` has once the flight is delivered that the
    /// application limited; 0 if the application does not limit the sender.
    app_limited: f64,
    /// `C.delivered` when the window was last full, plus 1; 0: never.
    full_at: f64,
    /// Number of the next transmission.
    next_id: u64,
    newly_acked: f64,
    newly_lost: f64,
    /// The newest of the packets that the present acknowledgement acknowledges.
    newest: Option<Stamp>,
}

impl Delivery {
    /// `OnPacketSent` (section 4.1.2.2): a packet is sent where `in_flight` are in the network
    /// without it, and `window` are allowed.
    pub fn on_sent(&mut self, now: f64, size: f64, in_flight: f64, window: f64) -> Stamp {
        if in_flight <= 0.0 {
            self.first_send_time = now;
            self.delivered_time = now;
        }
        if in_flight + 2.0 * size > window {
            self.full_at = self.delivered + 1.0;
        }
        self.next_id += 1;
        Stamp {
            size,
            packet_id: self.next_id,
            send_time: now,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_send_time: self.first_send_time,
            lost: self.lost,
            tx_in_flight: in_flight + size,
            is_app_limited: self.is_app_limited(),
        }
    }

    /// `UpdateRateSample` (section 4.1.2.3): an acknowledgement reports this packet. Where it
    /// reports several, those sent earlier come first.
    pub fn on_delivered(&mut self, now: f64, packet: &Stamp) {
        self.delivered += packet.size;
        self.delivered_time = now;
        self.newly_acked += packet.size;
        if self.newest.is_none() || packet.send_time >= self.first_send_time {
            self.newest = Some(*packet);
            self.first_send_time = packet.send_time;
        }
    }

    /// A packet is declared lost.
    pub fn on_lost(&mut self, packet: &Stamp) {
        self.lost += packet.size;
        self.newly_lost += packet.size;
    }

    /// `GenerateRateSample` (section 4.1.2.3), after every packet that an acknowledgement reports;
    /// `None` if it reports none. `min_rtt` is the smallest RTT of the path so far.
    pub fn sample(
        &mut self,
        now: f64,
        rtt: Option<f64>,
        in_flight: f64,
        min_rtt: f64,
    ) -> Option<Sample> {
        if self.is_app_limited() && self.delivered > self.app_limited {
            self.app_limited = 0.0;
        }
        let packet = self.newest.take()?;
        let send_elapsed = packet.send_time - packet.first_send_time;
        let interval = send_elapsed.max(self.delivered_time - packet.delivered_time);
        let delivered = self.delivered - packet.delivered;
        let is_reliable = interval > 0.0 && interval >= min_rtt * (1.0 - ACCURACY);
        Some(Sample {
            now,
            rtt: rtt.map(|rtt| libm::round(rtt * CLOCK) / CLOCK),
            newly_acked: core::mem::take(&mut self.newly_acked),
            newly_lost: core::mem::take(&mut self.newly_lost),
            prior_delivered: packet.delivered,
            delivered,
            interval,
            delivery_rate: if is_reliable {
                delivered / interval
            } else {
                0.0
            },
            is_app_limited: packet.is_app_limited,
            tx_in_flight: packet.tx_in_flight,
            lost: self.lost - packet.lost,
            in_flight,
            is_cwnd_limited: self.full_at > packet.delivered,
        })
    }

    /// `MarkConnectionAppLimited` (section 4.1.2.4): the sender has room and no data, or its low
    /// rate is the rule's choice.
    pub fn mark_app_limited(&mut self, in_flight: f64) {
        self.app_limited = (self.delivered + in_flight).max(1.0);
    }

    /// Whether the application limits the sender (`C.app_limited`).
    pub fn is_app_limited(&self) -> bool {
        self.app_limited > 0.0
    }
}

/// An event of a path whose rule acts by delivery rates.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A packet is about to be sent, and nothing is in flight.
    Restart {
        /// The time.
        now: f64,
    },
    /// An acknowledgement reports new packets.
    Acked(&'a Sample),
    /// A packet is declared lost. [`Delivery`] has counted it.
    Lost {
        /// The time.
        now: f64,
        /// The note from when it was sent.
        packet: &'a Stamp,
    },
    /// A recovery from losses begins.
    Recovery,
    /// A recovery is over: all that was outstanding when it began is acknowledged.
    Recovered,
    /// The retransmission timer expired: everything in flight is declared lost.
    Timeout,
    /// Nothing was lost in the last recovery, or before the last timeout.
    Spurious,
}

/// The largest value of the last `N` units of time, which [`update`](WindowedMax::update) numbers.
/// A window without a new value keeps its result.
#[derive(Clone, Copy, Debug)]
pub struct WindowedMax<const N: usize> {
    slots: [f64; N],
    time: u64,
}

impl<const N: usize> Default for WindowedMax<N> {
    fn default() -> Self {
        WindowedMax {
            slots: [0.0; N],
            time: 0,
        }
    }
}

impl<const N: usize> WindowedMax<N> {
    /// Notes a value at `time` and gives the largest one of the last `length <= N` units.
    pub fn update(&mut self, time: u64, value: f64, length: usize) -> f64 {
        let place = |time: u64| (time % N as u64) as usize;
        for passed in 1..=(time - self.time).min(N as u64) {
            self.slots[place(self.time + passed)] = 0.0;
        }
        self.time = time;
        let newest = &mut self.slots[place(time)];
        *newest = newest.max(value);
        let ages = 0..(length as u64).min(time + 1);
        ages.fold(0.0, |max: f64, age| max.max(self.slots[place(time - age)]))
    }
}

/// A number from 0 to 1, excluded, that follows from the time and the volume delivered: a choice
/// that differs from one connection to another and is the same in every run.
pub(crate) fn chance(now: f64, delivered: f64) -> f64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    let mut bits = now.to_bits() ^ delivered.to_bits().rotate_left(32);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
