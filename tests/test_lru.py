"""The cache that is bounded by bytes: order, bound, counts, threads and forks."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import threading
import tracemalloc
from collections import OrderedDict

import pytest

from runoff.lru import ENTRY_BYTES, LRU, CacheStats, allocated


def key(number: int) -> bytes:
    return hashlib.blake2b(str(number).encode(), digest_size=16).digest()


def entry_bytes(value: bytes) -> int:
    return ENTRY_BYTES + allocated(key(0)) + allocated(value)


def test_what_was_not_used_for_longest_leaves_first() -> None:
    cache: LRU[bytes] = LRU(3 * entry_bytes(b"0"), allocated)
    cache.keep((key(number), b"%d" % number) for number in range(3))
    assert cache.find([key(0)]) == [b"0"]
    cache.keep([(key(3), b"3")])
    assert cache.find([key(number) for number in range(4)]) == [b"0", None, b"2", b"3"]
    assert cache.stats() == CacheStats(4, 1, 3, 3 * entry_bytes(b"0"), 3 * entry_bytes(b"0"))


def test_a_value_takes_the_place_of_the_one_before() -> None:
    cache: LRU[bytes] = LRU(10_000, allocated)
    for value in (b"a", b"b" * 1000, b"c"):
        cache.keep([(key(1), value)])
        assert cache.find([key(1)]) == [value]
        assert (cache.stats().entries, cache.stats().bytes) == (1, entry_bytes(value))
    cache.keep([(key(1), b"d" * 10_000)])  # larger than the bound: it cannot stay, nor may the old one
    assert cache.find([key(1)]) == [None]
    assert (cache.stats().entries, cache.stats().bytes) == (0, 0)


def test_a_bound_of_zero_keeps_nothing() -> None:
    cache: LRU[bytes] = LRU(0, allocated)
    cache.keep([(key(1), b"")])
    assert cache.find([key(1)]) == [None]
    assert cache.stats() == CacheStats(0, 1, 0, 0, 0)


def test_it_does_what_a_plain_reference_does() -> None:
    rng, bound = random.Random(5), 20_000
    cache: LRU[bytes] = LRU(bound, allocated)
    plain: OrderedDict[bytes, bytes] = OrderedDict()
    for _ in range(4000):
        name = key(rng.randrange(200))
        if rng.random() < 0.5:
            assert cache.find([name]) == [plain.get(name)]
            if name in plain:
                plain.move_to_end(name)
        else:
            value = bytes(rng.randrange(600))
            plain.pop(name, None)
            plain[name] = value
            while sum(map(entry_bytes, plain.values())) > bound:
                plain.popitem(last=False)
            cache.keep([(name, value)])
        assert (cache.stats().entries, cache.stats().bytes) == (len(plain), sum(map(entry_bytes, plain.values())))


@pytest.mark.parametrize("entries", [1400, 10_000, 11_000])
def test_no_more_memory_is_taken_than_is_counted(entries: int) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        cache: LRU[bytes] = LRU(10_000_000, allocated)
        for number in range(entries):
            cache.keep([(key(number), bytes([1]) * (number % 40))])
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert cache.stats().entries == entries
    assert 0.6 * cache.stats().bytes < taken <= cache.stats().bytes + 2000  # the empty cache itself


def test_many_threads_share_one_cache() -> None:
    cache: LRU[bytes] = LRU(100 * entry_bytes(b"00000"), allocated)
    wrong: list[bytes | None] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(500):
            numbers = [rng.randrange(300) for _ in range(8)]
            found = cache.find([key(number) for number in numbers])
            wrong.extend(
                value for number, value in zip(numbers, found, strict=True) if value not in (None, b"%05d" % number)
            )
            cache.keep((key(number), b"%05d" % number) for number in numbers)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    stats = cache.stats()
    assert not wrong
    assert (stats.entries, stats.bytes) == (100, stats.bound)
    assert stats.hits + stats.misses == 8 * 500 * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_child_that_is_forked_while_the_cache_is_busy_goes_on_with_it() -> None:
    code = (
        "import os, threading\nfrom runoff.lru import LRU, allocated\ncache = LRU(100_000, allocated)\n"
        "def work():\n"
        "    while True: cache.keep([(b'%d' % number, b'x' * number) for number in range(400)])\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "codes = []\n"
        "for _ in range(40):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        cache.keep([(b'mine', b'1')])\n"
        "        os._exit(int(cache.find([b'mine']) != [b'1']))\n"
        "    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(sum(codes), cache.find([b'mine']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=280)
    assert done.stdout == "0 [None]\n"
