"""Rewards, components and what the loss saw, by hardness, by length and by group kind.

In: groups, or single numbers of completions. Out: means under names `by/BUCKETS/BUCKET/NUMBER`, and components over all
under `components/NAME`. Not here: when they are written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from text2sql_rl.records import Finish, Group, Rollout

# Upper ends as shares of the token limit.
_LENGTHS = ((0.25, "to-quarter"), (0.5, "to-half"), (1.0, "to-limit"))
_CUT = "cut"


class Buckets:
    """Names of the buckets a completion is in.

    Args:
        hardness: question id -> how hard it is said to be.
        longest: the token limit of a completion.
    """

    def __init__(self, hardness: Mapping[str, str], longest: int) -> None:
        self._hardness, self._longest = hardness, longest

    def of(self, group: Group, rollout: Rollout) -> tuple[str, str, str]:
        """The three buckets of one completion, e.g. `hardness/easy`, `length/to-half`, `kind/informative`."""
        share = rollout.completion.tokens / self._longest
        length = next((name for end, name in _LENGTHS if share <= end), _LENGTHS[-1][1])
        if rollout.completion.finish is Finish.LENGTH:
            length = _CUT
        hardness = self._hardness.get(group.question_id, "unknown")
        return f"hardness/{hardness}", f"length/{length}", f"kind/{group.kind.value}"

    def of_rewards(self, groups: Iterable[Group]) -> dict[str, float]:
        """Mean reward, tokens and components; unscored rollouts count for tokens only."""
        found: list[tuple[tuple[str, ...], Mapping[str, float]]] = []
        components: dict[str, list[float]] = defaultdict(list)
        for group in groups:
            for rollout in group.rollouts:
                numbers = {"tokens": float(rollout.completion.tokens)}
                if rollout.reward.total is not None:
                    numbers["reward"] = rollout.reward.total
                for item in rollout.reward.items:
                    if item.kind == "component":
                        numbers[item.name] = item.value
                        components[item.name].append(item.value)
                found.append((self.of(group, rollout), numbers))
        overall = {f"components/{name}": _mean(values) for name, values in components.items()}
        return {**overall, **dict(means(found))}


def means(found: Iterable[tuple[Sequence[str], Mapping[str, float]]]) -> Iterator[tuple[str, float]]:
    """The mean of each number in each bucket, by name."""
    values: dict[str, list[float]] = defaultdict(list)
    for buckets, numbers in found:
        for bucket in buckets:
            for name, value in numbers.items():
                values[f"by/{bucket}/{name}"].append(value)
    return ((name, _mean(values[name])) for name in sorted(values))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
