"""Is a fast path still faster than what it replaced? Loose bounds, for every change; ends with 1 when one is broken.

The native backend against planned onnxruntime, and the plan against one padded batch, over 12 passages of mixed length
in one process, alternating. A ratio on a shared machine is noisy, so a bound must be missed three times in a row.

    python benchmarks/quick.py --rounds 3
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np

import harness
from runoff import assembly, models, threads
from runoff.assembly import Passages, SpecialTokens
from runoff.errors import BackendError
from runoff.reranker import CrossEncoder

ROUNDS, ATTEMPTS = 3, 3
# How many times as long the first may take as the second before it counts as lost.
BOUNDS = {("native", "planned"): 1.1, ("planned", "padded"): 1.1}
LENGTHS = (10, 10, 14, 40, 60, 80, 90, 110, 140, 170, 200, 230)


def main() -> None:
    options = harness.parser(__doc__)
    options.set_defaults(rounds=ROUNDS)
    chosen = options.parse_args()
    contenders = _contenders()
    results: dict[str, list[float]] = {}
    for (fast, slow), bound in BOUNDS.items():
        if fast not in contenders:
            print(f"{fast}: does not run here; not compared")
            continue
        pair = {name: contenders[name] for name in (fast, slow)}
        results[f"{fast} / {slow}"] = ratios = compare(pair, bound, chosen.rounds)
        print(f"{fast} / {slow}: {', '.join(f'{ratio:.2f}' for ratio in ratios)} (at most {bound})")
    harness.finish("quick", results, {"rounds": chosen.rounds, "attempts": ATTEMPTS}, chosen.json)
    lost = [name for pair, bound in BOUNDS.items() if results.get(name := " / ".join(pair), [0.0])[-1] > bound]
    if lost:
        sys.exit(f"{', '.join(lost)}: above the bound {ATTEMPTS} times in a row")


def compare(pair: Mapping[str, Callable[[], object]], bound: float, rounds: int) -> list[float]:
    """The first's time over the second's, taken anew until it is within the bound, at most ``ATTEMPTS`` times."""
    ratios: list[float] = []
    while len(ratios) < ATTEMPTS and not (ratios and ratios[-1] <= bound):
        first, second = (row["median_ms"] for row in harness.alternate(pair, rounds).values())
        ratios.append(first / second)
    return ratios


def _contenders() -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(harness.SEED)
    query = rng.integers(2000, 20000, 9).astype(np.int32)
    passages = Passages.pack([rng.integers(2000, 20000, length).astype(np.int32) for length in LENGTHS])
    planned = CrossEncoder.load(backend="onnxruntime")
    padded = _padded(query, passages)
    found: dict[str, Callable[[], object]] = {"planned": lambda: planned.score(query, passages), "padded": padded}
    try:
        native = CrossEncoder.load(backend="native")
    except BackendError:
        return found
    return {"native": lambda: native.score(query, passages), **found}


def _padded(query: np.ndarray, passages: Passages) -> Callable[[], object]:
    import onnxruntime

    artifact = models.find(models.DEFAULT_CROSS_ENCODER)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads.budget()
    session = onnxruntime.InferenceSession(str(artifact.graph_path), settings, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def run() -> object:
        pairs = assembly.padded(query, passages, artifact.max_length, SpecialTokens())
        feeds = dict(zip(("input_ids", "token_type_ids", "attention_mask"), pairs.batch(0, len(pairs)), strict=True))
        return session.run(None, {name: feeds[name] for name in names})

    return run


if __name__ == "__main__":
    main()
