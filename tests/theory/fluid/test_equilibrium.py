"""The equilibrium of a network: by hand where a hand can do it, by its own equations elsewhere."""

import json
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from anabranch.scenario import Scenario, ScenarioError, rules
from anabranch.theory.errors import NotConverged
from anabranch.theory.fluid import against_packets, elimination, rounds
from anabranch.theory.fluid.elimination import Elimination
from anabranch.theory.fluid.equilibrium import Equilibrium, equilibrium
from anabranch.theory.fluid.model import Model
from anabranch.theory.network import Network

SLOW = pytest.mark.slow

HEAD = """
algorithm = "{algorithm}"
seeds = [1]
[measure]
duration_s = 10
[tcp]
header_bytes = 0
"""
RED = (
    "queue.red = { min_packets = 20, mid_packets = 60, max_packets = 120, mid_probability = 0.02 }"
)


def link(name: str, rate_mbps: float = 12.0, queue: str = RED, delay_ms: float = 20) -> str:
    return f"[links.{name}]\nrate_mbps = {rate_mbps}\ndelay_ms = {delay_ms}\n{queue}\n"


def flow(name: str, *paths: str, more: str = "") -> str:
    routes = ", ".join(f'["{path}"]' for path in paths)
    return f'[[flows]]\nname = "{name}"\npaths = [{routes}]\n{more}\n'


def network(*parts: str, algorithm: str = "lia") -> Network:
    return Network.of(Scenario.parse(HEAD.format(algorithm=algorithm) + "\n".join(parts)))


def test_one_reno_flow_by_hand():
    # Random loss 0.0005 and a link it does not fill: phi = (1/w)/(w/2) = 2/w^2 = p, so
    # w = sqrt(2/p) = 63.2456; the RTT is 40 ms and one transmission of 12000/120e6 = 0.1 ms.
    lossy = "loss.bernoulli = { probability = 0.0005 }"
    found = equilibrium(network(link("L", 120, lossy), flow("f", "L"), algorithm="reno"))
    assert found.window == pytest.approx([63.2455532], rel=1e-7)
    assert found.rate == pytest.approx([63.2455532 / 0.0401], rel=1e-7)
    assert found.loss == pytest.approx([0.0])
    assert found.residual < 1e-9
    assert found.isolated


def test_the_length_of_a_red_queue_gives_the_loss_of_the_windows():
    # With b packets waiting p = 0.02 (b - 20)/40, the RTT is 0.041 + b/1000 and the window
    # w = sqrt(2/p); the link is full when (1 - p) w/RTT = 1000.
    found = equilibrium(network(link("L"), flow("f", "L"), algorithm="reno"))
    b = found.waiting[0]
    p = 0.02 * (b - 20) / 40
    assert found.loss == pytest.approx([p])
    assert (1 - p) * np.sqrt(2 / p) / (0.041 + b / 1000) == pytest.approx(1000)


def test_two_equal_flows_share():
    found = equilibrium(network(link("L"), flow("f", "L", more="count = 2")))
    assert found.share == pytest.approx([0.5, 0.5])


def test_a_full_link_below_the_threshold_of_red_delays_and_does_not_drop():
    # The loss of B gives the window, sqrt(2/0.0006) = 57.735; A carries 1000 packets/s. There and
    # back take 40 ms, the transmissions 1 and 0.1 ms: the queue of A makes up the rest of w/1000.
    lossy = "loss.bernoulli = { probability = 0.0006 }"
    text = '[[flows]]\nname = "f"\npaths = [["A", "B"]]\n'
    found = equilibrium(
        network(link("A", delay_ms=10), link("B", 120, lossy, 10), text, algorithm="reno")
    )
    assert found.waiting[0] == pytest.approx(1000 * (57.7350269 / 1000 - 0.0411), rel=1e-6)
    assert found.loss[0] == 0


def test_lia_on_two_equal_links_takes_as_much_as_one_reno_flow():
    # Two-path LIA beside one NewReno flow on each link. By symmetry its windows are equal, w each:
    # I = (w/tau^2)/(2w/tau)^2 = 1/(4w), D = w/2, so p = 1/(2 w^2), and NewReno's p = 2/v^2: v = 2w.
    found = equilibrium(
        network(
            link("A"),
            link("B"),
            flow("two", "A", "B"),
            flow("a", "A", more='algorithm = "reno"'),
            flow("b", "B", more='algorithm = "reno"'),
        )
    )
    assert found.window[:2] * 2 == pytest.approx(found.window[2:])
    assert found.share == pytest.approx([1 / 3] * 3)


