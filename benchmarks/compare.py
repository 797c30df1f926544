"""Which policy is better: intervals of differences, and `until=gvfx.decided()` against rolling out each policy in turn.

differences: coverage, and width beside what the difference would have if its values came from separate data of this precision.
separate: one run beside two that share its steps.  best: decisions at 95 %, beside rollouts with a sequential test.  others: ties
with a margin, and thresholds.

Rollouts: every policy still in the race is rolled out equally often; looks share the probability of an error as `gvfx.decided`
does, and beaten policies are dropped.  Intervals are normal ones, in favour of the rollouts: those of a t test or an empirical
Bernstein bound are wider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.optimize

import gvfx
from benchmarks import study
from benchmarks.common.worlds import careful_policies, frozen_lake, garnet
from benchmarks.study import Asked, Found, Part, Row, Study, each, numbers
from gvfx.evidence.decisions import Decided, quantile
from gvfx.running.comparing import difference_errors

FIRST_SEED = 5000
TIMES, MOST = (20_000, 100_000), 1_000_000  # steps of differences; after which a decision is given up
CONFIDENCE = 0.95
COVERED = (0.93, 0.97)

# --- worlds with several policies to compare: variants of one policy, as versions of a policy are -----------------------


@dataclass(frozen=True)
class Case:
    """A world, and one question per policy about the same signal."""

    world: gvfx.MDP
    questions: list[gvfx.GVF]

    @property
    def truth(self) -> np.ndarray:
        """The value at the start of every policy, [policy]."""
        return gvfx.exact.values(self.world, self.questions) @ self.world.start

    @property
    def best(self) -> str:
        """The name of the best policy."""
        return str(self.questions[int(self.truth.argmax())].name)


def cases() -> dict[str, Case]:
    """Three worlds with three or four policies each: FrozenLake; a grid with a noisy goal, to which policies drift more or less;
    and twenty states with four successors of each pair, where noise of the rewards is drawn anew for every question."""
    grid, goal = gvfx.gridworld(8, goals={"goal": (0, 7)}, horizon=200), gvfx.Distractor(100, 5, at="goal")
    rows = {"fast": [0.1, 0.4, 0.4, 0.1], "high": [0.1, 0.35, 0.42, 0.13], "even": [0.14, 0.36, 0.36, 0.14]}
    rng = np.random.default_rng(1)
    world = gvfx.MDP.from_matrix(garnet(rng, 20, 3, 4), start=np.eye(20)[0], horizon=100)
    paid = gvfx.table_cumulant(rng.normal(size=(20, 3)), np.full((20, 3), 0.5))
    old = rng.dirichlet(np.ones(3), size=20)
    policies = [0.8 * old + 0.2 * rng.dirichlet(np.ones(3), size=20) for _ in range(4)]
    return {
        "FrozenLake": Case(*frozen_lake(0.95, careful_policies())),
        "grid 8x8": Case(grid, [gvfx.GVF(row, goal, 0.95, name=name) for name, row in rows.items()]),
        "random MDP": Case(world, [gvfx.GVF(pi, paid, 0.95, name=f"policy {k + 1}") for k, pi in enumerate(policies)]),
    }


def tied(case: Case) -> tuple[Case, float]:
    """Two different policies of a case with equal values, and a margin: half of the difference between its best and worst.

    They are the second-best policy and that mixture of the best and another one whose value equals it; the other one is the
    worst, with its actions exchanged in every second state.
    """
    truth, world = case.truth, case.world
    order = np.argsort(-truth)
    best, second, worst = (case.questions[i] for i in order[[0, 1, -1]])
    shape = (world.states, world.actions)
    tables = [np.array(np.broadcast_to(q.policy.table(*shape), shape)) for q in (best, worst)]
    tables[1][::2] = np.roll(tables[1][::2], 1, axis=1)

    def mixed(share: float) -> gvfx.GVF:
        return gvfx.GVF(share * tables[0] + (1 - share) * tables[1], best.cumulant, best.discount, name="mixed")

    def above(share: float) -> float:
        return float(gvfx.exact.values(world, [mixed(share)])[0] @ world.start - truth[order[1]])

    share = float(scipy.optimize.brentq(above, 0.0, 1.0, xtol=1e-14))
    return Case(world, [replace(second, name="second"), mixed(share)]), float(truth.max() - truth.min()) / 2


def threshold(case: Case) -> float:
    """A value between those of the two best policies."""
    return float(np.sort(case.truth)[-2:].mean())


# --- differences -----------------------------------------------------------------------------------------------------


def _run(asked: Asked, behaviour: gvfx.Behaviour, seeds: range, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values at the start [seed, gvf], standard errors of their differences [seed, gvf, gvf] and true values [gvf]."""
    result = gvfx.evaluate(*asked, behaviour, **study.at_end(steps, where="start", seeds=seeds))
    assert result.details.starts is not None
    errors = difference_errors(result.details)
    alone = result.details.starts[:, :, 1:2] if errors is None else errors  # [seed, 1, 1] of one question
    return result.details.starts[:, :, 0], alone, result.details.starts[0, :, 2]


