//! The last hour as plots, drawn as SVG on the server. Colours are variables of the page's style,
//! so that one drawing is right on light and on dark.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::history::{History, SAMPLES, Sample};

/// Colours of the paths, as numbers that [`svg`] replaces by `var(--path0)`, `var(--path1)`, ...
pub const COLOURS: usize = 6;

/// Points of a curve; each is the mean of its samples.
const POINTS: usize = 240;

const TEXT_PX: f64 = 12.0;
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);

const fn path_colour(i: usize) -> RGBColor {
    RGBColor(3, 3, (i % COLOURS) as u8)
}

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
    let mut drawing = String::new();
    draw(&mut drawing, &curves, top, (width, height)).expect("a string can always grow");
    Some(with_variables(&drawing, quantity))
}

fn draw(
    drawing: &mut String,
    curves: &[Curve],
    top: f64,
    size: (u32, u32),
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(drawing, size).into_drawing_area();
    let minutes = SAMPLES as f64 / 60.0;
    let mut chart = ChartBuilder::on(&area)
        .margin_top(8)
        .margin_right(16)
        .x_label_area_size(24)
        .y_label_area_size(48)
        .build_cartesian_2d(-minutes..0.0, 0.0..top)?;
    // plotters writes 1/1.24 of the size.
    let text = ("sans-serif", 1.24 * TEXT_PX).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .x_labels(if size.0 < 600 { 4 } else { 7 })
        .y_labels(4)
        .x_label_style(text.pos(Pos::new(HPos::Center, VPos::Top)))
        .y_label_style(("sans-serif", 1.24 * TEXT_PX).into_font().color(&INK))
        .x_label_formatter(&|minutes| match minutes.round() {
            0.0 => "now".to_owned(),
            minutes => format!("{minutes:.0} min"),
        })
        .y_label_formatter(&|value| number(*value))
        .draw()?;
    for (i, curve) in curves.iter().enumerate() {
        for piece in curve {
            let style = path_colour(i).stroke_width(2);
            // A single point has no line.
            if let [point] = piece[..] {
                chart.draw_series([Circle::new(point, 2, path_colour(i).filled())])?;
            }
            chart.draw_series(LineSeries::new(piece.iter().copied(), style))?;
        }
    }
    area.present()?;
    Ok(())
}

/// A label: three digits are enough.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 10.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Replaces the colours by the variables of the page, and gives the drawing a description.
fn with_variables(drawing: &str, quantity: &Quantity) -> String {
    let mut svg = drawing.replacen(
        "<svg ",
        &format!(
            "<svg role=\"img\" aria-label=\"{}, {}, last hour\" ",
            quantity.title, quantity.unit
        ),
        1,
    );
    // Within HTML it needs no namespace.
    svg = svg
        .replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
        .replace("#010101", "var(--ink)")
        .replace("#020202", "var(--grid)");
    for i in 0..COLOURS {
        svg = svg.replace(&format!("#0303{i:02X}"), &format!("var(--path{i})"));
    }
    svg
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
            svg.contains("var(--path0)") && svg.contains("var(--ink)"),
            "{svg}"
        );
        for unwanted in ["#0", "style=", "//"] {
            assert!(!svg.contains(unwanted), "{svg}");
        }
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
