"""A valid call of every public function, class and method of gvfx, small enough to be made a thousand times."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import gvfx
import gvfx_paper
from gvfx.behaviours.base import Behaviour
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all
from gvfx.learners.base import Learner
from gvfx.names import public_classes
from gvfx.running.backends import choose_method

HALF = [0.5, 0.5]
NAME = "asked"  # of the question that functions belong to


class Call(NamedTuple):
    """A call: its name, the function, valid arguments (made anew), what is done with its result, other names of parameters."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]] = dict
    use: Callable[[Any], object] = lambda made: None
    aliases: dict[str, tuple[str, ...]] = {}
    fine: dict[str, set[str]] = {}  # of a parameter: labels of values that it may accept, whatever its annotation says
    unchecked: tuple[str, ...] = ()  # parameters that are not tried
    endless: tuple[str, ...] = ()  # parameters for which 10**18 is a valid wish that takes for ever

    @property
    def compiles(self) -> bool:
        """Whether it compiles functions of its own, which takes seconds the first time."""
        return self.use in (_behaves, _learns, _schedules)

    def annotations(self) -> dict[str, str]:
        """The annotation of every parameter that is tried, as text."""
        parameters = inspect.signature(self.function).parameters.values()
        tried = (p for p in parameters if p.name not in ("self", "cls", *self.unchecked) and p.kind != p.VAR_KEYWORD)
        return {p.name: getattr(p.annotation, "__forward_arg__", str(p.annotation)) for p in tried}


def world() -> gvfx.MDP:
    P = np.array([[[0.5, 0.5, 0], [0, 1, 0]], [[0.5, 0, 0.5], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]], float)
    return gvfx.MDP.from_matrix(P, start=[1, 0, 0], terminal=[False, False, True], horizon=20)


def question(policy: Any = HALF, cumulant: Any = 1.0, **options: Any) -> gvfx.GVF:
    return gvfx.GVF(policy, cumulant, **{"discount": 0.9, "name": NAME} | options)


def small(**options: Any) -> gvfx.Result:
    """A short run on tables."""
    asked = options.pop("questions", None) or [question()]
    return gvfx.evaluate(options.pop("world", None) or world(), asked, progress=False, **{"steps": 20, "seed": 0} | options)


def log() -> dict[str, Any]:
    return {
        "observation": [0, 1, 0, 1],
        "action": [0, 1, 1, 0],
        "next_observation": [1, 2, 1, 2],
        "terminated": [False, True, False, True],
        "reward": [0.0, 1.0, 0.0, 1.0],
    }


def environment() -> Any:
    return gymnasium.make("FrozenLake-v1", is_slippery=False)


@cache
def result() -> gvfx.Result:
    policies = {"a": HALF, "b": [0.2, 0.8]}
    asked = [gvfx.GVF(policy, 1.0, 0.9, name=f"x/{name}") for name, policy in policies.items()]
    return gvfx.evaluate(world(), asked, steps=300, seeds=2, progress=False)


def experiment(**options: Any) -> Experiment:
    given = {"world": gvfx.gridworld(3), "questions": (question([0.25] * 4),), "behaviour": gvfx.Uniform()}
    return Experiment(**given | {"learner": gvfx.ExpectedSarsa(), "steps": 20, "evaluate_every": 10} | options)


# --- the calls -----------------------------------------------------------------------------------------------------


def calls() -> list[Call]:
    return [*_runs(), *_parts(), *_policies(), *_worlds(), *_results(), *_stored(), *_theory()]


