"""An environment and questions about it, to be changed into your own.

gvfx check environment.py:make
gvfx evaluate environment.py:make --steps 20000
gvfx evaluate environment.py:make --until 0.01 --save answers.gvfx --report answers.html
"""

import gymnasium as gym

import gvfx


class Machine(gym.Env):
    """A machine that wears while it runs and may break down; repairing it costs time.

    To ask about an environment that exists, delete this class and let `make` return gym.make("FrozenLake-v1") or your own.
    """

    observation_space = gym.spaces.Discrete(5)  # how worn it is; Box observations work too
    action_space = gym.spaces.Discrete(2)  # 0: run, 1: repair

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # seeds self.np_random: draw all random numbers from it
        self.wear = 0
        return self.wear, {}

    def step(self, action):
        if action == 1:
            self.wear = 0
            return self.wear, -1.0, False, False, {"made": 0.0}
        broken = bool(self.np_random.random() < 0.05 * self.wear)
        self.wear = min(4, self.wear + int(self.np_random.random() < 0.3))
        return self.wear, -10.0 if broken else 1.0, broken, False, {"made": float(not broken)}


# Policies: one row of probabilities, or a function of the observation that returns one.
# gvfx.deterministic_policy takes a function that returns the action, gvfx.from_sb3 a Stable-Baselines3 model.
policies = {
    "never repair": [1.0, 0.0],
    "repair late": lambda wear: [0.0, 1.0] if wear >= 3 else [1.0, 0.0],
    "repair early": lambda wear: [0.0, 1.0] if wear >= 1 else [1.0, 0.0],
}

# Signals: the reward, an entry of info, a number, or a function of (observation, action, next_observation).
signals = {
    "profit": gvfx.Reward(),
    "parts made": gvfx.Info("made"),
    "time worn": lambda wear, action, next_wear: float(wear >= 2),
}

# A question: how much of a signal, discounted, will there be if the policy is followed from here?
questions = [
    gvfx.GVF(policy, signal, 0.95, name=f"{who}: {what}") for who, policy in policies.items() for what, signal in signals.items()
]


def make():
    """The environment and its questions; commands call it by name."""
    return gym.wrappers.TimeLimit(Machine(), 200), questions