def test_olia_uses_the_worse_path_little():
    # OLIA's fixed points use the best paths only; the other keeps one packet for probing.
    parts = [link("A"), link("B"), flow("two", "A", "B")]
    parts += [flow(f"b{k}", "B", more='algorithm = "reno"') for k in range(6)]
    found = equilibrium(network(*parts, algorithm="olia"))
    assert found.window[1] == 1
    assert found.window[0] > 10
    lia = equilibrium(network(*parts, algorithm="lia"))
    assert found.window[1] < lia.window[1]


def test_coupled_paths_of_equal_price_are_one_of_many_equilibria():
    parts = [link("A"), link("B"), flow("f", "A", "B", more="count = 2")]
    assert not equilibrium(network(*parts, algorithm="coupled")).isolated
    assert equilibrium(network(*parts, algorithm="lia")).isolated


def test_a_window_is_at_least_one_packet():
    # Path B loses a packet in 5: phi at w = 1 is far below.
    lossy = "loss.bernoulli = { probability = 0.2 }"
    parts = [link("A"), link("B", 120, lossy), flow("f", "A", "B")]
    found = equilibrium(network(*parts, algorithm="coupled"))
    assert found.window[1] == 1
    assert found.window[0] > 10


def test_unused_links_and_separate_parts_have_no_effect():
    alone = equilibrium(network(link("A"), flow("f", "A")))
    both = equilibrium(network(link("A"), link("B"), link("C"), flow("f", "A"), flow("g", "B")))
    assert both.window == pytest.approx([alone.window[0]] * 2)
    assert both.waiting[2] == 0


@pytest.mark.parametrize(
    "rule",
    [
        "reno",
        "lia",
        "olia",
        *(pytest.param(r, marks=SLOW) for r in ("semicoupled", "balia", "generalized", "rsf-lb")),
    ],
)
@given(seed=st.integers(0, 10_000))
def test_at_the_equilibrium_of_any_network_phi_is_the_loss_and_full_links_are_full(rule, seed):
    net = Network.of(against_packets.random_scenario(seed), rule)
    found = equilibrium(net)
    point = Model(net, settled=True).at(found.window, found.backlog)
    drift, increase_decrease = point.drift, point.increase_decrease
    scale = increase_decrease[1] * (point.path_loss + point.window**-2)
    used = found.window > 1
    assert drift[used] == pytest.approx(np.zeros(used.sum()), abs=1e-8 * scale[used].max())
    assert (drift[~used] <= 0).all()
    assert (point.excess <= 1e-6 * net.capacity).all()
    full = found.backlog > 0
    assert point.excess[full] == pytest.approx(np.zeros(full.sum()), abs=1e-6 * net.capacity.max())


@pytest.mark.parametrize("rule", ["reno", "lia", "olia", "balia", "coupled", "rsf-db", "rsf-lb"])
def test_derivatives_are_those_of_differences(rule):
    net = Network.of(against_packets.random_scenario(4), rule)
    model, dice = Model(net), np.random.default_rng(1)
    window = dice.uniform(5, 60, net.paths)
    backlog = dice.uniform(0.2, 1.5, len(net.capacity)) * model.backlogs.scale
    point = model.at(window, backlog)
    drift, excess = point.drift_derivatives(), point.excess_derivatives()
    step = 1e-6
    for k in range(0, net.paths, 5):
        factor = np.where(np.arange(net.paths) == k, np.exp(step), 1.0)
        up, down = model.at(window * factor, backlog), model.at(window / factor, backlog)
        assert drift[0].toarray()[:, k] == pytest.approx(
            (up.drift - down.drift) / (2 * step), rel=1e-3, abs=1e-5
        )
        assert excess[0].toarray()[:, k] == pytest.approx(
            (up.excess - down.excess) / (2 * step), rel=1e-4, abs=1e-3
        )
    for k in range(len(net.capacity)):
        change = np.where(np.arange(len(net.capacity)) == k, step, 0.0)
        up, down = model.at(window, backlog + change), model.at(window, backlog - change)
        assert drift[1].toarray()[:, k] == pytest.approx(
            (up.drift - down.drift) / (2 * step), rel=1e-3, abs=1e-7
        )
        assert excess[1].toarray()[:, k] == pytest.approx(
            (up.excess - down.excess) / (2 * step), rel=1e-4, abs=1e-3
        )


