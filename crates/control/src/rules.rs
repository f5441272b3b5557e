//! The table of all rules. A new rule is a file in `rules/` and a line in the table.

mod custom;

pub use custom::{Custom, External};
pub use wvegas::WvegasMemory;

use alloc::string::String;

use crate::ack::Ack;
use crate::controller::{Controller, Phase};
use crate::coupling::Coupling;
use crate::path::Path;
use crate::rule::{Parameter, Rule, phi};
use crate::scalar::Scalar;

/// An entry of the table.
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
    /// [`Rule::FLUID`].
    pub fluid: bool,
    /// [`Rule::RENO_ON_ONE_PATH`].
    pub reno_on_one_path: bool,
    /// [`Rule::EQUILIBRIUM_BY_LOSS`].
    pub equilibrium_by_loss: bool,
    /// [`Rule::INCREASE_CANCELS`].
    pub increase_cancels: bool,
    /// [`Rule::LEAVES_CAPACITY`].
    pub leaves_capacity: Option<&'static str>,
    /// [`Rule::WEIGHT`].
    pub weight: Option<&'static str>,
    /// [`Rule::VARIANT_OF`].
    pub variant_of: Option<&'static str>,
    /// [`Rule::STUDIED_AS`].
    pub studied_as: &'static str,
    linux_name: Option<&'static str>,
    pub(crate) rule: fn(&[f64]) -> AnyRule,
}

impl Info {
    /// The name that the rule has in Linux, if it is there.
    pub fn linux_name(&self) -> String {
        self.linux_name
            .map_or_else(|| self.name.replace('-', "_"), String::from)
    }
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
            fluid: $Rule::FLUID,
            reno_on_one_path: $Rule::RENO_ON_ONE_PATH,
            equilibrium_by_loss: $Rule::EQUILIBRIUM_BY_LOSS,
            increase_cancels: $Rule::INCREASE_CANCELS,
            leaves_capacity: $Rule::LEAVES_CAPACITY,
            weight: $Rule::WEIGHT,
            variant_of: $Rule::VARIANT_OF,
            studied_as: $Rule::STUDIED_AS,
            linux_name: $Rule::LINUX_NAME,
            rule: |values| AnyRule::$Rule($Rule::with(values)),
        },)*];

        /// Any rule of the table, or a custom one.
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

    /// [`Rule::weight`].
    pub fn weight(&self) -> Option<f64> {
        each!(AnyRule, self, rule => rule.weight())
    }
}

impl AnyController {
    /// [`Controller::add_path`].
    pub fn add_path(&mut self) {
        each!(AnyController, self, controller => controller.add_path());
    }

    /// [`Controller::reset_path`].
    pub fn reset_path(&mut self, r: usize) {
        each!(AnyController, self, controller => controller.reset_path(r));
    }

    /// [`Controller::set_coupling`].
    pub fn set_coupling(&mut self, coupling: Coupling) {
        each!(AnyController, self, controller => controller.set_coupling(coupling));
    }

    /// [`Controller::group`].
    pub fn group(&self, r: usize) -> usize {
        each!(AnyController, self, controller => controller.group(r))
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

    /// [`Controller::set_increase_per_round`].
    pub fn set_increase_per_round(&mut self, per_round: bool) {
        each!(AnyController, self, controller => controller.set_increase_per_round(per_round));
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

    /// [`Rule::weight`].
    pub fn weight(&self) -> Option<f64> {
        each!(AnyController, self, controller => controller.rule().weight())
    }

    /// [`Rule::set_weight`].
    pub fn set_weight(&mut self, weight: f64) {
        each!(AnyController, self, controller => controller.rule_mut().set_weight(weight));
    }

    /// [`Controller::on_ack`].
    #[inline]
    pub fn on_ack(&mut self, r: usize, ack: &Ack) {
        each!(AnyController, self, controller => controller.on_ack(r, ack));
    }

    /// [`Controller::on_lost`].
    pub fn on_lost(&mut self, r: usize, packets: u32) {
        each!(AnyController, self, controller => controller.on_lost(r, packets));
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

    /// [`Controller::on_spurious_timeout`].
    pub fn on_spurious_timeout(&mut self, r: usize) {
        each!(AnyController, self, controller => controller.on_spurious_timeout(r));
    }

    /// [`Controller::on_idle`].
    pub fn on_idle(&mut self, r: usize, now: f64) {
        each!(AnyController, self, controller => controller.on_idle(r, now));
    }
}
