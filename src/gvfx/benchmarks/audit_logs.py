"""Audits of logs: how often audited intervals of start values contain the truth, and how wide they are beside plain Monte Carlo.

A log has episodes of random actions, and 30 % that followed the target policy, which `policy` names.  Monte Carlo is Student's t
interval of the discounted returns of those episodes alone.  Run it with `gvfx bench audit_logs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.evidence.audits import quantile

FIRST_SEED = 8000
FULL, QUICK = 200, 25  # logs of each size in each world
EPISODES = (60, 300)  # of a log
SHARE, HORIZON = 0.3, 100  # of the episodes that follow the target policy; steps after which an episode is truncated
COVERED = 0.93
WIDTH = 1.2  # with few episodes, intervals of returns are too narrow


@dataclass(frozen=True)
class Case:
    """A world, the target policy [state, action], and the mean and the noise of the reward [state, action, successor]."""

    name: str
    world: gvfx.MDP
    policy: np.ndarray
    mean: np.ndarray
    sd: float
    gamma: float

    @property
    def truth(self) -> float:
        """The exact value at the start."""
        world, going = self.world, ~self.world.terminal
        share = self.policy[:, :, None] * world.prob
        P, c = np.zeros((world.states, world.states)), (share * self.mean).sum(axis=(1, 2))
        np.add.at(P, (np.arange(world.states)[:, None, None], world.next), share * going[world.next])
        return float(world.start @ np.linalg.solve(np.eye(len(P)) - self.gamma * P, np.where(going, c, 0.0)))


class Measured(NamedTuple):
    """Over logs: shares of intervals that contain the truth, audited and of Monte Carlo; half-widths, [log] each."""

    covered: float
    covered_returns: float
    half: np.ndarray
    half_returns: np.ndarray
    answered: np.ndarray  # of the log's own intervals; infinite where it is not sure

    @property
    def ratio(self) -> float:
        """The median of the audited half-widths over those of Monte Carlo."""
        return float(np.median(self.half / self.half_returns))


def cases() -> list[Case]:
    """FrozenLake, whose episodes begin in one state, and a random MDP with noisy rewards whose episodes begin in six."""
    lake = gvfx.from_gymnasium(gymnasium.make("FrozenLake-v1"))
    careful = np.eye(4)[[0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]]
    goal = 1.0 * (lake.next == 15) * ~lake.terminal[:, None, None]
    rng = np.random.default_rng(2)
    P = np.zeros((21, 3, 21))
    for s in range(20):
        for a in range(3):
            P[s, a, rng.choice(20, 4, replace=False)] = 0.95 * rng.dirichlet(np.ones(4))
    P[:, :, 20] = 1 - P[:, :, :20].sum(axis=2)
    world = gvfx.MDP.from_matrix(P, start=np.where(np.arange(21) < 6, 1 / 6, 0.0), terminal=np.arange(21) == 20)
    paid = np.broadcast_to(rng.normal(size=(21, 3, 1)), world.next.shape)
    return [
        Case("FrozenLake", lake, 0.9 * careful + 0.025, goal, 0.0, 0.95),
        Case("random MDP", world, rng.dirichlet(np.ones(3), size=21), paid, 0.5, 0.95),
    ]


def log_of(case: Case, episodes: int, seed: int) -> dict[str, list[object]]:
    """A log with episodes of random actions and, at random, of the target policy."""
    rng, world = np.random.default_rng(seed), case.world
    chosen, moves = np.cumsum(case.policy, axis=1), np.cumsum(world.prob, axis=2)
    columns: dict[str, list[object]] = {}
    for _ in range(episodes):
        on, s = rng.random() < SHARE, int(rng.choice(world.states, p=world.start))
        for t in range(HORIZON):
            drawn = rng.random(2)
            a = (
                min(int(np.searchsorted(chosen[s], drawn[0], "right")), world.actions - 1)
                if on
                else int(drawn[0] * world.actions)
            )
            k = min(int(np.searchsorted(moves[s, a], drawn[1], "right")), world.successors - 1)
            after = int(world.next[s, a, k])
            ends = bool(world.terminal[after])
            row = {"observation": s, "action": a, "next_observation": after, "terminated": ends}
            row |= {"reward": case.mean[s, a, k] + case.sd * rng.standard_normal(), "truncated": t == HORIZON - 1 and not ends}
            for name, entry in {**row, "policy": "target" if on else None}.items():
                columns.setdefault(name, []).append(entry)
            s = after
            if ends:
                break
    return columns


def returns_of(log: dict[str, list[object]], gamma: float) -> np.ndarray:
    """The discounted returns of the episodes that followed the target policy."""
    out, weight, paid = [], 1.0, 0.0
    for policy, reward, ends, cut in zip(log["policy"], log["reward"], log["terminated"], log["truncated"], strict=True):
        if policy:
            paid, weight = paid + weight * float(reward), weight * gamma  # type: ignore[arg-type]
            if ends or cut:
                out.append(paid)
                paid, weight = 0.0, 1.0
    return np.array(out)


def logs(case: Case, episodes: int, seeds: range) -> Measured:
    """Audited intervals and those of Monte Carlo over logs with these seeds."""
    question, truth = gvfx.GVF(case.policy, gvfx.Reward(), case.gamma, name="target"), case.truth
    rows = []
    for seed in seeds:
        log = log_of(case, episodes, seed)
        result = gvfx.evaluate_log({**log, "states": case.world.states, "actions": case.world.actions}, [question])
        audit, returns = result.audit()["target"], returns_of(log, case.gamma)
        half = float(quantile(np.array(len(returns) - 1.0), 0.95)) * returns.std(ddof=1) / np.sqrt(len(returns))
        assert result.starts is not None
        away = abs(audit.value - truth) <= audit.half, abs(returns.mean() - truth) <= half
        rows.append((*away, audit.half, half, 1.96 * result.starts[0, 0, 1]))
    covered, plain, *halves = np.array(rows, float).T
    return Measured(float(covered.mean()), float(plain.mean()), *halves)


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure both kinds of intervals in every world; prints the tables."""
    many = QUICK if quick else FULL
    title = (
        f"95 % intervals of the value at the start from logs, {SHARE:.0%} of whose episodes follow the policy: {many} logs each"
    )
    columns = ("world", "episodes", "coverage", "of returns", "half-width", "of returns", "ratio", "the answer's own")
    table = Table(*columns, title=title, title_justify="left")
    found: dict[str, list[Measured]] = {}
    with console.status("running") as status:
        for case in cases():
            for episodes in EPISODES:
                status.update(f"{case.name}, {episodes} episodes")
                m = logs(case, episodes, range(FIRST_SEED, FIRST_SEED + many))
                found.setdefault(case.name, []).append(m)
                own = np.isfinite(m.answered)
                middle = f"{np.median(m.answered[own]):.3g} " if own.any() else ""
                halves = (f"{np.median(half):.3g}" for half in (m.half, m.half_returns))
                shares = (f"{m.covered:.1%}", f"{m.covered_returns:.1%}")
                table.add_row(case.name, str(episodes), *shares, *halves, f"{m.ratio:.3g}", f"{middle}({own.mean():.0%} finite)")
    console.print(table)
    rows = []
    for name, each in found.items():
        covered = float(np.mean([m.covered for m in each]))
        rows.append(
            Row(f"{name}: coverage", f"{covered:.1%}", f">= {COVERED:.0%}", covered >= COVERED, f"{many * len(each)} logs")
        )
        rows.append(at_most(f"{name}: half-width over that of returns", max(m.ratio for m in each), WIDTH, "x", "largest median"))
    console.print(as_table(rows))
    console.print(machine())
    return rows