@pytest.mark.parametrize(
    "kappas", [(10, 30), *(pytest.param(two, marks=SLOW) for two in [(1, 3), (30, 10), (10, 10)])]
)
def test_vegas_flows_share_as_their_weights(kappas):
    # I-TCP, section III: kappa_i / sum kappa_j, but for steps of kappa.
    queue = "queue.drop_tail = { packets = 1000 }"
    flows = [
        flow(f"f{i}", "L", more=f'algorithm = "vegas:kappa={kappa}"')
        for i, kappa in enumerate(kappas)
    ]
    text = HEAD.format(algorithm="reno") + "\n".join([link("L", 60, queue), *flows])
    found = equilibrium(Network.of(Scenario.parse(text)))
    assert found.share == pytest.approx(np.array(kappas) / sum(kappas), abs=0.04)
    # They keep sum kappa queued, and vary by a step of the larger.
    assert abs(found.waiting[0] - sum(kappas)) < max(kappas) / 2
    assert found.rate.sum() == pytest.approx(5000, rel=1e-3)


def test_queues_of_given_windows_by_hand():
    # 100 packets in flight over 40 ms at 1000 packets/s: 60 wait, 60 ms.
    net = network(link("L"), flow("f", "L"))
    net = replace(net, base_rtt=np.array([0.04]))
    assert rounds.waits(net, np.array([100.0]), np.zeros(1)) == pytest.approx([0.06])
    assert rounds.waits(net, np.array([30.0]), np.array([0.5])) == pytest.approx([0.0])


def test_a_bottleneck_without_limit_has_no_equilibrium_with_a_reason():
    net = network(link("L"), flow("f", "L"), algorithm="reno")
    endless = replace(net.queues, red=[None], limit=np.array([np.inf]))
    with pytest.raises(NotConverged, match=r"residual .* path 0 of f meets no loss") as caught:
        equilibrium(replace(net, queues=endless))
    assert caught.value.residual > 0.1


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["name"])
def test_the_table_says_which_rules_have_a_fluid_model(rule):
    asked, name = network(link("L"), flow("f", "L")), rule["name"]
    if rule["fluid"]:
        assert Model(replace(asked, algorithms=[name])).groups[0].law.name == name
    elif not rule["delay_based"]:
        with pytest.raises(ScenarioError, match=f"{name} has no fluid model"):
            equilibrium(replace(asked, algorithms=[name]))


RATES = (10, 100, 1000, 10_000)
RULES = ("lia", "olia", "coupled", "balia", "semicoupled", "ewtcp")

TWO_LINKS = """
algorithm = "{rule}"
measure.duration_s = 10
links.a = {{ rate_mbps = {rate}, delay_ms = 10 }}
links.b = {{ rate_mbps = {rate}, delay_ms = 20 }}
[[flows]]
name = "multi"
paths = [["a"], ["b"]]
[[flows]]
name = "single"
algorithm = "reno"
paths = [["b"]]
"""


def drawn(seed: int, rate: float, rule: str, red: bool) -> str:
    """2 to 4 links and 2 to 5 users of 1 to 3 paths, of one or two links each."""
    rng = random.Random(seed)
    links, users = rng.randint(2, 4), rng.randint(2, 5)
    lines = [f'algorithm = "{rule}"', "measure.duration_s = 10"]
    for link in range(links):
        mbps = rate * rng.choice([0.5, 1, 1, 2])
        packets = max(20, round(mbps * 1e6 / 12_000 * 0.05))
        queue = f"drop_tail.packets = {packets}"
        if red:
            queue = (
                f"red = {{ min_packets = {packets // 4}, mid_packets = {packets}, "
                f"max_packets = {2 * packets}, mid_probability = 0.1, "
                f"limit_packets = {8 * packets} }}"
            )
        delay = rng.choice([5, 10, 20, 40, 80])
        lines += [f"[links.l{link}]", f"rate_mbps = {mbps}", f"delay_ms = {delay}"]
        lines += [f"queue.{queue}"]
    for user in range(users):
        paths: list[list[str]] = []
        for _ in range(rng.randint(1, min(3, links))):
            path = [f"l{link}" for link in rng.sample(range(links), rng.choice([1, 1, 2]))]
            paths += [] if path in paths else [path]
        lines += ["[[flows]]", f'name = "u{user}"', f"paths = {json.dumps(paths)}"]
        lines += ['algorithm = "reno"'] if len(paths) == 1 else []
    return "\n".join(lines)


def found(text: str) -> Equilibrium:
    return equilibrium(Network.of(Scenario.parse(text)))


@pytest.mark.parametrize("rule", RULES)
def test_two_links_and_a_rival_at_any_rate(rule: str) -> None:
    # The queues are in proportion to the rate, so that shares tend to constants as windows grow
    # and the one packet of a probed path counts less.
    shares = [found(TWO_LINKS.format(rule=rule, rate=rate)).share for rate in RATES]
    assert np.abs(shares[-1] - shares[-2]).max() < 1e-3


