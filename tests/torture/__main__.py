"""`python -m torture NAME COUNT` prints the figures of one promise; with `--json FILE [NAME...]` they run in full.

With `--serve` it reads lines of NAME COUNT and answers each with a line, from a forked child: what that costs to begin
is a few milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from . import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", metavar="NAME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        with os.fdopen(os.dup(0)) as lines:  # children may want stdin untouched
            for line in lines:
                name, count = line.split()
                print(json.dumps(run.forked(name, int(count), options.seed)), flush=True)
        return 0
    if options.json is not None:
        return 0 if run.all_of(options.words or list(run.FULL), options.seed, options.json) else 1
    name, count = options.words
    json.dump(run.one(name, int(count), options.seed), sys.stdout)
    return 0


sys.exit(main())
