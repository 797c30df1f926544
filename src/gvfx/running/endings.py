"""What the first episodes of an environment show about its resets and ends, where a rule of Gymnasium seems to be broken.

Answers are wrong if the observation that comes with an end is the first of the next episode, if a time limit is returned as
`terminated`, or if `reset` seeds the environment's chance anew.  `Watch` records the first transitions, and its `signs` of these
three are so unlikely in other environments that each is worth a warning.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtr

UNLIKELY = 1e-4
RECORDED = 1000  # transitions
JUDGED = (12, 48, 192)  # endings after which the record is judged
FEWEST = 8  # endings of a kind
USUAL = 5  # transitions from a pair that show what usually follows
NUMBERS = 64  # of an observation that are compared
SEPARATED = 0.9  # the chance that a number is larger at an end than elsewhere, above which it may cause the end
REPEATS = (
    "episodes with the same actions are the same, although there is chance in them; if reset seeds the environment's chance, let "
    "it do so only when a seed is given."
)


class Moved(NamedTuple):
    """One transition; observations and actions as numbers or arrays."""

    before: Any
    action: Any
    after: Any
    age: int  # steps of the episode before it
    end: str  # "", "terminated" or "truncated"
    path: int  # the same for episodes with the same start and actions so far that began without a seed


class Watch:
    """The first transitions of a run; lanes are environments stepped together."""

    def __init__(self, lanes: int, several: bool, reads_next: bool) -> None:
        """several: whether there is more than one observation; reads_next: whether signals read the observation after a step."""
        self.several, self.reads_next = several, reads_next
        self.starts: list[Any] = []
        self.moves: list[Moved] = []
        self.ends: list[Moved] = []
        self.now: list[Any] = [None] * lanes
        self.path = [0] * lanes
        self.ended: list[int | None] = [None] * lanes  # the number of the last end, if an episode has yet to begin
        self.next: dict[int, int] = {}  # the start after an end, by their numbers
        self.chance: list[str] = []  # the state of the environment's generator after each reset without a seed
        self.reported: set[str] = set()
        self.compared, self.repeated = 0, dict[str, str]()  # how many transitions were compared, and what they show

    @property
    def recording(self) -> bool:
        return len(self.moves) < RECORDED

    def began(self, lane: int, observation: Any, seeded: bool = False, certain: bool = True) -> None:
        """An episode begins; seeded: its reset had a seed; certain: this is known, and not only what the mode says."""
        self.now[lane] = _compared_part(observation)
        own = ("seeded", lane, len(self.starts)) if seeded else (_key(self.now[lane]),)  # equal seeds may be given again
        self.path[lane] = hash(own)
        end, self.ended[lane] = self.ended[lane], None
        if certain:
            if end is not None:
                self.next[end] = len(self.starts)
            self.starts.append(self.now[lane])

    def reset(self, before: str, after: str) -> None:
        """A reset without a seed; the state of the environment's generator before and after it, where it is known."""
        if before != after:
            self.chance.append(after)

    def moved(self, lane: int, before: Any, action: Any, after: Any, age: int, end: str) -> bool:
        """A transition: every one while it is recording, then those that end an episode; whether the record must be judged."""
        action, after = _compared_part(action), _compared_part(after)
        before = self.now[lane] if self.recording else _compared_part(before)
        self.path[lane] = hash((self.path[lane], _key(action)))
        move = Moved(before, action, after, age, end, self.path[lane])
        if self.recording:
            self.moves.append(move)
        if end:
            self.ended[lane] = len(self.ends)
            self.ends.append(move)
        self.now[lane] = after
        return bool(end) and len(self.ends) in JUDGED

    @property
    def over(self) -> bool:
        return len(self.ends) >= JUDGED[-1]

    def found(self) -> dict[str, str]:
        """What the record shows: a sentence by field."""
        if self.compared < len(self.moves):  # not only ends have been added since
            self.compared, self.repeated = len(self.moves), repeats_itself(self)
        seeded = {"reset": REPEATS} if len(self.chance) >= FEWEST and len(set(self.chance)) == 1 else {}
        repeated = self.repeated or seeded  # which explains ends at starts too
        return {**({} if repeated else resets_itself(self)), **limits_time(self), **repeated}

    def signs(self) -> list[str]:
        """Sentences about what was not reported before."""
        found = self.found()
        new = [sentence for field, sentence in found.items() if field not in self.reported]
        self.reported |= set(found)
        return new


