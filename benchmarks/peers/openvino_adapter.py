"""Plain OpenVINO: pairs of two sorted by length, in flight at once on as many streams as threads."""

PACKAGES = ("openvino", "tokenizers")


def load(variant, models, threads):
    import numpy as np
    import openvino as ov
    from tokenizers import Tokenizer

    graph = {"fp32": "fp32/model.onnx", "int8": "checkpoint/openvino/openvino_model_int8.xml"}[variant]
    settings = {"NUM_STREAMS": threads, "INFERENCE_NUM_THREADS": threads}
    model = ov.Core().compile_model(str(models / graph), "CPU", settings)
    names = {name for entry in model.inputs for name in entry.names}
    tokenizer = Tokenizer.from_file(str(models / "checkpoint" / "tokenizer.json"))
    tokenizer.enable_truncation(512, strategy="only_second")
    tokenizer.enable_padding()

    def score(query, passages):
        logits = np.empty(len(passages))
        queue = ov.AsyncInferQueue(model, threads)
        queue.set_callback(
            lambda request, rows: logits.__setitem__(rows, request.get_output_tensor(0).data.reshape(-1))
        )
        order = np.argsort([-len(text) for text in passages], kind="stable")
        for first in range(0, len(passages), 2):
            rows = order[first : first + 2]
            encoded = tokenizer.encode_batch([(query, passages[row]) for row in rows])
            feeds = {
                "input_ids": np.array([each.ids for each in encoded], np.int64),
                "token_type_ids": np.array([each.type_ids for each in encoded], np.int64),
                "attention_mask": np.array([each.attention_mask for each in encoded], np.int64),
            }
            queue.start_async({k: v for k, v in feeds.items() if k in names}, rows)
        queue.wait_all()
        return logits.tolist()

    return score
