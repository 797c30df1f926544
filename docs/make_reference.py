"""Write docs/reference: the API from docstrings and signatures, and the command line from its parser.

Run it with `python docs/make_reference.py`; a test fails while a page differs from what it writes.  The examples are the sections
of docs/reference/examples.py.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

import gvfx
import gvfx_paper
from gvfx.cli import app
from gvfx.running.schema import ARRAYS

HERE = Path(__file__).parent / "reference"
BY = "<!-- written by docs/make_reference.py -->\n"
GROUPS = {  # page: title, and its public names
    "questions": ("Questions", "GVF Audit"),
    "signals": ("Signals", "Reward Info Measure Constant Distractor Drifter Signal table_cumulant Cumulant"),
    "policies": (
        "Policies",
        "uniform_policy constant_policy table_policy deterministic_policy callable_policy softmax_policy mixture_policy "
        "gaussian_policy stateful_policy own_greedy own_softmax from_sb3 Policy",
    ),
    "worlds": ("Worlds", "MDP gridworld four_rooms from_gymnasium history actions_of World"),
    "behaviours": (
        "Behaviours",
        "OptimalDesign GVFExplorer RoundRobin Mixture Uniform Follow SuccessorRepresentation "
        "BehaviourPolicySearch CharacteristicTime SecondMoment RobustSampling Actor MixtureActor Epsilon Floor Blend Hold "
        "Alternate Fixed Linear Geometric Behaviour",
    ),
    "learners": (
        "Learners",
        "CertaintyEquivalence LinearCertaintyEquivalence ExpectedSarsa ImportanceSampling Deep TwinCritics Rollouts Learner",
    ),
    "running": (
        "Running",
        "evaluate evaluate_log check plan error_below decided truth_of load Log Finding MonteCarlo Tracker JsonLines TensorBoard "
        "WeightsAndBiases",
    ),
    "results": ("Results", "Result Details"),
    "exact-theory": ("Exact theory", "exact design"),
    "errors-api": ("Error classes", "GvfxError InputError RunError EnvironmentFailed StoreError Interrupted"),
    "testing": ("Testing", "testing"),
    "paper": ("The paper: gvfx_paper", "paper ContinuousGrid Domain Target VarianceSoftmax RandomPolicies EpisodicExpectedSarsa"),
}
METHODS = {  # of these classes the public methods and properties are listed too
    "Result": None,
    "Details": None,
    "MDP": ("from_matrix", "states", "actions", "where", "with_features"),
    "Target": ("shipped", "load"),
}


def home_of(name: str) -> str:
    """The package of a public name."""
    return "gvfx_paper" if name in gvfx_paper.HOME_OF else "gvfx"


def public(name: str) -> Any:
    """What a public name stands for."""
    return getattr(gvfx_paper if name in gvfx_paper.HOME_OF else gvfx, name)


def examples() -> tuple[str, dict[str, tuple[str, str]]]:
    """The first part of the examples, and per name its code and the package that it needs (or nothing)."""
    first, *parts = re.split(r"^# %% ", (HERE / "examples.py").read_text("utf-8"), flags=re.MULTILINE)
    found = {}
    for part in parts:
        head, code = part.split("\n", 1)
        name, _, needs = head.partition("  needs ")
        found[name] = code.strip(), needs.strip()
    return first, found


def purpose(thing: object) -> str:
    """The first sentence of its docstring, or of its first paragraph."""
    text = documentation(thing).split("\n\n")[0]
    return " ".join(text.split())


def documentation(thing: object) -> str:
    if isinstance(thing, type(gvfx.World)):
        return "What `gvfx.evaluate` accepts as a world of its own: an MDP, or a `CompiledWorld`."
    if isinstance(thing, property):
        return inspect.getdoc(thing.fget) or ""
    return inspect.getdoc(thing) or ""


def signature(name: str, thing: Any) -> str:
    """How it is called, one argument per line where it is long; empty for values and modules."""
    if isinstance(thing, ModuleType | property) or not callable(thing):
        return ""
    try:
        found = inspect.signature(thing)
    except ValueError:  # exceptions without an __init__ of their own
        return f"{name}(message)"
    parts = []
    keyword_only = False
    for parameter in found.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = star + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {_annotation(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {_default(parameter.default)}"
        parts.append(text)
    end = ")"
    if found.return_annotation not in (found.empty, "None", None) and not isinstance(thing, type):
        end += f" -> {_annotation(found.return_annotation)}"
    line = f"{name}({', '.join(parts)}{end}"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + end


def _annotation(given: object) -> str:
    text = given if isinstance(given, str) else getattr(given, "__forward_arg__", None) or inspect.formatannotation(given)
    return text.strip("'\"") if text[:1] in "'\"" else text


def _default(given: object) -> str:
    text = repr(given)
    return "{}" if text == "<factory>" else text


def fields_of(cls: type) -> Iterator[tuple[str, str, str]]:
    """The fields of a dataclass that a comment in the source explains: name, type and comment."""
    if not dataclasses.is_dataclass(cls):
        return
    try:
        source = inspect.getsource(cls)
    except OSError:
        return
    for line in source.splitlines():
        found = re.match(r"    (\w+): ([^=#]+?)(?: = [^#]*)?  # (.*)$", line)
        if found and not found[1].startswith("_"):
            yield found[1], found[2].strip(), found[3]


def arrays_of() -> Iterator[tuple[str, str, str]]:
    """The arrays of a result: name, type and what it is."""
    for row in ARRAYS.values():
        if not row.extra and row.name != "snapshot_steps":
            yield row.in_result, row.kind, f"[{', '.join(row.in_file.split()[1:])}] {row.about}"


def members_of(name: str, cls: type) -> list[tuple[str, Any]]:
    wanted = METHODS[name]
    return [
        (key, value)
        for key, value in vars(cls).items()
        if not key.startswith("_")
        and (callable(value) or isinstance(value, classmethod | staticmethod | property))
        and (wanted is None or key in wanted)
    ]


def public_of(module: ModuleType) -> dict[str, Any]:
    """The functions and classes of a public module."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    return {name: getattr(module, name) for name in names}


