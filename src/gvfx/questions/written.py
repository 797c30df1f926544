"""Questions written in a TOML file: named policies, named signals, discounts.

    discount = 0.95              # or several: [0.9, 0.99]

    [policies]
    random = "uniform"
    mine = {function = "my_module:policy"}

    [signals]
    goal = "reward"

Every policy is asked about every signal, `random: goal`, unless the file lists its `[[questions]]`, each with a policy, a signal
and if needed a discount, a weight and a name.  `gvfx init questions.toml` writes an example of everything.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gvfx.errors import InputError, UnknownName, install
from gvfx.files import read_text
from gvfx.inputs import checked, is_real, whole
from gvfx.questions.gaussian import gaussian_policy
from gvfx.questions.gvf import GVF
from gvfx.questions.policies import (
    Policy,
    as_policy,
    checked_rows,
    constant_policy,
    deterministic_policy,
    softmax_policy,
    uniform_policy,
)
from gvfx.questions.signals import Constant, Cumulant, Info, Measure, Reward
from gvfx.worlds.returns import own

# --- The user's own functions, named by text: `module:name` or `path/to/file.py:name` -------------------------------


FORMS = "write module:function or path/to/file.py:function"


def split_target(target: str, field: str = "target") -> tuple[str, str]:
    """The module or file and the function that a text names: `make` for a file, or a module in this folder, alone; else empty."""
    place, colon, name = target.rpartition(":")
    if colon and place and name.isidentifier():
        return place, name
    if target.endswith(".py") or Path(f"{target.replace('.', '/')}.py").is_file():
        return target, "make"
    if not target.strip() or (colon and not re.fullmatch(r"[\w.]+:[\w./-]+", target)):
        raise InputError(f"{field}: {target!r} does not name a function; {FORMS}.")
    return target, ""


def named(text: str, field: str = "target") -> tuple[Any, ModuleType]:
    """What `module:name` or `path/to/file.py:name` names, and its module."""
    place, name = split_target(text, field)
    if not name:
        raise InputError(f"{field}: {text!r} does not name a function; {FORMS}.")
    module = _from_file(place, field) if place.endswith(".py") else _from_path(place, field)
    if not hasattr(module, name):
        own = [k for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise InputError(f"{field}: {place} has no {name!r}; its own functions are {', '.join(own) or 'none'}.")
    return getattr(module, name), module


def called(function: Callable[[], Any], what: str, field: str = "target") -> Any:
    """What the user's function returns; what it raises becomes one sentence with the line of the user's file."""
    try:
        return function()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{what} raised {type(error).__name__}{_line(error)} ({_message(error)})"
        raise InputError(f"{field}: {reason}; correct it there.") from error


def _from_path(name: str, field: str) -> ModuleType:
    """A module by its name, looked for in the present folder first."""
    _search_first(os.getcwd())
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # of a package above it
        found = None
    if found is None:
        raise InputError(f"{field}: there is no module {name!r} to import from this folder; {FORMS}.")
    module: ModuleType = called(lambda: importlib.import_module(name), f"importing {name}", field)
    return module


def _from_file(place: str, field: str) -> ModuleType:
    """A file as a module; it is run once."""
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise InputError(f"{field}: there is no file {place}; {FORMS}, or make one with gvfx init.")
    known = [m for m in sys.modules.values() if getattr(m, "__file__", None) == str(path) and m.__name__ != "__main__"]
    if known:
        return known[0]
    _search_first(str(path.parent))
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"file_{len(sys.modules)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # the suffix is .py
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    sys.modules[name] = module  # dataclasses look their module up
    try:
        called(lambda: loader.exec_module(module), f"running {place}", field)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search_first(folder: str) -> None:
    """Look for modules in this folder before all others."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _message(error: BaseException) -> str:
    """What an error says, on one line; the user's own may fail to say anything."""
    try:
        return " ".join(str(error).split()).rstrip(".") or "no message"
    except Exception:
        return "its message cannot be read"


