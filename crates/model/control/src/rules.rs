//! The table of all rules. A new rule is a file in `rules/` and a line in the table.

mod custom;

pub use bbr::{BbrMemory, BbrMode};
pub use bbr3::{Bbr3Memory, Bbr3State};
pub use custom::{Custom, External};
pub use dctcp::DctcpMemory;
pub use wvegas::WvegasMemory;

use alloc::boxed::Box;
use alloc::string::String;

use crate::controller::Ack;
use crate::controller::{Controller, ForeignController, Phase};
use crate::coupling::Coupling;
use crate::delivery::Stamp;
use crate::path::Path;
use crate::rule::{Parameter, Rule, phi};
use crate::scalar::Scalar;

/// The value of a property of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Property {
    /// Whether the rule has it.
    Flag(bool),
    /// A text, if the rule has one.
    Text(Option<&'static str>),
    /// Some texts.
    Texts(&'static [&'static str]),
}

impl From<bool> for Property {
    fn from(flag: bool) -> Property {
        Property::Flag(flag)
    }
}

impl From<&'static str> for Property {
    fn from(text: &'static str) -> Property {
        Property::Text(Some(text))
    }
}

impl From<Option<&'static str>> for Property {
    fn from(text: Option<&'static str>) -> Property {
        Property::Text(text)
    }
}

impl From<&'static [&'static str]> for Property {
    fn from(texts: &'static [&'static str]) -> Property {
        Property::Texts(texts)
    }
}

/// Makes [`Info`] from the constants of [`Rule`] that are properties.
macro_rules! properties {
    ($($name:ident: $Type:ty = $CONSTANT:ident,)*) => {
        /// An entry of the table.
        #[derive(Clone, Copy, Debug)]
        pub struct Info {
            $(
                #[doc = concat!("[`Rule::", stringify!($CONSTANT), "`].")]
                pub $name: $Type,
            )*
            /// [`Rule::PARAMETERS`].
            pub parameters: &'static [Parameter],
            linux_name: Option<&'static str>,
            /// [`Rule::HAS_PROGRAM`].
            pub has_program: bool,
            pub(crate) rule: fn(&[f64]) -> AnyRule,
        }

        impl Info {
            const fn of<R: Rule>(rule: fn(&[f64]) -> AnyRule) -> Info {
                Info {
                    $($name: R::$CONSTANT,)*
                    parameters: R::PARAMETERS,
                    linux_name: R::LINUX_NAME,
                    has_program: R::HAS_PROGRAM,
                    rule,
                }
            }

            /// Every property with its name, besides the parameters and the name in Linux.
            pub fn properties(&self) -> impl Iterator<Item = (&'static str, Property)> {
                [$((stringify!($name), Property::from(self.$name)),)*].into_iter()
            }
        }
    };
}

properties! {
    name: &'static str = NAME,
    aliases: &'static [&'static str] = ALIASES,
    summary: &'static str = SUMMARY,
    source: &'static str = SOURCE,
    delay_based: bool = DELAY_BASED,
    by_rate: bool = BY_RATE,
    scalable: bool = SCALABLE,
    fluid: bool = FLUID,
    reno_on_one_path: bool = RENO_ON_ONE_PATH,
    equilibrium_by_loss: bool = EQUILIBRIUM_BY_LOSS,
    increase_cancels: bool = INCREASE_CANCELS,
    leaves_capacity: Option<&'static str> = LEAVES_CAPACITY,
    caution: Option<&'static str> = CAUTION,
    keeps_overshoot: bool = KEEPS_OVERSHOOT,
    weight: Option<&'static str> = WEIGHT,
    variant_of: Option<&'static str> = VARIANT_OF,
    studied_as: &'static str = STUDIED_AS,
}

impl Info {
    /// Whether the rule takes a mark as a loss, so that [`BETA_ECN`](crate::BETA_ECN) has effect.
    pub fn takes_marks_as_losses(&self) -> bool {
        !self.scalable && !self.by_rate
    }

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
        pub static RULES: &[Info] = &[
            $(Info::of::<$Rule>(|values| AnyRule::$Rule($Rule::with(values))),)*
        ];

        /// Any rule of the table, or a custom one.
        #[derive(Clone, Debug)]
        #[allow(missing_docs)]
        pub enum AnyRule { $($Rule($Rule),)* Custom(Custom) }

        /// The controller of any rule: one `match` per call, so the code per acknowledgement is the
        /// rule's own.
        #[derive(Clone, Debug)]
        #[allow(missing_docs)]
        pub enum AnyController {
            $($Rule(Controller<$Rule>),)*
            Custom(Controller<Custom>),
            Foreign(Box<ForeignController>),
        }

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

        /// `each!(AnyRule [], self, rule => body)`: the body, whichever rule it is. In brackets are
        /// the kinds besides the rules.
        macro_rules! each {
            ($dollar Any:ident [$dollar($dollar Kind:ident)*], $dollar any:expr, $dollar it:ident => $dollar body:expr) => {
                match $dollar any {
                    $($dollar Any::$Rule($dollar it) => $dollar body,)*
                    $dollar Any::Custom($dollar it) => $dollar body,
                    $dollar($dollar Any::$dollar Kind($dollar it) => $dollar body,)*
                }
            };
        }
    };
}

