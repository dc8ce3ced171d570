"""Lays the cross-encoder out as each peer wants it: one folder, the same weights in every form.

Run it where openvino and nncf are installed:

    python prepare.py --checkpoint FOLDER --stock FILE --fp32 FOLDER --text CORPUS.jsonl.gz --out MODELS

FOLDER and FILE are the recovered checkpoint, the 8-bit ONNX file that it was recovered from, and the fp32 artifact that
`runoff models export` made of it (docs/models.md). The 8-bit OpenVINO file is made here, by NNCF's static quantisation
on 40 pairs of neighbouring texts from the corpus.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from pathlib import Path

PAIRS = 40


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("checkpoint", "stock", "fp32", "text", "out"):
        options.add_argument(f"--{name}", type=Path, required=True)
    chosen = options.parse_args()
    checkpoint = chosen.out / "checkpoint"
    shutil.copytree(chosen.checkpoint, checkpoint, dirs_exist_ok=True)
    shutil.copytree(chosen.fp32, chosen.out / "fp32", dirs_exist_ok=True)
    _copy(chosen.stock, checkpoint / "onnx" / "model_int8.onnx")
    _copy(chosen.stock, chosen.out / "fastembed" / "onnx" / "model.onnx")
    flashrank = chosen.out / "flashrank" / "ms-marco-MiniLM-L-12-v2"
    _copy(chosen.stock, flashrank / "flashrank-MiniLM-L-12-v2_Q.onnx")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        _copy(checkpoint / name, chosen.out / "fastembed" / name)
        _copy(checkpoint / name, flashrank / name)
    _quantise(chosen.out, chosen.text)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _quantise(out: Path, corpus: Path) -> None:
    import nncf
    import numpy as np
    import openvino as ov
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(out / "checkpoint" / "tokenizer.json"))
    tokenizer.enable_truncation(512, strategy="only_second")
    with gzip.open(corpus, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for _, line in zip(range(PAIRS), file, strict=False)]
    model = ov.Core().read_model(str(out / "fp32" / "model.onnx"))
    names = {name for entry in model.inputs for name in entry.names}

    def feeds(record: dict[str, str]) -> dict[str, np.ndarray]:
        pair = tokenizer.encode(record["title"] or record["text"][:60], record["text"])
        rows = {"input_ids": pair.ids, "token_type_ids": pair.type_ids, "attention_mask": pair.attention_mask}
        return {name: np.array([row], np.int64) for name, row in rows.items() if name in names}

    quantised = nncf.quantize(
        model, nncf.Dataset(records, feeds), model_type=nncf.ModelType.TRANSFORMER, subset_size=PAIRS
    )
    target = out / "checkpoint" / "openvino" / "openvino_model_int8.xml"
    target.parent.mkdir(parents=True, exist_ok=True)
    ov.save_model(quantised, str(target), compress_to_fp16=False)


if __name__ == "__main__":
    main()
