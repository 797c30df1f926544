"""A sampled trajectory on the map of the continuous grid."""

import numpy as np

from gvfx.reproduce.grid_maps import SIDE, trajectory


def test_a_sampled_trajectory_stays_on_the_map_and_goes_where_the_behaviour_says():
    up = np.zeros((SIDE * SIDE, 4))
    up[:, 2] = 1.0
    path = trajectory(up, seed=1)
    assert path.min() >= 0 and path.max() <= SIDE
    assert path[-1, 1] < 1.0 and np.all(np.diff(path[:, 1])[:-1] <= 0.2 + 1e-6)  # upwards on the map is towards row 0
    assert np.array_equal(path, trajectory(up, seed=1))
