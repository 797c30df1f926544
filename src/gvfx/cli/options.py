"""How commands are declared: by their signatures and docstrings.

    def check(target: Target, *, steps: Count = 1000, json: JsonFile | None = None) -> None:
        '''Find mistakes in your environment and questions before the first run.

        steps: Number of random steps to try.

            gvfx check my_module:make
        '''

Parameters before the star are arguments, those behind it are options.  A dataclass stands for its fields, so that options which
several commands share are declared once.  A type with a `Kind` reads the text before the command begins.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import typer

from gvfx.cli.terminal import check_name, check_output, made_by_name
from gvfx.errors import InputError
from gvfx.names import HOME_OF, SHORT_NAMES

MOST = 10**15  # steps or episodes
MOST_SEEDS, MOST_WORKERS, MOST_POINTS = 1_000_000, 10_000, 1_000_000
LARGEST_SEED = 2**63 - 1
TRACKERS = {"tensorboard": "TensorBoard", "wandb": "WeightsAndBiases"}  # with the name of a folder or project
Read = Callable[[str, str], Any]  # of a text and the name of its option; raises InputError


@dataclass(frozen=True)
class Kind:
    """What an option or argument accepts."""

    read: Read = lambda text, option: text
    metavar: str | None = None  # what help shows in the place of a value
    complete: Callable[[str], list[str]] | None = None  # the names that a shell offers for what is begun
    letter: str = ""  # a short form, such as "-b"
    sentence: str = ""  # about the option, where no docstring has one

    def callback(self, ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
        """What a command gets for the text that was given."""
        if ctx.resilient_parsing or value is None:  # the first for the shell's completion
            return value
        return [self._value(each, param) for each in value] if isinstance(value, list | tuple) else self._value(value, param)

    def _value(self, text: Any, param: typer.CallbackParam) -> Any:
        if not str(text).strip():
            raise InputError(f"{param.opts[0]}: the text is empty; give a value, or leave it out.")
        return self.read(str(text), param.opts[0])


# --- Commands as typer takes them -------------------------------------------------------------------------------------


def add(app: typer.Typer, function: Callable[..., None], command_name: str | None = None) -> None:
    """Add a command; its name is that of the function, unless it is given."""
    parameters, groups = list[inspect.Parameter](), dict[str, tuple[Any, list[str]]]()
    text, sentences, examples = described(function)
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        group: Any = parameter.annotation
        if not is_dataclass(group):
            parameters.append(_declared(parameter, sentences))
            continue
        own = inspect.signature(cast(Any, group)).parameters
        types, about = get_type_hints(group, include_extras=True), described(group)[1]
        groups[parameter.name] = group, list(own)
        parameters += [_declared(each.replace(annotation=types[name]), about) for name, each in own.items()]

    def command(**given: Any) -> None:
        for each, (group, names) in groups.items():
            given[each] = group(**{field: given.pop(field) for field in names})
        function(**given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    shown = ["Examples:" if len(examples) > 1 else "Example:", *examples] if examples else []
    app.command(command_name or function.__name__.replace("_", "-"), help=text, epilog="\n\n".join(shown))(command)


def described(thing: Any) -> tuple[str, dict[str, str], list[str]]:
    """The text of a docstring, its sentences about parameters ("name: sentence"), and its examples, which are set in."""
    text, sentences, examples = list[str](), dict[str, str](), list[str]()
    names, last = inspect.signature(thing).parameters, ""
    for line in (inspect.getdoc(thing) or "").splitlines():
        name, _, sentence = line.partition(": ")
        if line.startswith("    gvfx "):
            examples.append(line.strip())
        elif name in names:
            sentences[name], last = sentence.strip(), name
        elif last and line.startswith("  "):
            sentences[last] += f" {line.strip()}"
        else:
            text.append(line)
    return "\n".join(text).strip(), sentences, examples


def _declared(parameter: inspect.Parameter, sentences: dict[str, str]) -> inspect.Parameter:
    """A parameter with typer's annotation."""
    option, default = f"--{parameter.name.replace('_', '-')}", parameter.default
    inner, kind = _kind_of(parameter.annotation)
    sentence = sentences.get(parameter.name) or kind.sentence
    info: Any
    if inner is bool:
        info = typer.Option(option if default is False else f"{option}/--no-{option[2:]}", help=sentence)
    else:
        shown: dict[str, Any] = {"help": sentence, "callback": kind.callback, "autocompletion": kind.complete}
        if parameter.kind is parameter.KEYWORD_ONLY:
            names = (option, kind.letter) if kind.letter else (option,)
            info = typer.Option(*names, metavar=kind.metavar, hidden=sentence.startswith("Old name of"), **shown)
        else:
            info = typer.Argument(**shown)
        inner = list[str] if get_origin(inner) is Sequence else str
    accepted: Any = Annotated[inner | None if default is None else inner, info]
    return parameter.replace(annotation=accepted, kind=parameter.KEYWORD_ONLY)


