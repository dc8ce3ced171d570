"""`python -m torture NAME COUNT`: one promise in a process of its own; prints its figures as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from . import damage, disk, kill, trace, writers

PROMISES = {
    "kill": kill.moments,
    "first_save": kill.first_saves,
    "acknowledged": kill.acknowledged,
    "trace": trace.order,
    "disk_sizes": disk.sizes,
    "disk_full": disk.full,
    "disk_calls": disk.calls,
    "disk_command": disk.command_line,
    "flips": damage.flips,
    "truncations": damage.truncations,
    "swaps": damage.swaps,
    "verify": damage.verify,
    "locked": writers.locked,
    "two_writers": writers.two,
    "seen": writers.seen,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PROMISES)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="runoff-torture-") as folder:
        figures = PROMISES[options.name](Path(folder), options.count, options.seed)
    json.dump(figures, sys.stdout)


main()
