"""What `tools/mutations.py` changes: every wrong number, where it is put, and the tests that must notice it."""

from __future__ import annotations

from typing import NamedTuple

PRESETS = "tests/paper/settings/test_presets.py"
PRINTED = "tests/paper/settings/test_printed.py"
UPDATES = "tests/learners/networks/test_deep_updates.py"
COPIES = "tests/learners/networks/test_target_copies.py"
REPLAY = "tests/learners/networks/test_replay.py"
SOFT_ACTOR = "tests/learners/networks/test_soft_actor.py"
COMPILED_LOOP = "tests/running/streams/test_compiled_loop.py"
LOG_M = "tests/learners/networks/test_m_in_log_space.py"
CALIBRATED = "tests/behaviours/test_calibrated.py"
CALIBRATE = "tests/running/test_calibrate.py"
NETWORK_GYM = "tests/running/streams/test_network_gym.py"
UNSEEN_TESTS = "tests/evidence/test_unseen.py"
COUNTS_TESTS = "tests/evidence/test_counts.py"

TABULAR = "gvfx_paper/settings/tabular.py"
GRID = "gvfx_paper/settings/continuous.py"
MUJOCO = "gvfx_paper/settings/domains.py"
WORLD = "gvfx_paper/worlds/continuous_grid.py"
DEEP = "gvfx/learners/networks/learners.py"
DEEP_UPDATES = "gvfx/learners/networks/deep_updates.py"
ACTORS = "gvfx/learners/networks/actors.py"
TABLES = "gvfx/running/streams/table_compiled.py"
CRITICS = "gvfx_paper/algorithm2.py"
ACTOR = "gvfx_paper/algorithm2.py"
SCALES = "gvfx/behaviours/wrappers.py"
UNSEEN = "gvfx/evidence/unseen.py"


class Mutation(NamedTuple):
    """A text that occurs once in a file of src, what it becomes, and the tests that must then fail."""

    file: str
    old: str
    new: str
    tests: str


def variants(file: str, line: str, tests: str, *changes: tuple[str, str]) -> list[Mutation]:
    """Several changes within one line; each changed part occurs once in it."""
    return [Mutation(file, line, _replaced(line, old, new), tests) for old, new in changes]