def _runs() -> Iterator[Call]:
    base = {"world": world, "questions": lambda: [question()]}

    def made(**more: Any) -> Callable[[], dict[str, Any]]:
        return lambda: {name: make() for name, make in (base | more).items()}

    short = {"steps": lambda: 20, "seed": lambda: 0, "progress": lambda: False}
    places = {"where": {"0", "None"}}
    yield Call(
        "evaluate",
        gvfx.evaluate,
        made(**short),
        aliases={"seed": ("seeds",), "where": ("at", "states"), "log": ("observation", "column")},
        fine={
            "save": {"'x'"},
            "checkpoint": {"'x'"},
            "track": {"'x'", "a generator", *("a function to None", "a function to nan", "a function to text"), "[]"}
            | {"a function that raises", "a function to a wrong shape"},
            "progress": {"a function to None", "a function to nan", "a function to text", "a function to a wrong shape"},
            "questions": set(),
            "seeds": {"True"},
            "steps": {"True", "10**18"},
            "audit": {"True", "0"},
            **places,
        },
        unchecked=("checkpoint",),
        endless=("steps",),
    )
    log_columns = ("observation", "action", "column", "row", "episode", "entry")
    yield Call(
        "evaluate_log",
        gvfx.evaluate_log,
        lambda: {"log": log(), "questions": [question()]},
        aliases={"log": log_columns},
        fine={"where": {"None", "0", "[[1], [1, 2]]"}},
    )
    yield Call(
        "plan",
        gvfx.plan,
        made(error=lambda: 0.1, draws=lambda: 20),
        fine={"error": {"1.5", "inf"}, "where": {"None", "0"}},
        endless=("pilot",),
    )
    yield Call("check", gvfx.check, lambda: {"env": environment(), "questions": [question([0.25] * 4)], "steps": 20}, _found)
    yield Call(
        "truth_of",
        gvfx.truth_of,
        lambda: {"env": environment(), "questions": [question([0.25] * 4)], "max_episodes": 20, "horizon": 20},
        fine={"reset_to": FUNCTIONS_IGNORED, "precision": NUMBERS_ABOVE, "relative": NUMBERS_ABOVE},
        endless=("max_episodes", "horizon"),
    )
    yield Call("from_gymnasium", gvfx.from_gymnasium, lambda: {"env": environment()})
    yield Call("actions_of", gvfx.actions_of, lambda: {"env": environment()})
    yield Call(
        "Log",
        gvfx.Log,
        lambda: {**log(), "states": 3, "actions": 2},
        lambda made: gvfx.evaluate_log(made, [question()]),
        aliases={"policy": ("policy",)},
        fine={"info": {"{}"}, "policy": {"array of text"}},
    )
    for column in ("observation", "action", "next_observation", "terminated", "reward"):
        yield Call(
            f"evaluate_log of {column}",
            _column(column),
            lambda column=column: {column: log()[column]},
        )


def _found(findings: list[gvfx.Finding]) -> None:
    """`check` returns what it finds."""
    for finding in findings:
        if finding.severity == "error":
            raise gvfx.InputError(f"env, questions: {finding}")


FUNCTIONS_IGNORED = {"a function that raises", "lambda: 0", *(f"a function to {what}" for what in ("None", "nan", "text"))}
FUNCTIONS_IGNORED |= {"a function to a wrong shape", "a class"}
NUMBERS_ABOVE = {"1.5", "10**18", "2**63"}


def _column(name: str) -> Callable[..., Any]:
    """A function of one column of a log."""

    def evaluate_log(column: Any) -> Any:
        return gvfx.evaluate_log({**log(), name: column}, [question(cumulant=gvfx.Reward())])

    parameter = inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Column")
    called = lambda **given: evaluate_log(given[name])  # noqa: E731
    called.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    return called


