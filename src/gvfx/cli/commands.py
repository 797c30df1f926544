"""The library's commands: evaluate, log, plan, check, truth, report, init, list and cache (`gvfx.cli.options` reads them)."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gvfx.cli import options
from gvfx.cli.options import Count, JsonFile, Number, Outputs, Seeds, Target, add
from gvfx.cli.terminal import check_output, finite, make_console, make_table, wait_for_steps, write_json, write_outputs
from gvfx.compilation.folder import KINDS, Folder, current
from gvfx.errors import InputError, RunError, Unsaved, printable
from gvfx.files import write_new

if TYPE_CHECKING:
    from gvfx.questions.gvf import GVF
    from gvfx.running.result import Result


# --- Commands for your own environment and questions: check and truth -----------------------------------------------


def check(target: Target, *, steps: Count = 1000, json: JsonFile | None = None) -> None:
    """Find mistakes in your environment and questions before the first run; exit code 2 if there are errors.

    steps: Number of random steps to try.

        gvfx check my_module:make
        gvfx check FrozenLake-v1 --questions questions.toml
    """
    from gvfx.running.check import check as find

    loaded = target.load()
    findings = find(loaded.make, loaded.questions, steps)
    console = make_console(json)
    console.say(*map(str, findings))
    errors = sum(finding.severity == "error" for finding in findings)
    console.say(f"{errors} errors, {len(findings) - errors} warnings" if findings else "no mistakes found")
    found = {"target": target.target, "findings": [dataclasses.asdict(finding) for finding in findings]}
    write_outputs(console, ("--json", json, lambda place: write_json(place, found)))
    if errors:
        raise typer.Exit(2)


def truth(
    target: Target,
    *,
    points: Annotated[int, options.count(most=options.MOST_POINTS)] | None = None,
    precision: Number | None = None,
    absolute: Number | None = None,
    relative: Number | None = None,
    max_episodes: Annotated[int, options.count(least=2)] = 10_000,
    json: JsonFile | None = None,
) -> None:
    """Estimate the true answers to your questions by Monte Carlo, with standard errors.

    points: Evaluate at N states sampled by random walks (default: the start state).
    precision: Add episodes until the standard error is below this share of the value, such as 0.01.
    absolute: Add episodes until the standard error itself is below this.
    relative: Old name of --precision.
    max_episodes: Maximum number of episodes per point and policy.

        gvfx truth my_module:make --points 20 --precision 0.01
    """
    from gvfx.theory.monte_carlo import truth_of

    loaded, share = target.load(), relative if precision is None else precision
    found = truth_of(loaded.make(), loaded.required(), points, precision=absolute, relative=share, max_episodes=max_episodes)
    table = make_table("GVF", "at", "value", "standard error", "truncation error, at most", "episodes")
    for i, name in enumerate(found.names):
        for j, point in enumerate(found.points):
            numbers = (found.values[i, j], found.standard_errors[i, j], found.residuals[i, j])
            table.add_row(name, f"{point}", *(f"{x:.4g}" for x in numbers), f"{found.episodes[i, j]:,}")
    console = make_console(json)
    console.print(table)
    if (absolute or share) and not found.precise.all():
        console.say(f"The precision was not reached everywhere within {max_episodes:,} episodes; increase --max-episodes.")
    write_outputs(console, ("--json", json, lambda place: write_json(place, found.to_json())))


# --- Commands that answer questions: evaluate about your own environment, log from recorded transitions ----------------


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What `gvfx.evaluate` takes, under the same names.

    seeds: Number of independent runs.
    seed: Run this one seed.
    behaviour: A behaviour by class name (default: chosen from the observation space).
    learner: A learner by class name (default: chosen from the observation space).
    audit: Share of the steps that check the values at the start, such as 0.15.
    calibrate: Count every question relative to its own size, its mean square value.
    evaluate_every: Steps between measurements (default: twenty per run).
    track: Send every measurement to a file of JSON lines, to tensorboard:FOLDER or to wandb:PROJECT (offline); may be repeated.
    workers: Parallel runs; more than 1 only where the transition table is known.
    progress: Show or hide the progress bar (default: in a terminal).
    """

    steps: options.Steps = 100_000
    seeds: Seeds = 1
    seed: options.Seed | None = None
    behaviour: options.NamedBehaviour | None = None
    learner: options.NamedLearner | None = None
    until: options.Until | None = None
    where: options.Where | None = None
    audit: options.Share | None = None
    calibrate: bool = False
    evaluate_every: Count | None = None
    checkpoint: options.Checkpoint | None = None
    checkpoint_every: options.Seconds | None = None
    track: options.Trackers = ()
    workers: Annotated[int, options.count(most=options.MOST_WORKERS)] = 1
    progress: bool | None = None


