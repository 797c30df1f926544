"""The examples of the API reference: one section per public name, after `# %% NAME`; a test runs each after the first part.

The comment after an expression is what it shows; the test compares them.
"""

# ruff: noqa: B015, B018, E402

import gymnasium as gym
import numpy as np

import gvfx
import gvfx_paper

env = gym.make("FrozenLake-v1")  # 16 states, 4 actions
careful, eager = gvfx.uniform_policy(), gvfx.constant_policy([0.05, 0.45, 0.45, 0.05])
questions = [
    gvfx.GVF(careful, gvfx.Reward(), 0.95, name="careful"),
    gvfx.GVF(eager, gvfx.Reward(), 0.95, name="eager"),
]
world = gvfx.gridworld(5, goals={"goal": (0, 4)})  # 25 cells and the end of an episode: 26 states, 4 actions
asked = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Distractor(10, 1, at="goal"), 0.9, name="goal")]
result = gvfx.evaluate(env, questions, steps=5_000)


def error_of(behaviour, learner=None, steps=2_000):
    """The mean squared error of a short run in the grid world."""
    return gvfx.evaluate(world, asked, behaviour, learner, steps=steps).error[0, -1]


# %% GVF
question = gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95, name="goal")
still = gvfx.GVF([0.1, 0.4, 0.4, 0.1], lambda s, a, s2: float(s2 == s), 0.9, name="standing still")
gvfx.evaluate(env, [question, still], steps=2_000).predict(0).shape  # (2,)
# %% Reward
gvfx.GVF(careful, gvfx.Reward(), 0.95)
gvfx.GVF(careful, gvfx.Reward(index=1), 0.95)  # one component of a vector
gvfx.GVF(careful, gvfx.Reward(weights=[1.0, 0.5]), 0.95)  # a weighted sum of its components
# %% Info
chance = gvfx.GVF(careful, gvfx.Info("prob"), 0.95, name="probability of what happened")
gvfx.evaluate(env, [chance], steps=2_000).names  # ('probability of what happened',)
# %% Measure
place = gvfx.Measure(lambda s, a, s2: [s2 // 4, s2 % 4], size=2)  # row and column
gvfx.evaluate(env, [gvfx.GVF(careful, place, 0.9, name="place")], steps=2_000).names  # ('place[0]', 'place[1]')
# %% Constant
gvfx.GVF(careful, gvfx.Constant(1.0), 0.95)  # time until the end of the episode; the number 1.0 does the same
gvfx.GVF(careful, gvfx.Constant(5.0, at="goal"), 0.95)
# %% Distractor
gvfx.exact.values(world, [gvfx.GVF(careful, gvfx.Distractor(100, 5, at="goal"), 0.9)]).shape  # (1, 26)
# %% Drifter
drifting = gvfx.GVF(careful, gvfx.Drifter(sd=0.5, start=100, at="goal"), 0.9)
gvfx.evaluate(world, [drifting], steps=2_000).details.extra["levels"].shape  # (1, 20, 1)
# %% Signal
gvfx.GVF(gvfx_paper.Target.shipped("cheetah", "run"), gvfx.Signal("run"), 0.99, name="run")  # a task of Cheetah
# %% table_cumulant
paid = gvfx.table_cumulant(np.ones((26, 4)))  # [state] or [state, action]
gvfx.exact.values(world, [gvfx.GVF(careful, paid, 0.9)]).shape  # (1, 26)
# %% Cumulant
all(isinstance(signal, gvfx.Cumulant) for signal in (gvfx.Reward(), gvfx.Constant(1.0), gvfx.Info("key")))  # True
# %% Policy
isinstance(gvfx.uniform_policy(), gvfx.Policy)  # True
gvfx.constant_policy([0.2, 0.8]).table(3, 2).shape  # (1, 2)
# %% uniform_policy
gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95)
# %% constant_policy
gvfx.constant_policy([0.1, 0.2, 0.3, 0.4])  # one probability per action
# %% table_policy
rows = np.full((16, 4), 0.25)  # [state, action]
gvfx.table_policy(rows)
# %% deterministic_policy
gvfx.deterministic_policy([2] * 16)  # one action per state
gvfx.deterministic_policy(lambda observation: 2)
# %% callable_policy
right = gvfx.callable_policy(lambda state: [0.0, 0.0, 1.0, 0.0] if state < 4 else [0.25] * 4)
gvfx.evaluate(env, [gvfx.GVF(right, gvfx.Reward(), 0.95)], steps=2_000).values.shape  # (1, 1, 16)


# %% stateful_policy
def in_turn(rng):  # called at the beginning of every episode
    left = iter(range(10**9))
    return lambda observation: next(left) % 4


gvfx.GVF(gvfx.stateful_policy(in_turn), gvfx.Reward(), 0.95, name="in turn")  # is answered by rollouts
# %% softmax_policy
gvfx.softmax_policy(lambda observation: [0.0, 1.0, 1.0, 0.0], temperature=0.5)
# %% mixture_policy
gvfx.mixture_policy([careful, eager], weights=[0.3, 0.7])
# %% gaussian_policy
brake = gvfx.gaussian_policy(lambda observation: [-0.25 * observation[2]], sigma=0.5)  # for Pendulum-v1
# %% own_greedy
best = gvfx.GVF(gvfx.own_greedy(0.1), gvfx.Reward(), 0.95, name="best")
gvfx.evaluate(env, [best], steps=2_000).details.policy("best").shape  # (16, 4)
# %% own_softmax
gvfx.GVF(gvfx.own_softmax(temperature=0.05), gvfx.Reward(), 0.95, name="soft")
# %% from_sb3  needs stable_baselines3
from stable_baselines3 import PPO

policy = gvfx.from_sb3(PPO("MlpPolicy", "CartPole-v1"))
# %% Target
gvfx_paper.Target.shipped("cheetah", "walk", sigma=0.3)
# %% Audit
audited = gvfx.evaluate(env, questions, steps=5_000, audit=gvfx.Audit(0.3, ranges={"careful": (0, 1)}))
sorted(audited.audit())  # ['careful', 'eager']
# %% World
isinstance(world, gvfx.World)  # True
# %% MDP
two = gvfx.MDP.from_matrix([[[0.6, 0.4], [0.8, 0.2]], [[0.2, 0.8], [0.4, 0.6]]])  # [state, action, next state]
two.states, two.actions  # (2, 2)
# %% gridworld
gvfx.gridworld(20, goals={"left": (0, 0), "right": (0, 19)}, slip=0.1).states  # 401
gvfx.gridworld("A..\n.#.\n..B").places["A"]  # array([0])
# %% four_rooms
gvfx.four_rooms(goals={"corner": (0, 0)}).actions  # 4
# %% ContinuousGrid
from gvfx_paper.worlds.continuous_grid import Goal

grid = gvfx_paper.ContinuousGrid((Goal("left", (0.1, 0.9), 100.0, 5.0),), step=0.05)
questions = [gvfx.GVF(gvfx.constant_policy([0.25] * 4), gvfx.Signal("left"), 0.95)]
grid.centres.shape  # (1, 2)
# %% Domain
from gvfx_paper.worlds.mujoco import CHEETAH

CHEETAH.observation_size, CHEETAH.action_size  # (17, 6)
# %% from_gymnasium
gvfx.from_gymnasium(env).states  # 16
# %% history
gvfx.history(gym.make("CartPole-v1")).reset(seed=0)[0].shape  # (10,)
# %% actions_of
gvfx.actions_of(env)  # [0, 1, 2, 3]
# %% Behaviour
isinstance(gvfx.OptimalDesign(), gvfx.Behaviour)  # True
sorted(gvfx.OptimalDesign.supports)  # ['linear', 'tables']
# %% OptimalDesign
gvfx.evaluate(env, questions, gvfx.OptimalDesign(), steps=5_000)  # the default on tables
error_of(gvfx.OptimalDesign(growth=1.5))
# %% GVFExplorer
error_of(gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer())), gvfx.ExpectedSarsa())
# %% RandomPolicies
error_of(gvfx_paper.RandomPolicies())
# %% VarianceSoftmax
error_of(gvfx_paper.VarianceSoftmax(temperature=gvfx.Fixed(0.5)))
# %% RoundRobin
error_of(gvfx.RoundRobin())
# %% Mixture
error_of(gvfx.Mixture())
# %% Uniform
error_of(gvfx.Uniform())
# %% Follow
error_of(gvfx.Follow(gvfx.constant_policy([0.4, 0.1, 0.4, 0.1])))
# %% SuccessorRepresentation
error_of(gvfx.Epsilon(gvfx.SuccessorRepresentation(), when="episode"), gvfx.ExpectedSarsa())
# %% BehaviourPolicySearch
error_of(gvfx.BehaviourPolicySearch(), gvfx.ExpectedSarsa())
# %% CharacteristicTime
error_of(gvfx.CharacteristicTime())
# %% SecondMoment
error_of(gvfx.SecondMoment())
# %% RobustSampling
error_of(gvfx.RobustSampling())
# %% Actor
gvfx.Actor(direction="optimal")  # Box actions, with gvfx.TwinCritics
# %% MixtureActor
gvfx.Hold(gvfx.MixtureActor(floor=0.2))  # Box actions, with gvfx.TwinCritics
# %% Epsilon
error_of(gvfx.Epsilon(gvfx.GVFExplorer(), gvfx.Linear(1.0, 0.1, 1_000)))
# %% Floor
error_of(gvfx.Floor(gvfx.GVFExplorer(), floor=0.01))
# %% Blend
error_of(gvfx.Blend(gvfx.GVFExplorer(), gvfx.Uniform(), share=0.8))
# %% Hold
gvfx.Hold(gvfx.GVFExplorer(), steps=50)  # Box actions: the default there, with 100 steps
# %% Alternate
gvfx.Alternate(gvfx.GVFExplorer(), gvfx.Uniform(), share=0.5)  # Box actions
# %% Fixed
gvfx.Epsilon(gvfx.Mixture(), gvfx.Fixed(0.1))
# %% Linear
gvfx.ExpectedSarsa(rate_q=gvfx.Linear(1.0, 0.1, 50_000))
# %% Geometric
gvfx.Epsilon(gvfx.GVFExplorer(), gvfx.Geometric(start=1.0, decay=0.999, minimum=0.01))
# %% Learner
isinstance(gvfx.CertaintyEquivalence(), gvfx.Learner)  # True
# %% CertaintyEquivalence
error_of(gvfx.Uniform(), gvfx.CertaintyEquivalence())
error_of(gvfx.Uniform(), gvfx.CertaintyEquivalence(forgetting="auto"))
# %% LinearCertaintyEquivalence
gvfx.LinearCertaintyEquivalence(intervals=False)  # the default for Box observations of up to 12 numbers has intervals
# %% Rollouts
rolled = gvfx.evaluate(env, questions, learner=gvfx.Rollouts(), steps=5_000)
sorted(rolled.value())  # ['careful', 'eager']
# %% ExpectedSarsa
error_of(gvfx.Mixture(), gvfx.ExpectedSarsa(rate_q=0.2))
# %% ImportanceSampling
error_of(gvfx.Mixture(), gvfx.ImportanceSampling(ratio_high=5.0))
# %% EpisodicExpectedSarsa
error_of(gvfx.Mixture(), gvfx_paper.EpisodicExpectedSarsa())
# %% Deep
gvfx.Deep(hidden=(64, 64), heads=5)  # gvfx.evaluate(env, questions, learner=gvfx.Deep()); needs the extra [deep]
# %% TwinCritics
gvfx.TwinCritics(worlds=16, updates=8)  # the default for Box actions; needs the extra [deep]
# %% evaluate
answers = gvfx.evaluate("FrozenLake-v1", questions, steps=5_000, seeds=2)
answers.predict(0).shape, answers.intervals(0).shape, answers.values.shape  # ((2,), (2, 2), (2, 2, 16))
# %% evaluate_log
log = {
    "observation": [0, 4, 8],
    "action": [1, 1, 2],
    "next_observation": [4, 8, 9],
    "terminated": [False] * 3,
    "reward": [0.0] * 3,
}
gvfx.evaluate_log({**log, "states": 16}, questions).values.shape  # (1, 2, 16)
# %% Log
log = gvfx.Log(observation=[0, 4], action=[1, 1], next_observation=[4, 8], terminated=[False, False], reward=[0.0, 0.0])
gvfx.evaluate_log(log, questions).names  # ('careful', 'eager')
# %% check
gvfx.check(env, questions)  # []
[finding.field for finding in gvfx.check(env, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.95, name="short")])]  # ['short.policy']
# %% Finding
(finding,) = gvfx.check(env, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.95, name="short")])
finding.severity  # 'error'
# %% plan
costs = gvfx.plan(world, asked, error=0.05)
costs["optimum"].steps <= costs["Uniform"].steps  # True
# %% error_below
stopped = gvfx.evaluate(env, questions, steps=100_000, until=gvfx.error_below(0.001))
bool(stopped.reached[0]), stopped.stopped.shape  # (True, (1,))
# %% decided
gvfx.evaluate(env, questions, steps=20_000, until=gvfx.decided(margin=0.05)).reached.shape  # (1,)
# %% truth_of
truth = gvfx.truth_of(env, questions, precision=0.005)
truth.values.shape, truth.standard_errors.shape  # ((2, 1), (2, 1))
# %% MonteCarlo
isinstance(gvfx.truth_of(env, questions, max_episodes=50), gvfx.MonteCarlo)  # True
# %% load
result.save("answers.gvfx")
gvfx.load("answers.gvfx").names  # ('careful', 'eager')
# %% Interrupted
try:
    gvfx.evaluate(env, questions, steps=5_000)
