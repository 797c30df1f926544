"""Make the true values of Walker and Cheetah that ship with gvfx, and print how well they are known.

    python tools/mujoco_truths.py

A file that is there already is kept: delete it to remake it, with the same bytes (17 CPU-minutes, of which Walker takes 15).
"""

from __future__ import annotations

from pathlib import Path

from gvfx_paper.targets import Target
from gvfx_paper.truths.trajectories import SHIPPED, mujoco_truth
from gvfx_paper.worlds.mujoco import DOMAINS


def main(folder: Path = SHIPPED) -> None:
    for domain in DOMAINS.values():
        targets = [Target.shipped(domain.name, task) for task in domain.tasks]
        truth = mujoco_truth(domain, targets, cache=folder, progress=lambda done, of: print(f"{done}/{of}", end="\r", flush=True))
        for task, value, noise in zip(domain.tasks, truth.values.mean(axis=0), truth.noise_floor, strict=True):
            print(f"{domain.name} {task}: mean value {value:.2f}, noise floor {noise:.3f}")


if __name__ == "__main__":
    main()