def differences(worlds: dict[str, Case], count: int, times: Sequence[int]) -> Study:
    """Intervals of all differences of a case: how many hold, their median width over separate ones, and their number."""

    def measure(case: Case, way: tuple[gvfx.Behaviour, int]) -> dict[str, float]:
        value, errors, truth = _run((case.world, case.questions), way[0], study.seeds_from(FIRST_SEED, count), way[1])
        k, m = np.triu_indices(len(case.questions), 1)
        away = (value[:, k] - value[:, m]) - (truth[k] - truth[m])
        own, apart = errors[:, k, m], np.hypot(errors[:, k, k], errors[:, m, m])
        sure = np.isfinite(own)
        held, width = float((np.abs(away) < 1.96 * own)[sure].mean()), float(np.median(own[sure] / apart[sure]))
        return {"covered %": held, "width over separate intervals": width, "_count": int(sure.sum())}

    def bars(found: Found) -> Iterator[Row]:
        held, width, count = (numbers(each(found), of) for of in ("covered %", "width over separate intervals", "_count"))
        note = f"{count.sum():,.0f} intervals; from {held.min():.1%} to {held.max():.1%}"
        yield study.share_within("differences: coverage", float(held @ count / count.sum()), *COVERED, note)
        case = "differences: width over separate intervals of the same run"
        yield study.at_most(case, float(np.median(width)), 0.8, "x", f"median; from {width.min():.3g} to {width.max():.3g}")

    ways = {f"{b.__name__}: {t:,}": (b(), t) for b in (gvfx.Uniform, gvfx.OptimalDesign) for t in times}
    return Study(worlds, measure, bars, f"differences, {count} seeds", ("world", "behaviour", "steps"), ways)


