//! Flows: users, their paths, their algorithm, and what they send: files, messages, media.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2};

use anabranch_control::{Algorithm, RateAdjustment};
use anabranch_net::time::from_seconds;
use anabranch_net::{Dice, Time, weibull_scale};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::choice::{Guard, MaxKappa};
use crate::model::number::{
    AboveOne, Bytes, Count, DelayMs, EndS, FramesPerS, Kappa, LateMs, MeanBytes, NonNegative,
    PacketBytes, PeriodS, Positive, Probability, RateMbps, RatePerS, SampleMs, Samples, Sigma,
    TimeS, WeibullShape,
};

/// A group of identical users.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Name in the file and in the tables of a result.
    pub name: String,
    /// Number of users.
    pub count: Count,
    /// The paths each user sends on; at least one.
    pub paths: Vec<Path>,
    /// The congestion-control algorithm.
    pub algorithm: Algorithm,
    /// Size of its full data packets on the wire, headers included, bytes.
    pub packet_bytes: PacketBytes,
    /// Data that each user sends.
    pub workload: Workload,
    /// The earliest start, s.
    pub start_s: TimeS,
    /// Each user starts at a uniformly random time within this many seconds after `start_s`.
    pub start_spread_s: TimeS,
    /// When every user stops, s; `None`: at the end of the run.
    pub stop_s: Option<EndS>,
}

/// One path from sender to receiver and back.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The links in order, as indexes into [`Scenario::links`](crate::Scenario::links).
    pub links: Vec<usize>,
    /// The links that bring ACKs back, in order: ACKs queue there and are lost there. None: ACKs
    /// return after a pure delay, never queue and are never lost.
    pub back: Vec<usize>,
    /// The pure delay, or the propagation delay of the links of `back`, ms.
    pub return_delay_ms: DelayMs,
    /// Time at which it opens, s, or with its user if that starts later. At most the flow's
    /// `start_s` for the first path, and for each path at least the time of the one before it.
    pub start_s: TimeS,
}

/// Data that a user sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Workload {
    /// Data without limit.
    #[default]
    Bulk,
    /// One file.
    File {
        /// Size, bytes of payload.
        bytes: Bytes,
    },
    /// Data without limit and silence, in alternating periods.
    OnOff {
        /// Length of a sending period, s.
        on_s: PeriodS,
        /// Length of a silent period, s.
        off_s: PeriodS,
    },
    /// Files that arrive as a Poisson process, each on a new connection.
    Poisson {
        /// Files per second.
        rate_per_s: RatePerS,
        /// Sizes of the files.
        size: Size,
    },
    /// The files of several clients, pooled in a gateway between them and the network: one
    /// persistent connection carries a packet of each file in turn. A file arrives at the gateway
    /// whole and at once: the links to the clients are assumed to be faster than the network.
    Gateway {
        /// Clients of each gateway; the files of each arrive as a Poisson process.
        clients: Count,
        /// Files per second of one client.
        rate_per_s: RatePerS,
        /// Sizes of the files.
        size: Size,
        /// How the weight of the connection follows the gateway's buffer; requires `vegas` over
        /// one path. Default: the weight is fixed.
        #[serde(skip_serializing_if = "Option::is_none")]
        adjust: Option<Adjust>,
    },
    /// Messages of known sizes at known times on one persistent connection, such as requests,
    /// measurements or packets of speech: a message begins a packet of its own, and waits for those
    /// before it.
    Messages(Messages),
    /// Media as datagrams over one path: frames at equal times, of a constant rate or of one that
    /// follows delay and losses (`docs/reference/workloads.md`). The flow's algorithm has no
    /// effect.
    Media(Media),
}

// The rate adjustment of a gateway (I-TCP).

