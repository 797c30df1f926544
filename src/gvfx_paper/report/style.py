"""Colours by method and labels of axes, shared by the PNG files and the HTML page."""

from __future__ import annotations

from typing import Any

from gvfx.report.page import SPARE

COLOURS = {  # one hue per method, readable side by side and in grey
    "GVFExplorer": "#c2255c",
    "RoundRobin": "#1c7ed6",
    "Mixture": "#0ca678",
    "Uniform": "#868e96",
    "SR": "#f08c00",
    "BPS": "#7048e8",
    "OptimalDesign": "#212529",
    "SecondMoment": "#f76707",
    "CharacteristicTime": "#0b7285",
    "RobustSampling": "#9775fa",
    "Explorer+Uniform": "#5f3dc4",
}
SAFE = ("#d55e00", "#cc79a7", "#6c757d", "#0072b2", "#212529")  # distinguished with every kind of colour vision, in this order
MAP = "inferno"
GOAL = "#51cf66"
START = "#fa5252"  # where a trajectory starts
PATHS = ["#74c0fc", "#ffffff", "#ffd43b", "#faa2c1", "#63e6be"]  # of trajectories over a map


def colour(name: str, index: int = 0) -> str:
    """A method's colour; unknown names take spare ones in order."""
    return COLOURS.get(name, SPARE[index % len(SPARE)])


def shades(hue: str, count: int) -> list[str]:
    """Shades of one colour '#rrggbb', from light to dark."""
    parts = [int(hue[k : k + 2], 16) for k in (1, 3, 5)]
    lights = [0.6 - 1.15 * k / max(count - 1, 1) for k in range(count)]  # 1 is white, -1 black
    mixed = [[round(p + (255 - p) * light if light > 0 else p * (1 + light)) for p in parts] for light in lights]
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in mixed]


def steps_label(value: float, _position: Any = None) -> str:
    """1500000 -> '1.5M'."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"
