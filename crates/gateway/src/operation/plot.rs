//! The last hour as plots, drawn as SVG on the server. Colours are variables of the page's style,
//! so that one drawing is right on light and on dark.

use std::fmt::Write;

use super::history::{History, SAMPLES, Sample};

/// Colours of the paths in the page's style: `--path0`, `--path1`, ...
pub const COLOURS: usize = 6;

/// Points of a curve; each is the mean of its samples.
const POINTS: usize = 240;

/// Minutes of the horizontal axis.
const MINUTES: f64 = SAMPLES as f64 / 60.0;

/// Space around a plot, px: for the labels of its axes, and for a curve's width.
const LEFT: f64 = 48.0;
const RIGHT: f64 = 16.0;
const ABOVE: f64 = 8.0;
const BELOW: f64 = 24.0;

/// What is plotted.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// The heading.
    pub title: &'static str,
    /// The unit of the vertical axis.
    pub unit: &'static str,
    /// The axis reaches at least this far.
    least: f64,
    value: fn(&[Sample]) -> f64,
}

/// Everything that is plotted, in the page's order.
pub const QUANTITIES: [Quantity; 5] = [
    Quantity {
        title: "Received",
        unit: "Mbit/s",
        least: 0.1,
        value: |samples| mean(samples, |sample| sample.received_mbps),
    },
    Quantity {
        title: "Sent",
        unit: "Mbit/s",
        least: 0.1,
        value: |samples| mean(samples, |sample| sample.sent_mbps),
    },
    Quantity {
        title: "Round-trip time",
        unit: "ms",
        least: 1.0,
        value: |samples| mean(samples, |sample| sample.rtt_ms),
    },
    Quantity {
        title: "Loss",
        unit: "%",
        least: 0.1,
        value: loss_percent,
    },
    Quantity {
        title: "Weight kappa",
        unit: "packets",
        least: 1.0,
        value: |samples| mean(samples, |sample| sample.kappa),
    },
];

fn mean(samples: &[Sample], value: fn(&Sample) -> f32) -> f64 {
    let known = samples.iter().map(value).filter(|value| !value.is_nan());
    let (sum, count) = known.fold((0.0, 0.0), |(sum, n), value| {
        (sum + f64::from(value), n + 1.0)
    });
    sum / count
}

fn loss_percent(samples: &[Sample]) -> f64 {
    let total = |value: fn(&Sample) -> u32| -> f64 {
        samples.iter().map(|sample| f64::from(value(sample))).sum()
    };
    (100.0 * total(|sample| sample.lost) / total(|sample| sample.packets)).min(100.0)
}

/// A curve: minutes before now, and values; in pieces where there are no values.
type Curve = Vec<Vec<(f64, f64)>>;

fn curve(samples: &[Sample], quantity: &Quantity) -> Curve {
    let per_point = SAMPLES / POINTS;
    // Aligned to the end, so that a sample stays in its point until the next is added.
    let chunks = samples.rchunks(per_point).enumerate();
    let points = chunks.map(|(i, chunk)| {
        let minutes = -((i * per_point) as f64) / 60.0;
        (minutes, (quantity.value)(chunk))
    });
    let points: Vec<_> = points.collect();
    let pieces = points.split(|(_, value)| !value.is_finite());
    pieces
        .filter(|piece| !piece.is_empty())
        .map(<[_]>::to_vec)
        .collect()
}

