"""Plain Python, one step at a time: the directed search, and the rule that follows a plan by whole visits.

Written from the docstring of `gvfx.behaviours.directed_search`, whose numbers it takes and of whose code it shares nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np

from gvfx.behaviours import directed_search as numbers
from helpers.streams import END

NEW_ROWS, UNTRIED, RETRY = "new rows", "untried", "retry"
RULES = numbers.Rules(0.0, 0.0, 0.0)  # whose other fields have their defaults


class PlainSearch:
    """wanted: a set of (row, action)."""

    def __init__(self, actions, share, wanted, rules=RULES):
        self.actions, self.share, self.wanted, self.rules = range(actions), share, wanted, rules
        self.n = Counter()  # of (row, action)
        self.arrivals = defaultdict(Counter)  # of (row, action): how often each row followed, or END
        self.met, self.starts = [], Counter()
        self.way, self.cost, self.after_end, self.most = {}, defaultdict(float), 0.0, 0.0  # a row met between two looks costs 0
        self.spent, self.tries, self.finds = Counter(), Counter(), Counter()
        self.sought, self.below, self.first = None, 1, True
        self.next_look = self.planned = self.episodes = self.expected = 0

    def tries_in(self, x):
        return sum(self.n[x, a] for a in self.actions)

    def action(self, x):
        """The action on the way from row x, or None."""
        return self.way.get(x) if self.sought else None

    def guide(self, gvfs):
        """The target policy that this episode follows, or None."""
        slow = self.sought == NEW_ROWS and self.expected > self.rules.slow
        turn, place = divmod(self.episodes, numbers.GUIDED)
        return turn % gvfs if slow and place == numbers.GUIDED - 1 else None

    def plan(self, steps):
        self.planned = steps
        self.spent.clear()

    def lacking(self, x, t):
        """The action tried least of those sought in row x, or None."""
        if self.sought == NEW_ROWS:
            lack = [a for a in self.actions if self.n[x, a] < self.below]
        else:
            pairs = len(self.actions) * len(self.met)
            here = Fraction(self.tries_in(x), len(self.actions)) if self.rules.nearby else 0
            enough = max(Fraction(t, pairs), here) if self.sought == RETRY else 1
            lack = [a for a in self.actions if (x, a) in self.wanted and self.n[x, a] ** 2 < enough]
        return min(lack, key=lambda a: self.n[x, a], default=None)

    def backup(self, x):
        """Value iteration in row x: steps until the row is left, and the cost of where it is left to; the relative change."""
        before, self.cost[x], self.way[x] = self.cost[x], self.most, None
        for a in self.actions:
            leaving = {to: c for to, c in self.arrivals[x, a].items() if to != x}
            left = sum(leaving.values())
            if left:
                onward = sum(c * (self.after_end if to == END else self.cost[to]) for to, c in leaving.items())
                cost = (self.n[x, a] + onward) / left
                if cost < self.cost[x] * (1 - numbers.TIE):
                    self.cost[x], self.way[x] = cost, a
        return abs(self.cost[x] - before) / self.cost[x]

    def mark(self, x, t):
        """Whether row x has an action that is sought; it is then the way."""
        goal = self.lacking(x, t)
        if goal is not None:
            self.way[x], self.cost[x] = goal, 0.0
        return goal is not None

    def ways(self, t):
        """Whether there are goals; from every row the way to the nearest."""
        self.most = self.after_end = t + numbers.AT_LEAST
        self.way = dict.fromkeys(self.met)
        self.cost = defaultdict(float, dict.fromkeys(self.met, self.most))
        others = [x for x in self.met if not self.mark(x, t)]
        if len(others) == len(self.met):
            return False
        for k in range(numbers.SWEEPS):
            change = max([self.backup(x) for x in (others if k % 2 else others[::-1])], default=0.0)
            episodes = sum(self.starts.values())
            if episodes:
                self.after_end = sum(c * self.cost[x] for x, c in self.starts.items()) / episodes
            if change < numbers.SETTLED:
                break
        return True

    def chances(self):
        """The chance that a try leads to a new row, for every number of tries up to a factor of two."""
        least = 1.0
        for level in range(self.rules.levels):
            begins = numbers.DOUBT / (2**level + 1)
            least = min(least, (self.finds[level] + begins) / (self.tries[level] + numbers.DOUBT))
            yield 2**level, least

    def soonest(self, t, x):
        """The level whose discovery is expected soonest from row x and the steps until then, or None."""
        best, within = None, self.rules.hope * t
        for below, chance in self.chances():
            if within * chance <= 1:
                break
            self.below = below
            if self.ways(t) and self.way[x] is not None and self.cost[x] + 1 < within * chance * (1 - numbers.TIE):
                within = (self.cost[x] + 1) / chance
                best = below, int(within)
        return best

    def look(self, t, x):
        self.next_look = t + max(numbers.LOOK_EVERY, int(numbers.LOOK_SHARE * t), len(self.met) // numbers.ROWS_PER_STEP)
        since = t - self.planned
        if self.share * since > self.spent[NEW_ROWS]:
            self.sought = NEW_ROWS
            best = self.soonest(t, x)
            if best is not None:
                self.below, self.expected = best
                self.ways(t)
                return
        for sought, share in ((UNTRIED, self.share), (RETRY, min(self.share, numbers.RETRIES))):
            self.sought = sought
            if share * since > self.spent[self.sought] and self.ways(t) and self.way[x] is not None:
                return
        self.sought = None

    def meet(self, x):
        if x not in self.met:
            self.met.append(x)

    def observe(self, t, x, a, arrived, ended):
        """A transition; t steps were done before it."""
        self.meet(x)
        self.starts[x] += self.first
        self.first = False
        self.spent[self.sought] += self.action(x) is not None and self.guide(1) is None
        level = self.n[x, a].bit_length()
        self.tries[level] += 1
        self.finds[level] += not ended and arrived not in self.met
        self.n[x, a] += 1
        self.arrivals[x, a][END if ended else arrived] += 1
        if not ended:
            self.meet(arrived)
        if t + 1 >= self.next_look:
            self.look(t + 1, x if ended else arrived)
        elif self.sought:
            self.pass_by(x, t + 1)
            if not ended:
                self.pass_by(arrived, t + 1)

    def pass_by(self, x, t):
        """Bring one row up to date."""
        if not self.mark(x, t):
            self.backup(x)


class PlainPlanned:
    """The behaviour: plans, a dictionary from steps done to mu [row, action]; random, the share of random actions."""

    def __init__(self, world, pi, share, random, plans=None, tracked=True, rules=RULES):
        self.table = np.full((world.rows, world.actions), 1 / world.actions)
        self.since = Counter()
        self.plans, self.random, self.tracked = dict(plans or {}), random, tracked
        taken = {(s, a) for s in range(world.states) for a in range(world.actions) if (pi[s if len(pi) > 1 else 0, a] > 0).any()}
        wanted = {(int(world.feature[s]), a) for s, a in taken}
        self.search = PlainSearch(world.actions, share, wanted, rules)

    def probabilities(self, t, s, x, pi, m):
        if t in self.plans:
            self.table = self.plans.pop(t)
            self.since.clear()
            self.search.plan(t)
        actions = range(len(self.table[0]))
        mu, action = self.table[x], self.search.action(x) if self.search.share else None
        guide = self.search.guide(pi.shape[1]) if self.search.share else None
        if guide is not None:
            return pi[:, guide]
        if action is not None:
            return self.mostly(action, np.full(len(mu), 1 / len(mu)))
        if not self.tracked:
            return mu
        visits = 1 + sum(self.since[x, a] for a in actions)
        return self.mostly(max(actions, key=lambda a: mu[a] * visits - self.since[x, a]), mu)

    def mostly(self, action, others):
        mu = self.random * others
        mu[action] += 1 - self.random
        return mu

    def observe(self, t, step):
        x, arrived = int(step.x), int(step.x_next)
        self.since[x, step.a] += 1
        if self.search.share:
            self.search.observe(t, x, step.a, arrived, step.alive == 0)

    def episode_end(self):
        self.search.first = True
        self.search.episodes += 1