def separate(worlds: dict[str, Case], count: int, steps: int) -> Study:
    """One run about two policies over two runs of half the steps about one policy each, with OptimalDesign.

    The ratio of the median widths of intervals, and that of the root mean squared errors; medians over pairs of policies.
    """

    def measure(case: Case) -> dict[str, float]:
        widths, errors, design = [], [], gvfx.OptimalDesign()
        alone = [  # separate runs have seeds of their own
            _run((case.world, [q]), design, study.seeds_from(FIRST_SEED + 1000 * i, count), steps // 2)
            for i, q in enumerate(case.questions, 1)
        ]
        for i, j in zip(*np.tril_indices(len(alone), -1), strict=True):
            pair = case.world, [case.questions[j], case.questions[i]]
            value, own, truth = _run(pair, design, study.seeds_from(FIRST_SEED, count), steps)
            widths.append(np.median(own[:, 0, 1]) / np.median(np.hypot(alone[i][1][:, 0, 0], alone[j][1][:, 0, 0])))
            together, rival = (a - b - (truth[0] - truth[1]) for a, b in (value.T, (alone[j][0][:, 0], alone[i][0][:, 0])))
            errors.append(np.sqrt((together**2).mean() / (rival**2).mean()))
        return {"width": float(np.median(widths)), "error": float(np.median(errors))}

    def bars(found: Found) -> Iterator[Row]:
        worst = float(numbers(found, "width").max())
        yield study.at_most("differences: width over two separate runs of half the steps", worst, 0.8, "x", "the worst world")

    return Study(worlds, measure, bars, f"one run over two separate runs of half its {steps:,} steps, {count} seeds", ("world",))


# --- decisions -------------------------------------------------------------------------------------------------------


def decisions(case: Case, rule: Decided, seeds: range, right: str, most: int = MOST) -> dict[str, Any]:
    """Runs that end by a rule: the number of wrong and of open ones, and the steps of each.

    right: what the sentence about the signal must contain.
    """
    with study.quietly():  # runs that are not decided are counted
        result = gvfx.evaluate(case.world, case.questions, **study.at_end(most, seeds=seeds, until=rule))
    assert result.stopped is not None and result.reached is not None
    told: list[list[str]] = result.details.experiment["decided"]  # type: ignore[assignment]
    wrong = sum(bool(ok) and right not in each[0] for ok, each in zip(result.reached, told, strict=True))
    return {"wrong": wrong, "open": int((~result.reached).sum()), "median steps": float(np.median(result.stopped))}


def wrong_ones(case: str, found: Found, count: int) -> Row:
    """The share of wrong decisions, of `count` runs in every case."""
    wrong, total = int(numbers(found, "wrong").sum()), count * len(found)
    return study.at_most(case, 100 * wrong / total, 5, "%", f"{wrong} of {total}")


def best(worlds: dict[str, Case], count: int, most: int = MOST) -> Study:
    """Decisions for the best policy, and rollouts in the form (of returns and looks) with the fewest steps."""

    def measure(case: Case) -> dict[str, Any]:
        seeds = study.seeds_from(FIRST_SEED, count)
        own = decisions(case, gvfx.decided(confidence=CONFIDENCE), seeds, f": {case.best} is the best", most)
        first, forms = int(case.truth.argmax()), []
        for returns, growth in product(RETURNS, GROWTHS):
            ended = [race(case, seed, CONFIDENCE, most, returns, growth) for seed in seeds]
            wrong = sum(one.best not in (None, first) for one in ended)
            forms.append((float(np.median([one.steps for one in ended])), wrong, f"{returns}, looks x {growth:g}"))
        rival, mistakes, form = min(forms)
        ratio = own["median steps"] / rival
        return own | {"of rollouts": rival, "ratio": ratio, "rollouts: wrong": mistakes, "rollouts: form": form}

    def bars(found: Found) -> Iterator[Row]:
        yield wrong_ones("decided(): wrong", found, count)
        worst = float(numbers(found, "ratio").max())
        yield study.at_most("decided(): steps over rollouts", worst, 0.5, "x", "medians, of the worst world")

    return Study(worlds, measure, bars, f"the best policy, decided at 95 %, {count} seeds", ("world",))


TIE, SIDE = "a tie, with a margin", "a threshold"


def others(worlds: dict[str, Case], count: int, most: int = MOST) -> Study:
    """Decisions about two policies with equal values, with a margin; and about the side of a threshold of every policy."""

    def measure(of: tuple[str, Case]) -> dict[str, Any]:
        (kind, case), seeds = of, study.seeds_from(FIRST_SEED, count)
        if kind == TIE:
            pair, margin = tied(case)
            rule = gvfx.decided(margin=margin, confidence=CONFIDENCE)
            return decisions(pair, rule, seeds, "no difference above the margin", most)
        rule = gvfx.decided(threshold=threshold(case), confidence=CONFIDENCE)
        return decisions(case, rule, seeds, f": {case.best} is above {threshold(case):g}, ", most)

    def bars(found: Found) -> Iterator[Row]:
        for kind in (TIE, SIDE):
            yield wrong_ones(f"decided(), {kind}: wrong", {n: of for n, of in found.items() if n.endswith(kind)}, count)

    cases = {f"{name}: {kind}": (kind, case) for kind in (TIE, SIDE) for name, case in worlds.items()}
    return Study(cases, measure, bars, f"ties and thresholds, {count} seeds", ("world", "question"))


# --- rollouts --------------------------------------------------------------------------------------------------------

FEWEST, CUT = 20, 0.01
GROWTHS = (1.15, 1.5)
Returns = Literal["discounted", "stopped"]
RETURNS: tuple[Returns, ...] = ("discounted", "stopped")


class Race(NamedTuple):
    """The policy that was decided for (None: not within the steps), and the steps of all rollouts."""

    best: int | None
    steps: int


class Rollouts:
    """Episodes of one question in a known world, in lockstep.

    Returns: "discounted", an episode ends with the world or when what follows counts less than `CUT`; or "stopped", it goes on
    with probability gamma after each step and rewards are added up undiscounted.  Both have the same mean.
    """

    def __init__(self, world: gvfx.MDP, question: gvfx.GVF, seed: int, returns: Returns = "discounted") -> None:
        self.world, self.rng, self.stopped = world, np.random.default_rng(seed), returns == "stopped"
        policy = question.policy.table(world.states, world.actions)
        self.policy = np.cumsum(np.broadcast_to(policy, (world.states, world.actions)), axis=1)
        self.moves = np.cumsum(world.prob, axis=2)
        tables = question.cumulant.tables(world)
        self.mean, self.sd = (np.broadcast_to(part, world.next.shape) for part in (tables.mean, tables.sd))
        self.gamma = float(question.discount)  # type: ignore[arg-type]
        self.length = int(np.ceil(np.log(CUT) / np.log(self.gamma)))

    def more(self, episodes: int) -> tuple[np.ndarray, int]:
        """Returns of further episodes [episode], and the steps that they took."""
        world, rng = self.world, self.rng
        state = rng.choice(world.states, episodes, p=world.start)
        at, returns, steps, t = np.arange(episodes), np.zeros(episodes), 0, 0
        while len(at) and (self.stopped or t < self.length):
            action = _chosen(self.policy[state], rng)
            k = _chosen(self.moves[state, action], rng)
            paid = self.mean[state, action, k] + self.sd[state, action, k] * rng.standard_normal(len(at))
            returns[at] += paid if self.stopped else self.gamma**t * paid
            steps, t = steps + len(at), t + 1
            state = world.next[state, action, k]
            going = ~world.terminal[state]
            if self.stopped:
                going &= rng.random(len(at)) < self.gamma
            state, at = state[going], at[going]
        return returns, steps


def _chosen(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index per row of cumulative probabilities [n, k]."""
    drawn = rng.random(len(cumulative))[:, None] * cumulative[:, -1:]
    return np.minimum((drawn >= cumulative).sum(axis=1), cumulative.shape[1] - 1)


def race(case: Case, seed: int, confidence: float, most: int, returns: Returns = "discounted", growth: float = 1.15) -> Race:
    """The best of some policies by rollouts; most: steps after which it gives up; growth: of the episodes between looks."""
    rollouts = [Rollouts(case.world, q, 1000 * seed + i, returns) for i, q in enumerate(case.questions)]
    racing, found, steps, look, wanted = list(range(len(rollouts))), [np.empty(0)] * len(rollouts), 0, 0, float(FEWEST)
    while steps < most:
        for i in racing:
            new, spent = rollouts[i].more(int(wanted) - len(found[i]))
            found[i], steps = np.append(found[i], new), steps + spent
        z = quantile((1 - confidence) / ((look + 1) * (look + 2)) / (len(rollouts) - 1))
        means = {i: found[i].mean() for i in racing}
        square = {i: found[i].var(ddof=1) / len(found[i]) for i in racing}
        leader = max(means, key=lambda i: float(means[i]))
        if all(square[i] > 0 for i in racing):  # returns that are all the same say nothing about rare events
            racing = [i for i in racing if i == leader or means[leader] - means[i] < z * np.sqrt(square[leader] + square[i])]
            look += 1
        if len(racing) == 1:
            return Race(leader, steps)
        wanted = max(wanted + 1, wanted * growth)
    return Race(None, steps)


PARTS: dict[str, Part] = {
    "differences": study.sized(partial(differences, cases()), (100, TIMES), (20, TIMES)),
    "separate": study.sized(partial(separate, cases(), steps=TIMES[0]), [15], [3]),
    "best": study.sized(partial(best, cases()), [67], [5]),
    "others": study.sized(partial(others, cases()), [25], [3]),
}
