"""Plain onnxruntime over the 8-bit ONNX file: one padded batch, or batches of four sorted by length."""

PACKAGES = ("onnxruntime", "tokenizers")


def load(variant, models, threads):
    import numpy as np
    import onnxruntime as ort
    from tokenizers import Tokenizer

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    graph = models / "checkpoint" / "onnx" / "model_int8.onnx"
    session = ort.InferenceSession(str(graph), settings, providers=["CPUExecutionProvider"])
    names = {entry.name for entry in session.get_inputs()}
    tokenizer = Tokenizer.from_file(str(models / "checkpoint" / "tokenizer.json"))
    tokenizer.enable_truncation(512, strategy="only_second")
    tokenizer.enable_padding()

    def score(query, passages):
        size = len(passages) if variant == "padded" else 4
        order = np.argsort([len(text) for text in passages], kind="stable")
        logits = np.empty(len(passages))
        for first in range(0, len(passages), size):
            rows = order[first : first + size]
            encoded = tokenizer.encode_batch([(query, passages[row]) for row in rows])
            feeds = {
                "input_ids": np.array([each.ids for each in encoded], np.int64),
                "token_type_ids": np.array([each.type_ids for each in encoded], np.int64),
                "attention_mask": np.array([each.attention_mask for each in encoded], np.int64),
            }
            logits[rows] = session.run(None, {k: v for k, v in feeds.items() if k in names})[0].reshape(-1)
        return logits.tolist()

    return score
