//! I-TCP: the weight of a tunnel follows the gateway's buffer.
//!
//! Each gateway adjusts the tunnel in its own direction, by the samples of its own buffer: data
//! Each gateway adjusts the tunnel in its own direction, by samples of its own buffer: data that
//! streams have accepted and that was never sent. Data that local connections could not

use std::time::Duration;

use anabranch_control::{Adjuster, BufferSample, RateAdjustment};
use anabranch_scenario::Adjust;
use tokio::time::{Instant, sleep};

use crate::carrier::{PathState, Tunnel};
use crate::random;

/// A tunnel whose weight is adjusted.
trait Buffer {
    /// Data accepted and never sent, bytes.
    fn unsent_bytes(&self) -> u64;
    /// Data accepted since the start, bytes.
    fn accepted_bytes(&self) -> u64;
    /// Paths over which it is sent.
    fn paths(&self) -> Vec<PathState>;
    /// Changes the weight.
    fn set_kappa(&self, kappa: f64);
}

impl Buffer for Tunnel {
    fn unsent_bytes(&self) -> u64 {
        (**self).unsent_bytes()
    }

    fn accepted_bytes(&self) -> u64 {
        (**self).accepted_bytes()
    }

    fn paths(&self) -> Vec<PathState> {
        (**self).paths()
    }

    fn set_kappa(&self, kappa: f64) {
        (**self).set_kappa(kappa);
    }
}

/// Adjusts the weight of this tunnel, if that is configured. Does not return.
pub async fn adjust(tunnel: &Tunnel, itcp: Option<Adjust>) {
    match itcp {
        Some(itcp) => adjust_forever(tunnel, itcp.parameters(), uniform).await,
        None => std::future::pending().await,
    }
}

async fn adjust_forever(
    buffer: &impl Buffer,
    parameters: RateAdjustment,
    mut draw: impl FnMut() -> f64,
) {
    let started = Instant::now();
    let mut adjuster = Adjuster::new(parameters, parameters.max_kappa);
    buffer.set_kappa(adjuster.kappa());
    let mut next = started;
    loop {
        // From sample to sample, so that the time a sample takes does not add up.
        next += Duration::from_secs_f64(adjuster.wait_s(&mut draw));
        sleep(next.saturating_duration_since(Instant::now())).await;
        let Some(sample) = sample(buffer, started.elapsed()) else {
            continue; // no path has a round-trip time yet
        };
        adjuster.sample(&sample);
        buffer.set_kappa(adjuster.kappa());
    }
}

/// A sample of the buffer, in packets of the paths' mean size.
fn sample(buffer: &impl Buffer, age: Duration) -> Option<BufferSample> {
    let paths = buffer.paths();
    let used = paths.iter().filter_map(|path| {
        let base_rtt_s = path.base_rtt_s.filter(|&rtt_s| rtt_s > 0.0)?;
        (path.window_packets > 0.0).then_some((path.window_packets, base_rtt_s, path.mtu_bytes))
    });
    let (mut window, mut rate, mut bytes) = (0.0, 0.0, 0.0);
    for (packets, base_rtt_s, mtu_bytes) in used {
        window += packets;
        rate += packets / base_rtt_s;
        bytes += packets * f64::from(mtu_bytes);
    }
    if window == 0.0 {
        return None;
    }
    let packet_bytes = (bytes / window).max(1.0);
    Some(BufferSample {
        age_s: age.as_secs_f64(),
        buffer_packets: buffer.unsent_bytes() as f64 / packet_bytes,
        arrived_packets: buffer.accepted_bytes() as f64 / packet_bytes,
        window,
        // The window over this time is the sum of the paths' expected rates.
        base_rtt: window / rate,
    })
}

/// A random number, uniform on [0, 1).
fn uniform() -> f64 {
    // The 53 bits of a double's significand.
    (u64::from_ne_bytes(random()) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