def _line(error: BaseException) -> str:
    """The file and line at which an error was raised: the innermost outside gvfx and installed packages."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" in {Path(error.filename).name}, line {error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    own = [f for f in frames if "site-packages" not in f.filename and not f.filename.startswith("<")]
    return f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


# --- Stable-Baselines3 models with Discrete actions as target policies ----------------------------------------------


@dataclass(frozen=True, eq=False)
class StableBaselines(Policy):
    """A Stable-Baselines3 model with Discrete actions: one call of its network per batch of observations.

    temperature:   for DQN: probabilities are the softmax of Q / temperature.
    deterministic: the model's best action always.
    """

    model: Any
    temperature: float | None
    deterministic: bool

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return self.at(np.arange(states), actions, field)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        import torch

        if isinstance(observations, list) and isinstance(observations[0], dict):
            observations = {key: np.stack([o[key] for o in observations]) for key in observations[0]}
        policy = self.model.policy
        with torch.no_grad():
            seen, _ = policy.obs_to_tensor(own(observations))
            if hasattr(policy, "q_net"):
                scores = policy.q_net(seen) / (self.temperature or 1.0)
                rows = torch.softmax(scores.double(), dim=1).cpu().numpy()
            else:
                rows = policy.get_distribution(seen).distribution.probs.double().cpu().numpy()
        if rows.ndim != 2 or rows.shape[1] != actions:
            raise InputError(
                f"{field}: the model has {rows.shape[-1]} actions and the environment {actions}; give one trained on it."
            )
        return np.eye(actions)[rows.argmax(axis=1)] if self.deterministic else checked_rows(rows, field, actions)


@checked
def from_sb3(
    model: object, *, temperature: float | None = None, deterministic: bool = False, algorithm: str = "", trust: bool = False
) -> StableBaselines:
    """A Stable-Baselines3 model (PPO, A2C or DQN with Discrete actions) as a policy.

    model:         the model, or the file it was saved to (then give `algorithm`, such as "PPO", and `trust=True`).
    temperature:   for DQN, which has action values only: the temperature of their softmax (or give deterministic=True).
    deterministic: always the model's best action instead of its probabilities.
    trust:         whether to read a file at all: it contains pickled Python objects, which can run any code when loaded.
    """
    if isinstance(model, str | os.PathLike):
        model = _sb3_file(str(model), algorithm, trust)
    policy = getattr(model, "policy", None)
    if not (hasattr(policy, "q_net") or hasattr(policy, "get_distribution")):
        raise InputError(f"model: {type(model).__name__} has no action probabilities; use PPO, A2C or DQN.")
    if not hasattr(getattr(model, "action_space", None), "n"):
        raise InputError(
            "model: its actions are not Discrete; use a model with Discrete actions, or for Box actions "
            "gvfx.gaussian_policy(lambda o: model.predict(o, deterministic=True)[0], sigma)."
        )
    dqn = hasattr(policy, "q_net")
    if dqn and (temperature is None) != deterministic:
        raise InputError("temperature: DQN has action values, not probabilities; give 1.0 (softmax) or deterministic=True.")
    if temperature is not None and not (temperature > 0 and dqn):
        raise InputError("temperature: give a number above 0, and only for DQN.")
    return StableBaselines(model, temperature, deterministic)


def _sb3_file(path: str, algorithm: str, trust: bool) -> Any:
    if not trust:
        raise InputError(
            f"model: {path} contains pickled Python objects, which can run any code when loaded; "
            "give trust=True if you trust its author, or load it yourself and give the model."
        )
    try:
        import stable_baselines3
    except ImportError:
        raise InputError(f"stable_baselines3: not installed; run {install('sb3')}.") from None
    if algorithm not in ("PPO", "A2C", "DQN"):
        raise InputError(f"algorithm: {algorithm!r} is not supported; give the class that was saved: 'PPO', 'A2C' or 'DQN'.")
    try:
        return getattr(stable_baselines3, algorithm).load(path, device="cpu")
    except (OSError, ValueError) as error:
        raise InputError(f"model: cannot read {path} ({error}); give a file written by model.save.") from None


MOST_ACTIONS, MOST_QUESTIONS = 2**31, 10_000  # of an environment, of a file
TRUST = "which can run any code; add --trust if you trust the file's author"
LARGEST = 10_000_000  # bytes of a file
POLICIES: dict[str, tuple[str, ...]] = {  # what a table may say of a policy: kinds, and the keys beside each
    **dict.fromkeys(("action", "probabilities"), ()),
    **{"function": ("gives",), "sb3": ("algorithm", "temperature", "deterministic"), "gaussian": ("sigma",)},
}
SIGNALS = {"info": ("index", "size", "missing"), "function": ("index", "size")}
GIVES: dict[str, Callable[[Any], Policy]] = {"probabilities": as_policy, "action": deterministic_policy, "logits": softmax_policy}


@dataclass(frozen=True)
class Always:
    """A function of the observation that returns the same action always."""

    action: int

    def __call__(self, observation: object) -> int:
        return self.action


def questions_in(path: str | Path, trust: bool = False) -> list[GVF]:
    """The questions of a file; trust: whether it may name functions and saved models."""
    try:
        return questions_of(tomllib.loads(read_text(Path(path), LARGEST).replace("\r\n", "\n")), trust)
    except OSError as error:
        raise InputError(f"questions: cannot read {path} ({error.strerror}); give a TOML file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"questions: {path} is not TOML ({error}); gvfx init questions.toml writes an example.") from None


def questions_of(data: Mapping[str, Any], trust: bool = False) -> list[GVF]:
    """The questions of a file's contents."""
    _only(data, "questions", "policies", "signals", "discount", "questions")
    policies = {name: _policy(given, f"policies.{name}", trust) for name, given in _table(data, "policies").items()}
    signals = {name: _signal(given, f"signals.{name}", trust) for name, given in _table(data, "signals").items()}
    common = data.get("discount", 0.99)
    if "questions" in data:
        rows = data["questions"]
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise InputError("questions: write each one as [[questions]] with a policy and a signal.")
        _check_number(sum(_size(signals.get(str(row.get("signal")))) for row in rows))
        return [_listed(row, f"questions[{i}]", policies, signals, common) for i, row in enumerate(rows)]
    discounts = [_real(each, "discount") for each in (common if isinstance(common, list) else [common])]
    if not discounts:
        raise InputError("discount: the list is empty; give a number between 0 and 1.")
    _check_number(len(policies) * len(discounts) * sum(map(_size, signals.values())))
    return [
        GVF(policy, signal, discount, name=f"{who}: {what}" + (f", {discount}" if len(discounts) > 1 else ""))
        for who, policy in policies.items()
        for what, signal in signals.items()
        for discount in discounts
    ]


