"""How many steps plain rollouts need for the intervals of one gvfx run: `python examples/demos/compare.py traffic`.

Rollouts follow one policy at a time from a reset until the discount is below 0.01 (or the episode ends), and Student's interval
of their mean return is compared with that of gvfx.  A policy's rollouts answer all its signals.  They are looked at after each
one, from the third on, and go on until every interval is as narrow as gvfx's, or up to a limit, beyond which the width is taken
to fall with the root of their number; the table says how often.  Returns that are all the same have no interval: where they
still are at the limit, as with crashes that never happened, the comparison leaves the question out.
"""

import argparse
import importlib
import itertools
import sys
import time
from pathlib import Path

import numpy as np
import scipy.stats

import gvfx

sys.path.insert(0, str(Path(__file__).parent))
import show

HERE = Path(__file__).parent
NEGLIGIBLE = 0.01  # the discount at which a rollout is cut
LEAST = 3  # rollouts before the first look
FRESH = 1000  # the first seed of the comparison; settings were chosen on seeds below


def returns(env, policy, demo, rng):
    """One rollout: its discounted sums [signal] and its steps."""
    seen, _ = env.reset()
    total, weight, steps, over = np.zeros(len(demo.SIGNALS)), 1.0, 0, False
    while not over and weight >= NEGLIGIBLE:
        chances = np.asarray(policy(seen))
        seen, reward, terminated, truncated, info = env.step(int(rng.choice(len(chances), p=chances)))
        total += weight * np.asarray(demo.signals(reward, info), float)
        weight, steps, over = weight * demo.DISCOUNT, steps + 1, terminated or truncated
    return total, steps


def half_widths(found):
    """Half-widths of Student's 95 % intervals of the means, [signal]."""
    n = len(found)
    return scipy.stats.t.ppf(0.975, n - 1) * np.std(found, axis=0, ddof=1) / np.sqrt(n)


def rolled_out(env, policy, demo, halves, rng):
    """Rollouts of one policy until intervals are as narrow as `halves` [signal]: steps (NaN: there is no interval), whether
    beyond the limit, and returns."""
    found, steps, needed = [], [], np.full(len(halves), np.nan)
    while np.isnan(needed).any() and sum(steps) < demo.LIMIT:
        total, length = returns(env, policy, demo, rng)
        found.append(total)
        steps.append(length)
        if len(found) >= LEAST:
            now = half_widths(found)
            needed[np.isnan(needed) & (now <= halves) & (now > 0)] = sum(steps)
    late = np.isnan(needed)
    last = half_widths(found)
    needed[late] = np.where(last > 0, sum(steps) * (last / halves) ** 2, np.nan)[late]
    return needed, late, np.array(found)


def one_seed(demo, seed):
    """The answers of one gvfx run, and the steps of rollouts for the same widths, [policy, signal]."""
    began = time.process_time()
    env = demo.make()
    result = gvfx.evaluate(env, demo.questions(), steps=demo.STEPS, seed=seed, progress=False, **demo.OPTIONS)
    env.close()
    seconds = time.process_time() - began
    value, low, high = show.by_policy(result, demo)
    env, rng = demo.make(demo.ROLLOUT), np.random.default_rng(seed)
    env.reset(seed=seed + 500_000)
    rolled = [rolled_out(env, policy, demo, half, rng) for policy, half in zip(demo.POLICIES.values(), (high - low) / 2)]
    env.close()
    needed, late = (np.array([r[k] for r in rolled]) for k in (0, 1))
    return {"seed": seed, "value": value, "low": low, "high": high, "needed": needed, "late": late, "seconds": seconds,
            "returns": [r[2] for r in rolled]}  # fmt: skip


def references(demo, runs):
    """The true values, or the means of all rollouts, and their standard errors, [policy, signal] each."""
    if hasattr(demo, "exact"):
        true = demo.exact()
        return true, np.zeros_like(true)
    pooled = [np.concatenate([run["returns"][k] for run in runs]) for k in range(len(demo.POLICIES))]
    return tuple(
        np.array(x) for x in ([p.mean(axis=0) for p in pooled], [p.std(axis=0, ddof=1) / np.sqrt(len(p)) for p in pooled])
    )


