"""Is the service as calm under overload as it is fast when idle?

idle      one question at a time: the engine in this process, AsyncEngine in this process, and over HTTP, alternating
overload  200 clients ask without a pause for 30 seconds; one that is refused tries again after --pause seconds
hang-up   the same for 10 seconds, but half of the clients close their connection after 20 to 200 milliseconds
bodies    bodies over the cap, by length, in chunks without an end, and as gzip that unpacks to 500 times the cap
calm      how long after the last client has gone until a question takes no longer than twice what it takes when idle

A separate client asks for /healthz every 50 milliseconds all the while. The clients run in this process, on the same
cores as the service, so what they measure holds their own delays too.

python benchmarks/serve.py --json benchmarks/results/serve.json
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

import harness
import served
from runoff import Engine
from runoff.asynchronous import AsyncEngine
from runoff.demo import tour

HEALTH_SECONDS = 0.05
CAP = 4_000_000


@dataclass(slots=True)
class Seen:
    """Milliseconds of the answers by status, and of the probes."""

    answers: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    health: list[float] = field(default_factory=list)
    hung_up: int = 0

    def summary(self) -> dict[str, Any]:
        return {
            "answers": {str(status): _spread(times) for status, times in sorted(self.answers.items())},
            "healthz": _spread(self.health),
            "hung_up": self.hung_up,
        }


class Connection:
    """One keep-alive connection that sends a ready request and reads its answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pair: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> int:
        """Status of the answer."""
        if self._pair is not None and self._pair[0].at_eof():  # closed by the service after a while without requests
            self.close()
        if self._pair is None:
            self._pair = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._pair
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((line for line in head.split(b"\r\n") if line.startswith(b"content-length:")), b":0")
        await reader.readexactly(int(length.partition(b":")[2]))
        if b"connection: close" in head:
            self.close()
        return int(head[9:12])

    def close(self) -> None:
        if self._pair is not None:
            self._pair[1].transport.abort()
        self._pair = None


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--clients", type=int, default=200)
    options.add_argument("--seconds", type=float, default=30.0)
    options.add_argument("--pause", type=float, default=0.25)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        served.ingest(store, tour.feed_path())
        with served.service(store, "--cache-mb", "0") as running:
            results = {"idle": idle(store, running, arguments.rounds)}
            results |= uvloop.run(under_load(running, arguments, results["idle"]["http"]["median_ms"]))
    settings = {name: getattr(arguments, name) for name in ("clients", "seconds", "pause", "rounds")}
    harness.finish("serve", results, settings | {"seed": harness.SEED}, arguments.json)


def idle(store: Path, running: served.Running, rounds: int) -> dict[str, Any]:
    """Milliseconds of the demo's questions, one by one, by three ways."""
    questions = [question.text for question in tour.questions()]
    engine = Engine.open(store, cache_bytes=0)
    loop = uvloop.new_event_loop()
    aside = AsyncEngine(engine)

    async def over_http(text: str) -> None:
        connection = Connection(running.port)  # a new one: the loop does not run, and reads nothing, between the rounds
        assert await connection.ask(_search(text)) == 200
        connection.close()

    def each(ask: Callable[[str], Any]) -> Callable[[], None]:
        place = iter(questions * rounds)
        return lambda: ask(next(place))

    contenders = {
        "in process": each(engine.search),
        "AsyncEngine": each(lambda text: loop.run_until_complete(aside.search(text))),
        "http": each(lambda text: loop.run_until_complete(over_http(text))),
    }
    results: dict[str, Any] = harness.alternate(contenders, rounds)
    loop.close()
    return results


