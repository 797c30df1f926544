"""Checks that a behaviour or learner of your own keeps the contracts of gvfx, for your tests.

    gvfx.testing.check_behaviour(MyBehaviour(0.3))
    gvfx.testing.check_learner(MyLearner())

Each check builds a small world and fails with an AssertionError of one sentence:

- the description is a frozen dataclass that comes back equal from a stored experiment;
- what `supports` names really runs, and every other kind of run refuses it;
- on tables the state is a named tuple of arrays and numbers; probabilities sum to one; a run gives the same bytes again, also
  when its arrays are copied and it goes on; and compiled functions do what they do in plain Python;
- on networks and with Box actions the rule gives the same inside and outside of `jax.jit`, and what the rule for tables gives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import CellType, FunctionType, ModuleType
from typing import Any

import gymnasium
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.wrappers import Epsilon
from gvfx.compilation.loops import from_python
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical, no_evidence
from gvfx.experiments.specification import Experiment, imported, is_frozen
from gvfx.kernel import KINDS, Sizes
from gvfx.learners.base import Learner
from gvfx.learners.linear import LinearCertaintyEquivalence
from gvfx.learners.networks.learners import Deep, TwinCritics
from gvfx.learners.tabular import ExpectedSarsa
from gvfx.questions.gaussian import gaussian_policy
from gvfx.questions.gvf import GVF, stack
from gvfx.questions.policies import constant_policy
from gvfx.questions.signals import Distractor, Reward
from gvfx.rng import seed_streams
from gvfx.running.backends import RUNS, choose_method
from gvfx.running.evaluate import evaluate
from gvfx.running.streams.table_compiled import Monitor, cursor, dynamics, make_loop, make_table
from gvfx.schedules import Fixed
from gvfx.worlds.gridworld import gridworld
from gvfx.worlds.mdp import MDP

# --- Functions compiled by numba in plain Python, for comparing the two ---------------------------------------------


def in_plain_python(function: Any, made: dict[int, Any] | None = None) -> Any:
    """A function compiled by numba as the Python it was written in, with every compiled function that it calls."""
    made = {} if made is None else made
    if isinstance(function, ModuleType):
        return _PlainModule(function, made)
    source = getattr(function, "py_func", None)
    if not isinstance(source, FunctionType):
        return function
    if id(source) not in made:
        cells = tuple(CellType() for _ in source.__closure__ or ())
        scope = dict(source.__globals__)
        made[id(source)] = FunctionType(source.__code__, scope, source.__name__, source.__defaults__, cells)
        scope |= {n: in_plain_python(scope[n], made) for n in source.__code__.co_names if n in scope}
        for cell, old in zip(cells, source.__closure__ or (), strict=True):
            cell.cell_contents = in_plain_python(old.cell_contents, made)
    return made[id(source)]


class _PlainModule:
    """A module whose compiled functions are plain."""

    def __init__(self, module: ModuleType, made: dict[int, Any]) -> None:
        self._module, self._made = module, made

    def __getattr__(self, name: str) -> Any:
        found = in_plain_python(getattr(self._module, name), self._made)
        setattr(self, name, found)  # looked up once
        return found


ENVIRONMENTS: dict[str, Learner] = {  # the kinds of learning that need an environment, with small networks that compile quickly
    "linear": LinearCertaintyEquivalence(),
    "networks": Deep(hidden=(8,), batch=16, learning_starts=32, capacity=128),
    "box_actions": TwinCritics(hidden=(8,), batch=16, learning_starts=32, capacity=128, updates=1),
}


def check_behaviour(
    behaviour: Behaviour,
    *,
    world: MDP | None = None,
    questions: Sequence[GVF] = (),
    steps: int = 300,
    seed: int = 0,
    kinds: Collection[str] | None = None,
    quick: bool = False,
) -> None:
    """Check that a behaviour keeps the contracts; AssertionError says in one sentence which one it breaks.

    world, questions: a finite world and questions for the checks on tables (default: a small grid with two goals).
    kinds:            the kinds of learning to check, of those it supports (default: all of them).
    quick:            leave out the runs of networks in a small environment, which take some seconds to compile.
    """
    name = type(behaviour).__name__
    world, questions = (world, questions) if world is not None else _grid()
    _check_description(behaviour, Behaviour, name)
    _check_stored(Experiment(world, tuple(questions), behaviour, ExpectedSarsa(), steps, steps), "behaviour", name)
    for kind in _checked_kinds(behaviour, "behaviour", name, kinds):
        if kind in ("tables", "linear"):
            _check_tables(name, world, questions, behaviour, ExpectedSarsa(), steps, seed)
        elif kind == "networks":
            _check_network_rule(behaviour, name, world, questions)
        else:
            _check_box_action_rule(behaviour, name)
        if not quick and kind in ENVIRONMENTS:
            _check_environment(name, kind, behaviour, ENVIRONMENTS[kind], seed)


def check_learner(
    learner: Learner,
    *,
    world: MDP | None = None,
    questions: Sequence[GVF] = (),
    steps: int = 300,
    seed: int = 0,
    kinds: Collection[str] | None = None,
    quick: bool = False,
) -> None:
    """Check that a learner keeps the contracts; the arguments are those of `check_behaviour`."""
    name = type(learner).__name__
    world, questions = (world, questions) if world is not None else _grid()
    explorer = Epsilon(GVFExplorer(), Fixed(0.3))
    _check_description(learner, Learner, name)
    _check_stored(Experiment(world, tuple(questions), explorer, learner, steps, steps), "learner", name)
    for kind in _checked_kinds(learner, "learner", name, kinds):
        if kind == "tables":
            _check_tables(name, world, questions, explorer, learner, steps, seed)
        elif not quick:
            _check_environment(name, kind, GVFExplorer(), learner, seed)


# --- the description -----------------------------------------------------------------------------------------------


def _check_description(value: Any, base: type[Any], name: str) -> None:
    assert isinstance(value, base), f"{name}: is not a gvfx.{base.__name__}; write class {name}(gvfx.{base.__name__})."
    assert is_frozen(type(value)), f"{name}: is not a frozen dataclass; write @dataclass(frozen=True) above the class."
    with _named(name, "copying its description"):
        copy = dataclasses.replace(value)
    with _named(name, "hashing and comparing it"):
        equal = copy == value and hash(copy) == hash(value)
    assert equal, f"{name}: is not equal to a copy of itself; compare and hash it by its fields, as a dataclass does."


def _check_stored(experiment: Experiment, field: str, name: str) -> None:
    with _named(name, "storing it as data"):
        again = Experiment.from_json(experiment.json, imported(experiment.own_parts))
    same = getattr(again, field) == getattr(experiment, field) and again.hash == experiment.hash
    assert same, f"{name}: comes back from a stored experiment as {getattr(again, field)!r:.80}."


def _checked_kinds(value: Any, field: str, name: str, kinds: Collection[str] | None) -> list[str]:
    """The kinds of learning to run; runs of other kinds must refuse it."""
    unknown = sorted(set(value.supports) - set(KINDS))
    assert value.supports and not unknown, f"{name}: supports names {unknown or 'nothing'}; name some of {', '.join(KINDS)}."
    for kind, run in RUNS.items():
        if run.supports not in value.supports:
            with _named(name, f"refusing it for {kind}", InputError):
                choose_method(kind, _grid()[1], **{"behaviour": None, "learner": None, field: value}, steps=100)
                raise AssertionError(f"{name}: is accepted for {kind} although it does not support {KINDS[run.supports]}.")
    return [kind for kind in KINDS if kind in value.supports and (kinds is None or kind in kinds)]


@contextmanager
def _named(name: str, what: str, expected: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Turn any failure but an expected one into one sentence."""
    try:
        yield
    except AssertionError:
        raise
    except expected:
        return
    except Exception as error:
        line = (str(error).strip().splitlines() or [""])[0]
        raise AssertionError(f"{name}: {what} fails with {type(error).__name__}: {line}") from error