def _replaced(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(f"{old!r} occurs {text.count(old)} times in {text!r}; give more of it.")
    return text.replace(old, new)


RATES = [  # Table 2 and App. B.3.2: the baselines, GVFExplorer, SR and BPS of every family of settings
    *variants(
        TABULAR,
        '"same": (0.5, 0.25, 0.95, 0.25)',
        PRESETS,
        ("(0.5", "(0.8"),
        (" 0.25, 0", " 0.5, 0"),
        ("0.95", "0.9"),
        ("0.25)", "0.5)"),
    ),
    *variants(
        TABULAR,
        '"distinct": (0.8, 0.5, 0.8, 0.1)',
        PRESETS,
        ("(0.8", "(0.5"),
        ("0.5", "0.25"),
        (" 0.8,", " 0.9,"),
        ("0.1)", "0.25)"),
    ),
    *variants(
        TABULAR,
        '"semi-greedy": (0.9, 0.8, 0.95, 0.5)',
        PRESETS,
        ("(0.9", "(0.8"),
        (" 0.8", " 0.5"),
        ("0.95", "0.9"),
        ("0.5)", "0.25)"),
    ),
    *variants(
        TABULAR,
        '"fourrooms": (0.8, 0.8, 0.8, 0.5)',
        PRESETS,
        ("(0.8", "(0.5"),
        ("(0.8, 0.8", "(0.8, 0.5"),
        ("0.8, 0.5", "0.9, 0.5"),
        ("0.5)", "0.25)"),
    ),
    *variants(TABULAR, '"forty": (0.8, 0.25, 0.8, 0.5)', PRESETS, ("0.25", "0.5"), (" 0.8", " 0.9"), ("0.5)", "0.25)")),
    Mutation(TABULAR, '"rate_m": 0.95', '"rate_m": 0.8', PRESETS),
    Mutation(
        TABULAR, "(bps, sr, baselines, baselines, baselines, explorer)", "(bps, sr, 0.1, baselines, baselines, explorer)", PRESETS
    ),
    Mutation(TABULAR, "sr, baselines, baselines, baselines, ex", "sr, baselines, 0.1, baselines, ex", PRESETS),
    Mutation(TABULAR, "baselines, baselines, baselines, explorer)", "baselines, baselines, 0.1, explorer)", PRESETS),
    Mutation(TABULAR, "rate_m: float = 0.8", "rate_m: float = 0.9", PRESETS),
    Mutation(TABULAR, "RATES = (0.1, 0.25, 0.5", "RATES = (0.1, 0.2, 0.5", PRESETS),
    Mutation("gvfx/schedules.py", "Linear(1.0, float(rate), 500_000)", "Linear(1.0, float(rate), 50_000)", PRESETS),
    Mutation("gvfx/schedules.py", "Linear(1.0, float(rate), 500_000)", "Linear(0.5, float(rate), 500_000)", PRESETS),
]
TEXT = [  # exploration, first values, clips, worlds, questions and lengths of the tabular settings
    *variants(TABULAR, "Linear(1.0, last, 500)", PRESETS, ("500", "5_000"), ("1.0", "0.5")),
    Mutation("gvfx/behaviours/wrappers.py", "floor: float = 1e-3", "floor: float = 1e-2", PRESETS),
    Mutation(TABULAR, "initial_q: float = 1.0\n    explorer_q", "initial_q: float = 0.0\n    explorer_q", PRESETS),
    Mutation(TABULAR, "explorer_q: float = 1.0", "explorer_q: float = 2.0", PRESETS),
    Mutation(TABULAR, "initial_m: float = 5.0", "initial_m: float = 1.0", PRESETS),
    Mutation(TABULAR, '"explorer_q": 2.0', '"explorer_q": 1.0', PRESETS),
    Mutation(TABULAR, '"initial_m": 0.5', '"initial_m": 5.0', PRESETS),
    Mutation("gvfx/learners/tabular.py", "ratio_high: float = 10.0", "ratio_high: float = 1.0", PRESETS),
    *variants(
        TABULAR,
        '{"ratio_low": 1e-3, "ratio_high": 1.0}',
        PRESETS,
        ("1e-3", "0.0"),
        ('high": 1.0', 'high": 10.0'),
    ),
    Mutation(TABULAR, "AVERAGE_EPISODES = 500", "AVERAGE_EPISODES = 50", PRESETS),
    Mutation(TABULAR, "DISCOUNT = 0.99", "DISCOUNT = 0.9", PRINTED),
    Mutation(TABULAR, "[0.175, 0.175, 0.25, 0.4]", "[0.175, 0.175, 0.4, 0.25]", PRINTED),
    Mutation(TABULAR, "[0.25, 0.15, 0.25, 0.35]", "[0.15, 0.25, 0.25, 0.35]", PRINTED),
    Mutation(TABULAR, "GREEDY_LEFT = gvfx.constant_policy([0.4, 0.1", "GREEDY_LEFT = gvfx.constant_policy([0.1, 0.4", PRINTED),
    Mutation(TABULAR, "GREEDY_RIGHT = gvfx.constant_policy([0.1, 0.4", "GREEDY_RIGHT = gvfx.constant_policy([0.4, 0.1", PRINTED),
    Mutation(TABULAR, "[0.1, 0.1, 0.7, 0.1]", "[0.1, 0.2, 0.6, 0.1]", PRINTED),
    Mutation(TABULAR, "[0.1, 0.7, 0.1, 0.1]", "[0.1, 0.6, 0.2, 0.1]", PRINTED),
    Mutation(TABULAR, "[0.1, 0.1, 0.1, 0.7]", "[0.1, 0.1, 0.2, 0.6]", PRINTED),
    Mutation(TABULAR, "[0.7, 0.1, 0.1, 0.1]", "[0.6, 0.2, 0.1, 0.1]", PRINTED),
    *variants(TABULAR, "287: 31, 303: 78, 378: 85", PRINTED, ("31", "51"), ("303", "304")),
    Mutation(TABULAR, "LEFT, RIGHT = (0, 0), (0, 19)", "LEFT, RIGHT = (0, 0), (0, 18)", PRINTED),
    *variants(
        TABULAR,
        'GVF(pi, gvfx.Distractor(100, 5, at="left")',
        PRINTED,
        ("100", "90"),
        (" 5", " 2"),
    ),
    *variants(
        TABULAR,
        'gvfx.Distractor(50, 5, at="right")',
        PRINTED,
        ("50", "60"),
        (" 5,", " 10,"),
    ),
    Mutation(TABULAR, '= gvfx.Distractor(100, 5, at="left")', '= gvfx.Distractor(100, 10, at="left")', PRINTED),
    Mutation(TABULAR, 'Distractor(100, 2, at="left")', 'Distractor(100, 5, at="left")', PRINTED),
    Mutation(TABULAR, "_four_rooms(sd: float = 0.5", "_four_rooms(sd: float = 1.0", PRINTED),
    Mutation(TABULAR, "Drifter(sd, 100,", "Drifter(sd, 0,", PRINTED),
    Mutation(TABULAR, 'partial(_four_rooms, advance="visit")', "_four_rooms", PRINTED),
    Mutation(TABULAR, "DRIFTS = (0.1, 0.5, 1.0, 2.0)", "DRIFTS = (0.1, 0.5, 1.0, 3.0)", PRINTED),
    Mutation(TABULAR, "GROUPINGS = (1, 2, 4)", "GROUPINGS = (1, 2, 5)", PRINTED),
    Mutation(TABULAR, "_same, 2_000_000", "_same, 1_000_000", PRINTED),
    Mutation(TABULAR, "_distinct, 2_000_000", "_distinct, 1_000_000", PRINTED),
    Mutation(TABULAR, "_semi_greedy, 2_000_000", "_semi_greedy, 1_000_000", PRINTED),
    Mutation(TABULAR, " _four_rooms, 4_000_000", " _four_rooms, 2_000_000", PRINTED),
    Mutation(TABULAR, "_forty, 2_000_000", "_forty, 1_000_000", PRINTED),
    Mutation(TABULAR, "0.04, 91)", "0.04, 90)", PRINTED),
    Mutation(GRID, '"prioritised": 66.0}', '"prioritised": 67.0}', PRINTED),
    Mutation("gvfx/worlds/gridworld.py", "slip: float = 0.1,\n    horizon", "slip: float = 0.2,\n    horizon", PRINTED),
    Mutation("gvfx/worlds/gridworld.py", "500,\n    grouping", "1000,\n    grouping", PRINTED),
    Mutation("gvfx/worlds/gridworld.py", "doors, default = (4, 15)", "doors, default = (5, 15)", PRINTED),
    Mutation("gvfx_paper/items/curves.py", "\nSEEDS = 25", "\nSEEDS = 10", PRINTED),
    Mutation("gvfx_paper/items/curves.py", "TUNING_STEPS = 800_000", "TUNING_STEPS = 400_000", PRINTED),
]
METHODS = [  # SR, BPS and GVFExplorer in both presets
    Mutation("gvfx/behaviours/rivals.py", "temperature: float = 100.0", "temperature: float = 1.0", PRESETS),
    Mutation("gvfx/behaviours/rivals.py", '"entries"] = "rows"', '"entries"] = "entries"', PRESETS),
    Mutation("gvfx/behaviours/rivals.py", "discount: float = 0.99", "discount: float = 0.9", PRESETS),
    Mutation("gvfx/behaviours/rivals.py", "    scale: float = 100.0", "    scale: float = 10.0", PRESETS),
    Mutation("gvfx/behaviours/rivals.py", "largest_step: float = 1.0", "largest_step: float = 10.0", PRESETS),
    Mutation("gvfx/behaviours/rivals.py", "ratio_low: float = 1e-3", "ratio_low: float = 1e-2", PRESETS),
    Mutation("gvfx/behaviours/rivals.py", "ratio_high: float = 10.0", "ratio_high: float = 2.0", PRESETS),
    Mutation(TABULAR, '"Uniform": lambda rate: RandomPolicies()', '"Uniform": lambda rate: BEHAVIOURS["Uniform"](rate)', PRESETS),
    Mutation(TABULAR, '{"smallest_m": 0.0}', '{"smallest_m": 1e-4}', PRESETS),
    Mutation(TABULAR, "GVFExplorer(smallest_m=1e-4)", "GVFExplorer()", PRESETS),
    *variants(
        TABULAR,
        '_greedy = partial(gvfx.SuccessorRepresentation, choice="first", update="entries", when="episode", floor=1e-3)',
        PRESETS,
        ('"first"', '"boltzmann"'),
        ('"entries"', '"rows"'),
        ('"episode"', '"step"'),
        ("1e-3", "1e-2"),
    ),
    Mutation(TABULAR, 'choice="boltzmann", temperature=1.0', 'choice="boltzmann", temperature=100.0', PRESETS),
    *variants(
        TABULAR,
        'AuthorsSuccessor(0.0, 0.0, "states", "gvf")',
        PRESETS,
        ("(0.0,", "(0.1,"),
        (" 0.0,", " 1.0,"),
        ('"states"', '"pairs"'),
        ('"gvf"', '"policy"'),
    ),
    Mutation(TABULAR, "epsilon: float = 0.1", "epsilon: float = 0.0", PRESETS),
    *variants(
        TABULAR,
        'BehaviourPolicySearch(rate, 1.0, 1e300, 1e-3, 1.0, "ratio")',
        PRESETS,
        ("rate, 1.0", "rate, 100.0"),
        ("1e300", "1.0"),
        ("1e-3, 1.0", "1e-3, 10.0"),
        ('"ratio"', '"softmax"'),
    ),
]
NETWORKS = [  # the continuous grid: Table 2, Table 3, Algorithm 1, App. B.4
    *variants(
        GRID,
        'RATES = {"GVFExplorer": 5e-3, "RoundRobin": 5e-4, "Mixture": 5e-4, "SR": 1e-3',
        PRESETS,
        ('Explorer": 5e-3', 'Explorer": 1e-5'),
        ('Robin": 5e-4', 'Robin": 5e-3'),
        ('Mixture": 5e-4', 'Mixture": 5e-3'),
        ('SR": 1e-3', 'SR": 5e-3'),
    ),
    Mutation(GRID, "STEPS = 1_000_000  #", "STEPS = 2_000_000  #", PRESETS),
    *variants(GRID, "EPSILON = gvfx.Linear(1.0, 0.0, 4000)", PRESETS, ("4000", "40"), ("0.0,", "0.1,"), ("1.0", "0.9")),
    Mutation(GRID, "SuccessorRepresentation(temperature=10.0)", "SuccessorRepresentation(temperature=1.0)", PRESETS),
    Mutation(GRID, "m_every=4, alpha", "m_every=8, alpha", PRINTED),
    Mutation(GRID, "AUTHORS_PER = (0.6, 0.2)", "AUTHORS_PER = (0.6, 1.0)", PRINTED),
    Mutation(GRID, "AUTHORS_EXPLORER_PER = (0.8, 0.6)", "AUTHORS_EXPLORER_PER = (0.6, 0.6)", PRINTED),
    Mutation("gvfx_paper/authors.py", "Linear(1.0, 0.1, 50_000)", "Linear(1.0, 0.1, 5_000)", PRINTED),
    Mutation(GRID, "final_rate=0.03", "final_rate=0.3", PRINTED),
    Mutation(GRID, '"GVFExplorer": 5.19', '"GVFExplorer": 5.91', PRESETS),
    Mutation(GRID, '"GVFExplorer": 3.87', '"GVFExplorer": 3.78', PRESETS),
    Mutation(DEEP, "batch: int = 64", "batch: int = 32", PRESETS),
    Mutation(DEEP, "capacity: int = 25_000", "capacity: int = 50_000", PRESETS),
    Mutation(DEEP, "learning_starts: int = 200", "learning_starts: int = 1_000", PRESETS),
    Mutation(DEEP, "q_every: int = 4", "q_every: int = 8", PRESETS),
    Mutation(DEEP, "m_every: int = 8", "m_every: int = 4", PRINTED),
    Mutation(DEEP, "target_every: int = 100", "target_every: int = 1_000", PRESETS),
    Mutation(DEEP, "alpha: float = 0.6", "alpha: float = 0.7", PRESETS),
    Mutation(DEEP, "beta: float = 0.4", "beta: float = 0.5", PRESETS),
    Mutation(
        DEEP,
        "rate_m: float = 5e-3\n    hidden: tuple[int, ...] = (64, 64)",
        "rate_m: float = 5e-3\n    hidden: tuple[int, ...] = (128, 128)",
        PRESETS,
    ),
    Mutation(WORLD, "step: float = 0.025", "step: float = 0.05", PRINTED),
    Mutation(WORLD, "noise: float = 0.01", "noise: float = 0.02", PRINTED),
    Mutation(WORLD, "radius: float = 0.05", "radius: float = 0.1", PRINTED),
    Mutation(WORLD, "horizon: int = 500", "horizon: int = 1000", PRINTED),
    Mutation(WORLD, '(Goal("left", (0.05, 0.95), 100.0, 5.0)', '(Goal("left", (0.05, 0.95), 100.0, 10.0)', PRINTED),
    Mutation(WORLD, '(Goal("left", (0.05, 0.95), 100.0, 10.0)', '(Goal("left", (0.05, 0.95), 100.0, 5.0)', PRINTED),
    Mutation(WORLD, "strays=((0.8, 0.1),),", "strays=(),", PRINTED),
]
ALGORITHM_2 = [  # Walker and Cheetah
    Mutation(MUJOCO, "STEPS = 100_000", "STEPS = 200_000", PRESETS),
    Mutation(MUJOCO, "DISCOUNT = 0.99", "DISCOUNT = 0.9", PRESETS),
    Mutation(MUJOCO, "\nSEEDS = 5", "\nSEEDS = 3", PRINTED),
    *variants(
        CRITICS,
        'aggregate="min",\n    entropy_in_target=True,\n    target_every=50,\n    tau=1.0,\n    rate_q=3e-4,\n    rate_m=3e-4,',
        PRESETS,
        ('"min"', '"mean"'),
        ("True", "False"),
        ("target_every=50", "target_every=5"),
        ("rate_q=3e-4", "rate_q=1e-3"),
        ("rate_m=3e-4", "rate_m=1e-3"),
    ),
    *variants(
        ACTOR,
        "_ACTOR = gvfx.Actor(kl_weight=0.1, normalised=False, target_entropy=0.0, alpha=1.0",
        PRESETS,
        ("kl_weight=0.1", "kl_weight=5.0"),
        ("normalised=False", "normalised=True"),
        ("target_entropy=0.0", "target_entropy=-6.0"),
        ("alpha=1.0", "alpha=0.1"),
    ),
]
PSI, REWARD = "jnp.abs(psi_error).mean(axis=2).sum(axis=1)", "jnp.abs(reward_error).sum(axis=1)"
LEARNING = [  # SR on networks, prioritised replay, the targets of Q and M
    Mutation(DEEP_UPDATES, f"reward = {PSI} + {REWARD}", f"reward = 0.0 * {PSI}", UPDATES),
    Mutation(DEEP_UPDATES, f"reward = {PSI} + {REWARD}", f"reward = {PSI}", UPDATES),
    Mutation(DEEP_UPDATES, f"reward = {PSI} + {REWARD}", f"reward = {REWARD}", UPDATES),
    Mutation(DEEP_UPDATES, "discounts.max(axis=1) * value_next", "0.0 * value_next", UPDATES),
    Mutation(DEEP_UPDATES, "discounts[:, :, None] * psi_next", "0.0 * psi_next", UPDATES),
    Mutation(DEEP_UPDATES, "else jnp.abs(delta).sum(axis=1)", "else jnp.abs(delta)[:, 0]", UPDATES),
    Mutation(DEEP_UPDATES, "errors.append(jnp.abs(error).sum(axis=1))", "errors.append(jnp.abs(error)[:, 0])", UPDATES),
    Mutation(DEEP_UPDATES, 'self.learner.priority == "sr" and', "False and", UPDATES),
    Mutation(DEEP_UPDATES, "sample_prioritised(replay, u, beta)", "sample_prioritised(replay, u, self.learner.beta)", UPDATES),
    Mutation(DEEP_UPDATES, "jnp.concatenate(errors), self.learner.alpha)", "jnp.concatenate(errors), 1.0)", UPDATES),
    Mutation(DEEP_UPDATES, "self._counted(weight, batch) * delta**2", "delta**2", UPDATES),
    Mutation(DEEP_UPDATES, "self._adam(learner.rate_m, learner.m_every)", "self._adam(learner.rate_q, learner.m_every)", COPIES),
    Mutation(DEEP_UPDATES, "(pi * target_q(b.following))", "(pi * q(b.following))", UPDATES),
    Mutation(DEEP_UPDATES, "(b.pi * learning.target_m(b.following))", "(b.pi * learning.m(b.following))", UPDATES),
    Mutation(DEEP_UPDATES, "target_q=keep(learning.q, learning.target_q)", "target_q=learning.target_q", COPIES),
    Mutation(DEEP_UPDATES, "target_m=keep(learning.m, learning.target_m)", "target_m=learning.q", COPIES),
    Mutation(DEEP_UPDATES, "keep(learning.intrinsic, learning.target_intrinsic)", "learning.target_intrinsic", COPIES),
    Mutation(
        DEEP_UPDATES, "copied = (t // self.learner.target_every) >", "copied = 1 + (t // self.learner.target_every) >", COPIES
    ),
    Mutation("gvfx/theory/equations.py", "discount * discount * variance_next", "discount * variance_next", UPDATES),
    Mutation("gvfx/theory/equations.py", "delta * delta + discount * discount * variance_next", "delta + variance_next", UPDATES),
    Mutation(DEEP_UPDATES, "SMALLEST = 1e-6", "SMALLEST = 1e-1", REPLAY),
    Mutation(DEEP_UPDATES, "(stored * probability) ** (-beta)", "(stored * probability) ** (-1.0)", REPLAY),
    Mutation(DEEP_UPDATES, "return index, weight / weight.max()", "return index, weight", REPLAY),
    Mutation(DEEP_UPDATES, "t / (self.learner.beta_share * self.steps)", "t / self.steps", UPDATES),
    Mutation(ACTORS, "own if options.target_entropy is None", "0.0 if options.target_entropy is None", SOFT_ACTOR),
    Mutation(TABLES, "drift(w, level, rng, paying)", "drift(w, level, rng, 0)", COMPILED_LOOP),
    Mutation(TABLES, "row >= 0 and w.carry[row, i] != 0.0", "row >= 0", COMPILED_LOOP),
    Mutation(DEEP_UPDATES, "jnp.full(steps, replay.largest)", "jnp.full(steps, 1.0)", REPLAY),
]
LOG_SPACE = [  # M in log space, the preset `stabilised` of the continuous grid
    Mutation(DEEP_UPDATES, "LARGEST_RATIO = 10.0", "LARGEST_RATIO = 1e9", LOG_M),
    Mutation(DEEP_UPDATES, "return (1 - jax.lax.stop_gradient(ratio)) * jnp.log(m)", "return error**2", LOG_M),
    Mutation(DEEP_UPDATES, 'True, learner.waves, learner.m_output == "exp")', "True, learner.waves, False)", LOG_M),
    Mutation(GRID, 'STABILISED: dict[str, Any] = {"m_output": "exp"}', "STABILISED: dict[str, Any] = {}", PRINTED),
    *variants(GRID, "FIRST_TUNING_SEED = 400_000, 4, 100", PRINTED, ("400_000", "4_000"), (" 100", " 1")),
]
IMPORTANCE_WEIGHTS = [  # of prioritised replay in the losses of M and of SR's own networks
    Mutation(DEEP_UPDATES, "(weight[:, None] * each).mean(axis=0)", "each.mean(axis=0)", UPDATES),
    Mutation(DEEP_UPDATES, "(weight[:, None, None] * psi_error**2).mean()", "(psi_error**2).mean()", UPDATES),
    Mutation(DEEP_UPDATES, "(weight[:, None] * reward_error**2).mean(axis=0)", "(reward_error**2).mean(axis=0)", UPDATES),
    Mutation(DEEP_UPDATES, "(weight * (aim - value) ** 2).mean()", "((aim - value) ** 2).mean()", UPDATES),
]
CALIBRATION = [  # the scales of calibrate=True, compiled and over arrays, and the weights of reported errors
    Mutation(SCALES, "m[a, i] * state.scales.factor[i]", "m[a, i]", CALIBRATED),
    Mutation(SCALES, "share = max(1.0 / scales.steps[0], rate)", "share = 1.0 / scales.steps[0]", CALIBRATED),
    Mutation(SCALES, "(q[i] * q[i] - scales.square[i])", "(abs(q[i]) - scales.square[i])", CALIBRATED),
    Mutation(SCALES, "smallest = min(smallest, scales.square[i])", "smallest = max(scales.square[i], 0.0)", CALIBRATED),
    Mutation(SCALES, "m * state[1].factor", "m", CALIBRATED),
    Mutation(SCALES, "xp.maximum(steps / total, min(steps * rate, 1.0))", "steps / total", CALIBRATED),
    Mutation(SCALES, "1 / xp.where(known, square, smallest), 1.0)", "1 / xp.where(known, square, smallest), 0.0)", CALIBRATED),
    Mutation(SCALES, "rate: float = 1e-4", "rate: float = 1e-3", CALIBRATED),
    Mutation("gvfx/running/drive.py", "or not self.calibrated else answered", "or self.calibrated else answered", CALIBRATE),
    Mutation("gvfx/running/streams/network_gym.py", "rows)) * self.scales.unit**2", "rows)) * self.scales.unit", NETWORK_GYM),
]
NEVER_SEEN = [  # the chance of the unseen, and what is known of it
    Mutation(UNSEEN, "np.minimum.accumulate(h)", "h", UNSEEN_TESTS),
    Mutation(UNSEEN, "NEWEST, FADING = 0.3, 0.7", "NEWEST, FADING = 0.3, 0.5", UNSEEN_TESTS),
    Mutation(UNSEEN, "LIKE_OTHERS = 9.0", "LIKE_OTHERS = 1.0", UNSEEN_TESTS),
    Mutation(UNSEEN, "(n > 0) & (q < RARELY), q", "(n > 0), q", UNSEEN_TESTS),
    Mutation(UNSEEN, "AT_STAKE = 0.3", "AT_STAKE = 0.6", UNSEEN_TESTS),
    Mutation(UNSEEN, "bool(2 * self.data.evidence.found.max()", "bool(self.data.evidence.found.max()", UNSEEN_TESTS),
    Mutation(UNSEEN, "return self.data.closed and bool(", "return bool(", UNSEEN_TESTS),
    Mutation("gvfx/evidence/counts.py", "LEAST_TRIED = 0.5", "LEAST_TRIED = 0.0", COUNTS_TESTS),
]
MUTATIONS = [
    *RATES,
    *TEXT,
    *METHODS,
    *NETWORKS,
    *ALGORITHM_2,
    *LEARNING,
    *IMPORTANCE_WEIGHTS,
    *CALIBRATION,
    *LOG_SPACE,
    *NEVER_SEEN,
]