def _kind_of(annotation: Any) -> tuple[Any, Kind]:
    """The type in an annotation such as `Count | None`, and its kind; any text without one."""
    if get_origin(annotation) is Annotated:
        inner, kind = get_args(annotation)
        return inner, kind
    if NoneType in get_args(annotation):
        return _kind_of(get_args(annotation)[0])
    return annotation, Kind()


# --- Kinds of values --------------------------------------------------------------------------------------------------


def count_given(text: str | int, option: str, least: int = 1, most: int = MOST) -> int:
    """A count on the command line; 1e6 is accepted too."""
    try:
        number = float(text)
        value = int(text) if math.isfinite(number) and str(text).strip().lstrip("+-").isdecimal() else int(number)
        whole = number == int(number)
    except OverflowError:  # infinite, or above all floats
        value, whole = most + 1, True
    except ValueError:
        whole = False
    if not whole:
        raise InputError(f"{option}: {text!r:.40} is not a whole number; give one, such as 20000 or 1e6.")
    if value < least:
        raise InputError(f"{option}: {text!s:.40} is too few; give at least {least:,}.")
    if value > most:
        raise InputError(f"{option}: {text!s:.40} is too many; give at most {most:,}.")
    return value


def count(least: int = 1, most: int = MOST) -> Kind:
    return Kind(lambda text, option: count_given(text, option, least, most), "N")


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{option}: {text!r:.40} is not a number; give one.") from None


def number(at_most: float = math.inf) -> Kind:
    def read(text: str, option: str) -> float:
        value = _number(text, option)
        if not (math.isfinite(value) and 0 < value <= at_most):
            end = f" and at most {at_most:g}" if at_most < math.inf else ""
            raise InputError(f"{option}: {value:g} does not fit; give a number above 0{end}.")
        return value

    return Kind(read, "NUMBER")


def _share(text: str, option: str) -> float:
    value = _number(text, option)
    if not 0 <= value < 1:
        raise InputError(f"{option}: {value:g} is not a share of the steps; give a number of at least 0 and below 1.")
    return value


def path(check: Callable[[Path, str], None]) -> Read:
    def read(text: str, option: str) -> Path:
        check(Path(text), option)
        return Path(text)

    return read


def check_folder(path: Path, option: str) -> None:
    """Refuse a path that is something else than a folder, or lies below something else."""
    check_name(path, option)
    found = next((each for each in (path, *path.parents) if each.exists()), path)
    if found.exists() and not found.is_dir():
        raise InputError(f"{option}: {found!s:.200} is not a folder; name one.")


def _check_input(path: Path, option: str) -> None:
    check_name(path, option)
    if path.exists() and not path.is_file():
        raise InputError(f"{option}: {path!s:.200} is a device, a pipe or a folder; name a file.")


def _check_output_folder(path: Path, option: str) -> None:
    check_folder(path, option)
    try:
        check_output(path / ".gvfx", option)
    except InputError:
        raise InputError(f"{option}: cannot write to the folder {path!s:.200}; name another.") from None


def read_until(text: str, option: str = "until") -> Any:
    """The value of --until as `gvfx.evaluate` takes it."""
    from gvfx.evidence.decisions import decided
    from gvfx.evidence.uncertainty import error_below

    rule, _, margin = text.partition(":")
    try:
        return decided(margin=float(margin or 0)) if rule == "decided" else error_below(float(text))
    except InputError as error:
        raise InputError(f"until: {str(error).partition(': ')[2]}") from None
    except ValueError:
        raise InputError(f"until: {text!r:.40} is not an error; give a number, decided, or decided:MARGIN.") from None


def read_where(text: str, option: str = "where") -> str | list[int]:
    """The value of --where as `gvfx.evaluate` takes it."""
    parts = text.split(",")
    return [int(part) for part in parts] if all(re.fullmatch(r"\s*[0-9]{1,18}\s*", part) for part in parts) else text


def read_tracker(text: str, option: str) -> Any:
    """A tracker as `gvfx.evaluate` takes it; one that does not say where to, or a file that cannot be written, is refused."""
    from gvfx.running import tracking

    kind, colon, where = text.partition(":")
    if colon and kind in TRACKERS:
        if not where:
            raise InputError(f"{option}: {text!r} does not say where to; give {text}runs, for example.")
        return getattr(tracking, TRACKERS[kind])(where)
    if not Path(text).exists() or Path(text).is_dir():  # lines are added to a file that exists, and to a device
        check_output(Path(text), option)
    return text