def _size(signal: object) -> int:
    """How many questions a signal makes of one."""
    return getattr(signal, "size", None) or 1


def _check_number(count: int) -> None:
    if count > MOST_QUESTIONS:
        raise InputError(f"questions: the file asks {count:,}, counting components of vectors; ask at most {MOST_QUESTIONS:,}.")


def _listed(row: dict[str, Any], field: str, policies: dict[str, Policy], signals: dict[str, Cumulant], common: Any) -> GVF:
    _only(row, field, "policy", "signal", "discount", "weight", "name")
    chosen: dict[str, Any] = {}
    for kind, known in (("policy", policies), ("signal", signals)):
        if kind not in row:
            raise InputError(f"{field}.{kind}: is missing; name one of {', '.join(known)}.")
        if not isinstance(row[kind], str) or row[kind] not in known:
            raise UnknownName(f"{field}.{kind}", str(row[kind]), list(known))
        chosen[kind] = known[row[kind]]
    discount = row.get("discount", common)
    if isinstance(discount, list):
        raise InputError(f"{field}.discount: is a list; give each question its own number.")
    weight = _real(row.get("weight", 1.0), f"{field}.weight")
    name = _text(row.get("name", f"{row['policy']}: {row['signal']}"), f"{field}.name")
    return GVF(chosen["policy"], chosen["signal"], _real(discount, f"{field}.discount"), weight=weight, name=name)