def evaluate(target: Target, run: RunOptions, out: Outputs) -> None:
    """Answer the questions about your environment from one stream of experience, with intervals.

    Exit codes: 0, also if --until was not met within the steps; 1 if the run failed; 2 if the input is invalid; 130 after Ctrl-C.

        gvfx evaluate my_questions.py:make --steps 20000 --report answers.html
        gvfx evaluate my_module:make --until 0.01 --where start --save answers.gvfx --checkpoint run
        gvfx evaluate FrozenLake-v1 --questions questions.toml --json -
    """
    from gvfx.running.evaluate import evaluate as answer

    loaded = target.load()
    wait_for_steps()
    world, questions = loaded.make(), loaded.required()
    _answered(lambda: answer(world, questions, save=out.save, **vars(run)), out, Path(target.target), {"target": target.target})


def log(
    file: options.InputFile,
    *,
    questions: options.Questions,
    trust: options.Trust = False,
    where: options.Where | None = None,
    audit: bool = True,
    out: Outputs,
) -> None:
    """Answer the questions from recorded transitions, with intervals and what to collect next.

    Columns: observation (or observation_0, observation_1, ...), action, next_observation, terminated, and reward, truncated,
    behaviour_prob, policy and further signals if there are any.

    file: A CSV or Parquet file with a row per transition.
    audit: Use logged episodes of a target policy (column `policy`) to check its estimate.

        gvfx log runs.csv --questions questions.toml
        gvfx log runs.parquet --questions questions.toml --json -
    """
    from gvfx.questions.written import questions_in
    from gvfx.running.logs import evaluate_log

    asked = questions_in(questions, trust)
    _answered(lambda: evaluate_log(file, asked, where=where, audit=audit, save=out.save), out, file, {"log": str(file)})


def _answered(run: Callable[[], Result], out: Outputs, source: Path, named: dict[str, object]) -> None:
    """Run, and show and write the answers; a result that could not be saved is shown all the same."""
    from gvfx.report.result_page import write_answers
    from gvfx.running.drive import Interrupted

    unsaved = ""
    try:
        result = run()
    except Unsaved as error:
        result, unsaved = error.result, str(error)
    except (RunError, Interrupted) as stop:
        if out.save is not None and stop.result is not None and out.save.is_file():
            print(printable(f"gvfx: what was learned so far is in {out.save}."), file=sys.stderr)
        raise
    console = make_console(out.json)
    console.say(*result.summary().splitlines())
    if out.save is not None and not unsaved:
        console.say(f"wrote {out.save}")
    write_outputs(
        console,
        ("--report", out.report, lambda place: write_answers(place, result, out.save or source)),
        ("--json", out.json, lambda place: write_json(place, named | as_json(result))),
        failed=unsaved,
    )


def as_json(result: Result) -> dict[str, object]:
    """A result as plain data: the answers at the start and everywhere, the curves; numbers that are not finite become null."""
    details = result.details
    start = {} if details.starts is None else {name: value._asdict() for name, value in result.value().items()}
    stopped = {name: found.tolist() for name in ("stopped", "bounds", "reached") if (found := getattr(details, name)) is not None}
    collect = {"collect": details.collect} if "collect" in details.experiment else {}
    plain: dict[str, object] = finite({"start": start, "answers": result.rows(), **stopped, **details.to_json(), **collect})
    return plain


# --- Command that forecasts how many steps an error needs: plan -----------------------------------------------------


