"""From a checkpoint to a model artifact: fp32 ONNX, 8-bit weights, golden check, one folder.

Needs the extra ``export`` (torch, transformers, optimum-onnx, onnx); importing this package does not.
"""

from .settings import ExportSettings, export, run

__all__ = ["ExportSettings", "export", "run"]
