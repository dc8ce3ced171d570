"""What the processor can do, as far as it matters to 8-bit arithmetic."""

from __future__ import annotations

import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_OF_INTEREST = (
    "sse4_1",
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "amx_int8",
    "asimd",
    "asimddp",
    "i8mm",
    "sve",
)


def features(cpuinfo: Path = _CPUINFO) -> tuple[str, ...]:
    """Names of the instruction sets that this machine has, of those that matter here; empty where unknown."""
    flags = set(_field(cpuinfo, "flags").split()) | set(_field(cpuinfo, "Features").split())
    return tuple(name for name in _OF_INTEREST if name in flags)


def model_name(cpuinfo: Path = _CPUINFO) -> str:
    """The processor's name, or its architecture where the system tells no more."""
    return _field(cpuinfo, "model name") or platform.machine()


def _field(cpuinfo: Path, name: str) -> str:
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    values = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name)
    return next(values, "")
