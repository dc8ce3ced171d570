"""The native encoder against its rivals: twenty pairs, the same weights, both cores, alternating in one run.

- native: the packed int8 encoder.
- planned: the same artifact on onnxruntime by Runoff's plan (one unpadded pair a run, one thread a run).
- padded: the same artifact on onnxruntime, one padded batch with all threads inside the run; `--stock` adds the same
  over the graph that onnxruntime's quantize_dynamic wrote, which is what rerankers commonly ship.
- openvino: `--openvino PYTHON --fp32 FOLDER`: int8 by NNCF in a process of its own, at its best batch size.

Also: the share of the machine's int8 peak, time by part, one thread against all, and each kernel that this CPU runs.

    python benchmarks/native.py --text CORPUS.jsonl.gz --json benchmarks/results/native.json
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import harness
from peak import Peak, operations
from runoff import _encoder, assembly, models, native, threads
from runoff.artifact import Artifact
from runoff.assembly import Pairs, Passages, SpecialTokens
from runoff.reranker import CrossEncoder

PEER_SIZES = (1, 2, 4)
CALIBRATION_PAIRS = 60
PARTS = {
    "linear": ("project", "out", "up", "down"),
    "attention": ("attend",),
    "norms": ("norm",),
    "quantisation": ("quantise",),
    "embedding and pooling": ("embed", "pool"),
}


class Work:
    """One workload: the query, its tokenised passages, and the pairs packed as the encoder takes them."""

    def __init__(self, encoder: CrossEncoder, query: str, passages: list[str]) -> None:
        self.query = encoder.tokenizer.encode(query)
        self.passages = Passages.pack(encoder.tokenizer.encode_batch(passages))
        self._limit = encoder.artifact.max_length

    def packed(self) -> Pairs:
        return assembly.packed(self.query, self.passages, self._limit, SpecialTokens(), np.int32)

    def padded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pairs = assembly.padded(self.query, self.passages, self._limit, SpecialTokens())
        return pairs.batch(0, len(pairs))


class Openvino:
    """A peer process that holds the quantised model; the time of a line there and back is charged to it."""

    def __init__(self, python: Path, graph: Path, pairs: Path, count: int) -> None:
        command = [python, Path(__file__).with_name("openvino_peer.py"), graph, pairs, str(count)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self._read()

    def score(self, name: str, size: int) -> np.ndarray:
        print(name, size, file=self._process.stdin, flush=True)
        return np.array(json.loads(self._read()), dtype=np.float32)

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line.strip() if line else sys.exit("the OpenVINO process ended; see its message above")

    def close(self) -> None:
        self._process.communicate()


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--text", type=Path, required=True)
    options.add_argument("--stock", type=Path)
    options.add_argument("--fp32", type=Path, help="fp32 artifact of the cross-encoder (docs/models.md)")
    options.add_argument("--openvino", type=Path, help="python of an environment with openvino and nncf")
    chosen = options.parse_args()
    count = threads.budget(chosen.threads)
    encoders = {name: CrossEncoder.load(backend=name, threads=count) for name in ("native", "onnxruntime")}
    work = {
        name: Work(encoders["native"], query, passages)
        for name, (query, passages) in harness.workloads(chosen.text).items()
    }
    sessions = {"padded": _session(encoders["native"].artifact.graph_path, count)}
    if chosen.stock:
        sessions["padded, stock graph"] = _session(chosen.stock, count)
    peak = Peak()
    peer = _openvino(chosen, count, work, encoders["native"]) if chosen.openvino else None
    before = peak.operations_per_second(count)
    results: dict[str, Any] = {
        name: _compare(name, one, encoders, sessions, peer, chosen.rounds) for name, one in work.items()
    }
    fastest = max(before, peak.operations_per_second(count))
    summed = peak.operations_per_second(count, summed=True)
    for name, one in work.items():
        lengths = np.diff(one.packed().offsets)
        seconds = results[name]["native"]["median_ms"] / 1e3
        results[name]["peak share"] = operations(encoders["native"].artifact, lengths) / seconds / fastest
        results[name]["parts"] = _parts(encoders["native"].artifact, one, count)
    results["scaling"] = _scaling(work["p200"], count, chosen.rounds)
    results["kernels"] = _kernels(encoders["native"].artifact, work["p200"], count, chosen.rounds)
    settings = {"rounds": chosen.rounds, "threads": count, "kernel": native.choose_kernel(None)}
    settings |= {"peak": fastest / 1e9, "summed peak": summed / 1e9}
    if peer:
        settings["openvino"] = peer.version
        peer.close()
    harness.finish("native", results, settings, chosen.json)


def _session(graph: Path, count: int) -> Any:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = count
    return onnxruntime.InferenceSession(str(graph), settings, providers=["CPUExecutionProvider"])


def _openvino(chosen: Any, count: int, work: dict[str, Work], encoder: CrossEncoder) -> Openvino:
    passages = harness.passages(chosen.text, CALIBRATION_PAIRS + 1, seed=harness.SEED + 1)
    everything = {**work, "calibration": Work(encoder, " ".join(passages[0].split()[:9]), passages[1:])}
    with tempfile.TemporaryDirectory() as folder:
        pairs = Path(folder) / "pairs.npz"
        arrays = {}
        for name, one in everything.items():
            packed = one.packed()
            parts = {"ids": packed.ids, "types": packed.types, "starts": packed.offsets}
            arrays.update({f"{name}/{part}": values for part, values in parts.items()})
        np.savez(pairs, **arrays)
        return Openvino(chosen.openvino, models.find(chosen.fp32).graph_path, pairs, count)


def _compare(
    name: str,
    one: Work,
    encoders: dict[str, CrossEncoder],
    sessions: dict[str, Any],
    peer: Openvino | None,
    rounds: int,
) -> dict[str, Any]:
    def padded(session: Any) -> Any:
        feeds = dict(zip(("input_ids", "token_type_ids", "attention_mask"), one.padded(), strict=True))
        return session.run(None, {entry.name: feeds[entry.name] for entry in session.get_inputs()})[0]

    contenders = {
        "native": lambda: encoders["native"].score(one.query, one.passages),
        "planned": lambda: encoders["onnxruntime"].score(one.query, one.passages),
        **{key: lambda session=session: padded(session) for key, session in sessions.items()},
        **({f"openvino by {size}": lambda size=size: peer.score(name, size) for size in PEER_SIZES} if peer else {}),
    }
    times: dict[str, Any] = harness.alternate(contenders, rounds)
    sizes = [key for key in times if key.startswith("openvino")]
    if peer:
        best = min(sizes, key=lambda key: times[key]["median_ms"])
        times["openvino"] = {**times[best], "batch": best.split()[-1]}
    ours = times["native"]["median_ms"]
    rivals = [key for key in times if key != "native" and key not in sizes]
    tokens = len(one.packed().ids)
    return {
        "tokens": tokens,
        **times,
        "tokens_per_s": tokens / ours * 1e3,
        "ratio": {key: ours / times[key]["median_ms"] for key in rivals},
        "rms to planned": _rms(contenders["native"]().logits, contenders["planned"]().logits),
        **({"rms to openvino": _rms(contenders["native"]().logits, peer.score(name, 1))} if peer else {}),
    }


def _rms(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean((a - b) ** 2)))


def _parts(artifact: Artifact, one: Work, count: int) -> dict[str, float]:
    """Milliseconds of processor time by part, over all threads; assembly is the face's, on one."""
    encoder = native.pack(artifact, native.choose_kernel(None))
    times, rounds = np.zeros(len(_encoder.PARTS_NAMES), np.uint64), 5
    started = time.perf_counter()
    for _ in range(rounds):
        pairs = one.packed()
    assembling = (time.perf_counter() - started) / rounds * 1e3
    out = np.empty(len(pairs), np.float32)
    encoder.run(pairs.ids, pairs.types, pairs.offsets, count, out)
    for _ in range(rounds):
        encoder.run(pairs.ids, pairs.types, pairs.offsets, count, out, times)
    by_name = dict(zip(_encoder.PARTS_NAMES, (times / rounds / 1e6).tolist(), strict=True))
    return {**{part: sum(by_name[name] for name in names) for part, names in PARTS.items()}, "assembly": assembling}


def _scaling(one: Work, count: int, rounds: int) -> dict[str, Any]:
    encoders = {str(n): CrossEncoder.load(backend="native", threads=n) for n in sorted({1, count})}
    run = {name: lambda encoder=encoder: encoder.score(one.query, one.passages) for name, encoder in encoders.items()}
    times: dict[str, Any] = harness.alternate(run, rounds)
    return {**times, "speed-up": times["1"]["median_ms"] / times[str(count)]["median_ms"]}


def _kernels(artifact: Artifact, one: Work, count: int, rounds: int) -> dict[str, Any]:
    names = [name for name in ("avx512vnni", "avx2") if _encoder.kernel_name(name)]
    pairs, out = one.packed(), np.empty(len(one.passages), np.float32)
    encoders = {name: native.pack(artifact, name) for name in names}
    run = {
        name: lambda encoder=encoder: encoder.run(pairs.ids, pairs.types, pairs.offsets, count, out)
        for name, encoder in encoders.items()
    }
    return harness.alternate(run, min(rounds, 3))


if __name__ == "__main__":
    main()