def _policy(given: Any, field: str, trust: bool) -> Policy:
    if given == "uniform":
        return uniform_policy()
    if isinstance(given, list):
        given = {"probabilities": given}
    kind = _kind(given, field, "'uniform'", POLICIES)
    value = given[kind]
    try:
        if kind == "action":
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_ACTIONS:
                raise InputError(f"policy: {value!r:.40} is not an action; give its number, counted from 0.")
            return deterministic_policy(Always(value))
        if kind == "probabilities":
            return constant_policy(_numbers(value, f"{field}.{kind}"))
        if kind == "gaussian":
            return gaussian_policy(_numbers(value, f"{field}.{kind}"), _numbers(given.get("sigma", 0.1), f"{field}.sigma"))
        _check_trust(trust, field, value)
        if kind == "sb3":
            return from_sb3(_text(value, f"{field}.sb3"), **{k: v for k, v in given.items() if k != kind}, trust=True)
        gives = given.get("gives", "probabilities")
        if not isinstance(gives, str) or gives not in GIVES:
            raise UnknownName(f"{field}.gives", str(gives), list(GIVES))
        found, _ = named(_text(value, f"{field}.function"), field)
        return found if isinstance(found, Policy) else GIVES[gives](found)
    except InputError as error:
        raise _under(field, error) from None


def _signal(given: Any, field: str, trust: bool) -> Cumulant:
    if given == "reward":
        return Reward()
    if isinstance(given, int | float) and not isinstance(given, bool):
        return Constant(float(_real(given, field)))
    kind = _kind(given, field, "'reward', a number", SIGNALS)
    options = {k: v for k, v in given.items() if k != kind}
    try:
        for key in {"index", "size"} & {*options}:
            if whole(options[key], f"{field}.{key}") > MOST_QUESTIONS:
                raise InputError(f"{field}.{key}: {options[key]} is too large; give at most {MOST_QUESTIONS:,}.")
        if "missing" in options:
            _real(options["missing"], f"{field}.missing")
        if kind == "info":
            return Info(_text(given[kind], f"{field}.info"), **options)
        _check_trust(trust, field, given[kind])
        found, _ = named(_text(given[kind], f"{field}.function"), field)
        return found if isinstance(found, Cumulant) else Measure(found, **options)
    except InputError as error:
        raise _under(field, error) from None


def _real(given: Any, field: str) -> Any:
    if not is_real(given):
        raise InputError(f"{field}: {given!r:.40} is not a finite number; give one.")
    return given


def _text(given: Any, field: str) -> str:
    if not isinstance(given, str):
        raise InputError(f"{field}: {given!r:.40} is not a text; write it in quotes.")
    return given


def _numbers(given: Any, field: str) -> Any:
    try:
        numbers = np.asarray(given, dtype=float)
        good = numbers.size > 0 and bool(np.isfinite(numbers).all()) and not isinstance(given, bool | str)
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise InputError(f"{field}: {given!r:.40} are not finite numbers; give some, such as [0.5, 0.5].")
    return given


def _under(field: str, error: InputError) -> InputError:
    """The error under the name that the file gives to what is wrong."""
    sentence = str(error)
    return error if sentence.startswith(field) else InputError(f"{field}: {sentence.partition(': ')[2] or sentence}")


def _check_trust(trust: bool, field: str, value: Any) -> None:
    if not trust:
        raise InputError(f"{field}: {value!r} is a function or a saved model, {TRUST}.")


def _kind(given: Any, field: str, plain: str, kinds: Mapping[str, tuple[str, ...]]) -> str:
    """The one of `kinds` that a table has as a key; its other keys must be those of the kind."""
    wanted = f"give {plain}, or a table such as {{{next(iter(kinds))} = ...}} with one of {', '.join(kinds)}"
    if not isinstance(given, dict):
        raise InputError(f"{field}: {given!r:.40} is unknown; {wanted}.")
    found = [kind for kind in kinds if kind in given]
    if len(found) != 1:
        raise InputError(f"{field}: has {' and '.join(found) or 'none of the known keys'}; {wanted}.")
    _only(given, field, found[0], *kinds[found[0]])
    return found[0]


def _table(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name)
    if not isinstance(table, dict) or not table:
        raise InputError(f"{name}: the file has none; write [{name}] with one line for each.")
    return table


def _only(table: Mapping[str, Any], field: str, *keys: str) -> None:
    for key in table:
        if key not in keys:
            raise UnknownName(field, key, keys)
