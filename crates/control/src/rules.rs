//! The table of all rules. A new one is a file in `rules/` and a line in the table.

mod custom;

pub use custom::{Custom, External};
pub use wvegas::WvegasMemory;

use crate::ack::Ack;
use crate::controller::{Controller, Phase};
use crate::path::Path;
use crate::rule::{Parameter, Rule, phi};
use crate::scalar::Scalar;

/// What the table knows about a rule.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// [`Rule::NAME`].
    pub name: &'static str,
    /// [`Rule::ALIASES`].
    pub aliases: &'static [&'static str],
    /// [`Rule::SUMMARY`].
    pub summary: &'static str,
    /// [`Rule::SOURCE`].
    pub source: &'static str,
    /// [`Rule::PARAMETERS`].
    pub parameters: &'static [Parameter],
    /// [`Rule::DELAY_BASED`].
    pub delay_based: bool,
    pub(crate) rule: fn(&[f64]) -> AnyRule,
}

macro_rules! rules {
    ($dollar:tt $($file:ident: $Rule:ident,)*) => {
        $(mod $file; pub use $file::$Rule;)*

        /// Every rule of the table, in its order.
        pub static RULES: &[Info] = &[$(Info {
            name: $Rule::NAME,
            aliases: $Rule::ALIASES,
            summary: $Rule::SUMMARY,
            source: $Rule::SOURCE,
            parameters: $Rule::PARAMETERS,
            delay_based: $Rule::DELAY_BASED,
            rule: |values| AnyRule::$Rule($Rule::with(values)),
        },)*];

        /// Any rule of the table, or one from outside.
        #[derive(Clone, Debug)]
        #[allow(missing_docs)]
        pub enum AnyRule { $($Rule($Rule),)* Custom(Custom) }

        /// The controller of any rule: one `match` per call, so the code per acknowledgement is
        /// that of the rule itself.
        #[derive(Clone, Debug)]
        #[allow(missing_docs)]
        pub enum AnyController { $($Rule(Controller<$Rule>),)* Custom(Controller<Custom>) }

        impl AnyRule {
            /// A controller that runs this rule; see [`Controller::new`].
            pub fn controller(&self, paths: usize, initial_window: f64) -> AnyController {
                match self.clone() {
                    $(AnyRule::$Rule(rule) => {
                        AnyController::$Rule(Controller::new(rule, paths, initial_window))
                    })*
                    AnyRule::Custom(rule) => {
                        AnyController::Custom(Controller::new(rule, paths, initial_window))
                    }
                }
            }
        }

        /// `each!(AnyRule, self, rule => body)`: the body, whichever rule it is.
        macro_rules! each {
            ($dollar Any:ident, $dollar any:expr, $dollar it:ident => $dollar body:expr) => {
                match $dollar any {
                    $($dollar Any::$Rule($dollar it) => $dollar body,)*
                    $dollar Any::Custom($dollar it) => $dollar body,
                }
            };
        }
    };
}

rules! { $
    reno: Reno,
    cubic: Cubic,
    ewtcp: Ewtcp,
    coupled: Coupled,
    semicoupled: Semicoupled,
    lia: Lia,
    olia: Olia,
    olia_printed: OliaPrinted,
    balia: Balia,
    generalized: Generalized,
    rsf_db: RsfDb,
    rsf_lb: RsfLb,
    vegas: Vegas,
    wvegas: Wvegas,
}

impl AnyRule {
    /// [`Rule::increase`].
    pub fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        each!(AnyRule, self, rule => rule.increase(r, paths))
    }

    /// [`Rule::decrease`].
    pub fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        each!(AnyRule, self, rule => rule.decrease(r, paths))
    }

    /// [`phi`].
    pub fn phi<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        each!(AnyRule, self, rule => phi(rule, r, paths))
    }
}

impl AnyController {
    /// [`Controller::add_path`].
    pub fn add_path(&mut self) {
        each!(AnyController, self, controller => controller.add_path());
    }

    /// [`Controller::window`].
    #[inline]
    pub fn window(&self, r: usize) -> f64 {
        each!(AnyController, self, controller => controller.window(r))
    }

    /// [`Controller::ssthresh`].
    #[inline]
    pub fn ssthresh(&self, r: usize) -> f64 {
        each!(AnyController, self, controller => controller.ssthresh(r))
    }

    /// [`Controller::set_ssthresh`].
    pub fn set_ssthresh(&mut self, r: usize, packets: f64) {
        each!(AnyController, self, controller => controller.set_ssthresh(r, packets));
    }

    /// [`Controller::set_smallest_ssthresh`].
    pub fn set_smallest_ssthresh(&mut self, packets: f64) {
        each!(AnyController, self, controller => controller.set_smallest_ssthresh(packets));
    }

    /// [`Controller::rto_s`].
    #[inline]
    pub fn rto_s(&self, r: usize) -> f64 {
        each!(AnyController, self, controller => controller.rto_s(r))
    }

    /// [`Controller::path`].
    #[inline]
    pub fn path(&self, r: usize) -> &Path<f64> {
        each!(AnyController, self, controller => controller.path(r))
    }

    /// [`Controller::paths`].
    #[inline]
    pub fn paths(&self) -> &[Path<f64>] {
        each!(AnyController, self, controller => controller.paths())
    }

    /// [`Controller::phase`].
    #[inline]
    pub fn phase(&self, r: usize) -> Phase {
        each!(AnyController, self, controller => controller.phase(r))
    }

    /// [`Controller::on_ack`].
    #[inline]
    pub fn on_ack(&mut self, r: usize, ack: &Ack) {
        each!(AnyController, self, controller => controller.on_ack(r, ack));
    }

    /// [`Controller::on_loss`].
    pub fn on_loss(&mut self, r: usize) {
        each!(AnyController, self, controller => controller.on_loss(r));
    }

    /// [`Controller::on_recovered`].
    pub fn on_recovered(&mut self, r: usize) {
        each!(AnyController, self, controller => controller.on_recovered(r));
    }

    /// [`Controller::on_timeout`].
    pub fn on_timeout(&mut self, r: usize) {
        each!(AnyController, self, controller => controller.on_timeout(r));
    }

    /// [`Controller::on_idle`].
    pub fn on_idle(&mut self, r: usize, now: f64) {
        each!(AnyController, self, controller => controller.on_idle(r, now));
    }
}