def body(thing: object) -> str:
    """The docstring without its first paragraph, as Markdown; what it says about arguments becomes a table."""
    return "\n\n".join(_paragraph(part) for part in documentation(thing).split("\n\n")[1:])


def _paragraph(text: str) -> str:
    items: list[list[str]] = []
    for line in text.splitlines():
        begins = re.match(r"([a-z_][\w, ]*): +(\S.*)$", line) or re.match(r"(\"\w+\") +(\S.*)$", line)
        if begins:
            items.append([begins[1], begins[2]])
        elif items and line.startswith("  "):
            items[-1][1] += f" {line.strip()}"
        else:
            return linked(_plain(text))
    rows = "".join(f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {_cell(said)} |\n" for names, said in items)
    return f"| argument | what it is |\n|---|---|\n{rows}".rstrip()


def _plain(text: str) -> str:
    """Text of a docstring in which a star is a star."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("*", "\\*").replace("<", "&lt;") for part in parts)


def linked(text: str) -> str:
    """References to pages of docs/ as links."""
    return re.sub(r"\(docs/([\w-]+\.md)(#[\w-]+)?\)", r"([more](../\1\2))", text)


def entry(name: str, thing: Any, shown: dict[str, tuple[str, str]], level: int = 2) -> str:
    """The section of one name."""
    parts = [f"{'#' * level} {name}", linked(_plain(purpose(thing)))]
    called = signature(name if level > 2 else f"{home_of(name)}.{name}", thing)
    if called and name not in ("Result", "Details"):  # which gvfx.evaluate makes
        parts.append(f"```py\n{called}\n```")
    if not isinstance(thing, ModuleType):
        parts.append(body(thing))
    if isinstance(thing, type):
        rows = [*fields_of(thing), *(arrays_of() if name == "Details" else ())]
        if rows:
            table = "".join(f"| `{field}` | {_cell(comment)} |\n" for field, _, comment in rows)
            parts.append(f"| field | what it is |\n|---|---|\n{table}".rstrip())
    if name in shown:
        code, needs = shown[name]
        parts.append(f"{'Needs `' + needs + '`.' if needs else ''}\n\n```python\n{code}\n```".strip())
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell(text: str) -> str:
    return linked(_plain(" ".join(text.split()))).replace("|", "\\|")


def members(name: str, thing: Any, shown: dict[str, tuple[str, str]]) -> list[str]:
    """The sections of the methods of a class, or of the functions of a module."""
    if isinstance(thing, ModuleType):
        rows = "".join(
            f"| `{key}{_short(value)}` | {_cell(purpose(value))} |\n" for key, value in sorted(public_of(thing).items())
        )
        return [f"| in `gvfx.{name}` | what it does |\n|---|---|\n{rows}"]
    found = []
    for key, value in members_of(name, thing):
        if isinstance(value, property):
            continue
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        found.append(entry(f"{name}.{key}", plain, shown, 3))
    properties = [(key, value) for key, value in members_of(name, thing) if isinstance(value, property)]
    if properties:
        rows = "".join(f"| `{key}` | {_cell(purpose(value))} |\n" for key, value in properties)
        found.append(f"### Properties of {name}\n\n| property | what it is |\n|---|---|\n{rows}")
    return found


def _short(thing: Any) -> str:
    """The names of the arguments alone."""
    if isinstance(thing, type):
        return ""
    return f"({', '.join(inspect.signature(thing).parameters)})"


def group_page(page: str) -> str:
    title, names = GROUPS[page]
    first, shown = examples()
    parts = [f"# {title}\n\n{BY}"]
    needed = first[first.index("env = ") :].strip()
    for name in names.split():
        thing = public(name)
        parts.append(entry(name, thing, shown))
        if name in METHODS or isinstance(thing, ModuleType):
            parts += members(name, thing, shown)
    parts.append(f"## What the examples begin with\n\n```python\n{_imports(first)}\n\n{needed}\n```\n")
    return "\n".join(parts)


def _imports(first: str) -> str:
    return "\n".join(ast.unparse(node) for node in ast.parse(first).body if isinstance(node, ast.Import | ast.ImportFrom))


def index_page() -> str:
    parts = [
        f"# API\n\n{BY}\nEvery public name of `gvfx` and `gvfx_paper`, with a line that says what it is for. Each has its "
        "signature, its "
        "shapes where it has arrays, and an example that is run by a test. Arrays are NumPy's; `[seed, t, gvf]` names their "
        "axes, in this order: seeds of the run, times of measurement, questions.\n"
    ]
    for page, (title, names) in GROUPS.items():
        rows = "".join(f"| [`{name}`]({page}.md#{name.lower()}) | {_cell(purpose(public(name)))} |\n" for name in names.split())
        parts.append(f"## {title}\n\n| name | what it is for |\n|---|---|\n{rows}")
    return "\n".join(parts)


# --- the command line --------------------------------------------------------------------------------------------

EXIT_CODES = """| code | when |
|---|---|
| 0 | the command did what was asked |
| 1 | a run failed, or a file is damaged or cannot be read or written |
| 2 | invalid input: one sentence on stderr says what to change |
| 130, 143 | stopped by Ctrl-C or SIGTERM, after what was learned so far is saved |
"""


def command_page() -> str:
    """Every command with its arguments, options, defaults and examples."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="gvfx")
    parts = [
        f"# The command line\n\n{BY}\n{group.help}\n\n`gvfx COMMAND --help` shows the same in a terminal, `gvfx --version` the "
        "version, and `gvfx --install-completion` makes Tab complete commands, settings, behaviours and items.\n\n"
        f"## Exit codes\n\n{EXIT_CODES}"
    ]
    parts += [command_section(f"gvfx {name}", group.get_command(context, name), context) for name in group.list_commands(context)]
    return "\n".join(parts)


def command_section(name: str, command: Any, parent: typer.Context) -> str:
    context = typer.Context(command, info_name=name.removeprefix("gvfx "), parent=parent)
    parts = [f"## {name}", inspect.cleandoc(command.help or "").replace("\f", "").strip()]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]
    usage = [name, *(_argument(p) if p.required else f"[{_argument(p)}]" for p in arguments), *(["[OPTIONS]"] if options else [])]
    parts.append(f"```text\n{' '.join(usage)}\n```")
    if hasattr(command, "list_commands"):
        below = [(key, command.get_command(context, key)) for key in command.list_commands(context)]
        return "\n\n".join(parts) + "\n\n" + "\n".join(command_section(f"{name} {key}", one, context) for key, one in below)
    for title, rows in (("argument", arguments), ("option", options)):
        if rows:
            lines = "".join(_parameter(row) for row in rows)
            parts.append(f"| {title} | what it does | default |\n|---|---|---|\n{lines}".rstrip())
    told = [line.strip() for line in (command.epilog or "").splitlines() if line.strip().startswith("gvfx")]
    if told:
        parts.append("```sh\n" + "\n".join(told) + "\n```")
    return "\n\n".join(part for part in parts if part) + "\n"


def _argument(given: Any) -> str:
    return (given.metavar or given.name).upper() + (" ..." if given.nargs == -1 else "")


def _parameter(given: Any) -> str:
    if given.param_type_name == "argument":
        name = _argument(given)
    else:
        name = ", ".join([*given.opts, *given.secondary_opts])
        if not given.is_flag:
            name += f" {_metavar(given)}"
    default = given.default() if callable(given.default) else given.default
    shown = "" if given.required or default is False or default in (None, (), []) else f"`{default}`"
    again = " May be repeated." if getattr(given, "multiple", False) else ""
    name = name.replace("|", "\\|")
    return f"| `{name}` | {_cell(given.help or '')}{again} | {'required' if given.required else shown} |\n"


def _metavar(given: Any) -> str:
    return str(given.metavar or "NAME")


def written() -> dict[str, str]:
    """Every page by its file name."""
    return {"api.md": index_page(), "cli.md": command_page(), **{f"{page}.md": group_page(page) for page in GROUPS}}


if __name__ == "__main__":
    for name, text in written().items():
        (HERE / name).write_text(text, "utf-8")