@dataclass(frozen=True)
class SettingOrTarget(Target):
    """A setting of an installed package, or an environment of one's own.

    target: A setting of `gvfx list`; or your own: module:make, path/to/file.py:make, or a name registered with Gymnasium.
    """

    target: Annotated[str, options.Kind(complete=options.settings)]


def plan(
    target: SettingOrTarget,
    *,
    error: Number = 0.05,
    pilot: Annotated[int, options.count(least=0)] = 0,
    seed: options.Seed = 0,
    where: options.Where | None = None,
    json: JsonFile | None = None,
) -> None:
    """Forecast how many steps each behaviour needs to reach an error, with CertaintyEquivalence as the learner.

    error: The mean squared error to reach.
    pilot: Treat the environment as unknown and estimate it from a first run of N steps.
    seed: Random seed of the pilot run.

        gvfx plan distinct --error 0.05
        gvfx plan same --error 0.05 --pilot 100000
        gvfx plan my_module:make --error 0.01 --pilot 20000
        gvfx plan FrozenLake-v1 --questions questions.toml --error 0.001
    """
    from gvfx.running.costs import OPTIMUM
    from gvfx.running.costs import plan as make_plan

    title, world, asked, named = _setting_or_own(target)
    costs = make_plan(world, asked, error, pilot=pilot, seed=seed, where=where)
    best = costs[OPTIMUM].steps
    table = make_table("behaviour", "steps", "5% of runs by", "95% of runs by", "sure by", "times the optimum")
    for cost in costs.costs:
        numbers = [f"{n:,.0f}" if n < float("inf") else "never" for n in (cost.steps, cost.low, cost.high, cost.bounded)]
        table.add_row(cost.name, *numbers, f"{cost.steps / best:.3g}" if best else "-", style="bold" * (cost.name == OPTIMUM))
    console = make_console(json)
    source = f"world estimated from {pilot:,} steps of OptimalDesign" if pilot else "known world"
    counted = f" ({where if isinstance(where, str) else ','.join(map(str, where))})" if where else ""
    console.say("")
    console.say_titled(title, f", {source}: steps to a mean squared error of {error:g}{counted}")
    console.print(table)
    console.say(f"No behaviour needs fewer than {costs.bound:,.0f} steps. The row Mixture is also the forecast for RoundRobin.")
    console.say("steps: the expected error is reached; sure by: until=error_below stops, whose bound on the error is larger.")
    if costs.unseen:
        console.say(f"The pilot never acted in {costs.unseen} of the evaluation states; a longer pilot would cover more.")
    write_outputs(console, ("--json", json, lambda place: write_json(place, {**named, **costs.to_json()})))


def _setting_or_own(target: Target) -> tuple[str, Any, Sequence[GVF], dict[str, str]]:
    """The title, world and questions of a setting of the paper or of one's own, and how its JSON file names it."""
    from gvfx.cli.extensions import extensions
    from gvfx.cli.target import is_own

    for extension in extensions():
        if extension.find is not None and (target.target in extension.names() or not is_own(target.target)):
            chosen = extension.find(target.target)
            return chosen.title, chosen.world, chosen.questions, {"setting": chosen.name}
    loaded = target.load()
    return loaded.name, loaded.make(), loaded.required(), {"target": target.target}


# --- Command that writes a page: report -----------------------------------------------------------------------------


def report(
    folder: options.AnyPath = Path("results"),
    *,
    out: options.OutputFile | None = None,
    seeds: Seeds | None = None,
    questions: options.Questions | None = None,
    trust: options.Trust = False,
    steps: options.Steps = 100_000,
) -> None:
    """Write one self-contained HTML page about a results folder, one saved result, or your own environment and questions.

    folder: A results folder of `gvfx reproduce` or `gvfx sweep`, a file written by Result.save; or your own environment as in
        `gvfx evaluate`, which is then run.
    out: The HTML file (default: FOLDER/report.html, FILE with .html, or report.html).
    seeds: Use only the first N seeds (default: each item's own number).

        gvfx report results
        gvfx report answers.gvfx --out answers.html
        gvfx report my_module:make --steps 20000 --out answers.html
    """
    from gvfx.cli.extensions import extensions
    from gvfx.cli.target import is_own

    if not folder.is_dir() and (folder.suffix == ".py" or not folder.exists()) and is_own(str(folder)):
        page = out or Path("report.html")
        check_output(page, "--out")
        own = Target(str(folder), questions=questions, trust=trust)
        evaluate(own, RunOptions(steps=steps, seeds=seeds or 1), Outputs(report=page))
    elif folder.is_file():
        from gvfx.report.result_page import write_answers
        from gvfx.running.saved import load

        page = out or folder.with_suffix(".html")
        check_output(page, "--out")
        write_answers(page, load(folder), folder)
        make_console().say(f"wrote {page}")
    elif not folder.is_dir():
        raise InputError(f"folder: {folder} does not exist; run `gvfx reproduce tabular` first.")
    else:
        for extension in extensions():
            if extension.page is not None:
                extension.page(folder, out, seeds)


