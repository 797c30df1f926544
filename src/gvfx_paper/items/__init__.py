"""The tables and figures of the paper and our own: what they need, how they are built, and the report of all of them.

An item is registered in the `ITEMS` of the module that builds it (`MODULES`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gvfx.errors import UnknownName
from gvfx_paper.items import deep, gridworlds, headline, limits, robots, tables
from gvfx_paper.items.curves import AnyCurve, Tuned
from gvfx_paper.items.exhibits import Build as Build
from gvfx_paper.items.exhibits import Item as Item
from gvfx_paper.items.exhibits import Source as Source
from gvfx_paper.items.exhibits import build as build

MODULES = (tables, gridworlds, deep, robots, limits, headline)  # each has its ITEMS


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
        names.setdefault(module.ITEMS.group, []).extend(item.name for item in module.ITEMS)
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
