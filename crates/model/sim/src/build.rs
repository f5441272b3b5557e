//! Builds the parts of a simulation from a scenario.

use anabranch_control::{AnyController, SMALLEST_SSTHRESH_ONE_PATH};
use anabranch_net::{AnyLink, Dice, Time};
use anabranch_scenario as scenario;
use anabranch_scenario::Scenario;
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::{from_seconds, seconds};

use crate::connection::subflow::Route;
use crate::network::Network;

/// The part of its users' connections that a flow determines.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The controller of a connection, without paths.
    pub controller: AnyController,
    pub routes: Vec<Route>,
}

/// The links, without packets.
pub(crate) fn network(scenario: &Scenario, seed: u64) -> Network {
    Network::new(
        scenario.links.iter().enumerate().map(|(index, link)| {
            AnyLink::new(&link.config, element_seed(seed, kind::LINKS, index))
        }),
    )
}

/// The plan of each flow; the routes are added to `network`.
pub(crate) fn plans(
    scenario: &Scenario,
    controllers: Vec<AnyController>,
    network: &mut Network,
) -> Vec<Plan> {
    let flows = scenario.flows.iter().zip(controllers);
    flows
        .map(|(flow, controller)| Plan {
            controller: as_loaded(scenario, flow, controller),
            routes: routes(scenario, flow, network),
        })
        .collect()
}

/// The controller as a program of `anabranch-kernel` has it, if the flow runs one.
fn as_loaded(
    scenario: &Scenario,
    flow: &scenario::Flow,
    mut controller: AnyController,
) -> AnyController {
    let tcp = &scenario.tcp;
    if tcp.runs_program(&controller, flow.paths.len()) {
        let smallest = f64::from(tcp.min_ssthresh_packets.get());
        controller.set_smallest_ssthresh(smallest.max(SMALLEST_SSTHRESH_ONE_PATH));
        controller.set_increase_per_round(true);
    }
    controller
}

/// The routes of a flow's paths. A connection starts when the handshake of its first path is over.
/// The first data is acknowledged a round trip later, and then the others join: their handshake has
/// four packets (RFC 8684, section 3.2). Paths open in their order.
fn routes(scenario: &Scenario, flow: &scenario::Flow, network: &mut Network) -> Vec<Route> {
    let paths = flow.paths.iter();
    let mut routes: Vec<Route> = paths.map(|path| route(scenario, path, network)).collect();
    if scenario.tcp.join_handshake {
        let first_s = routes[0].propagation_s;
        let mut last = 0;
        for route in &mut routes[1..] {
            last = from_seconds(first_s + 2.0 * route.propagation_s).max(last);
            route.join_delay = last;
        }
    }
    routes
}

fn route(scenario: &Scenario, path: &scenario::Path, network: &mut Network) -> Route {
    let numbers = |links: &[usize]| links.iter().map(|&link| link as u32).collect::<Vec<_>>();
    let forward: Time = path
        .links
        .iter()
        .map(|&link| scenario.links[link].config.delay)
        .sum();
    let back = from_seconds(path.return_delay_ms.get() * 1e-3);
    Route {
        first_hop: network.add_route(&numbers(&path.links)),
        return_line: network.return_line(back),
        first_hop_back: (!path.back.is_empty()).then(|| network.add_route(&numbers(&path.back))),
        propagation_s: seconds(forward + back),
        opens_at: from_seconds(path.start_s.get()),
        join_delay: 0,
    }
}

/// The generator of the waiting times of a user's gateway: separate, so that the same files arrive
/// whether kappa is adjusted or not.
pub(crate) fn adjuster_dice(seed: u64, user: u32) -> Dice {
    Dice::new(element_seed(seed, kind::ADJUSTERS, user as usize))
}

/// The seed of the delays in the host of a user's connection: separate, so that jitter changes no
/// other random number.
pub(crate) fn host_seed(seed: u64, user: u32, opened_at: Time) -> u64 {
    let user_seed = element_seed(seed, kind::HOSTS, user as usize);
    element_seed(user_seed, kind::HOSTS, opened_at as usize)
}
