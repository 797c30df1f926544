"""What the demonstrations' notebooks and pages show: answers as a table and a picture, and what the behaviour did."""

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

OURS, THEIRS, TRUE = "#212529", "#1c7ed6", "#c2255c"


class Recorded(gym.Wrapper):
    """Keeps what happened: the observations in which something was done, the actions, and whether an episode ended there."""

    def __init__(self, env):
        super().__init__(env)
        self.observations, self.actions, self.ends, self.now = [], [], [], None

    def reset(self, **options):
        self.now, info = self.env.reset(**options)
        return self.now, info

    def step(self, action):
        self.observations.append(self.now)
        self.actions.append(int(action))
        self.now, reward, terminated, truncated, info = self.env.step(action)
        self.ends.append((terminated, truncated))
        return self.now, reward, terminated, truncated, info


def by_policy(result, demo):
    """Value, low and high at the start, [policy, signal] each."""
    answers = [result.value()[name] for name in result.names]
    shape = (len(demo.POLICIES), len(demo.SIGNALS))
    return tuple(np.reshape([getattr(a, part) for a in answers], shape) for part in ("value", "low", "high"))


def table(result, demo):
    """Print the answers, one line per policy and one column per signal."""
    value, low, high = by_policy(result, demo)
    width = max(map(len, demo.POLICIES))
    print(" " * width, *(f"{what:>16}" for what in demo.SIGNALS))
    for who, *rows in zip(demo.POLICIES, value, low, high):
        cells = (f"{v:.3g} ± {(b - a) / 2:.2g}" if np.isfinite(b - a) else f"{v:.3g} (not sure)" for v, a, b in zip(*rows))
        print(f"{who:<{width}}", *(f"{cell:>16}" for cell in cells))


def forest(panels, demo, value, low, high, true=None, source="exact"):
    """Draw the answers with their intervals, one panel per signal; true [policy, signal]: compared with, from `source`."""
    names = list(demo.POLICIES)
    for k, (panel, what) in enumerate(zip(panels, demo.SIGNALS)):
        at = np.arange(len(names))[::-1]
        ends = np.abs(np.stack([low[:, k], high[:, k]]) - value[:, k])
        sure = np.isfinite(ends).all(axis=0)
        panel.errorbar(value[sure, k], at[sure], xerr=ends[:, sure], fmt="o", ms=4, color=OURS, label="gvfx, 95 %")
        if not sure.all():
            panel.plot(value[~sure, k], at[~sure], "o", ms=4, mfc="white", color=OURS, label="gvfx, not sure yet")
        if true is not None:
            panel.plot(true[:, k], at, "|", ms=12, mew=2, color=TRUE, label=source)
        panel.set_yticks(at, names if k == 0 else [""] * len(names))
        panel.set_title(what, fontsize=10)
        panel.grid(axis="x", color="#e9ecef")
        panel.spines[["top", "right"]].set_visible(False)


def answers_figure(result, demo):
    """One picture of all answers of a run."""
    fig, panels = plt.subplots(
        1, len(demo.SIGNALS), figsize=(3 * len(demo.SIGNALS), 0.32 * len(demo.POLICIES) + 1), layout="constrained", dpi=80
    )
    forest(panels, demo, *by_policy(result, demo))
    return fig


def steps_figure(demo, run, true, source, needed):
    """The answers of one run and the true values, from `source`, above the steps that rollouts of each policy need [policy]."""
    many, tall = len(demo.SIGNALS), 0.32 * len(demo.POLICIES) + 0.6
    fig = plt.figure(figsize=(9, tall + 1.9), layout="constrained", dpi=140)
    grid = fig.add_gridspec(2, many, height_ratios=[tall, 1.1])
    panels = [fig.add_subplot(grid[0, k]) for k in range(many)]
    forest(panels, demo, run["value"], run["low"], run["high"], true, source)
    labels = {label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels())}
    fig.legend(labels.values(), labels.keys(), loc="outside upper right", ncols=3, frameon=False)
    panel, left = fig.add_subplot(grid[1, :]), 0.0
    for k, steps in enumerate(needed):
        panel.barh(1, steps, left=left, color=THEIRS, alpha=0.45 + 0.5 * (k % 2), height=0.7)
        left += steps
    panel.barh(0, demo.STEPS, color=OURS, height=0.7)
    for at, steps in ((0, demo.STEPS), (1, left)):
        panel.text(steps, at, f" {steps:,.0f}", va="center")
    panel.set_yticks([0, 1], ["gvfx, all policies", "rollouts, one policy\nafter another"])
    panel.set_title("environment steps for intervals as narrow as these", fontsize=10)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set(ylim=(-0.6, 1.6), xlim=(0, 1.12 * max(left, demo.STEPS)))
    panel.xaxis.set_major_formatter("{x:,.0f}")
    return fig