rules! { $
    reno: Reno,
    multcp: Multcp,
    cubic: Cubic,
    dctcp: Dctcp,
    ewtcp: Ewtcp,
    coupled: Coupled,
    semicoupled: Semicoupled,
    lia: Lia,
    olia: Olia,
    olia_printed: OliaPrinted,
    linked: Linked,
    balia: Balia,
    coupled_cubic: CoupledCubic,
    generalized: Generalized,
    rsf_db: RsfDb,
    rsf_lb: RsfLb,
    vegas: Vegas,
    wvegas: Wvegas,
    bbr: Bbr,
    bbr3: Bbr3,
}

impl AnyRule {
    /// [`Rule::increase`].
    pub fn increase<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        each!(AnyRule [], self, rule => rule.increase(r, paths))
    }

    /// [`Rule::decrease`].
    pub fn decrease<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        each!(AnyRule [], self, rule => rule.decrease(r, paths))
    }

    /// [`phi`].
    pub fn phi<S: Scalar>(&self, r: usize, paths: &[Path<S>]) -> S {
        each!(AnyRule [], self, rule => phi(rule, r, paths))
    }

    /// [`Rule::weight`].
    pub fn weight(&self) -> Option<f64> {
        each!(AnyRule [], self, rule => rule.weight())
    }
}

/// Methods of [`AnyController`] that call the method of the same name of [`Controller`].
macro_rules! forward {
    () => {};
    (
        $(#[$attribute:meta])?
        $name:ident(&$this:ident $(, $argument:ident: $Type:ty)*) $(-> $Result:ty)?;
        $($rest:tt)*
    ) => {
        #[doc = concat!("[`Controller::", stringify!($name), "`].")]
        $(#[$attribute])?
        pub fn $name(&$this $(, $argument: $Type)*) $(-> $Result)? {
            each!(AnyController [Foreign], $this, controller => controller.$name($($argument),*))
        }
        forward! { $($rest)* }
    };
    (
        $(#[$attribute:meta])?
        $name:ident(&mut $this:ident $(, $argument:ident: $Type:ty)*) $(-> $Result:ty)?;
        $($rest:tt)*
    ) => {
        #[doc = concat!("[`Controller::", stringify!($name), "`].")]
        $(#[$attribute])?
        pub fn $name(&mut $this $(, $argument: $Type)*) $(-> $Result)? {
            each!(AnyController [Foreign], $this, controller => controller.$name($($argument),*))
        }
        forward! { $($rest)* }
    };
}

impl AnyController {
    forward! {
        add_path(&mut self);
        reset_path(&mut self, r: usize);
        set_coupling(&mut self, coupling: Coupling);
        on_silence(&mut self, r: usize);
        set_silent(&mut self, r: usize, left_out: bool);
        group(&self, r: usize) -> usize;
        #[inline] window(&self, r: usize) -> f64;
        #[inline] ssthresh(&self, r: usize) -> f64;
        set_ssthresh(&mut self, r: usize, packets: f64);
        set_smallest_ssthresh(&mut self, packets: f64);
        set_increase_per_round(&mut self, per_round: bool);
        set_increase_per_ack(&mut self, per_ack: bool);
        #[inline] path(&self, r: usize) -> &Path<f64>;
        #[inline] paths(&self) -> &[Path<f64>];
        #[inline] phase(&self, r: usize) -> Phase;
        #[inline] on_ack(&mut self, r: usize, ack: &Ack);
        on_lost(&mut self, r: usize, packets: u32);
        on_loss(&mut self, r: usize);
        on_mark(&mut self, r: usize);
        set_beta_ecn(&mut self, beta_ecn: Option<f64>);
        on_recovered(&mut self, r: usize);
        is_scalable(&self) -> bool;
        on_marked_share(&mut self, r: usize, share: f64);
        on_timeout(&mut self, r: usize);
        keep_for_undo(&mut self, r: usize);
        on_spurious(&mut self, r: usize);
        on_idle(&mut self, r: usize, now: f64);
        is_by_rate(&self) -> bool;
        has_program(&self) -> bool;
        pacing_rate(&self, r: usize) -> f64;
        on_packet_sent(&mut self, r: usize, now: f64, size: f64, in_flight: f64) -> Stamp;
        on_packet_delivered(&mut self, r: usize, now: f64, packet: &Stamp);
        on_packet_lost(&mut self, r: usize, now: f64, packet: &Stamp);
        on_packets_processed(&mut self, r: usize, now: f64, rtt: Option<f64>, in_flight: f64);
        on_app_limited(&mut self, r: usize, in_flight: f64);
    }

    /// [`Rule::weight`].
    pub fn weight(&self) -> Option<f64> {
        each!(AnyController [Foreign], self, controller => controller.weight())
    }

    /// [`Rule::set_weight`].
    pub fn set_weight(&mut self, weight: f64) {
        each!(AnyController [Foreign], self, controller => controller.set_weight(weight));
    }
}
