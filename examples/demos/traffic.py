"""sumo-rl's single intersection: eight signal-timing policies and what they cost drivers and air.

Two one-way roads of two lanes cross, and cars arrive at random: one in five seconds from the north, one in two from the west.
Every five seconds a policy says which road is green; a change takes two seconds of yellow.  The network and its traffic ship
with sumo-rl.
"""

import os
from pathlib import Path
from weakref import WeakSet

import gymnasium as gym
import numpy as np
import sumo

os.environ.setdefault("SUMO_HOME", sumo.SUMO_HOME)
os.environ["LIBSUMO_AS_TRACI"] = "1"  # the simulator inside this process, not behind a socket

import sumo_rl

import gvfx

DISCOUNT = 0.97  # per five seconds: two minutes and three quarters
STEPS = 6_000
EPISODE, ROLLOUT = 500, 2_000  # seconds of an episode, and what a rollout may take
OPTIONS = {"where": "start", "behaviour": gvfx.RoundRobin()}  # the policies in turn, an episode each
LIMIT = 5_000  # steps of rollouts per policy
NORTH, WEST = 0, 1  # the actions: which road is green
NET = Path(sumo_rl.__file__).parent / "nets" / "single-intersection" / "single-intersection"


class Intersection(sumo_rl.SumoEnvironment):
    """What sumo-rl's environment does not report: waiting, stops and emissions of every second, summed over a step.

    There is one simulation in a process, so an environment that starts one ends that of any other: it would otherwise do so
    itself, whenever Python collects it.
    """

    made = WeakSet()

    def _start_simulation(self):
        for other in self.made - {self}:
            other.close()
        self.made.add(self)
        super()._start_simulation()
        self.edges = [edge for edge in self.sumo.edge.getIDList() if not edge.startswith(":")]
        self.halted, self.counted = set(), np.zeros(3)

    def _sumo_step(self):
        super()._sumo_step()
        vehicle = self.sumo.vehicle
        halted = {car for car in vehicle.getIDList() if vehicle.getSpeed(car) < 0.1}
        grams = sum(self.sumo.edge.getCO2Emission(edge) for edge in self.edges) / 1000
        self.counted += (len(halted), len(halted - self.halted), grams)
        self.halted = halted


class Compact(gym.Wrapper):
    """Seven numbers: which road is green, for how long, the halted and moving cars on either road, and the cars that leave.

    The signals of a step are in `info`: waiting (seconds, of all cars), stops and CO2 (grams).  Traffic is new in every
    episode.
    """

    observation_space = gym.spaces.Box(0.0, np.array([1, 24, 40, 40, 40, 40, 80], np.float32))

    traffic = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.traffic = np.random.default_rng(seed)
        self.env.reset(seed=int(self.traffic.integers(2**31)))
        return self.seen(), {}

    def step(self, action):
        self.unwrapped.counted = np.zeros(3)
        _, reward, terminated, truncated, _ = self.env.step(int(action))
        waiting, stops, grams = self.unwrapped.counted
        return self.seen(), reward, terminated, truncated, {"waiting": waiting, "stops": stops, "CO2": grams}

    def seen(self):
        (light,) = self.unwrapped.traffic_signals.values()
        lane = self.unwrapped.sumo.lane
        halted = [sum(lane.getLastStepHaltingNumber(name) for name in light.lanes if name.startswith(road)) for road in "nw"]
        cars = [sum(lane.getLastStepVehicleNumber(name) for name in light.lanes if name.startswith(road)) for road in "nw"]
        steps = light.time_since_last_phase_change / light.delta_time
        leaving = self.unwrapped.sumo.vehicle.getIDCount() - sum(cars)
        numbers = (light.green_phase, steps, *halted, *np.subtract(cars, halted), leaving)
        return np.minimum(numbers, self.observation_space.high).astype(np.float32)


def make(seconds: int = EPISODE) -> gym.Env:
    """The intersection with random traffic, and seven numbers to see of it."""
    options = {"add_system_info": False, "add_per_agent_info": False, "sumo_warnings": False, "reward_fn": "queue"}
    env = Intersection(f"{NET}.net.xml", f"{NET}.rou.xml", single_agent=True, num_seconds=seconds, sumo_seed=0, **options)
    return Compact(env)


def timed(north: int, west: int):
    """Green for fixed times, in steps of five seconds."""

    def policy(seen):
        green, steps = int(seen[0]), seen[1]
        over = steps >= (north, west)[green]
        return np.eye(2)[1 - green if over else green]

    return policy


def actuated(least: int, most: int):
    """Green goes on while cars are moving on its road, for `least` to `most` steps, if somebody waits elsewhere."""

    def policy(seen):
        green, steps = int(seen[0]), seen[1]
        moving, waiting = seen[4 + green], seen[3 - green]
        over = steps >= most or (steps >= least and moving < 2)
        return np.eye(2)[1 - green if over and waiting > 0 else green]

    return policy


def longest(margin: int):
    """Green for the longer queue, once it is longer by a margin."""

    def policy(seen):
        green = int(seen[0])
        return np.eye(2)[1 - green if seen[3 - green] - seen[2 + green] > margin else green]

    return policy


POLICIES = {
    "timed 10 + 20 s": timed(2, 4),
    "timed 15 + 30 s": timed(3, 6),
    "timed 20 + 40 s": timed(4, 8),
    "timed 30 + 30 s": timed(6, 6),
    "actuated": actuated(2, 10),
    "longest queue": longest(0),
    "longest queue by 2": longest(2),
    "longest queue by 5": longest(5),
}
SIGNALS = {"waiting": gvfx.Info("waiting"), "stops": gvfx.Info("stops"), "CO2": gvfx.Info("CO2")}


def signals(reward, info) -> list[float]:
    """The signals of one step, for rollouts."""
    return [info[what] for what in SIGNALS]


def questions() -> list[gvfx.GVF]:
    """Every policy is asked about every signal."""
    return [
        gvfx.GVF(policy, signal, DISCOUNT, name=f"{who}: {what}")
        for who, policy in POLICIES.items()
        for what, signal in SIGNALS.items()
    ]