# --- tables --------------------------------------------------------------------------------------------------------


def _grid() -> tuple[MDP, list[GVF]]:
    world = gridworld(4, {"left": (0, 0), "right": (0, 3)}, horizon=20)
    left = GVF(constant_policy([0.4, 0.1, 0.4, 0.1]), Distractor(10, 2, at="left"), 0.9, weight=2.0, name="left")
    return world, [left, GVF(constant_policy([0.1, 0.4, 0.4, 0.1]), Distractor(5, 1, at="right"), 0.8, name="right")]


class _TableRun:
    """A run on tables, compiled or in plain Python; all that changes is in `arrays`."""

    def __init__(
        self, world: MDP, questions: Sequence[GVF], behaviour: Behaviour, learner: Learner, steps: int, seed: int, plain: bool
    ) -> None:
        self.world, self.behaviour, self.learner, self.done = world, behaviour, learner, 0
        self.asked = stack(questions, world)
        sizes, rule = Sizes(len(self.asked.names), world.actions), behaviour.rule(Sizes(len(self.asked.names), world.actions))
        self.replans = frozenset(behaviour.stops(steps, world))
        self.refreshes = frozenset(learner.stops(steps) if behaviour.needs_variance else ())
        counted = learner.needs_evidence or bool(self.replans)
        loop: Any = make_loop(
            sizes,
            world.successors,
            rule,
            learner.rule(sizes, behaviour.needs_variance),
            learner.needs_next_action,
            world.features is not None,
            bool(self.asked.carry.any()),
            counted=counted,
        )
        table: Any = make_table(sizes, rule)
        self.loop, self.table = (in_plain_python(loop), in_plain_python(table)) if plain else (loop, table)
        self.dynamics = dynamics(world, self.asked)
        self.acting, self.learning = behaviour.begin(self.asked, world), learner.begin(self.asked, world)
        evidence = no_evidence(world, self.asked, counted, learner.forgetting_rates)
        self.at = cursor(world, self.asked, seed_streams(seed), evidence)

    def arrays(self) -> dict[str, np.ndarray]:
        return _arrays("behaviour's state", self.acting) | _arrays("learner's state", self.learning) | _arrays("run", self.at)

    def advance(self, to: int) -> None:
        nothing = Monitor(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros((1, 1)))
        for stop in sorted(time for time in {*self.replans, *self.refreshes, to} if self.done < time <= to):
            with np.errstate(all="ignore"):
                self.loop(self.dynamics, self.acting, self.learning, self.at, nothing, stop - self.done)
            self.done = stop
            known = Empirical(self.world, self.asked, self.at.evidence)
            if stop in self.refreshes:
                self.learner.refresh(self.learning, known)
            if stop in self.replans:
                self.behaviour.refresh(self.acting, known)

    def probabilities(self) -> np.ndarray:
        """mu [state, action] now; scratch arrays are left as they were."""
        mu = np.full((self.world.states, self.world.actions), np.nan)
        before = {path: array.copy() for path, array in self.arrays().items()}
        with np.errstate(all="ignore"):
            self.table(self.dynamics, self.acting, self.learning, self.done, mu)
        self.restore(before)
        return mu

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        for path, array in self.arrays().items():
            array[...] = arrays[path]


