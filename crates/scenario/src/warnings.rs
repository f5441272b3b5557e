//! Values of a scenario that a run can only approximate.

use crate::file::key::Key;
use crate::model::flows::Workload;
use crate::model::size::Size;
use crate::scenario::Scenario;

/// Smaller relative errors of a mean need no warning: few runs could show them.
const TOLERANCE: f64 = 0.01;

impl Scenario {
    /// One line per value that a run can only approximate: the key, and what the run does instead.
    /// Empty for almost every scenario.
    pub fn warnings(&self) -> Vec<String> {
        let flows = self.flows.iter().enumerate();
        flows
            .filter_map(|(i, flow)| {
                let (kind, size) = match &flow.workload {
                    Workload::Poisson { size, .. } => ("poisson", size),
                    Workload::Gateway { size, .. } => ("gateway", size),
                    _ => return None,
                };
                let key = Key::root("flows").index(i).key("workload").key(kind);
                let message = size_warning(size)?;
                let file = self.source();
                Some(format!("{file}: {}.size.pareto: {message}", key))
            })
            .collect()
    }
}

/// Warns if files beyond the largest possible size would carry more than 1 % of the load.
fn size_warning(size: &Size) -> Option<String> {
    let (written, effective) = (size.mean_bytes(), size.effective_mean_bytes());
    (effective < (1.0 - TOLERANCE) * written).then(|| {
        format!(
            "the mean size is {effective:.3e} bytes instead of {written:.3e} ({:.0} % of it), \
             because no file is larger than {:.1e} bytes: raise shape",
            100.0 * effective / written,
            size.largest_bytes()
        )
    })
}