async def under_load(running: served.Running, arguments: Any, idle_ms: float) -> dict[str, Any]:
    """What clients saw, and the service's memory, in each of the scenarios."""
    rng = random.Random(harness.SEED)
    memory = {"before": running.resident_bytes()}
    overload = await clients(running, arguments, rng, arguments.seconds, hang_up=0.0)
    memory["after overload"] = running.resident_bytes()
    calm = await calm_after(running, idle_ms)
    again = await clients(running, arguments, rng, arguments.seconds / 3, hang_up=0.0)
    memory["after more of it"] = running.resident_bytes()
    hang_up = await clients(running, arguments, rng, arguments.seconds / 3, hang_up=0.5)
    memory["after hang-ups"] = running.resident_bytes()
    calm_again = await calm_after(running, idle_ms)
    bodies = await too_large(running)
    memory["after large bodies"] = running.resident_bytes()
    return {
        "overload": overload.summary(),
        "overload again": again.summary(),
        "hang-up": hang_up.summary(),
        "calm_seconds": {"after overload": calm, "after hang-ups": calm_again},
        "bodies": bodies,
        "resident_mb": {name: size / 1e6 for name, size in memory.items()},
    }


async def clients(running: served.Running, arguments: Any, rng: random.Random, seconds: float, hang_up: float) -> Seen:
    """Let all clients ask for that long."""
    seen = Seen()
    end = time.perf_counter() + seconds
    questions = [_search(question.text) for question in tour.questions()]
    impatient = int(arguments.clients * hang_up)
    tasks = [
        _client(running.port, rng.sample(questions, len(questions)), end, arguments.pause, seen, place < impatient)
        for place in range(arguments.clients)
    ]
    await asyncio.gather(_probe(running.port, end, seen), *tasks)
    print(f"{seconds:g} seconds, {hang_up:.0%} hang up:", json.dumps(seen.summary()), flush=True)
    return seen


async def _client(port: int, requests: list[bytes], end: float, pause: float, seen: Seen, impatient: bool) -> None:
    rng = random.Random(requests[0])
    connection = Connection(port)
    place = 0
    while time.perf_counter() < end:
        began = time.perf_counter()
        asked = connection.ask(requests[place % len(requests)])
        place += 1
        try:
            status = await (asyncio.wait_for(asked, rng.uniform(0.02, 0.2)) if impatient else asked)
        except asyncio.TimeoutError:
            seen.hung_up += 1
            connection.close()
            continue
        seen.answers[status].append((time.perf_counter() - began) * 1e3)
        if status == 429:
            await asyncio.sleep(pause * rng.uniform(0.5, 1.5))
    connection.close()


async def _probe(port: int, end: float, seen: Seen) -> None:
    connection = Connection(port)
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    while time.perf_counter() < end:
        began = time.perf_counter()
        assert await connection.ask(request) == 200
        seen.health.append((time.perf_counter() - began) * 1e3)
        await asyncio.sleep(HEALTH_SECONDS)
    connection.close()


async def calm_after(running: served.Running, idle_ms: float) -> float:
    """Seconds until a question takes no longer than twice its idle time."""
    began = time.perf_counter()
    connection = Connection(running.port)
    while time.perf_counter() < began + 10:
        asked = time.perf_counter()
        status = await connection.ask(_search(tour.QUESTION))
        if status == 200 and (time.perf_counter() - asked) * 1e3 <= 2 * idle_ms:
            break
        await asyncio.sleep(0.05)
    connection.close()
    return asked - began


async def too_large(running: served.Running) -> dict[str, int]:
    """Statuses of bodies over the cap."""
    head = b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    bomb = gzip.compress(b" " * (500 * CAP), 1)
    packed = head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + piece * (CAP // 0x10000 + 2)
    long = head + b"Content-Length: %d\r\n\r\n" % (10 * CAP)
    found = {}
    for name, request in {"by length": long, "in chunks without an end": chunked, "gzip": packed}.items():
        connection = Connection(running.port)
        found[name] = await connection.ask(request)
        connection.close()
    return found


def _search(text: str) -> bytes:
    body = json.dumps({"query": text}).encode()
    head = "POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
    return f"{head}{len(body)}\r\n\r\n".encode() + body


def _spread(times: list[float]) -> dict[str, float]:
    if not times:
        return {"count": 0}
    return {
        "count": len(times),
        "median_ms": harness.percentile(times, 50),
        "p99_ms": harness.percentile(times, 99),
        "max_ms": max(times),
    }


if __name__ == "__main__":
    main()
