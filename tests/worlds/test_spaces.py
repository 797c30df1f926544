"""Spaces: what is read, numbered and listed of them; single observations and batches are told apart by their form."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

import gvfx
from gvfx.errors import InputError
from gvfx.worlds.spaces import (
    batched,
    count_of,
    countable,
    described,
    elements_of,
    fits,
    key_of,
    label_of,
    observation_of,
    random_element,
    readable,
    reduced,
    same_observation,
    space_from,
)
from gvfx.worlds.spec import BoxSpec, actions_of, box_spec

CARDS = Tuple((Discrete(32), Discrete(11), Discrete(2)))
ROOM = Dict({"place": Box(0, 9, (2,), np.int32), "door": MultiBinary(3), "turn": Discrete(4, start=1)})
SPACES = [
    Discrete(5, start=2),
    MultiDiscrete([3, 4], start=[1, -2]),
    MultiBinary([2, 2]),
    Box(-3, 3, (2, 2), np.int16),
    CARDS,
    ROOM,
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_key_tells_the_observation_and_survives_a_file(space):
    space.seed(0)
    again = space_from(described(space))
    for _ in range(20):
        observation = space.sample()
        key = key_of(space, observation)
        assert all(type(x) is int for x in key)
        assert same_observation(observation_of(space, key), observation)
        assert key_of(again, observation) == key and label_of(observation_of(again, key)) == label_of(observation)
        assert fits(space, observation) and fits(again, observation)


@pytest.mark.parametrize("space", [Discrete(5, start=2), MultiDiscrete([3, 4], start=[1, -2]), MultiBinary(3), CARDS], ids=str)
def test_elements_are_all_different_and_in_the_space(space):
    elements = elements_of(space)
    assert len(elements) == count_of(space) == len({key_of(space, e) for e in elements})
    assert all(space.contains(e) for e in elements)
    keys = [key_of(space, e) for e in elements]
    assert keys == sorted(keys)  # the last number changes fastest
    rng = np.random.default_rng(0)
    assert space.contains(random_element(space, rng))


@pytest.mark.parametrize(
    ("space", "numbered"),
    [(CARDS, True), (ROOM, True), (Box(0, 255, (7, 7, 3), np.uint8), True), (Box(0, 1, (2,)), False),
     (Dict({"a": Discrete(3), "b": Box(0, 1, (1,))}), False), (Box(0, 255, (17, 17), np.uint8), False)],
    ids=str,
)  # fmt: skip
def test_few_whole_numbers_are_countable(space, numbered):
    assert countable(space) is numbered


def test_entries_without_numbers_are_left_out_and_named():
    mission = Dict({"image": Box(0, 9, (2,), np.uint8), "goal": Dict({"words": Text(5), "at": Discrete(3)}), "note": Text(5)})
    kept, left_out = readable(mission)
    assert left_out == ("goal.words", "note")
    observation = {"image": np.array([1, 2], np.uint8), "goal": {"words": "left", "at": 2}, "note": "x"}
    assert same_observation(reduced(kept, observation), {"image": np.array([1, 2]), "goal": {"at": 2}})
    assert key_of(kept, observation) == (2, 1, 2)
    both = Tuple((Text(5), Discrete(4)))
    kept, left_out = readable(both)
    assert left_out == ("0",) and key_of(kept, ("hello", 3)) == (3,) and reduced(kept, ("hello", 3)) == (3,)
    assert fits(kept, ("hello", 3)) and key_of(space_from(described(kept)), ("hello", 3)) == (3,)
    assert readable(ROOM) == (ROOM, ())


@pytest.mark.parametrize(
    ("space", "words"),
    [(Text(5), "Text holds no numbers"), (Box(0, 255, (96, 96, 3), np.uint8), "an image of 96 x 96 x 3 numbers.*Grayscale"),
     (Dict({"eye": Box(0, 255, (84, 84), np.uint8)}), "'eye' is an image of 84 x 84")],
)  # fmt: skip
def test_what_cannot_be_read_says_what_to_wrap(space, words):
    with pytest.raises(InputError, match=f"^observation_space: .*{words}"):
        readable(space)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_one_observation_and_a_batch_are_told_apart(space):
    space.seed(1)
    several = [space.sample() for _ in range(3)]
    rows, alone = batched(space, several[0])
    assert alone and same_observation(rows[0], several[0])
    assert batched(space, (several[0], {"info": 1})) == (rows, True) or alone  # what reset returned
    rows, alone = batched(space, several)
    assert not alone and all(map(same_observation, rows, several))
    vector = gym.vector.utils.concatenate(space, several, gym.vector.utils.create_empty_array(space, 3))
    rows, alone = batched(space, vector)
    assert not alone and [key_of(space, row) for row in rows] == [key_of(space, row) for row in several]


@pytest.mark.parametrize("given", ["start", None, [[1, 2]], (1, 2), {"a": 1}, [(1, 2, 0), "x"]])
def test_what_is_no_observation_gets_a_sentence(given):
    with pytest.raises(InputError, match="^observation: .*give what the environment returns"):
        batched(CARDS, given)


def test_what_reset_returns_counts_as_its_observation():
    assert batched(CARDS, ((14, 10, 0), {})) == ([(14, 10, 0)], True)
    with pytest.raises(InputError, match=r"use result\.value\(\)"):
        batched(Box(0, 1, (2,)), "start")


class Levers(gym.Env):
    """Actions that are not Discrete."""

    observation_space = Box(0, 1, (2,), np.float32)

    def __init__(self, actions):
        self.action_space = actions


def test_actions_are_listed_in_the_order_of_policies():
    assert gvfx.actions_of(Levers(Discrete(3, start=4))) == [4, 5, 6]
    assert [a.tolist() for a in actions_of(Levers(MultiDiscrete([2, 2])))] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    spec = box_spec(Levers(MultiBinary(2)))
    assert type(spec) is BoxSpec and spec.actions == 4 and spec.to_env(np.int64(2)).tolist() == [1, 0]
    assert spec.number_of(np.array([1, 0], np.int8)) == 2
    with pytest.raises(InputError, match="^action_space: MultiDiscrete has 2,000 actions, more than the 1,000"):
        gvfx.actions_of(Levers(MultiDiscrete([50, 40])))
