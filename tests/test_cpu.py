"""What the processor says about itself."""

from __future__ import annotations

from pathlib import Path

from runoff import cpu


def test_features_of_both_architectures_are_read(tmp_path: Path) -> None:
    x86 = tmp_path / "x86"
    x86.write_text("processor\t: 0\nmodel name\t: Fast CPU\nflags\t\t: fpu avx2 avx512f avx512_vnni made_up\n")
    assert cpu.features(x86) == ("avx2", "avx512f", "avx512_vnni")
    assert cpu.model_name(x86) == "Fast CPU"
    arm = tmp_path / "arm"
    arm.write_text("processor : 0\nFeatures : fp asimd asimddp i8mm\n")
    assert cpu.features(arm) == ("asimd", "asimddp", "i8mm")


def test_the_first_processor_speaks_for_all(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nflags\t\t: avx2\n\nprocessor\t: 1\nflags\t\t: avx2 fma\nmodel name\t: Other\n")
    assert cpu.features(path) == ("avx2",)
    assert cpu.model_name(path) != "Other"


def test_an_unknown_system_has_no_known_features(tmp_path: Path) -> None:
    assert cpu.features(tmp_path / "absent") == ()
    assert cpu.model_name(tmp_path / "absent")
