"""One store of made-up results for all tests of this folder."""

from __future__ import annotations

import json

import pytest
from helpers.results import SEEDS, TUNED, made_up_part

from gvfx.experiments.store import Store
from gvfx.tensors import pack
from gvfx_paper.items import ITEMS, Source, curves_with_seeds, headline, limits
from gvfx_paper.items.curves import load_tuned, seeds_of
from gvfx_paper.items.output import available


@pytest.fixture(scope="session", autouse=True)
def coarse_limits():
    """The limit of the continuous grid on few cells, which is fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SIDE", 20)
        patch.setattr(limits, "SIDES", (20,))
        patch.setattr(headline, "SIDE", 20)
        yield


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """The folder of a store that holds every experiment of every item."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "tuned.json").write_text(json.dumps(TUNED))
    store = Store(folder)
    tuned = load_tuned(folder)
    for curve, seeds in curves_with_seeds(list(ITEMS.values()), tuned, SEEDS):
        for seed in seeds_of(curve, seeds):
            raw = pack(made_up_part(curve, seed).arrays(), {"experiment": curve.experiment.hash, "seed": str(seed)})
            store.save(curve.experiment, seed, raw)
    return folder


@pytest.fixture(scope="session")
def source(results):
    return Source(Store(results), SEEDS, load_tuned(results))


@pytest.fixture(scope="session")
def built(source):
    """The exhibits of every item."""
    return available(source)
