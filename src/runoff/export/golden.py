"""Golden inputs, the torch model's outputs on them, and a plain onnxruntime runner to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..artifact import GRAPH_INPUTS, Golden
from ..errors import ExportError

if TYPE_CHECKING:
    from .checkpoint import Checkpoint

Run = Callable[[dict[str, NDArray[np.int64]]], NDArray[np.float32]]

LONG = (
    "Settlement runs twice a day. At six in the morning and again at two in the afternoon the ledger closes a window,"
    " adds up what each merchant sold, subtracts refunds, chargebacks and fees, and hands one figure a currency to the"
    " payout service. The payout service looks up the account on file, checks that the bank is open in its own country,"
    " and picks a rail: a local transfer where we hold a balance, a wire where we do not. A local transfer lands within"
    " hours and costs a few cents. A wire takes two or three days, passes through a correspondent bank that keeps a"
    " share, and can come back for a missing middle name. Whatever the rail, a payout is written down before it is sent"
    " and carries a key that makes a second attempt harmless: if the connection breaks, we ask the bank about the key"
    " instead of sending again. Exchange rates are fixed when the window closes and shown to the merchant in the"
    " report, so that the sum on the statement can be followed to the last cent. When a holiday closes a bank, the run"
    " waits and says so; nobody should have to guess why Thursday's money came on Friday. Last year 99.2 percent of"
    " payouts in 31 countries arrived within the time that we had promised, and the rest are listed, one by one, with"
    " the reason."
)
TEXTS = (
    "refund",
    "How do payouts to merchants in other countries work?",
    "Payouts to merchants abroad are converted at the rate of the settlement window and sent as local transfers.",
    "Payouts to merchants abroad are never converted; they are sent as wires in the currency of the sale.",
    "The cat slept on the warm engine of the delivery van all morning.",
    "A webhook that is delivered twice must not book twice: compare the event's id with those already seen.",
    "Der Händler erhält die Auszahlung am nächsten Werktag, sofern keine Rückbuchung offen ist.",
    "退款将在五个工作日内到账。",
    "Ünïcödé, naïve café, ½ price, 10 €, and a rocket 🚀 at 3:45 p.m.",
    "error E1042: idempotency_key='a1b2-c3d4' reused with a different body (HTTP 409)",
    "def fee(amount: int, rate: float) -> int: return round(amount * rate)",
    "What is the capital of Australia? Canberra, though many would say Sydney.",
    "no no no no no no no no no no no no no no no no",
    LONG,
)
PAIRS = (
    ("refund", "refund"),
    (TEXTS[1], TEXTS[2]),
    (TEXTS[1], TEXTS[3]),
    (TEXTS[1], TEXTS[4]),
    (TEXTS[1], LONG),
    ("how long does a wire transfer take", LONG),
    ("how long does a wire transfer take", "International wires arrive within two to three business days."),
    ("what to do about duplicate webhooks", TEXTS[5]),
    ("what to do about duplicate webhooks", TEXTS[9]),
    ("capital of australia", TEXTS[11]),
    ("capital of austria", TEXTS[11]),
    ("Wann kommt die Auszahlung?", TEXTS[6]),
    ("退款 多久", TEXTS[7]),
    ("price of a café 🚀", TEXTS[8]),
)


def inputs(kind: str) -> tuple[Any, ...]:
    """The golden inputs of a kind of model: texts, or (query, passage) pairs."""
    return TEXTS if kind == "bi-encoder" else PAIRS


def encode(tokenizer: Any, entry: Any, max_length: int) -> dict[str, NDArray[np.int64]]:
    """One input as the arrays [1, tokens] that a graph takes; only the passage of a pair is cut."""
    pair = (entry,) if isinstance(entry, str) else entry
    tokenizer.enable_truncation(max_length, strategy="only_first" if len(pair) == 1 else "only_second")
    encoding = tokenizer.encode(*pair)
    columns = (encoding.ids, encoding.attention_mask, encoding.type_ids)
    return {name: np.array([values], dtype=np.int64) for name, values in zip(GRAPH_INPUTS, columns, strict=True)}


def outputs(run: Run, checkpoint: Checkpoint, entries: Sequence[Any]) -> NDArray[np.float32]:
    """Outputs for inputs, one unpadded run each: float32 [n, dimensions] or [n]."""
    tokenizer = checkpoint.tokenizer()
    rows = [run(encode(tokenizer, entry, checkpoint.max_length))[0] for entry in entries]
    stacked = np.stack(rows).astype(np.float32)
    return stacked[:, 0] if checkpoint.kind == "cross-encoder" else stacked


def torch_runner(checkpoint: Checkpoint, model: Any) -> Run:
    """Runs the fp32 torch model, pooled and normalised as the checkpoint says."""
    import torch

    def run(arrays: dict[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        with torch.inference_mode():
            result = model(**{name: torch.from_numpy(array) for name, array in arrays.items()})
            if checkpoint.kind == "cross-encoder":
                return np.asarray(result.logits.numpy())
            state = result.last_hidden_state
            vector = state.mean(dim=1) if checkpoint.pooling == "mean" else state[:, 0]
            return np.asarray((torch.nn.functional.normalize(vector) if checkpoint.normalize else vector).numpy())

    return run


def onnx_runner(graph: Path) -> Run:
    """Runs a graph on onnxruntime, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    names = {entry.name for entry in session.get_inputs()}

    def run(arrays: dict[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        return np.asarray(session.run(None, {name: array for name, array in arrays.items() if name in names})[0])

    return run


def require(what: str, golden: Golden, got: NDArray[np.float32]) -> float:
    """The largest error of outputs, which has to be within the tolerance.

    Raises:
        ExportError: it is not; nothing should be written.
    """
    errors = golden.errors(got)
    if not errors.max() <= golden.tolerance:
        worst = golden.inputs[int(errors.argmax())]
        raise ExportError(
            f"{what}: golden {golden.metric} error {errors.max():.4g} on {worst!r:.60}, expected at most"
            f" {golden.tolerance}; nothing was written; try --precision fp32"
        )
    return float(errors.max())