@pytest.mark.parametrize("red", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_random_networks_at_four_rates(rule: str, red: bool) -> None:
    missing = []
    for seed in range(14):
        for rate in RATES if seed < 4 else RATES[2:3]:
            try:
                found(drawn(seed, rate, rule, red))
            except NotConverged as error:
                missing.append(f"{seed} at {rate}: {error}")
    assert missing == []


@pytest.mark.slow
@pytest.mark.parametrize("red", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_all_random_networks_at_four_rates(rule: str, red: bool) -> None:
    for seed in range(40):
        for rate in RATES:
            found(drawn(seed, rate, rule, red))


def test_a_window_without_losses_is_explained_by_what_limits_it() -> None:
    # A path of 1 Tbps and 1 s holds 83 million packets, more than the largest window, 2^24.
    text = TWO_LINKS.format(rule="reno", rate=1e6).replace("delay_ms = 10 ", "delay_ms = 500 ")
    with pytest.raises(NotConverged, match="meets no loss, but its window is at most 16,777,216"):
        found(text)


def many(users: int, rule: str) -> Network:
    """Users of two paths of one or two links, 100 to a link with 20 Mbps each."""
    rng, links = random.Random(users), users // 100 + 3
    lines = [f'algorithm = "{rule}"', "measure.duration_s = 10"]
    for link in range(links):
        lines += [f"[links.l{link}]", f"rate_mbps = {20 * users / links}"]
        lines += [f"delay_ms = {rng.choice([5, 20, 60])}", "queue.drop_tail.packets = 300"]
    for user in range(users):
        paths = [[f"l{link}" for link in rng.sample(range(links), rng.choice([1, 2]))]]
        while len(paths) < 2:
            path = [f"l{link}" for link in rng.sample(range(links), rng.choice([1, 2]))]
            paths += [] if set(path) == set(paths[0]) else [path]
        lines += ["[[flows]]", f'name = "u{user}"', f"paths = {json.dumps(paths)}"]
    return Network.of(Scenario.parse("\n".join(lines)))


@pytest.mark.parametrize("rule", RULES)
def test_hundreds_of_named_users(rule: str) -> None:
    assert equilibrium(many(300, rule)).residual < 1e-9


def test_thousands_of_users_that_change_branches_at_every_step() -> None:
    # The largest gap does not fall while users' second windows reach one packet one by one.
    assert equilibrium(many(2000, "coupled")).residual < 1e-9


@pytest.mark.parametrize("rule", ["lia", "balia"])
def test_the_order_of_many_users_does_not_matter(rule: str) -> None:
    asked, found = many(300, rule), equilibrium(many(300, rule))
    order = np.random.default_rng(1).permutation(asked.users)
    paths = (asked.starts[order][:, None] + np.arange(2)).ravel()
    other = replace(
        asked,
        routes=asked.routes[:, paths],
        base_rtt=asked.base_rtt[paths],
        service=asked.service[paths],
        flows=[asked.flows[user] for user in order.tolist()],
    )
    assert equilibrium(other).window == pytest.approx(found.window[paths], rel=1e-7)


# Newton steps eliminate the blocks of users, whatever the blocks are.


def system(seed: int, near: float) -> tuple[sparse.csr_array, np.ndarray]:
    """A matrix of 40 users of 1 to 4 paths and 6 links, and the first path of each user.

    Blocks of every third user are of rank one, and the identity times `near`.
    """
    dice = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(dice.integers(1, 5, 40))]).astype(np.int64)
    paths, links = int(starts[-1]), 6
    matrix = dice.uniform(-1, 1, (paths + links, paths + links))
    matrix[:paths, :paths] = 0
    for user, (begin, end) in enumerate(pairwise(starts)):
        size = end - begin
        block = dice.uniform(-1, 1, (size, size)) + 2 * np.eye(size)
        if user % 3 == 0:
            block = np.ones((size, size)) + near * np.eye(size)
        matrix[begin:end, begin:end] = block
    matrix[paths:, paths:] += 5 * np.eye(links)
    return sparse.csr_array(matrix), starts


@pytest.mark.parametrize("dense", [0, 3000])
@pytest.mark.parametrize("near", [1.0, 1e-9])
@pytest.mark.parametrize("seed", range(5))
def test_a_solution_solves_the_whole_system(
    monkeypatch: pytest.MonkeyPatch, seed: int, near: float, dense: int
) -> None:
    monkeypatch.setattr(elimination, "DENSE_LINKS", dense)
    matrix, starts = system(seed, near)
    right = matrix @ np.random.default_rng(seed).uniform(-1, 1, matrix.shape[0])
    solution = Elimination(matrix, starts).solve(right)
    assert matrix @ solution == pytest.approx(right, abs=1e-12)


def test_a_singular_block_is_refused() -> None:
    matrix, starts = system(0, 0.0)
    with pytest.raises(RuntimeError, match="block is singular"):
        Elimination(matrix, starts)
