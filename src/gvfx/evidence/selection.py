r"""Regression to the mean: what visits that adapt to the data do to the answers, estimated from the data themselves.

A behaviour that plans takes the actions that looked good and leaves the others.  An action that was unlucky in its first tries
is tried no more and stays wrong, one that was lucky is tried until it is known: means of visits that adapt are too low on
average (Nie et al. 2018).  Counts alone do not show it, but what is known about such selection in general applies (Efron 2011):
an estimate that stands out from others like it is partly luck, the more so the fewer data it has, however they were collected.
The targets' means $m(s,a)$ of a state's actions are drawn towards their common mean by empirical Bayes,

$$\tilde m(s,a) = Z\,m(s,a) + (1-Z)\,\frac{\sum_b Z_b\,m(s,b)}{\sum_b Z_b}, \qquad Z = \frac{n}{n+k},$$

with k the noise of a target over the variance between the true means of a state's actions, by the method of moments, the median
over states.  Where actions differ much in units of the noise, k is small and nothing is drawn anywhere.

Because the answers are linear in the targets of a state's actions, this is the answer of another policy, which moves the weight
of hardly tried actions to those that are better known:

$$\tilde\pi(b|s) = Z_b\,\pi(b|s) + \frac{Z_b}{\sum_a Z_a}\,\sum_a (1-Z_a)\,\pi(a|s).$$
"""

from __future__ import annotations

import dataclasses

import numpy as np

from gvfx.evidence.counts import Empirical

LEAST_BETWEEN = 0.02  # variance between actions in units of the noise, so that k is at most 50


def regressed(data: Empirical, noise: np.ndarray) -> Empirical:
    """The same evidence with every policy's weight moved from hardly tried actions to the state's others.

    noise [state, action, gvf]: of the targets, as `gvfx.evidence.noise` estimates it.
    """
    mean = data.moments(data.values)[0]
    pi = np.empty(mean.shape)
    n = data.visits.astype(float)
    for group in data.groups:
        k = prior_visits(n, mean[:, :, group], noise[:, :, group])
        trust = n / (n + k) if k > 0 else (n > 0).astype(float)
        total = trust.sum(axis=1, keepdims=True)
        own = data.policy(group[0])
        shared = trust / np.where(total > 0, total, 1.0) * ((1 - trust) * own).sum(axis=1, keepdims=True)
        pi[:, :, group] = (trust * own + shared)[:, :, None]
    return dataclasses.replace(data, asked=data.asked._replace(pi=pi, pi_stride=1))


def prior_visits(n: np.ndarray, mean: np.ndarray, noise: np.ndarray) -> float:
    """k: noise of one visit over the variance between a state's actions, at least 0.

    n [state, action];  mean, noise [state, action, gvf] of the targets of questions with one policy.
    """
    tried = (n > 0)[:, :, None]
    actions = tried.sum(axis=1)
    centre = (tried * mean).sum(axis=1, keepdims=True) / np.maximum(actions, 1)[:, None]
    scale = (tried * noise).sum(axis=1) / np.maximum(actions, 1)
    chance = (tried * noise / np.maximum(n, 1)[:, :, None]).sum(axis=1) * (1 - 1 / np.maximum(actions, 1))
    between = ((tried * (mean - centre) ** 2).sum(axis=1) - chance) / np.maximum(actions - 1, 1)
    telling = (actions > 1) & (scale > 0)
    if not telling.any():
        return 0.0
    return 1 / max(float(np.median(between[telling] / scale[telling])), LEAST_BETWEEN)