def _compared_part(value: Any) -> Any:
    """A copy of what is compared."""
    if isinstance(value, int | np.integer):
        return int(value)
    array = np.ravel(np.asarray(value))
    return array[:: max(1, -(-array.size // NUMBERS))].copy()


def _key(value: Any) -> Any:
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _pair(move: Moved) -> Any:
    return _key(move.before), _key(move.action)


# --- the observation that comes with an end -------------------------------------------------------------------------------


def resets_itself(watch: Watch) -> dict[str, str]:
    """Whether the observations with which episodes end are those with which they begin."""
    between = [move.after for move in watch.moves if not move.end]
    if len(watch.starts) == 0 or not (between or watch.several):
        return {}
    for end in ("truncated", "terminated"):
        last = [
            (move.after, watch.next.get(k))
            for k, move in enumerate(watch.ends)  # an action may also terminate a game without a move
            if move.end == end and (end == "truncated" or _key(move.before) != _key(move.after))
        ]
        matters = end == "truncated" or watch.reads_next  # nothing else reads the last observation
        if not matters or len(last) < FEWEST:
            continue
        starts = np.array(watch.starts) if isinstance(watch.starts[0], np.ndarray) else watch.starts
        if _are_starts(last, starts, between) or _come_from_nowhere(watch, end):
            return {
                "step": f"the observation that comes with `{end}` is the first of an episode in {len(last)} endings; if the "
                "environment resets itself in step, return the last observation of the episode."
            }
    return {}


def _are_starts(last: list[tuple[Any, int | None]], starts: list[Any] | np.ndarray, between: list[Any]) -> bool:
    """Whether last observations are among the starts as often as other starts are, and oftener than those between.

    last: with the numbers of the starts that follow, which do not count: a reset may continue where the last episode was cut.
    """
    n, k = len(last), sum(_is_other_start(end, following, starts) for end, following in last)
    again, usual = _share_repeated(starts), (_among(between, starts).sum() + 1) / (len(between) + 2)
    enough = k / n >= again - 2 * math.sqrt(again * (1 - again) / n)
    return bool(enough and k and 1 - bdtr(k - 1, n, usual) < UNLIKELY)


def _is_other_start(observation: Any, following: int | None, starts: list[Any] | np.ndarray) -> bool:
    """Whether an observation is among the starts without the one of this number."""
    if following is None:
        return bool(_among([observation], starts)[0])
    if isinstance(starts, np.ndarray):
        return len(starts) > 1 and bool(_among([observation], np.delete(starts, following, axis=0))[0])
    return starts.count(observation) > (starts[following] == observation)


def _come_from_nowhere(watch: Watch, end: str) -> bool:
    """Whether last observations are known ones that did not follow the same observation and action where episodes went on."""
    after: dict[Any, Counter[Any]] = defaultdict(Counter)
    for move in watch.moves:
        if not move.end:
            after[_pair(move)][_key(move.after)] += 1
    met = [(_key(move.after), own) for move in watch.ends if move.end == end and (own := after[_pair(move)]).total() >= USUAL]
    last, known = {key for key, _ in met}, set(map(_key, watch.starts))
    if end == "truncated":  # a termination may lead anywhere, but hardly to several starts
        known |= {_key(move.before) for move in watch.moves}
    if len(met) < FEWEST or not last <= known or (end == "terminated" and len(last) < 3):
        return False
    chance = np.mean([(list(own.values()).count(1) + 1) / (own.total() + 1) for _, own in met])  # of a new one (Good and Turing)
    new = sum(key not in own for key, own in met)
    return bool(new and 1 - bdtr(new - 1, len(met), chance) < UNLIKELY)


def _among(observations: list[Any], starts: list[Any] | np.ndarray) -> np.ndarray:
    """Which observations are among the starts: the same number, or a vector between the smallest and largest."""
    if not observations:
        return np.zeros(0, bool)
    if not isinstance(starts, np.ndarray):
        known = set(starts)
        return np.array([observation in known for observation in observations])
    low, high = np.min(starts, axis=0), np.max(starts, axis=0)
    rows = np.array(observations)
    return np.asarray(((rows >= low) & (rows <= high)).all(axis=1))


def _share_repeated(starts: list[Any] | np.ndarray) -> float:
    """The share of the starts that are among the others."""
    if not isinstance(starts, np.ndarray):
        times = Counter(starts)
        return sum(n for n in times.values() if n > 1) / len(starts)
    alone = np.zeros(len(starts), bool)
    for extreme in (starts.min(axis=0), starts.max(axis=0)):
        at = starts == extreme
        alone |= (at & (at.sum(axis=0) == 1)).any(axis=1)
    return float(1 - alone.mean())


# --- a time limit ------------------------------------------------------------------------------------------------------------


def limits_time(watch: Watch) -> dict[str, str]:
    """Whether episodes terminate at one age although nothing that is observed tells them from those that go on."""
    ends = watch.ends
    longest = max((move.age for move in ends), default=0)
    at = [move for move in ends if move.age == longest]
    if longest == 0 or len(at) < FEWEST or any(move.end == "truncated" for move in ends):
        return {}
    steps = sum(min(move.age, longest - 1) + 1 for move in ends)  # at earlier ages
    if ((len(ends) - len(at) + 1) / (steps + 2)) ** len(at) > UNLIKELY or _foreseeable(at, watch.moves, longest):
        return {}
    return {
        "terminated": f"{len(at)} of {len(ends)} episodes terminated after exactly {longest + 1} steps, the most of all, where "
        "others went on; if that is a time limit, return `truncated`, or let the observation show the time."
    }


def _foreseeable(at: list[Moved], moves: list[Moved], longest: int) -> bool:
    """Whether the observations before ends may show that they come."""
    on = [move for move in moves if not move.end and move.age < longest]
    went_on = set(map(_pair, on))
    repeated = np.mean([_pair(move) in went_on for move in at])
    if repeated > 0.5:
        return False
    if not on or not isinstance(at[0].before, np.ndarray) or at[0].before.size >= NUMBERS:
        return True
    ending, other = np.array([move.before for move in at]), np.array([move.before for move in on])
    clock = (np.ptp(ending, axis=0) == 0) & (np.ptp(other, axis=0) > 0)
    middle = np.median(other, axis=0)
    apart = np.maximum(_separation(ending, other), _separation(abs(ending - middle), abs(other - middle)))
    return bool(clock.any() or (apart > SEPARATED).any() or not np.ptp(other, axis=0).any())


def _separation(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """How well each number tells two groups apart: 1/2 not at all, 1 always."""
    larger = (some[:, None] > others).mean(axis=(0, 1)) + (some[:, None] == others).mean(axis=(0, 1)) / 2
    return np.maximum(larger, 1 - larger)


# --- chance that begins anew ---------------------------------------------------------------------------------------------------


def repeats_itself(watch: Watch) -> dict[str, str]:
    """Whether episodes with the same actions are the same, although what follows a pair differs within them."""
    by_path: dict[Any, set[Any]] = defaultdict(set)
    by_pair: dict[Any, list[Moved]] = defaultdict(list)
    for move in watch.moves:
        by_path[move.path].add(_key(move.after))
        by_pair[_pair(move)].append(move)
    if any(len(after) > 1 for after in by_path.values()):
        return {}
    evidence = 0.0  # the log of the chance of so many repetitions
    for moves in by_pair.values():
        once = {move.path: _key(move.after) for move in moves}
        likely = (Counter(once.values()).most_common(1)[0][1] + 1) / (len(once) + 1)  # 1 if all are the same
        evidence += (len(moves) - len(once)) * math.log(likely)
    return {"reset": REPEATS} if evidence <= math.log(UNLIKELY) else {}