# --- Command that writes a file to start from: init -----------------------------------------------------------------


TEMPLATES = {".py": "environment.py", ".toml": "questions.toml"}


def init(file: options.AnyPath = Path("my_questions.py")) -> None:
    """Write a commented file to start from, which works as it is; refuses to overwrite a file.

    file: The file to write: .py for an environment and its questions, .toml for questions about a Gymnasium environment.

        gvfx init
        gvfx init my_robot.py
        gvfx init questions.toml
    """
    template = TEMPLATES.get(file.suffix)
    if template is None:
        raise InputError(f"file: {file} ends neither in .py nor in .toml; give a name that does.")
    text = resources.files("gvfx.cli").joinpath("templates", template).read_text(encoding="utf-8").replace(template, str(file))
    try:
        if not file.exists():
            check_output(file, "file")
        write_new(file, text.encode())
    except FileExistsError:
        raise InputError(f"file: {file} exists and is not overwritten; give another name.") from None
    except OSError as error:
        raise InputError(f"file: cannot write {file} ({error.strerror}); give another name.") from None
    asked = f"{file}:make" if file.suffix == ".py" else f"FrozenLake-v1 --questions {file}"
    make_console().say(f"wrote {file}; try: gvfx evaluate {asked} --steps 20000")


# --- Commands for the folder in which compiled code is kept: cache show, cache clear --------------------------------


cache = typer.Typer(
    help="Show or clear the folder in which compiled code is kept, so that a second start does not compile again.",
    epilog="The folder is GVFX_CACHE_DIR, or gvfx in the user's cache folder.",
    no_args_is_help=True,
)


def show() -> None:
    """Show the folder, what it holds and its size."""
    place = _folder()
    entries, console = place.entries(), make_console()
    table = make_table("compiled code", "entries", "MB")
    for kind, what in KINDS.items():
        sizes = [entry.size for entry in entries if entry.path.suffix == f".{kind}"]
        table.add_row(what, str(len(sizes)), f"{sum(sizes) / 1e6:.1f}")
    console.say(f"folder: {place.path}")
    console.print(table)
    console.say(f"limit: {place.limit / 1e6:.0f} MB; what was used least recently is removed first")


def clear() -> None:
    """Remove all compiled code; the next start compiles again."""
    place = _folder()
    make_console().say(f"removed {place.clear()} entries from {place.path}")


add(cache, show)
add(cache, clear)


def _folder() -> Folder:
    place = current()
    if place is None:
        raise InputError("cache: there is no folder for compiled code; set GVFX_CACHE_DIR to a new folder of yours.")
    return place


# --- Command that lists names: list ---------------------------------------------------------------------------------


def list_all() -> None:
    """List behaviours and learners, and what installed packages add: the paper's settings, tables and figures."""
    from gvfx.behaviours.base import Behaviour
    from gvfx.cli.extensions import extensions
    from gvfx.learners.base import Learner
    from gvfx.names import public_classes

    console = make_console()
    for kind, base in (("behaviour", Behaviour), ("learner", Learner)):
        table = make_table(kind, "what")
        for name, found in public_classes(base).items():
            table.add_row(name, first_line(found))
        console.print(table)
    for extension in extensions():
        if extension.show is not None:
            extension.show(console)


def first_line(thing: Any) -> str:
    return str((thing.__doc__ or "").strip().splitlines()[0])
