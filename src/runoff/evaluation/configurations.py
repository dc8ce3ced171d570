"""The rankings that are compared: each first stage alone, reranked by logit, and reranked by logit and similarity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .candidates import Pass

Second = Literal["none", "logit", "blend"]

_LABELS: Mapping[Second, str] = {"none": "", "logit": " + rerank", "blend": " + blend"}


@dataclass(frozen=True, slots=True)
class Configuration:
    """A first stage and what the second does with its list.

    Attributes:
        mode: name of the first stage.
        second: ``"none"`` keeps its order, ``"logit"`` sorts by logit, ``"blend"`` by logit + weight x cosine.
    """

    mode: str
    second: Second

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.mode}{_LABELS[self.second]}"

    @property
    def slug(self) -> str:
        """The name as part of a file's name."""
        return self.name.replace(" + ", "-")

    def chunks(self, found: Pass, weight: float) -> list[int]:
        """Chunk ids, best first, ties by chunk id.

        Args:
            found: the question's pass.
            weight: of the cosine beside the logit, in logits.
        """
        listed = [chunk for chunk, _ in found.lists[self.mode]]
        if self.second == "none":
            return listed
        share = weight if self.second == "blend" else 0.0
        score = {chunk: found.chunks[chunk].logit + share * found.chunks[chunk].cosine for chunk in listed}
        return sorted(listed, key=lambda chunk: (-score[chunk], chunk))

    def documents(self, found: Pass, weight: float) -> list[str]:
        """Document ids in the order of their best chunk, each once."""
        return list(dict.fromkeys(found.chunks[chunk].document for chunk in self.chunks(found, weight)))

    def milliseconds(self, found: Pass, steps: Sequence[str]) -> float | None:
        """Time of the whole ranking, or None where this pass timed another mode's runoff."""
        first = sum(found.milliseconds[step] for step in steps)
        if self.second == "none":
            return first
        return first + found.rerank_ms if found.timed == self.mode else None


def for_modes(modes: Iterable[str]) -> tuple[Configuration, ...]:
    """All configurations of some first stages."""
    return tuple(Configuration(mode, second) for mode in modes for second in _LABELS)


def comparisons(configurations: Sequence[Configuration]) -> list[tuple[Configuration, Configuration]]:
    """Which is compared with which: a second stage with its first, blend with logit, a first stage with dense."""
    pairs: list[tuple[Configuration, Configuration]] = []
    by_name = {(each.mode, each.second): each for each in configurations}
    for each in configurations:
        baselines = {"none": ("dense", "none"), "logit": (each.mode, "none"), "blend": (each.mode, "none")}
        baseline = by_name.get(baselines[each.second])  # type: ignore[arg-type]
        if baseline is not None and baseline != each:
            pairs.append((each, baseline))
        if each.second == "blend":
            pairs.append((each, by_name[each.mode, "logit"]))
    return pairs