/// How a gateway adjusts the kappa of its weighted-Vegas connection. Defaults: I-TCP, table I.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Adjust {
    /// C: samples of the gateway's buffer from which one slope is fitted, at least 2.
    pub samples: Samples,
    /// P: time between two samples, s. A random wait, uniform up to `samples` of it, comes before.
    pub period_s: PeriodS,
    /// M: the largest kappa, at least 1, which is the smallest; or `"active"`: the number of files
    /// in the gateway's buffer, of which some was never sent, at the end of each round of samples.
    pub max_kappa: MaxKappa,
    /// Buffer size that the thresholds are fractions of, packets. It is not a limit.
    pub max_queue_packets: Positive,
    /// Margin by which the share should exceed the offered load, relative to the share.
    pub epsilon: NonNegative,
    /// Fraction of kappa that a decrease removes.
    pub gamma: Probability,
    /// kappa never grows while the mean buffer is at most this fraction of `max_queue_packets`.
    pub low_threshold: NonNegative,
    /// kappa never shrinks, and grows by at least 1, while the mean buffer is above this fraction.
    pub high_threshold: NonNegative,
    /// With `true` kappa never shrinks while the measured arrival rate, plus epsilon, exceeds the
    /// share; with `"growth"` only where the buffer shrinks by more than epsilon of the share. The
    /// rule as printed has no such guard.
    pub guard: Guard,
    /// New files wait at their clients while the mean buffer of the last round of samples was above
    /// `high_threshold`; then they come in, at each sample, as far as the buffer is below it.
    pub back_pressure: bool,
}

impl Default for Adjust {
    fn default() -> Self {
        Adjust {
            samples: Samples::constant(180),
            period_s: PeriodS::constant(0.5),
            max_kappa: MaxKappa::Packets(Kappa::constant(10.0)),
            max_queue_packets: Positive::constant(200_000.0),
            epsilon: NonNegative::constant(0.1),
            gamma: Probability::constant(0.2),
            low_threshold: NonNegative::constant(0.2),
            high_threshold: NonNegative::constant(1.0),
            guard: Guard::Off,
            back_pressure: false,
        }
    }
}

impl Adjust {
    /// The parameters of the control rule. With `max_kappa = "active"` the largest kappa is
    /// infinite until the endpoint sets it.
    pub fn parameters(&self) -> RateAdjustment {
        RateAdjustment {
            samples: self.samples.get(),
            period_s: self.period_s.get(),
            max_kappa: match self.max_kappa {
                MaxKappa::Packets(packets) => packets.get(),
                MaxKappa::Active => f64::INFINITY,
            },
            max_queue_packets: self.max_queue_packets.get(),
            epsilon: self.epsilon.get(),
            gamma: self.gamma.get(),
            low_threshold: self.low_threshold.get(),
            high_threshold: self.high_threshold.get(),
            guard: self.guard.rule(),
        }
    }
}

// Media: frames at equal times, as datagrams that are never sent again.

/// A source of media and how its rate is chosen: `rate_mbps`, constant, or `nada`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Media {
    /// The constant rate of the media, headers excluded, Mbps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<RateMbps>,
    /// The rate follows queueing delay and losses by the control law of NADA (RFC 8698).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nada: Option<NadaRates>,
    /// Frames per second.
    pub frames_per_s: FramesPerS,
    /// A frame of which not every byte has arrived after this time is a freeze, ms.
    pub late_ms: LateMs,
}

/// The rates of NADA's source, headers excluded. Defaults: RFC 8698, figure 3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NadaRates {
    /// RMIN, at which it begins, Mbps.
    pub min_mbps: RateMbps,
    /// RMAX, Mbps.
    pub max_mbps: RateMbps,
}

impl Default for NadaRates {
    fn default() -> Self {
        NadaRates {
            min_mbps: RateMbps::constant(0.15),
            max_mbps: RateMbps::constant(1.5),
        }
    }
}

impl Media {
    /// The largest rate, Mbps.
    pub(crate) fn largest_mbps(&self) -> f64 {
        let nada = self.nada.as_ref().map(|nada| nada.max_mbps);
        self.rate_mbps.or(nada).map_or(0.0, RateMbps::get)
    }
}

// Messages of an application: how large each is, and when it is submitted.

