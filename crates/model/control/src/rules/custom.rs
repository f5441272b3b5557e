//! A rule that is not in the table, such as one written in Python.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::path::Path;
use crate::rule::Rule;
use crate::scalar::Scalar;

/// A loss-based rule that is not in the table, such as a Python object.
pub trait External: Send + Sync {
    /// [`Rule::increase`].
    fn increase(&self, r: usize, paths: &[Path<f64>]) -> f64;

    /// [`Rule::decrease`].
    fn decrease(&self, r: usize, paths: &[Path<f64>]) -> f64;

    /// [`Rule::knows_paths_by_place`].
    fn knows_paths_by_place(&self) -> bool {
        false
    }
}

/// An [`External`] as a [`Rule`]. It computes in `f64` only: the slope of a [`Dual`](crate::Dual)
/// is lost, so the derivative of such a rule has to be taken by differences.
#[derive(Clone)]
pub struct Custom(pub Arc<dyn External>);

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

impl Rule for Custom {
    const NAME: &'static str = "custom";
    const SUMMARY: &'static str = "A rule that is not in the table";
    const SOURCE: &'static str = "the user";
    const COUNTS_ROUNDS: bool = true;
    type Memory<S: Scalar> = ();

    /// Never called: not in the table.
    fn with(_values: &[f64]) -> Custom {
        unreachable!("a custom rule has no parameters of its own")
    }

    fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        S::from_f64(self.0.increase(r, &plain(paths)))
    }

    fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        S::from_f64(self.0.decrease(r, &plain(paths)))
    }

    fn knows_paths_by_place(&self) -> bool {
        self.0.knows_paths_by_place()
    }
}

fn plain<S: Scalar>(paths: &[Path<S>]) -> Vec<Path<f64>> {
    paths.iter().map(|path| path.map(S::to_f64)).collect()
}
