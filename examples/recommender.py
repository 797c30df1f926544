"""A recommender: what would three strategies do for users' joy, clicks and boredom?  Our own small simulator, stepped."""

import gymnasium as gym
import numpy as np

import gvfx

TOPICS, TASTES = 4, 3


class Recommender(gym.Env):
    """A user with one of three tastes is shown topics, is bored by repetition and leaves; state: taste, last topic, bored."""

    observation_space = gym.spaces.Discrete(TASTES * TOPICS * 3)
    action_space = gym.spaces.Discrete(TOPICS)
    likes = np.array([[0.9, 0.3, 0.1, 0.2], [0.1, 0.8, 0.4, 0.3], [0.3, 0.2, 0.5, 0.9]])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taste, self.last, self.bored = *map(int, self.np_random.integers([TASTES, TOPICS])), 0
        return self.state(), {}

    def state(self):
        return (self.taste * TOPICS + self.last) * 3 + self.bored

    def step(self, topic):
        self.bored = min(2, self.bored + 1) if topic == self.last else max(0, self.bored - 1)
        chance = self.likes[self.taste, topic] * (1 - 0.4 * self.bored)
        clicked = self.np_random.random() < chance
        leaves = self.np_random.random() < 0.02 + 0.1 * self.bored
        joy = np.eye(TOPICS)[topic] * clicked  # a vector: joy by topic
        self.last = topic
        return self.state(), float(clicked), bool(leaves), False, {"joy": joy, "bored": self.bored}


favourites = gvfx.deterministic_policy(np.repeat(Recommender.likes.argmax(axis=1), 3 * TOPICS))  # each taste's best topic
mixed = gvfx.mixture_policy([favourites, gvfx.uniform_policy()])
questions = []
for name, policy in {"anything": gvfx.uniform_policy(), "favourites": favourites, "mixed": mixed}.items():
    questions += [
        gvfx.GVF(policy, gvfx.Reward(), 0.95, name=f"{name}, clicks"),
        gvfx.GVF(policy, gvfx.Info("bored"), 0.95, name=f"{name}, boredom"),
        gvfx.GVF(policy, gvfx.Info("joy", size=TOPICS), 0.95, name=f"{name}, joy"),
    ]
assert not gvfx.check(Recommender, questions)
result = gvfx.evaluate(Recommender(), questions, steps=60_000)


def newcomer(env, state):
    """A user of taste 0 who has just seen topic 0."""
    env.taste = env.last = env.bored = 0
    return state


truth = gvfx.truth_of(Recommender(), questions[:1], [0], reset_to=newcomer, max_episodes=1000)
for name, predicted in zip(result.names, result.predict(0), strict=True):
    print(f"{name:>23}: {predicted:6.3f}")
print(f"clicks of anything, by Monte Carlo: {truth.values[0, 0]:.3f} +- {truth.standard_errors[0, 0]:.3f}")