/// The messages of each user: all of one size at equal times, a list, or a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Messages {
    /// Size of every message, bytes of payload; with `interval_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<Bytes>,
    /// Time from one message to the next, ms; the first is at the user's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<SampleMs>,
    /// The messages one by one, in the order of their times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<Message>,
    /// A CSV file of them beside the scenario: a header `time_s,bytes`, then a line per message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The messages of `list` or `file`, once they are read.
    #[serde(skip)]
    pub(crate) read: Vec<Message>,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// When it is submitted, s after the user's start.
    pub time_s: TimeS,
    /// Size, bytes of payload.
    pub bytes: Bytes,
}

/// The number of a CSV line and what is wrong there.
pub(crate) type CsvFault = (usize, String);

/// The first line of a file of messages.
const HEADER: &str = "time_s,bytes";

impl Messages {
    /// The time of message `number` after the user's start; `None`: there is none.
    pub(crate) fn time(&self, number: u64) -> Option<Time> {
        match self.interval_ms {
            Some(interval_ms) => Some(number * from_seconds(interval_ms.get() * 1e-3)),
            None => self.one(number).map(|one| from_seconds(one.time_s.get())),
        }
    }

    /// The size of message `number`, bytes; 0: there is none.
    pub(crate) fn bytes(&self, number: u64) -> u64 {
        let size = self.size_bytes.or(self.one(number).map(|one| one.bytes));
        size.map_or(0, Bytes::get)
    }

    /// Messages of a user within `s` seconds of its start, and their bytes.
    pub(crate) fn within(&self, s: f64) -> (f64, f64) {
        if let (Some(size), Some(interval_ms)) = (self.size_bytes, self.interval_ms) {
            let number = (s * 1e3 / interval_ms.get()).ceil();
            return (number, number * size.get() as f64);
        }
        let sent = self.read.iter().filter(|one| one.time_s.get() < s);
        sent.fold((0.0, 0.0), |(number, bytes), one| {
            (number + 1.0, bytes + one.bytes.get() as f64)
        })
    }

    fn one(&self, number: u64) -> Option<&Message> {
        self.read.get(number as usize)
    }
}

/// The messages of a CSV text.
///
/// # Errors
/// The line, counted from 1, what was expected there and what was found.
pub(crate) fn parse(text: &str) -> Result<Vec<Message>, CsvFault> {
    let mut lines = text.lines().map(str::trim).zip(1..);
    match lines.next() {
        Some((HEADER, _)) => {}
        other => {
            let found = other.map_or("", |(line, _)| line);
            let message = format!("expected the header {HEADER:?}, found {found:?}");
            return Err((1, message));
        }
    }
    let filled = lines.filter(|(line, _)| !line.is_empty());
    filled
        .map(|(line, number)| message(line).map_err(|fault| (number, fault)))
        .collect()
}

fn message(line: &str) -> Result<Message, String> {
    let two =
        || format!("expected a time in s and a size in bytes, such as 0.02,160, found {line:?}");
    let (time, bytes) = line.split_once(',').ok_or_else(two)?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| two());
    Ok(Message {
        time_s: TimeS::try_from(number(time)?).map_err(|fault| format!("time_s: {fault}"))?,
        bytes: Bytes::try_from(number(bytes)?).map_err(|fault| format!("bytes: {fault}"))?,
    })
}

/// The place of the first message that is earlier than the one before it.
pub(crate) fn first_out_of_order(messages: &[Message]) -> Option<usize> {
    let earlier = |pair: &[Message]| pair[1].time_s < pair[0].time_s;
    messages
        .windows(2)
        .position(earlier)
        .map(|before| before + 1)
}

// Sizes of the files that users send.

/// No file is larger, bytes: a Pareto tail has no end, but whole numbers of a result are signed
/// 64-bit.
const LARGEST_FILE: u64 = i64::MAX as u64;

/// The distribution of file sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Size {
    /// Heavy-tailed: P(size > x) is proportional to x^-shape.
    Pareto {
        /// Mean, bytes.
        mean_bytes: MeanBytes,
        /// Tail exponent; from 1 to 2 the variance is infinite.
        shape: AboveOne,
    },
    /// Light-tailed.
    Exponential {
        /// Mean, bytes.
        mean_bytes: MeanBytes,
    },
    /// All moments are finite, yet the tail is heavier than any Weibull's: ln(size) is normal.
    Lognormal {
        /// Mean, bytes.
        mean_bytes: MeanBytes,
        /// Standard deviation of ln(size).
        sigma: Sigma,
    },
    /// P(size > x) = exp(-(x / scale)^shape): heavier than exponential for a shape below 1.
    Weibull {
        /// Mean, bytes.
        mean_bytes: MeanBytes,
        /// Exponent of the tail; 1 is exponential.
        shape: WeibullShape,
    },
}