/// The plot of a quantity; `None` if no path has a value.
pub fn svg(history: &History, quantity: &Quantity, width: u32, height: u32) -> Option<String> {
    let curves: Vec<Curve> = history
        .paths()
        .map(|(_, samples)| {
            let samples: Vec<Sample> = samples.iter().copied().collect();
            curve(&samples, quantity)
        })
        .collect();
    let values = curves.iter().flatten().flatten().map(|(_, value)| *value);
    let largest = values.reduce(f64::max)?;
    let top = (1.1 * largest).max(quantity.least);
    let (right, bottom) = (f64::from(width) - RIGHT, f64::from(height) - BELOW);
    let x = |minutes: f64| right + (right - LEFT) * minutes / MINUTES;
    let y = |value: f64| bottom - (bottom - ABOVE) * value / top;
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{}, {}, last hour\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">",
        quantity.title, quantity.unit
    );
    for value in ticks(top) {
        let (at, label) = (y(value), number(value));
        svg += &format!(
            "<path stroke=\"var(--grid)\" d=\"M{LEFT} {at:.1}H{right}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    let every = if width < 600 { 20 } else { 10 };
    for minutes in (0..=60).step_by(every) {
        let label = match minutes {
            0 => "now".to_owned(),
            _ => format!("-{minutes} min"),
        };
        svg += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            x(-f64::from(minutes)),
            bottom + 18.0
        );
    }
    for (i, curve) in curves.iter().enumerate() {
        let colour = i % COLOURS;
        for piece in curve {
            // The first point twice, because a line of a single one is not drawn.
            let mut line = String::new();
            for (minutes, value) in piece[..1].iter().chain(piece) {
                let _ = write!(line, "{:.1} {:.1} ", x(*minutes), y(*value));
            }
            svg += &format!(
                "<path stroke=\"var(--path{colour})\" stroke-width=\"2\" stroke-linecap=\"round\" \
                 fill=\"none\" d=\"M{}\"/>",
                line.trim_end()
            );
        }
    }
    Some(svg + "</svg>")
}

/// At most five round values from 0 to `top`.
fn ticks(top: f64) -> impl Iterator<Item = f64> {
    let size = 10f64.powf((top / 4.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * size);
    let step = steps.into_iter().find(|step| 5.0 * step > top);
    let step = step.unwrap_or(top);
    (0..=4)
        .map(move |i| f64::from(i) * step)
        .filter(move |value| *value <= top)
}

/// A label: three digits are enough.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 10.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn history(seconds: usize) -> History {
        let mut history = History::default();
        for i in 0..seconds {
            let sample = Sample {
                sent_mbps: i as f32,
                rtt_ms: if (100..200).contains(&i) {
                    f32::NAN
                } else {
                    20.0
                },
                ..Sample::NONE
            };
            history.push(BTreeMap::from([("a".to_owned(), sample)]));
        }
        history
    }

    #[test]
    fn a_plot_has_text_and_the_colours_of_the_page() {
        let svg = svg(&history(600), &QUANTITIES[1], 400, 160).expect("there are values");
        assert!(svg.contains("<text") && svg.contains("-60 min"), "{svg}");
        assert!(
            svg.contains("var(--path0)") && svg.contains("var(--grid)"),
            "{svg}"
        );
        for unwanted in ["#0", "style=", "//"] {
            assert!(!svg.contains(unwanted), "{svg}");
        }
    }

    #[test]
    fn an_axis_has_round_values() {
        let ticks = |top| ticks(top).collect::<Vec<_>>();
        assert_eq!(ticks(93.0), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks(8.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(ticks(0.1), [0.0, 0.05, 0.1]);
    }

    #[test]
    fn a_line_runs_from_the_oldest_sample_to_the_newest() {
        let svg = svg(&history(2 * SAMPLES), &QUANTITIES[2], 400, 160).expect("there are values");
        // 20 ms of at most 22 are at 136 - 128 * 20 / 22 = 19.6, from 48 to 384 px.
        let line = svg.split("d=\"").last().unwrap_or_default();
        assert!(line.starts_with("M384.0 19.6 384.0 19.6 "), "{line}");
        // The first of 240 points is 59.75 minutes old.
        assert!(line.contains(" 49.4 19.6\"/></svg>"), "{line}");
    }

    #[test]
    fn what_has_no_values_is_not_plotted() {
        assert!(svg(&history(600), &QUANTITIES[4], 400, 160).is_none());
        assert!(svg(&History::default(), &QUANTITIES[0], 400, 160).is_none());
    }

    #[test]
    fn a_curve_has_a_gap_where_there_was_nothing_and_a_bounded_number_of_points() {
        let samples = |history: &History| -> Vec<Sample> {
            history
                .paths()
                .flat_map(|(_, samples)| samples.iter().copied())
                .collect()
        };
        let pieces = curve(&samples(&history(600)), &QUANTITIES[2]);
        assert_eq!(pieces.len(), 2);
        let pieces = curve(&samples(&history(2 * SAMPLES)), &QUANTITIES[1]);
        assert_eq!(pieces.iter().map(Vec::len).sum::<usize>(), POINTS);
        // The mean of the newest 15 samples: 7199 less 7.
        assert_eq!(pieces[0][0], (0.0, 7192.0));
    }
}
