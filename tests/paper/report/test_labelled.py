"""Curves with names at the ends of their lines: names keep apart and in order, and stand beside their lines."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gvfx.report.page import Curves, Provenance, Series
from gvfx_paper.report.figures import draw, spread


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [
        ([0.1, 0.5, 0.9], [0.1, 0.5, 0.9]),  # nothing to do
        ([0.5, 0.5], [0.45, 0.55]),
        ([0.9, 0.52, 0.5], [0.9, 0.56, 0.46]),
        ([0.3, 0.32, 0.45], [0.2567, 0.3567, 0.4567]),  # the first two push the third
    ],
    ids=str,
)
def test_names_keep_apart(wanted, placed):
    np.testing.assert_allclose(spread(np.array(wanted), 0.1), placed, atol=1e-3)


def test_a_figure_with_a_highlight_has_logarithmic_axes_and_no_legend():
    x, made = [10, 100, 1000], Provenance("c", "1", "v", "h")
    lines = [Series("first", [3.0, 2.0, 1.0], [2.0, 1.5, 0.5], [4.0, 3.0, 2.0], "#0072b2")]
    lines.append(Series("second", [1.0, 0.1, 0.01], [1.0, 0.1, 0.01], [1.0, 0.1, 0.01], "#d55e00", dashed=True))
    fig = draw(Curves("c", "Title", "ours", x, lines, "error", made, note="A note.", highlight="first"))
    (ax,) = fig.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log") and not fig.legends and ax.get_legend() is None
    names = {text.get_text(): text for text in ax.texts}
    assert set(names) == {"first: 1", "second: 0.01"} and names["first: 1"].get_fontweight() == "bold"
    thick, thin = (line.get_linewidth() for line in ax.lines)
    assert thick > thin
    plt.close(fig)