impl Size {
    /// Name in a scenario.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Size::Pareto { .. } => "pareto",
            Size::Exponential { .. } => "exponential",
            Size::Lognormal { .. } => "lognormal",
            Size::Weibull { .. } => "weibull",
        }
    }

    /// The mean as it is written, bytes.
    pub(crate) fn mean_bytes(&self) -> f64 {
        let (Size::Pareto { mean_bytes, .. }
        | Size::Exponential { mean_bytes }
        | Size::Lognormal { mean_bytes, .. }
        | Size::Weibull { mean_bytes, .. }) = self;
        mean_bytes.get()
    }

    /// The size of one file, bytes; at least 1.
    pub(crate) fn draw(&self, dice: &mut Dice) -> u64 {
        let bytes = match self {
            Size::Exponential { mean_bytes } => mean_bytes.get() * dice.exponential(),
            Size::Pareto { mean_bytes, shape } => dice.pareto(mean_bytes.get(), shape.get()),
            Size::Lognormal { mean_bytes, sigma } => dice.lognormal(mean_bytes.get(), sigma.get()),
            Size::Weibull { mean_bytes, shape } => dice.weibull(mean_bytes.get(), shape.get()),
        };
        (bytes.round() as u64).clamp(1, LARGEST_FILE)
    }

    /// The largest size that [`draw`](Self::draw) can give, bytes.
    pub(crate) fn largest_bytes(&self) -> f64 {
        // `Dice::uniform` has 53 bits, so that P(size > largest) = 2^-53, and a normal number is at
        // most the root of twice that exponent.
        let exponent = 53.0 * LN_2;
        let largest = match self {
            Size::Exponential { mean_bytes } => exponent * mean_bytes.get(),
            Size::Pareto { shape, .. } => self.smallest_bytes() * libm::exp2(53.0 / shape.get()),
            Size::Lognormal { mean_bytes, sigma } => {
                let sigma = sigma.get();
                let above = (2.0 * exponent).sqrt() * sigma - 0.5 * sigma * sigma;
                mean_bytes.get() * libm::exp(above)
            }
            Size::Weibull { mean_bytes, shape } => {
                weibull_scale(mean_bytes.get(), shape.get())
                    * libm::pow(exponent, 1.0 / shape.get())
            }
        };
        largest.min(LARGEST_FILE as f64)
    }

    /// The mean of what [`draw`](Self::draw) gives, bytes, to about half a percent: less than the
    /// written mean where files beyond the largest would carry a share of the load.
    pub(crate) fn effective_mean_bytes(&self) -> f64 {
        let largest = self.largest_bytes();
        match self {
            Size::Exponential { mean_bytes } => mean_bytes.get(),
            // E[min(X, L)] = mean (1 - (smallest / L)^(shape - 1) / shape).
            Size::Pareto { mean_bytes, shape } => {
                let (shape, below) = (shape.get(), self.smallest_bytes() / largest);
                mean_bytes.get() * (1.0 - libm::pow(below, shape - 1.0) / shape)
            }
            // E[min(X, L)] = mean Phi(z) + L Phi(-z - sigma), z = ln(L / mean) / sigma - sigma / 2.
            Size::Lognormal { mean_bytes, sigma } => {
                let (mean, sigma) = (mean_bytes.get(), sigma.get());
                let z = libm::log(largest / mean) / sigma - 0.5 * sigma;
                let above = largest * 0.5 * libm::erfc((z + sigma) * FRAC_1_SQRT_2);
                mean * 0.5 * libm::erfc(-z * FRAC_1_SQRT_2) + above
            }
            // E[min(X, L)] = mean P(1 + 1/shape, t) + L exp(-t) with t = (L / scale)^shape.
            Size::Weibull { mean_bytes, shape } => {
                let (mean, shape) = (mean_bytes.get(), shape.get());
                let t = libm::pow(largest / weibull_scale(mean, shape), shape);
                mean * lower_gamma(1.0 + 1.0 / shape, t) + largest * libm::exp(-t)
            }
        }
    }

    /// The smallest size, bytes, before it is rounded.
    fn smallest_bytes(&self) -> f64 {
        match self {
            Size::Pareto { mean_bytes, shape } => mean_bytes.get() * (1.0 - 1.0 / shape.get()),
            _ => 0.0,
        }
    }
}

