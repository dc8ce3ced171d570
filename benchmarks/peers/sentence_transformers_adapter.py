"""sentence-transformers' CrossEncoder: torch in fp32, or the 8-bit ONNX file, or OpenVINO with 8-bit weights."""

PACKAGES = ("sentence-transformers", "torch")


def load(variant, models, threads):
    import torch
    from sentence_transformers import CrossEncoder

    torch.set_num_threads(threads)
    folder = models / "checkpoint"
    backend, file = {
        "torch": ("torch", None),
        "onnx-int8": ("onnx", "onnx/model_int8.onnx"),
        "openvino-int8": ("openvino", "openvino/openvino_model_int8.xml"),
    }[variant]
    settings = {} if file is None else {"file_name": file}
    model = CrossEncoder(
        str(folder), device="cpu", backend=backend, max_length=512, local_files_only=True, model_kwargs=settings
    )

    def score(query, passages):
        pairs = [(query, passage) for passage in passages]
        found = model.predict(pairs, batch_size=32, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        return found.reshape(-1).tolist()

    return score
