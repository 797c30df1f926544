"""Commands for the paper's experiments: sweep and reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gvfx.cli import checks, completion, options
from gvfx.cli.terminal import check_output, make_console, make_table, write_json


def sweep(
    setting: Annotated[
        list[str],
        typer.Argument(
            help="Settings to tune on: same, distinct, semi-greedy, fourrooms, fourrooms-visit, forty (default: these six); "
            "continuous.",
            autocompletion=completion.tabular_settings,
        ),
    ] = [],  # noqa: B006
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            help="Runs per learning rate (default: 10; continuous: 4).",
            callback=checks.count(most=checks.MOST_SEEDS),
        ),
    ] = None,
    results: options.Results = Path("results"),
    workers: options.Workers = None,
    cluster: options.Cluster = None,
    steal: options.Steal = False,
    verify: options.Verify = False,
) -> None:
    """Tune every method with the paper's protocol: the learning rate with the lowest MSE after two fifths of the steps."""
    import numpy as np

    from gvfx.cli.stored import run_missing
    from gvfx.experiments.settings.choices import checked
    from gvfx.experiments.settings.tabular import MAIN, paper
    from gvfx.experiments.store import Store
    from gvfx.report.statistics import short
    from gvfx.reproduce.curves import TUNED, load_tuned, seeds_of
    from gvfx.reproduce.source import Source
    from gvfx.reproduce.tuning import protocol

    names = [checked("setting", name, {**paper, "continuous": None}) for name in setting] or list(MAIN)
    store = Store(results)
    protocols = {name: protocol(name) for name in names}
    runs = [(c.experiment, seeds_of(c, seeds, p.seeds)) for p in protocols.values() for c in p.curves]
    tuned = {s: {m: list(rates) for m, rates in methods.items()} for s, methods in load_tuned(results).items()}
    check_output(results / TUNED, "--results")
    run_missing(store, runs, workers, cluster, steal=steal, verify=verify)
    console = make_console()
    for name, p in protocols.items():
        surface = p.errors(Source(store, seeds, {}))
        chosen = p.choose(surface)
        tuned[name] = {m: list(rates) for m, rates in chosen.items()}
        table = make_table("method", *(f"{q:g}" for q in p.rates), "chosen", "published")
        for method, errors in surface.items():
            both = errors.ndim == 2  # [rate of Q, rate of M]
            q, m = chosen.get(method, (np.nan, np.nan))
            row = np.fmin.reduce(errors, axis=1) if both else errors
            rate = "none" if np.isnan(q) else f"{q:g}, {m:g}" if both else f"{q:g}"
            table.add_row(method, *map(short, row), rate, p.published(method))
        console.say("")
        console.say_titled(name, f": MSE after {p.steps:,} steps by {p.axis}")
        console.print(table)
    write_json(results / TUNED, tuned)
    console.say("`gvfx reproduce` now also shows every method at the chosen rates.")


def reproduce(
    items: Annotated[
        list[str],
        typer.Argument(
            help="Items of `gvfx list`, e.g. table1 same drift, or a group: tabular, deep, mujoco, limit.",
            autocompletion=completion.items,
        ),
    ],
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            help="Runs per curve (default: each item's own number).",
            callback=checks.count(most=checks.MOST_SEEDS),
        ),
    ] = None,
    results: options.Results = Path("results"),
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for tables and figures (default: RESULTS/items).", callback=checks.output_folder),
    ] = None,
    workers: options.Workers = None,
    cluster: options.Cluster = None,
    device: options.Device = None,
    steal: options.Steal = False,
    verify: options.Verify = False,
) -> None:
    """Make tables and figures of the paper: run what is not stored yet, print tables, write Markdown and PNG files."""
    from gvfx.cli.stored import run_missing
    from gvfx.experiments.store import Store
    from gvfx.reproduce import Source, build, chosen_items, curves_with_seeds
    from gvfx.reproduce.curves import load_tuned, seeds_of
    from gvfx.reproduce.output import print_table, write_exhibits
    from gvfx.reproduce.source import AllDiverged

    chosen = chosen_items(items)
    folder = out or results / "items"
    check_output(folder / "table1.md", "--out")
    tuned = load_tuned(results)
    store = Store(results)
    runs = [(c.experiment, seeds_of(c, seeds, n)) for c, n in curves_with_seeds(chosen, tuned, seeds)]
    run_missing(store, runs, workers, cluster, device, steal, verify)
    console = make_console()
    for item in chosen:
        try:
            exhibits = build(item, Source(store, seeds, tuned))
        except AllDiverged as error:
            console.say(f"{item.name}: left out. {error}")
            continue
        for exhibit in exhibits:
            print_table(console, exhibit)
        for path in write_exhibits(folder, item, exhibits):
            console.say(f"wrote {path}")