def _check_tables(
    name: str, world: MDP, questions: Sequence[GVF], behaviour: Behaviour, learner: Learner, steps: int, seed: int
) -> None:
    def run(plain: bool = False, copied: bool = False) -> _TableRun:
        parts = (dataclasses.replace(behaviour), dataclasses.replace(learner)) if copied else (behaviour, learner)  # type: ignore[type-var]
        return _TableRun(world, questions, *parts, steps, seed, plain)

    with _named(name, "beginning a run on tables"):
        first = run()
    _check_state(first.acting, f"{name}: the behaviour's state")
    _check_state(first.learning, f"{name}: the learner's state")
    shape = (world.rows, world.actions, len(first.asked.names))
    assert first.learning.m.shape == shape, f"{name}: its state's m has shape {first.learning.m.shape}; give {shape}."

    slow = run(plain=True)
    with _named(name, "running in plain Python"):
        for stop in (0, steps // 2, steps):
            slow.advance(stop)
            _check_probabilities(name, slow.probabilities(), f"at step {stop}")
    with _named(name, "running on tables"):
        first.advance(steps)
        again = run()
        again.advance(steps)
        _check_same(f"{name}: the same seed gave another", first.arrays(), again.arrays())
        _check_same(f"{name}: compiled and plain Python disagree about the", first.arrays(), slow.arrays(), close=True)
        half, rest = run(), run(copied=True)
        half.advance(steps // 2)
        rest.restore(half.arrays())
        rest.done = half.done
        rest.advance(steps)
        _check_same(f"{name}: going on from copied arrays gave another", first.arrays(), rest.arrays())
        values = learner.values(first.learning, Empirical(world, first.asked, first.at.evidence))
    wanted = (len(first.asked.names), world.states)
    assert values.shape == wanted and np.isfinite(values).all(), f"{name}: values must be finite and have shape {wanted}."


def _check_state(state: Any, what: str) -> None:
    """A state is a named tuple of arrays, numbers and further named tuples."""
    if hasattr(state, "_fields"):
        for field in state._fields:
            _check_state(getattr(state, field), f"{what}.{field}")
        return
    fits = isinstance(state, np.ndarray | np.generic | int | float)
    assert fits, f"{what} is a {type(state).__name__}; keep arrays and numbers in named tuples."


def _arrays(path: str, state: Any) -> dict[str, np.ndarray]:
    """All arrays in nested named tuples, by their path."""
    if isinstance(state, np.ndarray):
        return {f"{path}.{field}": state[field] for field in state.dtype.names} if state.dtype.names else {path: state}
    inner = [_arrays(f"{path}.{field}", getattr(state, field)) for field in getattr(state, "_fields", ())]
    return {name: array for part in inner for name, array in part.items()}


def _check_same(what: str, one: dict[str, np.ndarray], other: dict[str, np.ndarray], close: bool = False) -> None:
    for path, array in one.items():
        same = np.allclose(array, other[path], 1e-6, 1e-9, True) if close else array.tobytes() == other[path].tobytes()
        advice = "write numbers and indices of one type" if close else "draw from the run's rng and keep all memory in the arrays"
        assert same, f"{what} {path}; {advice}."


def _check_probabilities(name: str, mu: np.ndarray, when: str) -> None:
    for s, row in enumerate(mu):
        assert (row >= 0).all(), f"{name}: its probabilities in state {s} {when} are {row.tolist()}; none may be negative."
        total = row.sum()
        assert abs(total - 1) < 1e-5, f"{name}: its probabilities in state {s} {when} sum to {total:.6g}; they must sum to 1."


# --- networks and Box actions --------------------------------------------------------------------------------------


class _Line(gymnasium.Env):
    """A point on a line that is pushed left or right; it pays its place."""

    def __init__(self, box: bool) -> None:
        self.observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32) if box else gymnasium.spaces.Discrete(2)
        self.box = box

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.age = self.np_random.uniform(-0.5, 0.5), 0
        return np.array([self.at], np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        push = float(action[0]) if self.box else 2.0 * action - 1
        self.at = float(np.clip(self.at + 0.1 * push + self.np_random.normal(0, 0.05), -1, 1))
        self.age += 1
        return np.array([self.at], np.float32), self.at, False, self.age >= 20, {}


def _check_environment(name: str, kind: str, behaviour: Behaviour, learner: Learner, seed: int) -> None:
    """Networks run in a small environment and give finite answers."""
    box = kind == "box_actions"
    policies: list[Any] = [gaussian_policy([c], 0.3) if box else constant_policy([0.5 - c, 0.5 + c]) for c in (-0.2, 0.3)]
    questions = [GVF(policy, Reward(), 0.9, name=f"question{i}") for i, policy in enumerate(policies)]
    with _named(name, f"running on {KINDS[kind]}"):
        result = evaluate(_Line(box), questions, behaviour, learner, steps=128, seeds=[seed])
    assert np.isfinite(result.values).all(), f"{name}: some of its answers on {KINDS[kind]} are not finite."


def _check_network_rule(behaviour: Behaviour, name: str, world: MDP, questions: Sequence[GVF]) -> None:
    """The rule for networks gives probabilities, compiled as it is, and those of the rule for tables."""
    import jax

    asked = stack(questions, world)
    sizes = Sizes(len(asked.names), world.actions)
    rng = np.random.default_rng(0)
    with _named(name, "calling network_rule"):
        rule = behaviour.network_rule()
        state = rule.begin(np.asarray(asked.weights, np.float32))
        compiled = jax.jit(rule.probabilities)
        tables = None if behaviour.needs_intrinsic else behaviour.rule(sizes)
        on_tables = behaviour.begin(asked, world) if tables else None
        for t in (0, 100, 10**6):
            pi = rng.dirichlet(np.ones(world.actions), sizes.gvfs).T.astype(np.float32).copy()
            m, value = rng.exponential(size=pi.shape).astype(np.float32), rng.normal(size=world.actions).astype(np.float32)
            mu = np.asarray(rule.probabilities(state, t, pi, m, value))
            _check_probabilities(name, mu[None], f"of network_rule at step {t}")
            same = np.allclose(compiled(state, t, pi, m, value), mu, atol=1e-5)
            assert same, f"{name}: network_rule gives other probabilities inside jax.jit; write it with jax.numpy alone."
            if tables:
                plain = np.zeros(world.actions)
                from_python(tables.probabilities)(on_tables, t, 0, 0, pi.astype(float), m.astype(float), plain)
                from_python(tables.episode_end)(on_tables, t, seed_streams(0))
                assert np.allclose(plain, mu, atol=1e-4), f"{name}: network_rule gives {mu}, but rule gives {plain}."
            state = rule.episode_end(state)


def _check_box_action_rule(behaviour: Behaviour, name: str) -> None:
    """The rule for Box actions follows a target policy or its own actor, compiled as it is."""
    import jax

    worlds, gvfs = 6, 3
    most = 2 * gvfs - 1 if behaviour.needs_actor else gvfs  # an actor may have an action for every GVF
    rng = np.random.default_rng(0)
    with _named(name, "calling box_action_rule"):
        rule = behaviour.box_action_rule()
        state = rule.begin(worlds, gvfs)
        compiled: Callable[..., Any] = jax.jit(rule.choose)
        for _ in range(5):
            chance, pull = rng.random((worlds, 2)).astype(np.float32), rng.exponential(size=(worlds, gvfs)).astype(np.float32)
            jitted = np.asarray(compiled(state, chance, pull)[1])
            state, which = rule.choose(state, chance, pull)
            which = np.asarray(which)
            fits = which.shape == (worlds,) and which.dtype.kind == "i" and (which >= 0).all() and (which <= most).all()
            assert fits, f"{name}: box_action_rule chose {which}; give one whole number from 0 to the {gvfs} GVFs per world."
            assert (jitted == which).all(), f"{name}: box_action_rule chooses otherwise inside jax.jit; use jax.numpy alone."
            state = rule.episode_end(state, rng.random(worlds) < 0.5)


__all__ = ["check_behaviour", "check_learner"]
