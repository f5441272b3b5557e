//! Traces of rate, delay and loss together: CSV with named columns.

use anabranch_net::{MILLISECOND, SECOND, Steps, Time};

use crate::model::number::{DelayMs, Probability, RateMbps, TimeS};
use crate::resolve::picoseconds::picoseconds;

/// The columns of a trace that it has, as functions of time.
#[derive(Debug, Default)]
pub(super) struct LinkTrace {
    /// Bits per second.
    pub rate: Option<Steps>,
    /// Picoseconds beyond the link's delay.
    pub delay: Option<Steps>,
    /// Probabilities.
    pub loss: Option<Steps>,
}

const TIME: &str = "time_s";
const COLUMNS: [&str; 3] = ["rate_mbps", "delay_ms", "loss"];

/// Whether a text is such a trace, not one of mahimahi's.
pub(super) fn is_csv(text: &str) -> bool {
    text.trim_start().starts_with(TIME)
}

/// Reads the text of a trace.
///
/// # Errors
/// The line, what was expected there and what was found.
pub(super) fn parse(text: &str) -> Result<LinkTrace, String> {
    let mut lines = text.lines().map(str::trim).zip(1..);
    let header = lines.next().map_or("", |(line, _)| line);
    let names: Vec<&str> = header.split(',').map(str::trim).skip(1).collect();
    let mut places = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let Some(column) = COLUMNS.iter().position(|known| known == name) else {
            let known = COLUMNS.join(", ");
            return Err(format!(
                "line 1: unknown column {name:?}, expected one of {known}"
            ));
        };
        if names[..place].contains(name) {
            return Err(format!(
                "line 1: expected each column once, got {name:?} again"
            ));
        }
        places.push(column);
    }
    if places.is_empty() {
        return Err(format!(
            "line 1: expected {TIME} and one or more of {}",
            COLUMNS.join(", ")
        ));
    }
    let mut columns: [Vec<(Time, f64)>; 3] = Default::default();
    let mut last = None;
    for (line, number) in lines.filter(|(line, _)| !line.is_empty()) {
        let fault = |message: String| format!("line {number}: {message}");
        let values = numbers(line, names.len() + 1).map_err(fault)?;
        let time_s =
            TimeS::try_from(values[0]).map_err(|range| fault(format!("{TIME}: {range}")))?;
        let time = picoseconds(time_s.get(), SECOND);
        if let Some(before) = last.filter(|before| *before >= time) {
            let before_s = before as f64 / SECOND as f64;
            return Err(fault(format!(
                "{TIME}: expected more than {before_s}, the time before"
            )));
        }
        last = Some(time);
        for (&column, &value) in places.iter().zip(&values[1..]) {
            let value = converted(column, value)
                .map_err(|range| fault(format!("{}: {range}", COLUMNS[column])))?;
            columns[column].push((time, value));
        }
    }
    if last.is_none() {
        return Err("expected a line after the header, got none".to_owned());
    }
    if let Some((_, rate)) = columns[0].last()
        && *rate == 0.0
    {
        return Err(
            "expected a last rate_mbps above 0, got 0: nothing would ever arrive".to_owned(),
        );
    }
    let [rate, delay, loss] = columns.map(|steps| (!steps.is_empty()).then(|| Steps::new(steps)));
    Ok(LinkTrace { rate, delay, loss })
}

fn numbers(line: &str, count: usize) -> Result<Vec<f64>, String> {
    let read: Result<Vec<f64>, _> = line.split(',').map(|text| text.trim().parse()).collect();
    match read {
        Ok(values) if values.len() == count => Ok(values),
        _ => Err(format!(
            "expected {count} numbers, as the header has columns, found {line:?}"
        )),
    }
}

/// A value in the unit of its function.
fn converted(column: usize, value: f64) -> Result<f64, String> {
    match COLUMNS[column] {
        "rate_mbps" if value == 0.0 => Ok(0.0),
        "rate_mbps" => RateMbps::try_from(value).map(|mbps| mbps.get() * 1e6),
        "delay_ms" => DelayMs::try_from(value).map(|ms| picoseconds(ms.get(), MILLISECOND) as f64),
        _ => Probability::try_from(value).map(Probability::get),
    }
}
