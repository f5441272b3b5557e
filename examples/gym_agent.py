"""An agent that learns to set the windows of two paths, and what it has learned.

Needs pip install 'anabranch[gym]'. The policy is linear; the cross-entropy method (Rubinstein 1999)
draws policies around the best of the last generation. Takes half a minute.
"""

import numpy as np

from anabranch.gym import FlowEnv

GENERATIONS, POLICIES, BEST = 8, 24, 6
# Alone on the links, so that the best reward is known: 10 Mbps each, of which 1448 of 1500 bytes
# are payload, with empty queues.
ALONE = {
    "measure": {"duration_s": 12},
    "flows": [{"name": "two-path", "paths": [["left"], ["right"]], "start_spread_s": 1}],
}
BEST_REWARD = 2 * 10 * 1448 / 1500


def features(observation):
    """Rows of each path: queueing delay over smallest RTT, loss, and 1."""
    _, rtt, base, _, loss = observation.T
    queue = np.where(base > 0, (rtt - base) / np.maximum(base, 1e-9), 0)
    return np.column_stack([queue, 10 * loss, np.ones(len(queue))])


def episode(env, policy, seed):
    """The mean reward of a run: goodput (Mbps) times smallest over present RTT, over both paths."""
    observation, _ = env.reset(seed=seed)
    rewards, over = [], False
    while not over:
        action = np.tanh(features(observation) @ policy)
        observation, reward, _, over, _ = env.step(action.astype(np.float32))
        rewards.append(reward)
    return np.mean(rewards)


def train(env, seed=0):
    """The policy after all generations; prints the reward of each one's mean."""
    random = np.random.default_rng(seed)
    mean, spread = np.zeros(3), np.ones(3)
    for generation in range(GENERATIONS):
        policies = mean + spread * random.normal(size=(POLICIES, 3))
        rewards = [episode(env, policy, generation) for policy in policies]
        best = policies[np.argsort(rewards)[-BEST:]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        print(f"generation {generation + 1:2}: {np.mean(rewards):.2f}")
    return mean


if __name__ == "__main__":
    env = FlowEnv("examples/two_links.toml", "two-path", set=ALONE)
    before = np.mean([episode(env, np.zeros(3), seed) for seed in range(100, 105)])
    policy = train(env)
    after = np.mean([episode(env, policy, seed) for seed in range(100, 105)])
    print(f"in runs that it has not seen: {before:.2f} before, {after:.2f} after")
    print(f"at most possible: {BEST_REWARD:.2f}")
    print("change of a window per round trip: 2 ** tanh(queue, loss, 1) @", policy.round(2))
