"""Every item that `gvfx reproduce` can make, collected from the modules that build them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gvfx.errors import UnknownName
from gvfx.reproduce import ablations, grid, grid_tuning, headline, limit, limit_continuous, mujoco, successor, tables, tabular
from gvfx.reproduce.base import Item
from gvfx.reproduce.curves import AnyCurve, Tuned
from gvfx.reproduce.curves import load_tuned as load_tuned
from gvfx.reproduce.curves import sweep_curves as sweep_curves

MODULES = (
    tables,
    tabular,
    ablations,
    successor,
    grid,
    grid_tuning,
    mujoco,
    limit,
    limit_continuous,
    headline,
)  # each has GROUP and ITEMS


def registered() -> dict[str, Item]:
    """The items of all modules by name, in their order."""
    listed = [item for module in MODULES for item in module.ITEMS]
    twice = [name for name, count in Counter(item.name for item in listed).items() if count > 1]
    if twice:
        raise ValueError(f"name: more than one item is called {', '.join(twice)}; give each item a name of its own.")
    return {item.name: item for item in listed}


ITEMS = registered()


def groups() -> dict[str, list[str]]:
    """The names of the items by group; a group can have several modules."""
    names: dict[str, list[str]] = {}
    for module in MODULES:
        names.setdefault(module.GROUP, []).extend(item.name for item in module.ITEMS)
    return names


def chosen_items(names: list[str]) -> list[Item]:
    """Items by their names or the names of their groups, each once."""
    known = groups()
    listed: list[str] = []
    for name in names:
        if name not in ITEMS and name not in known:
            raise UnknownName("item", name, [*ITEMS, *known])
        listed += known.get(name, [name])
    return [ITEMS[name] for name in dict.fromkeys(listed)]


def curves_with_seeds(items: list[Item], tuned: Tuned, seeds: int | None) -> Iterator[tuple[AnyCurve, int]]:
    """Every curve that the items need, with the most seeds that any of them asks for."""
    most: dict[AnyCurve, int] = {}
    for item in items:
        for curve in item.needs(tuned):
            most[curve] = max(most.get(curve, 0), item.seeds if seeds is None else seeds)
    yield from most.items()
