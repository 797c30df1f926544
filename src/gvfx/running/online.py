"""The online loop: any Gymnasium environment with Discrete spaces, stepped from Python, learning by the compiled rules.

Behaviours and learners are those of the compiled loop: their functions are wrapped into two, `act` and `learn`, each
called once per step for all environments that are stepped together (a plain environment is one of them).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.search import BehaviourPolicySearch
from gvfx.behaviours.wrappers import Epsilon, Floor
from gvfx.errors import InputError
from gvfx.gvf import GVF, Stacked, stack
from gvfx.kernel import BehaviourRule, LearnerRule, Sizes, Transition, whole
from gvfx.learners.base import Learner
from gvfx.learners.episodic import EpisodicExpectedSarsa
from gvfx.learners.tabular import ExpectedSarsa
from gvfx.running.compiled import dynamics, make_table
from gvfx.running.evaluate import Part, Plan, checked_seeds, evaluate, gather
from gvfx.running.result import Result
from gvfx.schedules import Linear
from gvfx.signals import SignalFailed
from gvfx.streams import BEHAVIOUR, choose, seed_streams, uniform
from gvfx.truth import predicted_values
from gvfx.worlds.asking import Reader, Stage, asked_of, stage
from gvfx.worlds.mdp import MDP
from gvfx.worlds.toy_text import from_gymnasium, is_toy_text


class EnvironmentFailed(InputError):
    """An environment that raised, or returned what it must not, in the middle of a run.

    Names the environment, the episode and the step.  `result` is what was learned so far (None before the first step).
    """

    def __init__(self, environment: str, episode: int, step: int, what: str) -> None:
        super().__init__(f"{environment}: episode {episode}, step {step}: {what}")
        self.environment, self.episode, self.step = environment, episode, step
        self.result: Any = None
        self.part: Any = None  # of the seed that failed


class Agent(NamedTuple):
    """All that `act` and `learn` read and write; [lane] is one of the environments that are stepped together."""

    behaviour: Any
    learner: Any
    pi: np.ndarray  # [1 or states, action, gvf]
    pi_stride: int
    rng: np.ndarray
    t: np.ndarray  # int64 [1] steps done
    visits: np.ndarray  # int64 [states, actions]
    state: np.ndarray  # int64 [lane]
    action: np.ndarray  # int64 [lane]; -1: none chosen yet
    mu: np.ndarray  # [lane, action]
    following: np.ndarray  # int64 [lane]
    alive: np.ndarray  # [lane] 0 where the episode terminated, 1 otherwise
    ended: np.ndarray  # bool [lane] terminated or truncated
    counts: np.ndarray  # bool [lane] False: this was a reset, not a transition
    c: np.ndarray  # [lane, gvf]
    gamma: np.ndarray  # [lane, gvf]


@cache
def make_agent(
    sizes: Sizes, behaviour: BehaviourRule, learner: LearnerRule, needs_next_action: bool
) -> tuple[Callable[[Agent], None], Callable[[Agent], None]]:
    """act(agent) chooses an action in every lane; learn(agent) learns from every lane's transition."""
    actions = sizes.actions
    probabilities, observe, behaviour_end = behaviour.probabilities, behaviour.observe, behaviour.episode_end
    update, learner_end = learner.update, learner.episode_end

    @whole
    def act(agent):
        for k in range(agent.state.shape[0]):
            s = agent.state[k]
            if not needs_next_action or agent.action[k] < 0:
                probabilities(agent.behaviour, agent.t[0], s, s, agent.pi[s * agent.pi_stride], agent.learner.m[s], agent.mu[k])
                agent.action[k] = choose(agent.mu[k], actions, uniform(agent.rng, BEHAVIOUR))

    @whole
    def learn(agent):
        for k in range(agent.state.shape[0]):
            if not agent.counts[k]:
                agent.action[k] = -1
                continue
            t = agent.t[0]
            s = agent.state[k]
            s_next = agent.following[k]
            action = agent.action[k]
            mu = agent.mu[k]
            prob = mu[action]
            row = s * agent.pi_stride
            next_row = s_next * agent.pi_stride
            next_action = -1
            next_prob = 1.0
            if needs_next_action:
                probabilities(agent.behaviour, t, s_next, s_next, agent.pi[next_row], agent.learner.m[s_next], mu)
                next_action = choose(mu, actions, uniform(agent.rng, BEHAVIOUR))
                next_prob = mu[next_action]
            tr = Transition(row, s, action, prob, next_row, s_next, next_action, next_prob, k, agent.alive[k])
            update(agent.learner, t, tr, agent.c[k], agent.gamma, agent.pi)
            observe(agent.behaviour, t, tr, agent.c[k], agent.gamma, agent.pi)
            agent.visits[s, action] += 1
            agent.t[0] = t + 1
            agent.action[k] = next_action
            if agent.ended[k]:
                learner_end(agent.learner, t + 1, agent.rng, agent.pi, agent.gamma)
                behaviour_end(agent.behaviour, t + 1, agent.rng)
                agent.action[k] = -1

    return act, learn


