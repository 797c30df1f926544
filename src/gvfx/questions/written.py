"""Questions written in a TOML file: named policies, named signals, discounts.

    discount = 0.95              # or several: [0.9, 0.99]

    [policies]
    random = "uniform"           # every action has the same probability
    right = {action = 2}         # always this action, counted from 0
    eager = {probabilities = [0.05, 0.45, 0.45, 0.05]}
    mine = {function = "my_module:policy"}  # probabilities by observation; gives = "action" if it returns the action
    trained = {sb3 = "model.zip", algorithm = "PPO"}
    pump = {gaussian = [0.5], sigma = 0.1}  # Box actions

    [signals]
    goal = "reward"
    time = 1                     # a constant
    chance = {info = "prob"}     # an entry of info; index, size and missing as in gvfx.Info
    fall = {function = "my_module:fall"}  # of the transition; index and size as in gvfx.Measure

Every policy is asked about every signal, `random: goal`, unless the file lists its `[[questions]]`, each with a policy, a signal
and if needed a discount, a weight and a name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError, UnknownName
from gvfx.files import read_text
from gvfx.inputs import is_real, whole
from gvfx.modules import named
from gvfx.questions.cumulants import Constant, Cumulant
from gvfx.questions.gaussian import gaussian_policy
from gvfx.questions.gvf import GVF
from gvfx.questions.policies import Policy, as_policy, constant_policy, deterministic_policy, softmax_policy, uniform_policy
from gvfx.questions.sb3 import from_sb3
from gvfx.questions.signals import Info, Measure, Reward

MOST_ACTIONS, MOST_COMPONENTS = 2**31, 100_000  # of an environment, of a vector
TRUST = "which can run any code; add --trust if you trust the file's author"
LARGEST = 10_000_000  # bytes of a file
GIVES: dict[str, Callable[[Any], Policy]] = {
    "probabilities": as_policy,
    "action": deterministic_policy,
    "logits": softmax_policy,
}


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
        return [_listed(row, f"questions[{i}]", policies, signals, common) for i, row in enumerate(rows)]
    discounts = common if isinstance(common, list) else [common]
    if not discounts:
        raise InputError("discount: the list is empty; give a number between 0 and 1.")
    for discount in discounts:
        _check_real(discount, "discount")
    return [
        GVF(policy, signal, discount, name=f"{who}: {what}" + (f", {discount}" if len(discounts) > 1 else ""))
        for who, policy in policies.items()
        for what, signal in signals.items()
        for discount in discounts
    ]


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
    _check_real(discount, f"{field}.discount")
    weight = row.get("weight", 1.0)
    _check_real(weight, f"{field}.weight")
    name = _text(row.get("name", f"{row['policy']}: {row['signal']}"), f"{field}.name")
    return GVF(chosen["policy"], chosen["signal"], discount, weight=weight, name=name)


def _policy(given: Any, field: str, trust: bool) -> Policy:
    if given == "uniform":
        return uniform_policy()
    if isinstance(given, list):
        given = {"probabilities": given}
    kind = _kind(given, field, "'uniform'", "action", "probabilities", "function", "sb3", "gaussian")
    value = given[kind]
    try:
        if kind == "action":
            _only(given, field, kind)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_ACTIONS:
                raise InputError(f"policy: {value!r:.40} is not an action; give its number, counted from 0.")
            return deterministic_policy(Always(value))
        if kind == "probabilities":
            _only(given, field, kind)
            return constant_policy(_numbers(value, f"{field}.{kind}"))
        if kind == "gaussian":
            _only(given, field, kind, "sigma")
            return gaussian_policy(_numbers(value, f"{field}.{kind}"), _numbers(given.get("sigma", 0.1), f"{field}.sigma"))
        _check_trust(trust, field, value)
        if kind == "sb3":
            _only(given, field, kind, "algorithm", "temperature", "deterministic")
            return from_sb3(_text(value, f"{field}.sb3"), **{k: v for k, v in given.items() if k != kind}, trust=True)
        _only(given, field, kind, "gives")
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
        _check_real(given, field)
        return Constant(float(given))
    kind = _kind(given, field, "'reward', a number", "info", "function")
    options = {k: v for k, v in given.items() if k != kind}
    try:
        for key in {"index", "size"} & {*options}:
            if whole(options[key], f"{field}.{key}") > MOST_COMPONENTS:
                raise InputError(f"{field}.{key}: {options[key]} is too large; give at most {MOST_COMPONENTS:,}.")
        if "missing" in options:
            _check_real(options["missing"], f"{field}.missing")
        if kind == "info":
            _only(given, field, kind, "index", "size", "missing")
            return Info(_text(given[kind], f"{field}.info"), **options)
        _check_trust(trust, field, given[kind])
        _only(given, field, kind, "index", "size")
        found, _ = named(_text(given[kind], f"{field}.function"), field)
        return found if isinstance(found, Cumulant) else Measure(found, **options)
    except InputError as error:
        raise _under(field, error) from None


def _check_real(given: Any, field: str) -> None:
    if not is_real(given):
        raise InputError(f"{field}: {given!r:.40} is not a finite number; give one.")


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
    said = str(error)
    return error if said.startswith(field) else InputError(f"{field}: {said.partition(': ')[2] or said}")


def _check_trust(trust: bool, field: str, value: Any) -> None:
    if not trust:
        raise InputError(f"{field}: {value!r} is a function or a saved model, {TRUST}.")


def _kind(given: Any, field: str, plain: str, *kinds: str) -> str:
    """The one of `kinds` that a table has as a key."""
    wanted = f"give {plain}, or a table such as {{{kinds[0]} = ...}} with one of {', '.join(kinds)}"
    if not isinstance(given, dict):
        raise InputError(f"{field}: {given!r:.40} is unknown; {wanted}.")
    found = [kind for kind in kinds if kind in given]
    if len(found) != 1:
        raise InputError(f"{field}: has {' and '.join(found) or 'none of the known keys'}; {wanted}.")
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