def _made(field: str) -> Read:
    def read(text: str, option: str) -> Any:
        from gvfx.behaviours.base import Behaviour
        from gvfx.learners.base import Learner

        return made_by_name(field, text, Behaviour if field == "behaviour" else Learner)

    return read


# --- Names that the shell completes.  The library is imported only when a name is asked for that it alone knows -----


def starting(names: Iterable[str], begun: str) -> list[str]:
    return [name for name in names if name.startswith(begun)]


def _public(package: str) -> Iterator[str]:
    """The public names that live in a package, without the base class."""
    return (name for name, home in HOME_OF.items() if home.startswith(f"{package}.") and home != f"{package}.base")


def behaviours(incomplete: str) -> list[str]:
    return starting([*_public("gvfx.behaviours"), *SHORT_NAMES.values()], incomplete)


def learners(incomplete: str) -> list[str]:
    return starting(_public("gvfx.learners"), incomplete)


def settings(incomplete: str) -> list[str]:
    """The settings that installed packages know by name."""
    from gvfx.cli.extensions import extensions

    return starting([name for extension in extensions() for name in extension.names()], incomplete)


# --- Types of options and arguments -----------------------------------------------------------------------------------

Count = Annotated[int, count()]
Seeds = Annotated[int, count(most=MOST_SEEDS)]
Seed = Annotated[int, Kind(lambda text, option: count_given(text, option, 0, LARGEST_SEED), "N")]
Number = Annotated[float, number()]
AnyPath = Annotated[Path, Kind(path(check_name), "PATH")]
InputFile = Annotated[Path, Kind(path(_check_input), "FILE")]
QUESTIONS = "A TOML file of questions (`gvfx init questions.toml` writes an example)."
Questions = Annotated[Path, Kind(path(_check_input), "FILE", sentence=QUESTIONS)]
TRUST = "Let the file of questions name functions and saved models, which can run any code."
Trust = Annotated[bool, Kind(sentence=TRUST)]
STEPS = "Environment steps per run, such as 20000 or 1e6."
Steps = Annotated[int, Kind(count().read, "N", sentence=STEPS)]
OutputFile = Annotated[Path, Kind(path(check_output), "PATH")]
OutputFolder = Annotated[Path, Kind(path(_check_output_folder), "PATH")]
NamedBehaviour = Annotated[Any, Kind(_made("behaviour"), complete=behaviours, letter="-b")]
NamedLearner = Annotated[Any, Kind(_made("learner"), complete=learners, letter="-l")]
Trackers = Annotated[Sequence[Any], Kind(read_tracker, "TRACKER")]
Share = Annotated[float, Kind(_share, "SHARE")]
Until = Annotated[
    Any,
    Kind(
        read_until,
        "ERROR|decided[:MARGIN]",
        sentence="Stop once the mean squared error is known to be below this; or once it is decided which policy is better, if "
        "differences up to MARGIN do not matter (learners with intervals).",
    ),
]
WHERE = "Where errors count: start, or states such as 3,17 (default: all states equally)."
Where = Annotated[Any, Kind(read_where, "start|STATES", sentence=WHERE)]
CONTINUED = "A folder from which the same command continues a run that was stopped."
Checkpoint = Annotated[Path, Kind(path(_check_output_folder), "PATH", sentence=CONTINUED)]
Seconds = Annotated[float, Kind(_number, "SECONDS", sentence="Seconds between two checkpoints (default: 60).")]
SAVE = "Also write the whole result to this file (see gvfx.load)."
SaveFile = Annotated[Path, Kind(path(check_output), "PATH", sentence=SAVE)]
JSON = "Also write the results to this JSON file; with - to stdout, and all else to stderr."
JsonFile = Annotated[Path, Kind(path(check_output), "PATH", sentence=JSON)]


@dataclass(frozen=True)
class Target:
    """An environment of one's own, and its questions.

    target: module:make or path/to/file.py:make, a function that returns your environment and questions; or a name registered
        with Gymnasium, such as FrozenLake-v1.
    """

    target: str
    _: KW_ONLY
    questions: Questions | None = None
    trust: Trust = False

    def load(self) -> Any:
        from gvfx.cli.target import load

        return load(self.target, self.questions, self.trust)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The files that answers are written to.

    report: Write an HTML page about the answers to this file.
    """

    save: SaveFile | None = None
    report: OutputFile | None = None
    json: JsonFile | None = None