def bound(function: Any, agent: Agent) -> Callable[[Agent], None]:
    """A compiled function for one agent's types, spared the search for the right types at every call."""
    signature = (typeof(agent),)
    function.compile(signature)
    return function.overloads[signature].entry_point


# --- stepping ----------------------------------------------------------------------------------------------------


class One:
    """One environment in lane 0: reset by us when an episode ends."""

    def __init__(self, here: Stage, reader: Reader) -> None:
        self.here, self.reader = here, reader
        self.episode = self.age = 0
        self.observation: Any = None

    def begin(self, agent: Agent, seed: int) -> None:
        self._reset(agent, {"seed": seed})

    def _reset(self, agent: Agent, options: dict[str, Any]) -> None:
        self.age = 0
        try:
            self.observation, _ = self.here.env.reset(**options)
        except Exception as error:
            raise self.failed(f"reset raised {type(error).__name__}: {error}") from error
        agent.state[0] = self.state_of(self.observation)

    def step(self, agent: Agent, learn: Callable[[Agent], None]) -> int:
        """Take the chosen action, read the signals and learn; returns how many episodes ended."""
        action = int(agent.action[0]) + self.here.first_action
        try:
            following, reward, terminated, truncated, info = self.here.env.step(action)
        except Exception as error:
            raise self.failed(_why(error)) from error
        s = self.state_of(following)
        if reward != reward:
            raise self.failed("the reward is nan; return finite numbers.")
        try:
            self.reader.read(self.observation, action, reward, following, info, agent.c[0], agent.gamma[0])
        except SignalFailed as error:
            raise self.failed(str(error)) from error
        except Exception as error:
            raise self.failed(f"a question's signal raised {type(error).__name__}: {error}") from error
        ended = bool(terminated or truncated)
        agent.following[0] = s
        agent.alive[0] = 0.0 if terminated else 1.0
        agent.ended[0] = ended
        learn(agent)
        self.age += 1
        if ended:
            self.episode += 1
            self._reset(agent, {})
            return 1
        agent.state[0] = s
        self.observation = following
        return 0

    def state_of(self, observation: Any) -> int:
        """The state's number, counted from 0; anything that is none is an error."""
        try:
            s = observation.__index__() - self.here.first_state
        except (AttributeError, TypeError):
            shape = np.shape(observation)
            what = f"of shape {list(shape)}" if shape else repr(observation)[:40]
            raise self.failed(f"the observation {what} is not one whole number, as its space says.") from None
        if not 0 <= s < self.here.shell.states:
            raise self.failed(f"the observation {observation} lies outside its space of {self.here.shell.states} states.")
        return s

    def failed(self, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(self.here.name, self.episode, self.age, what)


class Many:
    """A vector environment: one lane each, whichever way it resets itself."""

    def __init__(self, here: Stage, reader: Reader) -> None:
        self.here, self.reader = here, reader
        self.mode = str(getattr(here.env.metadata.get("autoreset_mode"), "name", "NEXT_STEP"))
        self.episode = self.age = 0
        self.resets = np.zeros(here.lanes, bool)  # lanes that only reset in the next step
        self.observations: Any = None

    def begin(self, agent: Agent, seed: int) -> None:
        try:
            self.observations, _ = self.here.env.reset(seed=seed)
        except Exception as error:
            raise self.failed(f"reset raised {type(error).__name__}: {error}") from error
        agent.state[:] = self.states_of(self.observations)
        self.resets[:] = False

    def step(self, agent: Agent, learn: Callable[[Agent], None]) -> int:
        """Take the chosen actions, read the signals and learn; returns how many episodes ended."""
        actions = agent.action + self.here.first_action
        try:
            given, rewards, terminated, truncated, info = self.here.env.step(actions)
        except Exception as error:
            raise self.failed(_why(error)) from error
        given = np.array(given)
        ended = (terminated | truncated) & ~self.resets
        following = given.copy()
        if self.mode == "SAME_STEP" and ended.any():  # the last observations of the episodes come in info
            following[ended] = [int(o) for o in np.asarray(info["final_obs"], dtype=object)[ended]]
        if np.isnan(rewards).any():
            raise self.failed(f"the reward of environment {int(np.isnan(rewards).argmax())} is nan; return finite numbers.")
        for k in np.flatnonzero(~self.resets).tolist():
            own = _own_info(info, k, bool(ended[k]) and self.mode == "SAME_STEP") if self.reader.reads_info else {}
            try:
                self.reader.read(
                    int(self.observations[k]),
                    int(actions[k]),
                    float(rewards[k]),
                    int(following[k]),
                    own,
                    agent.c[k],
                    agent.gamma[k],
                )
            except SignalFailed as error:
                raise self.failed(f"environment {k}: {error}") from error
            except Exception as error:
                raise self.failed(f"environment {k}: a question's signal raised {type(error).__name__}: {error}") from error
        agent.following[:] = self.states_of(following)
        agent.alive[:] = ~terminated
        agent.ended[:] = ended
        agent.counts[:] = ~self.resets
        learn(agent)
        if self.mode == "DISABLED" and ended.any():
            given, _ = self.here.env.reset(options={"reset_mask": ended})
            given = np.array(given)
        self.resets = ended if self.mode == "NEXT_STEP" else self.resets
        agent.state[:] = self.states_of(given)
        self.observations = given
        self.age += 1
        self.episode += int(ended.sum())
        return int(ended.sum())

    def states_of(self, observations: Any) -> np.ndarray:
        states = np.asarray(observations)
        if states.shape != (self.here.lanes,) or states.dtype.kind not in "iu":
            raise self.failed(f"the observations have shape {list(states.shape)}, not one whole number per environment.")
        states = states - self.here.first_state
        if (states < 0).any() or (states >= self.here.shell.states).any():
            raise self.failed(f"an observation lies outside its space of {self.here.shell.states} states.")
        return states

    def failed(self, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(self.here.name, self.episode, self.age, what)


def _why(error: Exception) -> str:
    """What went wrong in a step."""
    if isinstance(error, ValueError | TypeError) and "unpack" in str(error):
        return "step did not return (observation, reward, terminated, truncated, info)."
    return f"step raised {type(error).__name__}: {error}"


def _own_info(info: dict[str, Any], k: int, last: bool) -> dict[str, Any]:
    """One environment's info out of a vector's (of the step that ended its episode: out of `final_info`)."""
    if last and "final_info" in info:
        info = info["final_info"]
    return {key: values[k] for key, values in info.items() if not key.startswith("_") and info.get(f"_{key}", _ALL)[k]}


class _All:
    def __getitem__(self, k: int) -> bool:
        return True


_ALL = _All()


# --- a run -------------------------------------------------------------------------------------------------------


class OnlineRunner:
    """Everything that seeds share; calling it with a seed runs that seed in the environment."""

    def __init__(self, here: Stage, questions: Sequence[GVF], behaviour: Behaviour, learner: Learner, plan: Plan) -> None:
        self.here, self.questions, self.behaviour, self.learner, self.plan = here, questions, behaviour, learner, plan
        if getattr(learner, "needs_evidence", False):
            raise InputError(f"learner: {type(learner).__name__} needs a world whose outcomes are known; use ExpectedSarsa.")
        if here.lanes > 1 and isinstance(learner, EpisodicExpectedSarsa):
            raise InputError("learner: EpisodicExpectedSarsa keeps one episode at a time; give a plain environment.")
        if here.lanes > 1 and isinstance(behaviour, BehaviourPolicySearch):
            raise InputError("behaviour: BehaviourPolicySearch keeps one episode at a time; give a plain environment.")
        reader = Reader(questions, here)
        if isinstance(learner, EpisodicExpectedSarsa) and any(callable(q.discount) for q in reader.questions):
            raise InputError("discount: EpisodicExpectedSarsa learns when changing discounts are gone; use ExpectedSarsa.")
        self.asked: Stacked = stack(asked_of(questions, here), here.shell)
        self.names, self.weights = self.asked.names, self.asked.weights
        self.sizes = Sizes(len(self.names), here.shell.actions)
        self.rule = behaviour.rule(self.sizes)
        self.compiled = make_agent(
            self.sizes, self.rule, learner.rule(self.sizes, behaviour.needs_variance), learner.needs_next_action
        )

    def begin(self, seed: int) -> tuple[Agent, One | Many]:
        """A fresh agent, and the environment with its reader."""
        shell, lanes = self.here.shell, self.here.lanes
        reader = Reader(self.questions, self.here, seed)
        c, gamma = reader.begin(lanes)
        agent = Agent(
            behaviour=self.behaviour.begin(self.asked, shell),
            learner=self.learner.begin(self.asked, shell),
            pi=self.asked.pi,
            pi_stride=self.asked.pi_stride,
            rng=seed_streams(seed),
            t=np.zeros(1, np.int64),
            visits=np.zeros((shell.states, shell.actions), np.int64),
            state=np.zeros(lanes, np.int64),
            action=np.full(lanes, -1, np.int64),
            mu=np.zeros((lanes, shell.actions)),
            following=np.zeros(lanes, np.int64),
            alive=np.ones(lanes),
            ended=np.zeros(lanes, bool),
            counts=np.ones(lanes, bool),
            c=c,
            gamma=gamma,
        )
        return agent, One(self.here, reader) if self.here.single else Many(self.here, reader)

    def __call__(self, seed: int, progress: Callable[[int, int, float], None] | None = None) -> Part:
        """Run a seed; where the environment fails, EnvironmentFailed carries the part so far."""
        agent, stepper = self.begin(seed)
        act, learn = (bound(function, agent) for function in self.compiled)
        episodes, snapshots, seconds, ended = [], [], 0.0, 0
        try:
            stepper.begin(agent, seed)
            for stop in self.plan.stops:
                begun = time.perf_counter()
                while agent.t[0] < stop:
                    act(agent)
                    ended += stepper.step(agent, learn)
                seconds += time.perf_counter() - begun
                if stop in self.plan.evaluations:
                    episodes.append(ended)
                    if progress:
                        progress(seed, stop, float("nan"))
                if stop in self.plan.snapshots:
                    snapshots.append((stop, *self.tables(agent)))
        except EnvironmentFailed as error:
            if agent.t[0]:
                error.part = self.part(episodes, [*snapshots, (int(agent.t[0]), *self.tables(agent))], seconds)
            raise
        return self.part(episodes, snapshots, seconds)

    def tables(self, agent: Agent) -> tuple[np.ndarray, ...]:
        """Values, variances, visits and behaviour now."""
        shell = self.here.shell
        mu = np.empty((shell.states, shell.actions))
        make_table(self.sizes, self.rule)(dynamics(shell, self.asked), agent.behaviour, agent.learner, int(agent.t[0]), mu)
        kept = predicted_values(shell, self.asked, agent.learner.m) if self.behaviour.needs_variance else np.empty(0)
        return predicted_values(shell, self.asked, agent.learner.q), kept, agent.visits.copy(), mu

    def part(self, episodes: list[int], snapshots: list[tuple], seconds: float) -> Part:
        """One seed's share of the result; the truth is not known."""
        gvfs = len(self.names)
        steps, values, variances, visits, behaviour = (np.stack(column) for column in zip(*snapshots, strict=True))
        return Part(
            steps=np.array(self.plan.evaluations[: len(episodes)], dtype=np.int64),
            mse=np.full((len(episodes), gvfs), np.nan),
            levels=np.zeros((len(episodes), gvfs)),
            episodes=np.array(episodes, dtype=np.int64),
            snapshot_steps=steps,
            values=values,
            variances=variances,
            visits=visits,
            behaviour=behaviour,
            snapshot_levels=np.zeros((len(steps), gvfs)),
            truth=np.full(values.shape[1:], np.nan),
            seconds=seconds,
        )


def evaluate_environment(
    env: Any,
    questions: Sequence[GVF],
    behaviour: Behaviour | None,
    learner: Any,
    *,
    steps: int,
    seeds: Any,
    save: str | Path | None = None,
    **options: Any,
) -> Result:
    """evaluate for a Gymnasium environment: compiled where its transition table is known, else stepped from Python."""
    behaviour, learner = behaviour or usual_behaviour(), learner or usual_learner(steps)
    world = known_world(env, questions)
    if world is not None:
        return evaluate(world, questions, behaviour, learner, steps=steps, seeds=seeds, save=save, **options)
    return evaluate_online(env, questions, behaviour, learner, steps=steps, seeds=seeds, save=save, **options)


def evaluate_online(
    env: Any,
    questions: Sequence[GVF],
    behaviour: Behaviour | None = None,
    learner: Any = None,
    *,
    steps: int,
    seeds: Any = 1,
    evaluate_every: int | None = None,
    snapshots: Iterable[int] = (),
    average_episodes: int = 0,
    workers: int = 1,
    progress: Callable[[int, int, float], None] | None = None,
    save: str | Path | None = None,
    until: Any = None,
    weights: Any = None,
) -> Result:
    """Answer questions in an environment stepped from Python (vector environments may overshoot a stop by some steps)."""
    if average_episodes:
        raise InputError("average_episodes: the truth of an environment is not known, so there is no error to average; give 0.")
    for name, given in (("until", until), ("weights", weights)):
        if given is not None:
            raise InputError(f"{name}: needs a world whose transitions can be counted in advance (gvfx.MDP); leave it out here.")
    if workers != 1:
        raise InputError(f"workers: {workers} cannot step one environment; give 1.")
    plan, seed_list = Plan.checked(steps, evaluate_every, snapshots), checked_seeds(seeds)
    behaviour, learner = behaviour or usual_behaviour(), learner or usual_learner(steps)
    if not isinstance(learner, Learner):
        raise InputError(f"learner: {type(learner).__name__} does not fit Discrete observations; use a tabular learner.")
    run = OnlineRunner(stage(env), questions, behaviour, learner, plan)
    described = {"environment": run.here.name, "behaviour": repr(behaviour), "learner": repr(learner), "steps": steps}
    parts: list[Part] = []

    def result() -> Result:
        gathered = gather(run.names, run.weights, seed_list[: len(parts)], parts, described)
        gathered = replace(gathered, first_state=run.here.first_state)
        if save is not None:
            gathered.save(save)
        return gathered

    try:
        for seed in seed_list:
            parts.append(run(seed, progress))
    except EnvironmentFailed as error:
        if error.part is not None:
            parts.append(error.part)
        if parts:
            parts = _alike(parts)
            described["failed"] = str(error)
            error.result = result()
        raise
    return result()


def _alike(parts: list[Part]) -> list[Part]:
    """Parts of which the last stopped early, cut to what all have: the measurements it reached, and each one's end."""
    reached = len(parts[-1].steps)
    curves = ("steps", "mse", "levels", "episodes")
    ends = ("snapshot_steps", "values", "variances", "visits", "behaviour", "snapshot_levels")
    return [
        replace(
            part,
            **{name: getattr(part, name)[:reached] for name in curves},
            **{name: getattr(part, name)[-1:] for name in ends},
        )
        for part in parts
    ]


def known_world(env: Any, questions: Sequence[GVF]) -> MDP | None:
    """The environment as an MDP, where it shows its transition table and the questions need nothing else."""
    if not is_toy_text(env):
        return None
    try:
        world = from_gymnasium(env)
    except InputError:
        return None  # a table that an MDP cannot hold
    try:
        stack(questions, world)
    except SignalFailed:
        return None  # a signal that the table does not tell
    return world


def usual_behaviour() -> Behaviour:
    """GVFExplorer with every action kept possible: a signal not yet seen must not be ruled out."""
    return Floor(Epsilon(GVFExplorer(), Linear(1.0, 0.1, 5_000)), 0.01)


def usual_learner(steps: int) -> Learner:
    """Expected Sarsa whose rates fall over the first half of the run."""
    falling = Linear(1.0, 0.05, max(1, steps // 2))
    return ExpectedSarsa(falling, falling, initial_q=0.0)
