//! What a scenario cannot do as it is written, although it can run.

use crate::file::key::Key;
use crate::model::flows::Workload;
use crate::model::size::Size;
use crate::scenario::Scenario;

/// A mean that is off by less than this share is not worth a warning: few runs could show it.
const TOLERANCE: f64 = 0.01;

impl Scenario {
    /// One line for each value of the file that a run can only approximate: which, and what a run
    /// does instead. Empty for almost every scenario.
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

/// A Pareto distribution whose largest files carry much of the load ends before they do.
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