/// P(a, t), the regularised lower incomplete gamma function, by its series (DLMF 8.11.4).
fn lower_gamma(a: f64, t: f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, 1.0);
    while term > 1e-9 * sum {
        term *= t / (a + n);
        sum += term;
        n += 1.0;
    }
    sum * libm::exp(a * libm::log(t) - t - libm::lgamma(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(toml: &str) -> Size {
        let mut table: std::collections::BTreeMap<String, Size> =
            toml::from_str(&format!("size.{toml}")).expect("valid TOML");
        table.remove("size").expect("the key is there")
    }

    /// The mean of 40 000 draws: an exponential's has a standard error of 0.5 %.
    #[test]
    fn sizes_beyond_32_bits_have_their_mean() {
        let size = size("exponential = { mean_bytes = 1e11 }");
        let mut dice = Dice::new(1);
        let sum: f64 = (0..40_000).map(|_| size.draw(&mut dice) as f64).sum();
        assert!((sum / 40_000.0 / 1e11 - 1.0).abs() < 0.02, "{sum}");
    }

    /// ln(size) is normal of mean m = ln(1e5) - 1.2^2 / 2 = 10.793 and deviation 1.2. Over 40 000
    /// draws its mean has a standard error of 0.006, its variance of 1.44 sqrt(2 / 40 000) =
    /// 0.0102, and the mean size, whose variance is exp(1.44) - 1 = 3.22 means squared, of 0.9 %.
    #[test]
    fn lognormal_sizes_have_their_mean_and_the_moments_of_their_logarithm() {
        let size = size("lognormal = { mean_bytes = 1e5, sigma = 1.2 }");
        let mut dice = Dice::new(1);
        let draws: Vec<f64> = (0..40_000).map(|_| size.draw(&mut dice) as f64).collect();
        let mean = |of: &dyn Fn(f64) -> f64| draws.iter().map(|&x| of(x)).sum::<f64>() / 40_000.0;
        assert!((mean(&|x| x) / 1e5 - 1.0).abs() < 0.036);
        let m = mean(&f64::ln);
        assert!((m - 10.793).abs() < 0.024, "{m}");
        let variance = mean(&|x| (x.ln() - m).powi(2));
        assert!((variance - 1.44).abs() < 0.041, "{variance}");
        assert!(draws.iter().all(|&x| x <= size.largest_bytes()));
    }

    /// With shape 1/2 the mean is scale Gamma(3) = 2 scale, and the size is scale t^2 for an
    /// exponential t: E[X^2] = 24 scale^2 = 6 means squared, so that the mean of 40 000 has a
    /// standard error of sqrt(5) / 200 = 1.1 %. P(X > mean) = exp(-sqrt(2)) = 0.2431, of which the
    /// standard error is 0.0021. With shape 2 the mean is scale sqrt(pi) / 2, and P(X > mean) =
    /// exp(-pi / 4) = 0.4559, with 0.0025.
    #[test]
    fn weibull_sizes_have_their_mean_and_tail() {
        for (shape, deviation, beyond) in [(0.5, 5.0_f64.sqrt(), 0.2431), (2.0, 0.523, 0.4559)] {
            let size = size(&format!(
                "weibull = {{ mean_bytes = 1e5, shape = {shape} }}"
            ));
            let mut dice = Dice::new(2);
            let draws: Vec<f64> = (0..40_000).map(|_| size.draw(&mut dice) as f64).collect();
            let mean = draws.iter().sum::<f64>() / 40_000.0;
            assert!((mean / 1e5 - 1.0).abs() < 4.0 * deviation / 200.0, "{mean}");
            let above = draws.iter().filter(|&&x| x > 1e5).count() as f64 / 40_000.0;
            assert!((above - beyond).abs() < 0.01, "{shape}: {above}");
        }
    }

    /// At sigma = 5 a normal number of at most 8.571 leaves Phi(8.571 - 5) = 0.9998 of the mean;
    /// of a mean of 1e15 bytes L = 2^63 leaves Phi(z) + (L / mean) Phi(-z - 5), with
    /// z = ln(9223.4) / 5 - 2.5 = -0.6741: 0.2501 + 9223.4 * 7.60e-6 = 0.3202. At shape 0.1 the
    /// scale is mean / 10!, and t = (L / scale)^0.1 = 11.284: 1 - exp(-t) (sum of t^n / n! for n up
    /// to 10) = 0.57355, and (L / mean) exp(-t) = 0.11595 more.
    #[test]
    fn the_largest_file_takes_its_share_of_any_mean() {
        for (toml, share) in [
            ("lognormal = { mean_bytes = 1e6, sigma = 5 }", 0.9998),
            ("lognormal = { mean_bytes = 1e15, sigma = 5 }", 0.3202),
            ("weibull = { mean_bytes = 1e6, shape = 0.1 }", 1.0),
            ("weibull = { mean_bytes = 1e15, shape = 0.1 }", 0.6895),
        ] {
            let size = size(toml);
            let ours = size.effective_mean_bytes() / size.mean_bytes();
            assert!((ours - share).abs() < 2e-4, "{toml}: {ours}");
        }
    }

    /// smallest = 90 909 bytes, so P(size > 2^31) = (90 909 / 2^31)^1.1 = 1.55e-5: 31 of 2e6 draws,
    /// 5.6 the standard deviation. These few carry a third of the load.
    #[test]
    fn a_pareto_tail_goes_on_beyond_31_bits() {
        let size = size("pareto = { mean_bytes = 1e6, shape = 1.1 }");
        let mut dice = Dice::new(1);
        let draws = (0..2_000_000).map(|_| size.draw(&mut dice));
        let large = draws.filter(|&bytes| bytes > 1 << 31).count();
        assert!((15..=47).contains(&large), "{large}");
    }

    /// The mean over the grid of 2^53 values that `Dice::uniform` can take: summed one by one near
    /// the tail, by the integral beyond.
    fn mean_over_grid(mean: f64, shape: f64) -> f64 {
        let step = (0.5_f64).powi(53);
        let smallest = mean * (1.0 - 1.0 / shape);
        let exact = 100_000;
        let value = |k: f64| (smallest * (k * step).powf(-1.0 / shape)).min(LARGEST_FILE as f64);
        let tail: f64 = (1..=exact).map(|k| value(f64::from(k)) * step).sum();
        let (from, b) = ((f64::from(exact) + 0.5) * step, 1.0 - 1.0 / shape);
        tail + smallest * (1.0 - from.powf(b)) / b
    }

    #[test]
    fn the_effective_mean_is_that_of_the_draws() {
        for (mean, shape) in [(1e6, 1.1), (3e4, 1.2), (1e6, 1.05), (1e10, 1.3), (1e5, 1.5)] {
            let size = size(&format!(
                "pareto = {{ mean_bytes = {mean}, shape = {shape} }}"
            ));
            let (ours, grid) = (size.effective_mean_bytes(), mean_over_grid(mean, shape));
            assert!((ours / grid - 1.0).abs() < 0.005, "{shape}: {ours} {grid}");
        }
    }

    /// 31 bits cut off 33 % of the first and 6 % of the second.
    #[test]
    fn a_heavy_tail_keeps_its_load() {
        let share = |toml: &str, mean: f64| size(toml).effective_mean_bytes() / mean;
        assert!(share("pareto = { mean_bytes = 1e6, shape = 1.1 }", 1e6) > 0.96);
        assert!(share("pareto = { mean_bytes = 3e4, shape = 1.2 }", 3e4) > 0.998);
    }
}
