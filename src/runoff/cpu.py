"""What the processor can do, as far as it matters to 8-bit arithmetic."""

from __future__ import annotations

import platform
from itertools import takewhile
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
    """Value of a field of the first processor: a machine of many cores repeats it hundreds of times."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in takewhile(str.strip, lines):
                field, _, value = line.partition(":")
                if field.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return ""
