"""Connections to public addresses only, for fetching what strangers name.

A name is resolved where the connection is made and the very address that was checked is connected to, so that neither
a redirect nor a name that changes its mind leads to a private network.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from .errors import FetchError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet; those that carry another address in them count as that."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return all(inner.is_global and not inner.is_multicast for inner in (ip, *_carried(ip)))


class PublicPoolManager(urllib3.PoolManager):
    """A pool manager whose connections reach public addresses only.

    Args:
        allowed: says which addresses may be reached; replaced in tests.
    """

    def __init__(self, *, allowed: Callable[[str], bool] = is_public, **settings: Any) -> None:
        super().__init__(**settings)
        self.pool_classes_by_scheme = {"http": _pool(HTTPConnectionPool, HTTPConnection, allowed)}
        self.pool_classes_by_scheme["https"] = _pool(HTTPSConnectionPool, HTTPSConnection, allowed)


def _carried(ip: Address) -> tuple[Address, ...]:
    """Addresses inside an IPv6 address of one of the transition schemes."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ()
    translated = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _TRANSLATED else None
    found = (ip.ipv4_mapped, ip.sixtofour, translated, *(ip.teredo or ()))
    return tuple(address for address in found if address is not None)


def _pool(pool: type[Any], connection: type[Any], allowed: Callable[[str], bool]) -> type[Any]:
    class Checked(connection):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            return _connect(self.host, self.port, self.timeout, allowed)

    class CheckedPool(pool):  # type: ignore[misc]
        ConnectionCls = Checked

    return CheckedPool


def _connect(host: str, port: int, timeout: Any, allowed: Callable[[str], bool]) -> socket.socket:
    """A connection to the first address of a host that answers, if all of its addresses may be reached.

    Raises:
        FetchError: one of them may not.
        NewConnectionError, NameResolutionError: as urllib3 raises them.
    """
    bare = host.strip("[]")
    try:
        found = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchError(f"{bare}: the name cannot be resolved ({error})") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not allowed(address):
            raise FetchError(f"{bare}: not a public address; only those are read for clients")
    failure: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout if isinstance(timeout, int | float) else None)
        except OSError as error:
            failure = error
    raise FetchError(f"{bare}: no connection ({failure})")
