"""The small networks that fast tests share; networks, their gradients and Adam in plain NumPy."""

from __future__ import annotations

import numpy as np

import gvfx

DEEP = gvfx.Deep(hidden=(8,), batch=8, capacity=400, learning_starts=48, heads=2)
TWINS = gvfx.TwinCritics(hidden=(8,), worlds=8, batch=8, updates=1, capacity=80, learning_starts=40)


def numpy_network(net):
    return [(np.asarray(w, float), np.asarray(b, float)) for w, b in zip(net.weights, net.biases, strict=True)]


def forward(layers, x, positive, shape):
    """Outputs [batch, *shape], and what the backward pass needs."""
    kept = [x]
    for w, b in layers[:-1]:
        x = np.maximum(x @ w + b, 0)
        kept.append(x)
    z = x @ layers[-1][0] + layers[-1][1]
    return (np.logaddexp(z, 0) if positive else z).reshape(len(z), *shape), kept, z


def gradients(layers, kept, z, d_out, positive):
    d = d_out.reshape(z.shape)
    if positive:
        d = d / (1 + np.exp(-z))
    grads = []
    for k in range(len(layers) - 1, -1, -1):
        grads.insert(0, (kept[k].T @ d, d.sum(axis=0)))
        if k:
            d = (d @ layers[k][0].T) * (kept[k] > 0)
    return grads


class Adam:
    def __init__(self, layers, rate):
        self.m = [[np.zeros_like(p) for p in layer] for layer in layers]
        self.v = [[np.zeros_like(p) for p in layer] for layer in layers]
        self.t, self.rate = 0, rate

    def step(self, layers, grads):
        self.t += 1
        out = []
        for k, layer in enumerate(layers):
            new = []
            for j, p in enumerate(layer):
                self.m[k][j] = 0.9 * self.m[k][j] + 0.1 * grads[k][j]
                self.v[k][j] = 0.999 * self.v[k][j] + 0.001 * grads[k][j] ** 2
                m, v = self.m[k][j] / (1 - 0.9**self.t), self.v[k][j] / (1 - 0.999**self.t)
                new.append(p - self.rate * m / (np.sqrt(v) + 1e-8))
            out.append(tuple(new))
        return out
