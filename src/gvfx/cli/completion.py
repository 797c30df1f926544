"""Names that the shell completes.  The library is imported only when a name is asked for that it alone knows."""

from __future__ import annotations

from collections.abc import Iterable

from gvfx import benchmarks
from gvfx.names import HOME_OF, SHORT_NAMES


def _starting(names: Iterable[str], begun: str) -> list[str]:
    return [name for name in names if name.startswith(begun)]


def _public(package: str) -> list[str]:
    """The public names that live in a package, without the base class."""
    homes = {name: home for name, home in HOME_OF.items() if home.startswith(f"{package}.")}
    return [name for name, home in homes.items() if home != f"{package}.base"]


def behaviours(incomplete: str) -> list[str]:
    """Behaviours by class name and by the paper's short name."""
    return _starting([*_public("gvfx.behaviours"), *SHORT_NAMES.values()], incomplete)


def learners(incomplete: str) -> list[str]:
    """Learners by class name."""
    return _starting(_public("gvfx.learners"), incomplete)


def benchmark_names(incomplete: str) -> list[str]:
    """What `gvfx bench` can measure."""
    return _starting(benchmarks.names(), incomplete)


def settings(incomplete: str) -> list[str]:
    """All settings of the paper."""
    from gvfx.experiments.compare import SETTINGS

    return _starting(SETTINGS, incomplete)


def tabular_settings(incomplete: str) -> list[str]:
    """The paper's settings that are tabular."""
    from gvfx.experiments.settings.tabular import paper

    return _starting(paper, incomplete)


def items(incomplete: str) -> list[str]:
    """Tables and figures, and their groups."""
    from gvfx.reproduce.items import ITEMS, groups

    return _starting([*ITEMS, *groups()], incomplete)


def presets(incomplete: str) -> list[str]:
    """The presets of `gvfx run`."""
    return _starting(("paper", "authors", "stabilised", "recommended"), incomplete)


def domains(incomplete: str) -> list[str]:
    """The MuJoCo worlds."""
    from gvfx.worlds.mujoco import DOMAINS

    return _starting(DOMAINS, incomplete)
