"""Does any body make the service fail? Generated bodies against a running service, by its own OpenAPI document.

Half of the bodies fit the document and half break it, both made by schemathesis (extra `clients`) with a fixed seed.
Counted as a failure: a status of 500, an answer that is not as the document says, a traceback, or a path of the
machine. A load of large but valid bodies may time out or be refused (429, 504), which is counted apart.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

import harness
import served

# What is tried is what bodies do; texts that take long to read would only make it slow.
SHORT = ("Payouts abroad take two days.", "Webhooks carry a signature.", "Bread needs patience.")
CHECKS = [content_type_conformance, response_schema_conformance]


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--bodies", type=int, default=10_000)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, texts = Path(folder) / "store", Path(folder) / "short.jsonl"
        texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in SHORT), encoding="utf-8")
        served.ingest(store, texts)
        with served.service(store, "--timeout-ms", "5000") as running:
            results = fuzz(running.url, folder, arguments.bodies)
    harness.finish("serve_fuzz", results, {"bodies": arguments.bodies, "seed": harness.SEED}, arguments.json)
    sys.exit(bool(results["failures"]))


def fuzz(url: str, folder: str, bodies: int) -> dict[str, Any]:
    """Statuses of all bodies, and what failed."""
    document = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [found for found in (result.ok() for result in document.get_all_operations()) if found.body]
    each = -(-bodies // (2 * len(operations)))
    statuses: dict[str, Counter[int]] = {}
    failures: list[str] = []
    for operation in operations:
        seen = statuses.setdefault(operation.path, Counter())
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            attempt(operation, mode, each, folder, seen, failures)
        print(operation.path, dict(seen), len(failures), "failures", flush=True)
    return {
        "bodies": sum(sum(seen.values()) for seen in statuses.values()),
        "statuses": {path: {str(status): seen[status] for status in sorted(seen)} for path, seen in statuses.items()},
        "failures": failures[:20],
    }


def attempt(operation: Any, mode: Any, count: int, folder: str, seen: Counter[int], failures: list[str]) -> None:
    """Send that many bodies of one kind."""
    sent = 0

    @hypothesis.seed(harness.SEED)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        nonlocal sent
        sent += 1
        response = case.call(timeout=60)
        seen[response.status_code] += 1
        text = response.content.decode("utf-8", "replace")
        if response.status_code == 500 or "Traceback" in text or folder in text:
            failures.append(f"{operation.path}: {response.status_code} {text[:200]}")
        try:
            case.validate_response(response, checks=CHECKS)
        except Exception as error:  # schemathesis raises groups of its own
            failures.append(f"{operation.path}: {str(error)[:300]}")

    while sent < count:  # a strategy that runs dry ends early, and another seed's bodies are as good
        before = sent
        send()
        if sent == before:
            return


if __name__ == "__main__":
    main()
