//! A scenario as plain data for theory.

use anabranch_net::{LinkConfig, Loss, MILLISECOND, Queue, Rate, SECOND, Time};
use anabranch_scenario::{Ecn, Flow, Link, Path, Scenario, Workload};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Links and flows as dicts, with the names of the scenario file where it has them.
pub fn network<'py>(py: Python<'py>, scenario: &Scenario) -> PyResult<Bound<'py, PyDict>> {
    let links: PyResult<Vec<_>> = scenario.links.iter().map(|it| link(py, it)).collect();
    let flows: PyResult<Vec<_>> = scenario
        .flows
        .iter()
        .enumerate()
        .map(|(index, it)| {
            let entry = flow(py, it)?;
            // The default spread is for packets, whose order is chance; equations have no chance.
            if !scenario.states_start_spread(index) {
                entry.set_item("start_spread_s", 0.0)?;
            }
            Ok(entry)
        })
        .collect();
    let network = PyDict::new(py);
    network.set_item("packet_bytes", scenario.tcp.packet_bytes.get())?;
    network.set_item("header_bytes", scenario.tcp.header_bytes)?;
    let initial_window = scenario.tcp.initial_window_packets.get();
    network.set_item("initial_window_packets", initial_window)?;
    network.set_item("ecn", scenario.tcp.ecn != Ecn::Off)?;
    let buffer = scenario.tcp.receive_buffer_packets.get();
    network.set_item("receive_buffer_packets", buffer)?;
    network.set_item("sample_s", scenario.measure.sample_ms.get() / 1e3)?;
    network.set_item("links", links?)?;
    network.set_item("flows", flows?)?;
    Ok(network)
}

/// `queue` is the discipline; `red` holds the points (queue, probability) of RED's curve, None for
/// other disciplines; `limit_packets` is None where any number may wait; `policer_mbps` is the rate
/// of a policer, None for other disciplines; `more` are keys that change rate, delay or losses.
fn link<'py>(py: Python<'py>, link: &Link) -> PyResult<Bound<'py, PyDict>> {
    let LinkConfig {
        delay,
        queue,
        loss,
        down,
        rate,
        impairments,
    } = &link.config;
    let seconds = |time: Time| time as f64 / SECOND as f64;
    let down: Vec<_> = down
        .iter()
        .map(|&(a, b)| (seconds(a), seconds(b)))
        .collect();
    let entry = PyDict::new(py);
    entry.set_item("name", &link.name)?;
    entry.set_item("rate_mbps", link.rate_mbps())?;
    entry.set_item("delay_ms", *delay as f64 / MILLISECOND as f64)?;
    entry.set_item("loss_probability", loss.mean())?;
    entry.set_item("down_s", down)?;
    let more = [
        (!matches!(rate, Rate::Constant { .. }), "rate"),
        (impairments.more_delay.is_some(), "delay"),
        (impairments.jitter > 0, "jitter"),
        (impairments.may_reorder(), "reorder"),
        (matches!(loss, Loss::Steps(_)), "loss"),
        (matches!(loss, Loss::GilbertElliott { .. }), "bursts"),
        (matches!(loss, Loss::Repeated(_)), "arq"),
    ];
    let more: Vec<_> = more
        .iter()
        .filter(|(has, _)| *has)
        .map(|(_, key)| *key)
        .collect();
    let policer_mbps = match queue {
        Queue::Policer(policer) => Some(policer.bits_per_second / 1e6),
        _ => None,
    };
    let red = match queue {
        Queue::Red(red) => Some(red.curve()),
        _ => None,
    };
    let (limit_packets, limit_bytes) = match queue {
        Queue::DropTail { packets, bytes } => (*packets, *bytes),
        Queue::Red(red) => (Some(red.limit_packets), None),
        Queue::Pie(pie) => (Some(pie.limit_packets), None),
        Queue::Policer(_) => (None, None),
        Queue::Codel(codel) => (Some(codel.limit_packets), None),
        Queue::FqCodel(fq_codel) => (Some(fq_codel.codel.limit_packets), None),
        Queue::DualPi2(dualpi2) => (Some(dualpi2.limit_packets), None),
    };
    entry.set_item("queue", queue.name())?;
    entry.set_item("policer_mbps", policer_mbps)?;
    entry.set_item("more", more)?;
    entry.set_item("red", red)?;
    entry.set_item("limit_packets", limit_packets)?;
    entry.set_item("limit_bytes", limit_bytes)?;
    Ok(entry)
}

/// `workload` is the workload's name; "on_off" has `on_s` and `off_s`, "file" has `bytes`.
fn flow<'py>(py: Python<'py>, flow: &Flow) -> PyResult<Bound<'py, PyDict>> {
    let paths: PyResult<Vec<_>> = flow.paths.iter().map(|it| path(py, it)).collect();
    let entry = PyDict::new(py);
    entry.set_item("name", &flow.name)?;
    entry.set_item("count", flow.count.get())?;
    entry.set_item("packet_bytes", flow.packet_bytes.get())?;
    entry.set_item("algorithm", flow.algorithm.to_string())?;
    entry.set_item("start_s", flow.start_s.get())?;
    entry.set_item("start_spread_s", flow.start_spread_s.get())?;
    entry.set_item("stop_s", flow.stop_s.map(|stop| stop.get()))?;
    entry.set_item("paths", paths?)?;
    let workload = match &flow.workload {
        Workload::Bulk => "bulk",
        Workload::File { bytes } => {
            entry.set_item("bytes", bytes.get())?;
            "file"
        }
        Workload::OnOff { on_s, off_s } => {
            entry.set_item("on_s", on_s.get())?;
            entry.set_item("off_s", off_s.get())?;
            "on_off"
        }
        Workload::Poisson { .. } => "poisson",
        Workload::Gateway { .. } => "gateway",
        Workload::Messages(_) => "messages",
        Workload::Media(_) => "media",
    };
    entry.set_item("workload", workload)?;
    Ok(entry)
}

fn path<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("links", &path.links)?;
    entry.set_item("back", &path.back)?;
    entry.set_item("return_delay_ms", path.return_delay_ms.get())?;
    entry.set_item("start_s", path.start_s.get())?;
    Ok(entry)
}
