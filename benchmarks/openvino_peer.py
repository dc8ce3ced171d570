"""OpenVINO int8 by NNCF: openvino_peer.py GRAPH.onnx PAIRS.npz THREADS, then a line "workload size" for each answer in
JSON: the logits of its pairs, in batches of `size` pairs sorted by length, over THREADS streams."""

import json
import sys

import numpy as np
import openvino as ov


def feeds(data, name, size):
    ids, types, starts = (data[f"{name}/{part}"] for part in ("ids", "types", "starts"))
    lengths = np.diff(starts)
    order = np.argsort(-lengths, kind="stable")
    for rows in (order[first : first + size] for first in range(0, len(order), size)):
        mask = np.arange(lengths[rows].max()) < lengths[rows, None]
        at = np.where(mask, starts[rows, None] + np.arange(mask.shape[1]), 0)
        arrays = {"input_ids": ids[at] * mask, "token_type_ids": types[at] * mask, "attention_mask": mask}
        yield rows, {key: values.astype(np.int64) for key, values in arrays.items()}


def main(graph, pairs, threads):
    import nncf  # talks while it loads

    data, logits = dict(np.load(pairs)), {}
    examples = nncf.Dataset([feed for _, feed in feeds(data, "calibration", 1)])
    model = nncf.quantize(ov.Core().read_model(graph), examples, model_type=nncf.ModelType.TRANSFORMER)
    settings = {"INFERENCE_NUM_THREADS": int(threads), "NUM_STREAMS": int(threads)}
    queue = ov.AsyncInferQueue(ov.Core().compile_model(model, "CPU", settings))
    queue.set_callback(lambda run, rows: logits.update(zip(rows, run.get_output_tensor().data.flat, strict=True)))
    print(ov.__version__, nncf.__version__, flush=True, file=sys.__stdout__)
    for line in sys.stdin:
        for rows, feed in feeds(data, line.split()[0], int(line.split()[1])):
            queue.start_async(feed, rows.tolist())
        queue.wait_all()
        print(json.dumps([float(logits[row]) for row in sorted(logits)]), flush=True, file=sys.__stdout__)


if __name__ == "__main__":
    sys.stdout = sys.stderr  # NNCF prints its progress; only answers go to the real one
    main(*sys.argv[1:])