def _parts() -> Iterator[Call]:
    """Behaviours, learners, schedules and cumulants: made, and used in a short run."""
    given: dict[str, dict[str, Any]] = {
        "Follow": {"policy": HALF},
        "Blend": {"first": gvfx.Uniform(), "second": gvfx.RoundRobin()},
    }
    for name, kind in public_classes(Behaviour).items():
        needs = [p.name for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
        arguments = given.get(name) or {need: gvfx.Uniform() for need in needs}
        yield Call(name, kind, lambda a=arguments: dict(a), _behaves)
    for name, kind in public_classes(Learner).items():
        yield Call(name, kind, dict, _learns, aliases=dict.fromkeys(("q_every", "m_every", "batch", "worlds"), ("capacity",)))
    rate = {"value": 0.1}
    for name, arguments in {"Fixed": rate, "Geometric": {}, "Linear": {"start": 1.0, "end": 0.1, "steps": 10}}.items():
        yield Call(name, getattr(gvfx, name), lambda a=arguments: dict(a), _schedules)
    yield Call("Constant", gvfx.Constant, lambda: {"value": 1.0}, _pays, fine=AT)
    yield Call("Distractor", gvfx.Distractor, lambda: {"mean": 1.0, "sd": 0.5}, _pays, fine=AT)
    yield Call("Drifter", gvfx.Drifter, lambda: {"sd": 0.5}, _pays, fine=AT)
    yield Call("table_cumulant", gvfx.table_cumulant, lambda: {"mean": [1.0, 2.0, 0.0]}, _pays)
    yield Call("Signal", gvfx.Signal, lambda: {"name": "goal"})
    yield Call("Measure", gvfx.Measure, lambda: {"function": lambda s, a, s2: 1.0}, _pays, aliases={"function": ("cumulant",)})
    yield Call("Info", gvfx.Info, lambda: {"key": "prob"}, lambda made: _steps(question([0.25] * 4, made)))
    yield Call("Reward", gvfx.Reward, dict, lambda made: _steps(question([0.25] * 4, made)))
    yield Call("Audit", gvfx.Audit, dict, lambda made: small(audit=made), aliases={"share": ("audit",), "ranges": ("audit",)})
    yield Call(
        "GVF",
        gvfx.GVF,
        lambda: {"policy": HALF, "cumulant": 1.0, "discount": 0.9, "name": NAME},
        lambda made: small(questions=[made]),
        fine={"name": {"None"}, "cumulant": {*NUMBERS_ABOVE, "True", "0", "-1"}},
    )
    yield Call("error_below", gvfx.error_below, lambda: {"target": 0.5}, lambda made: small(until=made, steps=10))
    yield Call("decided", gvfx.decided, dict, lambda made: made.on(_two()))


AT = {"at": {"[[1], [1, 2]]", "0", "[]", "array of shape (0,)", "None", "True"}}


def _two() -> list[gvfx.GVF]:
    return [gvfx.GVF(policy, 1.0, 0.9, name=f"x/{name}") for name, policy in (("a", HALF), ("b", [0.2, 0.8]))]


def _behaves(made: Any) -> None:
    if "tables" in made.supports:
        small(behaviour=made, learner=gvfx.ExpectedSarsa() if made.needs_variance else None)


def _learns(made: Any) -> None:
    if "tables" in made.supports:
        small(behaviour=gvfx.Uniform(), learner=made)
    else:
        (kind,) = made.supports & {"linear", "networks", "box_actions"}
        choose_method(kind, [question()], None, made, 100)


def _schedules(made: Any) -> None:
    small(behaviour=gvfx.Epsilon(gvfx.Uniform(), made))


def _pays(made: Any) -> None:
    small(questions=[question(cumulant=made)])


def _steps(asked: gvfx.GVF) -> None:
    env = gymnasium.wrappers.TransformReward(environment(), float)  # stepped, not read as a table
    gvfx.evaluate(env, [asked], gvfx.Uniform(), steps=10, progress=False)


def _policies() -> Iterator[Call]:
    def asked(made: Any) -> None:
        small(questions=[question(made)])

    row = {"probabilities": ("policy",), "rows": ("policy",), "choice": ("policy",), "function": ("policy",)}
    yield Call("constant_policy", gvfx.constant_policy, lambda: {"probabilities": HALF}, asked, row)
    yield Call("table_policy", gvfx.table_policy, lambda: {"rows": [HALF] * 3}, asked, row)
    yield Call("callable_policy", gvfx.callable_policy, lambda: {"function": lambda s: HALF}, asked, row)
    yield Call("softmax_policy", gvfx.softmax_policy, lambda: {"function": lambda s: [1.0, 2.0]}, asked, row)
    yield Call("deterministic_policy", gvfx.deterministic_policy, lambda: {"choice": [0, 1, 0]}, asked, row)
    yield Call("mixture_policy", gvfx.mixture_policy, lambda: {"policies": [HALF, [0.2, 0.8]]}, asked, {"policies": ("policy",)})
    yield Call("own_greedy", gvfx.own_greedy, dict, asked)
    yield Call("own_softmax", gvfx.own_softmax, lambda: {"temperature": 0.5}, asked)
    yield Call("gaussian_policy", gvfx.gaussian_policy, lambda: {"middle": [0.0], "sigma": 0.2}, _moves, {"middle": ("policy",)})
    yield Call("from_sb3", gvfx.from_sb3, lambda: {"model": _dqn(), "temperature": 1.0}, fine={"algorithm": {"'x'"}})
    yield Call("Target", gvfx_paper.Target, lambda: {"name": "walker-walk"}, aliases={"name": ("target",), "digest": ("policy",)})
    yield Call("Target.shipped", gvfx_paper.Target.shipped, lambda: {"domain": "walker", "task": "walk"}, aliases=TARGET)
    yield Call("Target.load", gvfx_paper.Target.load, lambda: {"path": "walker-walk"}, aliases=TARGET)


def _dqn() -> object:
    """What gvfx reads of a model of Stable-Baselines3."""
    return SimpleNamespace(policy=SimpleNamespace(q_net=None), action_space=gymnasium.spaces.Discrete(2))


TARGET = {"domain": ("target",), "task": ("target",), "path": ("target",)}


def _moves(policy: Any) -> None:
    policy.middles(np.zeros((2, 3)), (1,))
    policy.sigmas((1,))


def _worlds() -> Iterator[Call]:
    P = {"next": ("P",), "prob": ("P",), "live": ("start",), "terminal": ("start", "live"), "recipe": ("recipe",)}

    def arrays() -> dict[str, Any]:
        made = world()
        return {name: getattr(made, name) for name in ("next", "prob", "start", "terminal")}

    def used(made: gvfx.MDP) -> None:
        small(world=made)

    yield Call("MDP", gvfx.MDP, arrays, used, P, unchecked=("layout", "recipe"), fine={"places": {"{'nosuch': 1}"}})
    dense = {"P": world().matrix.toarray().reshape(3, 2, 3), "start": [1, 0, 0], "terminal": [0, 0, 1]}
    yield Call(
        "MDP.from_matrix",
        gvfx.MDP.from_matrix,
        lambda: dict(dense),
        used,
        P,
        unchecked=("layout", "recipe"),
        fine={"places": {"{'nosuch': 1}"}},
    )
    yield Call("MDP.where", lambda at: gvfx.gridworld(3).where(at), lambda: {"at": 0}, fine={"at": AT["at"] - {"None"}})
    grid = {"size": 3, "goals": {"a": (0, 0)}, "walls": [(1, 1)]}
    yield Call(
        "gridworld",
        gvfx.gridworld,
        lambda: dict(grid),
        fine={"horizon": WHOLE_ABOVE, "size": {"'x'"}},
        aliases={"size": ("walls",)},
    )
    yield Call("four_rooms", gvfx.four_rooms, dict, fine={"horizon": WHOLE_ABOVE})


WHOLE_ABOVE = {"True", "10**18"}


def _results() -> Iterator[Call]:
    for name in ("predict", "value", "compare", "intervals", "save"):
        method = getattr(gvfx.Result, name)
        needs = {"predict": {"observation": 0}, "save": {"path": "kept.gvfx"}}.get(name, {})

        def called(_name: str = name, **given: Any) -> Any:
            return getattr(result(), _name)(**given)

        parameters = [p for p in inspect.signature(method).parameters.values() if p.name != "self"]
        parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        yield Call(f"Result.{name}", called, lambda n=needs: dict(n), fine={"seed": WHOLE_ABOVE}, aliases=SEEN)


SEEN = {"observation": ("state",)}


def _stored() -> Iterator[Call]:
    yield Call("load", gvfx.load, _saved, fine={"env": {"None"}})
    yield Call("Store", Store, lambda: {"folder": "results"})
    yield Call(
        "run_all",
        run_all,
        lambda: {"store": Store("results"), "runs": [(experiment(), [0])]},
        aliases={"workers": ("cluster",)},
        fine={"report": FUNCTIONS_IGNORED},
    )
    yield Call(
        "Experiment.from_json", Experiment.from_json, lambda: {"text": experiment().json}, aliases={"text": ("experiment",)}
    )
    yield Call("JsonLines", gvfx.JsonLines, lambda: {"path": "run.jsonl"}, lambda made: small(track=made), {"path": ("track",)})


def _saved() -> dict[str, Any]:
    if not Path("kept.gvfx").exists():
        result().save("kept.gvfx")
    return {"path": "kept.gvfx"}


def _theory() -> Iterator[Call]:
    base = {"world": world, "questions": lambda: [question()]}
    behaviour = np.full((3, 2), 0.5)
    for name in ("values", "action_values", "transition_noise", "variance", "state_variance", "explorer_behaviour"):
        yield Call(f"exact.{name}", getattr(gvfx.exact, name), lambda: {name: make() for name, make in base.items()})
    yield Call("exact.policy_iteration", gvfx.exact.policy_iteration, lambda: {name: make() for name, make in base.items()})
    existing = lambda: {name: make() for name, make in base.items()} | {"behaviour": behaviour}  # noqa: E731
    yield Call("exact.existence", gvfx.exact.existence, existing)
    one = lambda: {"world": world(), "question": question()}  # noqa: E731
    yield Call("exact.successor_representation", gvfx.exact.successor_representation, one)
