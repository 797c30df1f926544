"""highway-env's motorway: six ways to drive, how far they come, how often they crash, change lanes and keep right.

Three lanes and twelve other cars.  Once a second a policy changes the lane, goes faster or slower, or does nothing; one second
in ten nobody attends and nothing is done.  A drive may end at any second with a chance of 10 % (the discount).
"""

import gymnasium as gym
import highway_env  # noqa: F401 (registers its environments)
import numpy as np

import gvfx

DISCOUNT = 0.9
STEPS = 3_000
EPISODE, ROLLOUT = 25, 60  # seconds of an episode, and what a rollout may take
OPTIONS = {"where": "start", "behaviour": gvfx.RoundRobin()}  # the policies in turn, an episode each
LIMIT = 3_000  # steps of rollouts per policy
MOST = 4_000  # steps for a decision
INATTENTIVE = 0.1
CARS, LANES = 12, 3
LEFT, IDLE, RIGHT, FASTER, SLOWER = range(5)  # the actions of highway-env
FAR, NEAR = 60.0, 30.0  # metres that are seen ahead and behind


class Compact(gym.Wrapper):
    """Ten numbers: lane, speed, its target, the gap ahead and how fast it closes, gaps ahead and behind on the left and on the
    right, and the cars still ahead.  There is no gap where there is no lane.

    The signals of a step are in `info`: metres, crash (0 or 1), lane change (0 or 1), right lane (0 or 1).
    """

    low = np.array([0, 0, 15, 0, -15, 0, 0, 0, 0, 0], np.float32)
    high = np.array([LANES - 1, 40, 30, FAR, 15, FAR, NEAR, FAR, NEAR, CARS], np.float32)
    observation_space = gym.spaces.Box(low, high)

    def reset(self, *, seed=None, options=None):
        self.env.reset(seed=seed)
        return self.seen(), {}

    def step(self, action):
        before = self.lane
        _, reward, terminated, truncated, info = self.env.step(int(action))
        signals = {
            "metres": info["speed"],
            "crash": float(info["crashed"]),
            "lane change": float(self.lane != before),
            "right lane": float(self.lane == LANES - 1),
        }
        return self.seen(), reward, terminated, truncated, signals

    @property
    def lane(self):
        """The lane that the car is in or moves to, from the left."""
        return self.unwrapped.vehicle.target_lane_index[2]

    def seen(self):
        road, car = self.unwrapped.road, self.unwrapped.vehicle
        numbers = [self.lane, car.speed, car.target_speed]
        for side in (0, -1, 1):
            lane = self.lane + side
            if not 0 <= lane < LANES:
                numbers += [0.0, 0.0]
                continue
            ahead, behind = road.neighbour_vehicles(car, (*car.target_lane_index[:2], lane))
            gap = FAR if ahead is None else ahead.position[0] - car.position[0] - car.LENGTH
            if side == 0:
                numbers += [gap, 0.0 if ahead is None or gap > FAR else car.speed - ahead.speed]
            else:
                numbers += [gap, NEAR if behind is None else car.position[0] - behind.position[0] - car.LENGTH]
        numbers.append(sum(other.position[0] > car.position[0] for other in road.vehicles))
        return np.clip(numbers, self.low, self.high).astype(np.float32)


def make(seconds: int = EPISODE) -> gym.Env:
    """highway-fast-v0 with fewer cars, and ten numbers to see of it."""
    config = {
        "vehicles_count": CARS,
        "lanes_count": LANES,
        "duration": seconds,
        "action": {"type": "DiscreteMetaAction", "target_speeds": [15, 20, 25, 30]},
        "observation": {"type": "AttributesObservation", "attributes": []},  # Compact has its own
    }
    return Compact(gym.make("highway-fast-v0", config=config, disable_env_checker=True))


def driver(headway: float, wish: float, margin: float | None = None, right: bool = False):
    """A policy: keeps `headway` seconds to the car ahead and wishes a speed; overtakes where the gap behind is at least `margin`
    metres, never without one; goes back to the right if `right`."""

    def decide(seen):
        lane, speed, _, gap, closing, left, left_behind, aside, aside_behind, _ = seen
        needed = headway * speed
        free = {LEFT: lane > 0 and left > max(gap, needed), RIGHT: lane < LANES - 1 and aside > max(gap, needed)}
        if gap < needed or (closing > 0 and gap < 3 * closing):
            if margin is not None:
                for side, behind in ((LEFT, left_behind), (RIGHT, aside_behind)):
                    if free[side] and behind >= margin:
                        return side
            return SLOWER if closing > -1 else IDLE
        if right and lane < LANES - 1 and aside > needed + 10 and aside_behind >= (margin or 15):
            return RIGHT
        return FASTER if speed < wish - 1 else IDLE

    def policy(seen):
        chances = np.zeros(5)
        chances[decide(seen)] = 1 - INATTENTIVE
        chances[IDLE] += INATTENTIVE
        return chances

    return policy


POLICIES = {
    "cautious": driver(2.0, 25, right=True),
    "steady": driver(1.4, 25),
    "keeps right": driver(1.4, 25, margin=15, right=True),
    "overtakes": driver(1.2, 30, margin=15),
    "eager": driver(0.9, 30, margin=8),
    "reckless": driver(0.5, 30, margin=2),
}
SIGNALS = {what: gvfx.Info(what) for what in ("metres", "crash", "lane change", "right lane")}


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
