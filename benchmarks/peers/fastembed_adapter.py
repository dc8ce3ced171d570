"""fastembed's TextCrossEncoder over the 8-bit ONNX file."""

PACKAGES = ("fastembed", "onnxruntime")


def load(variant, models, threads):
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    folder = str(models / "fastembed")
    model = TextCrossEncoder("Xenova/ms-marco-MiniLM-L-12-v2", threads=threads, specific_model_path=folder)
    return lambda query, passages: [float(value) for value in model.rerank(query, passages)]
