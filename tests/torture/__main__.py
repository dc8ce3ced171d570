"""`python -m torture NAME COUNT` prints the figures of one promise; with `--json FILE [NAME...]` they run in full."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", metavar="NAME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.json is not None:
        return 0 if run.all_of(options.words or list(run.FULL), options.seed, options.json) else 1
    name, count = options.words
    json.dump(run.one(name, int(count), options.seed), sys.stdout)
    return 0


sys.exit(main())