except gvfx.Interrupted as stop:  # Ctrl-C or SIGTERM
    print(stop.result.summary())
# %% Tracker
isinstance(gvfx.JsonLines("run.jsonl"), gvfx.Tracker)  # True
# %% JsonLines
tracked = gvfx.evaluate(env, questions, steps=2_000, track=gvfx.JsonLines("run.jsonl"))  # or track="run.jsonl"
with open("run.jsonl") as file:
    print(file.readline())
# %% TensorBoard  needs tensorboardX
gvfx.evaluate(env, questions, steps=2_000, track=gvfx.TensorBoard("runs"))
# %% WeightsAndBiases  needs wandb
gvfx.evaluate(env, questions, steps=2_000, track=gvfx.WeightsAndBiases("project"))  # stored locally: mode="offline"
# %% paper
setting = gvfx_paper.paper["distinct"]
setting.world.states, len(setting.questions)  # (401, 2)
setting.behaviour("RoundRobin"), setting.learner()
# %% Result
result = gvfx.evaluate(env, questions, steps=5_000, seeds=2)
result.mse.shape, result.steps.shape, result.visits.shape  # ((2, 20, 2), (20,), (2, 16, 4))
# %% Result.predict
result.predict(0).shape, result.predict([0, 1, 2]).shape  # ((2,), (2, 3))
# %% Result.intervals
result.intervals(0).shape, result.intervals().shape  # ((2, 2), (2, 16, 2))
result.intervals(0, level=0.99)
# %% Result.value
result.value()["careful"].value <= result.value()["careful"].high  # True
# %% Result.audit
gvfx.evaluate(env, questions, steps=5_000, audit=0.3).audit()["careful"]
# %% Result.compare
print(result.compare())
print(result.compare(["careful", "eager"], simultaneous=True))
# %% Result.rows
sorted(result.rows()[0])[:4]  # ['high', 'low', 'observation', 'prediction']
# %% Result.to_dataframe  needs pandas
result.to_dataframe().groupby("question")["prediction"].mean()
# %% Result.summary
print(result.summary())
# %% Result.plot
result.plot().savefig("answers.png")
# %% Result.save
result.save("answers.gvfx")
# %% Details
result.details.truth.shape, result.details.error_bars  # ((1, 2, 16), 'posterior')
# %% Details.to_json
sorted(result.details.to_json())[:3]  # ['episodes', 'experiment', 'final']
# %% Details.policy
found = gvfx.evaluate(env, [gvfx.GVF(gvfx.own_greedy(), gvfx.Reward(), 0.95, name="best")], steps=2_000)
found.details.policy("best").shape  # (16, 4)
# %% Details.spread
result.details.error_bars  # 'posterior'
# %% exact
gvfx.exact.values(world, asked).shape  # (1, 26)
gvfx.exact.action_values(world, asked).shape  # (26, 4, 1)
gvfx.exact.variance(world, asked).shape  # (26, 4, 1)
gvfx.exact.successor_representation(world, asked[0]).shape  # (26, 26)
# %% design
best = gvfx.design.optimal(world, asked)
best.behaviour.shape  # (26, 4)
uniform = np.full((26, 4), 0.25)
best.constant <= gvfx.design.constant(world, asked, uniform)  # True
gvfx.design.forecast(world, asked, best.behaviour).steps(0.05, share=0.95) > 0  # True
# %% testing
gvfx.testing.check_behaviour(gvfx.Uniform(), quick=True)  # in the tests of a behaviour of your own
gvfx.testing.check_learner(gvfx.CertaintyEquivalence(), quick=True)
# %% GvfxError
try:
    gvfx.load("missing.gvfx")
except gvfx.GvfxError as error:  # the base of all the others
    print(error)
# %% InputError
try:
    gvfx.evaluate(env, questions, steps=-1)
except gvfx.InputError as error:
    print(error)
# %% RunError
try:
    gvfx.evaluate(env, questions, steps=5_000)
except gvfx.RunError as error:
    partial = error.result  # what was learned before the failure
# %% EnvironmentFailed
issubclass(gvfx.EnvironmentFailed, gvfx.RunError)  # True
# %% StoreError
with open("damaged.gvfx", "wb") as file:
    file.write(b"not a result")
try:
    gvfx.load("damaged.gvfx")
except gvfx.StoreError as error:
    print(error)
