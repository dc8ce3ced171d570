"""What a process costs that holds both encoders: resident memory and load time, each contender in fresh processes.

Load is timed inside the process, from before the first import to both encoders ready; memory is read after each has
answered once. `--peer PYTHON` names an environment with sentence-transformers; it loads the same two models in fp32
from `--bi-encoder` and `--cross-encoder`, folders with checkpoints (docs/models.md).

    python benchmarks/footprint.py --json benchmarks/results/footprint.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import harness

MEASURE = """
import json, re, sys, time
started = time.perf_counter()
first, second = sys.argv[1:]
{load}
loaded = time.perf_counter() - started
{answer}
status = open("/proc/self/status").read()
resident, peak = (int(re.search(key + r":\\s+(\\d+)", status)[1]) / 1024 for key in ("VmRSS", "VmHWM"))
print(json.dumps({{"load_ms": loaded * 1e3, "resident_mib": resident, "peak_mib": peak,
                   "imports onnxruntime": "onnxruntime" in sys.modules}}))
"""
RUNOFF = """
from runoff.encoder import BiEncoder
from runoff.reranker import Reranker
encoder, reranker = BiEncoder.load(backend=first), Reranker.load(backend=second)
"""
RUNOFF_ANSWER = 'encoder.encode(["a passage"]); reranker.rank("a query", ["a passage " * 100])'
PEER = """
from sentence_transformers import CrossEncoder, SentenceTransformer
encoder, reranker = SentenceTransformer(first, device="cpu"), CrossEncoder(second, device="cpu")
"""
PEER_ANSWER = 'encoder.encode(["a passage"]); reranker.predict([("a query", "a passage " * 100)])'


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--peer", type=Path, help="python of an environment with sentence-transformers")
    options.add_argument("--bi-encoder", type=Path)
    options.add_argument("--cross-encoder", type=Path)
    chosen = options.parse_args()
    ours = MEASURE.format(load=RUNOFF, answer=RUNOFF_ANSWER)
    commands = {name: [sys.executable, "-c", ours, name, name] for name in ("native", "onnxruntime")}
    if chosen.peer:
        peer = MEASURE.format(load=PEER, answer=PEER_ANSWER)
        commands["sentence-transformers"] = [chosen.peer, "-c", peer, chosen.bi_encoder, chosen.cross_encoder]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for number in range(chosen.rounds + 1):
        for name, command in commands.items():
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            if number:  # the first round warms the page cache
                runs[name].append(json.loads(output.splitlines()[-1]))
    results = {name: {key: median(row[key] for row in rows) for key in rows[0]} for name, rows in runs.items()}
    harness.finish("footprint", results, {"rounds": chosen.rounds}, chosen.json)


if __name__ == "__main__":
    main()