def held(run, true, error):
    """Whether each interval of a run holds the true value, give or take 1.96 of its standard errors, [policy, signal]."""
    return (run["low"] - 1.96 * error <= true) & (true <= run["high"] + 1.96 * error)


def both_have(run):
    """Whether gvfx and the rollouts have an interval, [policy, signal]."""
    return np.isfinite(run["high"] - run["low"]) & np.isfinite(run["needed"])


def steps_of_rollouts(run):
    """Steps that rollouts of each policy need, [policy]: for all intervals that both have, and for the one in the middle."""
    rows = [row[known] for row, known in zip(run["needed"], both_have(run))]
    return np.array([row.max(initial=0.0) for row in rows]), np.array([np.median(row) if len(row) else 0.0 for row in rows])


def tables(name, demo, runs):
    """The tables of the page, as Markdown."""
    value = np.median([run["value"] for run in runs], axis=0)
    needed = np.median([np.nan_to_num(run["needed"], nan=np.inf) for run in runs], axis=0)
    half = np.median([(run["high"] - run["low"]) / 2 for run in runs], axis=0)
    true, error = references(demo, runs)
    holds = np.array([held(run, true, error) for run in runs])
    last = runs[-1]["seed"]
    lines = [
        f"Written by `python examples/demos/compare.py {name}`; seeds {runs[0]['seed']} to {last}, medians over them.",
        "",
        f"| question | gvfx | {'mean of all rollouts' if error.any() else 'exact'} | intervals that hold | "
        "steps of rollouts for this width |",
        "|---|---|---|---|---|",
    ]
    for (i, who), (k, what) in itertools.product(enumerate(demo.POLICIES), enumerate(demo.SIGNALS)):
        known = f"{true[i, k]:.3g}" + (f" ± {1.96 * error[i, k]:.2g}" if error.any() else "")
        sure = np.isfinite(half[i, k])
        answer = f"± {half[i, k]:.2g}" if sure else "(not sure yet)"
        steps = "" if not sure else "no interval" if np.isinf(needed[i, k]) else f"{needed[i, k]:,.0f}"
        lines.append(
            f"| {who}: {what} | {value[i, k]:.3g} {answer} | {known} | {holds[:, i, k].sum()} of {len(runs)} | {steps} |"
        )
    lines += [
        "",
        "| seed | gvfx, steps | rollouts, every interval as narrow | ratio | rollouts, the middle one of each policy | ratio | "
        "beyond the limit | no interval | gvfx, CPU seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for run in runs:
        every, middle = (steps.sum() for steps in steps_of_rollouts(run))
        ratios.append((demo.STEPS / every, demo.STEPS / middle))
        beyond = (run["late"] & both_have(run)).mean()
        counts = f"{every:,.0f} | {ratios[-1][0]:.2f} | {middle:,.0f} | {ratios[-1][1]:.2f}"
        without = (np.isfinite(run["high"] - run["low"]) & np.isnan(run["needed"])).mean()
        lines.append(f"| {run['seed']} | {demo.STEPS:,} | {counts} | {beyond:.0%} | {without:.0%} | {run['seconds']:.0f} |")
    every, middle = np.median(ratios, axis=0)
    finite = np.isfinite([run["high"] - run["low"] for run in runs])
    lines += [
        f"| median | | | **{every:.2f}** | | **{middle:.2f}** | | | |",
        "",
        f"Intervals that hold: {holds[finite].mean():.0%} of {finite.sum()} finite ones; {(~finite).mean():.0%} are not finite.",
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("demo", choices=("traffic", "driving", "objectives"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=FRESH, help="the first seed")
    parser.add_argument("--print", action="store_true", help="print the tables and write nothing")
    options = parser.parse_args()
    demo = importlib.import_module(options.demo)
    runs = [one_seed(demo, options.first + k) for k in range(options.seeds)]
    text = tables(options.demo, demo, runs)
    if options.print:
        print(text)
        return
    pages = HERE.parents[1] / "docs" / "demos"
    (pages / f"{options.demo}-measured.md").write_text(f"# {options.demo.capitalize()}: steps for the same intervals\n\n{text}")
    true, error = references(demo, runs)
    source = "mean of all rollouts" if error.any() else "exact"
    show.steps_figure(demo, runs[0], true, source, steps_of_rollouts(runs[0])[0]).savefig(pages / f"{options.demo}.png")


if __name__ == "__main__":
    main()
