"""Builds the native extensions. Flags stay portable: the C code chooses instruction sets at run time."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

CHECKED = os.environ.get("RUNOFF_CHECKED", "0") == "1"
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": CHECKED,
}
COMPILE_ARGS = ["-O1", "-g"] if CHECKED else ["-O3", "-g0"]


# Products and sums must round one by one where the C code says so, whatever the compiler would like to fuse.
EXACT = ["-ffp-contract=off"]
# For tests: the AVX-512 kernel on emulated instructions, so that it runs where the CPU lacks them.
EMULATED = os.environ.get("RUNOFF_EMULATED", "0") == "1"
AVX512 = "../../tests/native/kernel_emulated.c" if EMULATED else "kernel_avx512vnni.c"
ENCODER = ("encoder.c", "kernel_avx2.c", AVX512, "kernel_portable.c", "pack.c", "pool.c")


def extension(name: str, *sources: str) -> Extension:
    headers = sorted(str(path) for pattern in ("*.h", "*.pxi") for path in Path("src/_native").glob(pattern))
    return Extension(
        f"runoff.{name}",
        [f"src/_native/{source}" for source in sources],
        include_dirs=["src/_native"],
        depends=headers,
        extra_compile_args=[*COMPILE_ARGS, *EXACT],
        extra_link_args=["-pthread"],
    )


setup(
    packages=[*find_packages("src"), "runoff._models"],
    package_dir={"": "src", "runoff._models": "models"},
    package_data={
        "runoff": ["py.typed", "*.pyi", "demo/*.xml", "demo/*.jsonl", "serve/page/*"],
        "runoff._models": ["**/*"],
    },
    ext_modules=cythonize(
        [
            extension("_pairs", "pairs.pyx"),
            extension("_bm25", "bm25.pyx"),
            extension("_scan", "scan.pyx"),
            extension("_hnsw", "hnsw.pyx"),
            extension("_encoder", "_encoder.pyx", *ENCODER),
        ],
        compiler_directives=DIRECTIVES,
    ),
    options={"build": {"build_base": "build/emulated"}} if EMULATED else {},  # no wheel may pick up its objects
)
