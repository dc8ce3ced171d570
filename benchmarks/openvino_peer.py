"""OpenVINO, int8 by NNCF: reads packed pairs, then a workload's name a line, and prints logits as JSON.

Runs in the peer's own environment: python openvino_peer.py GRAPH.onnx PAIRS.npz THREADS. A line "name size" asks for
batches of `size` pairs, sorted by length, over `THREADS` streams.
"""

import json
import sys

import numpy as np
import openvino as ov


def feeds(data, name, size):
    ids, types, starts = (data[f"{name}/{part}"] for part in ("ids", "types", "starts"))
    order = np.argsort(-np.diff(starts), kind="stable")
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        shape = (len(chosen), int(np.diff(starts)[chosen].max()))
        batch = {key: np.zeros(shape, np.int64) for key in ("input_ids", "token_type_ids", "attention_mask")}
        for row, at in enumerate(chosen):
            span = slice(starts[at], starts[at + 1])
            for key, values in zip(batch, (ids[span], types[span], 1), strict=True):
                batch[key][row, : span.stop - span.start] = values
        yield chosen, batch


def main(graph, pairs, threads):
    import nncf

    data = np.load(pairs)
    examples = nncf.Dataset([feed for _, feed in feeds(data, "calibration", 1)])
    model = nncf.quantize(ov.Core().read_model(graph), examples, model_type=nncf.ModelType.TRANSFORMER)
    settings = {"INFERENCE_NUM_THREADS": int(threads), "NUM_STREAMS": int(threads)}
    queue = ov.AsyncInferQueue(ov.Core().compile_model(model, "CPU", settings))
    logits = {}
    queue.set_callback(
        lambda request, rows: logits.update(zip(rows, request.get_output_tensor().data[:, 0], strict=True))
    )
    print(ov.__version__, nncf.__version__, flush=True, file=sys.__stdout__)
    for line in sys.stdin:
        for rows, batch in feeds(data, line.split()[0], int(line.split()[1])):
            queue.start_async(batch, rows.tolist())
        queue.wait_all()
        print(json.dumps([float(logits[row]) for row in sorted(logits)]), flush=True, file=sys.__stdout__)
        logits.clear()


if __name__ == "__main__":
    sys.stdout = sys.stderr  # NNCF prints its progress
    main(*sys.argv[1:])
