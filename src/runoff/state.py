"""What a store remembers of its sources: how each was when last read, and which documents were removed by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType

from .identity import is_web


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source as it was when it was last read.

    Attributes:
        digest: SHA-256 (hexadecimal) of the bytes that it gave; None where it is a folder or could not be read yet.
        etag, last_modified: what its server said, for a conditional request, or None.
    """

    digest: str | None = None
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """The part of a generation that concerns sources.

    Attributes:
        sources: what the user named (addresses, absolute paths of files and folders), in that order; these are
            refreshed.
        files: state by address or path of every feed and document that was read, those inside of folders included.
        removed: ids of documents that were removed by hand; a refresh does not bring them back.
    """

    sources: tuple[str, ...] = ()
    files: Mapping[str, SourceState] = field(default_factory=lambda: MappingProxyType({}))
    removed: frozenset[str] = frozenset()

    def without(self, source: str) -> State:
        """The state without a source, and without what was read for it alone."""
        sources = tuple(name for name in self.sources if name != source)
        files = {
            name: state
            for name, state in self.files.items()
            if not _covers(source, name) or any(_covers(other, name) for other in sources)
        }
        return replace(self, sources=sources, files=files)

    def to_bytes(self) -> bytes:
        """The state as the store keeps it: JSON in UTF-8, equal bytes for equal states."""
        files = {name: {k: v for k, v in asdict(state).items() if v is not None} for name, state in self.files.items()}
        content = {"sources": self.sources, "files": files, "removed": sorted(self.removed)}
        return json.dumps(content, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass")

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """The state that ``to_bytes`` wrote; of nothing, an empty one."""
        if not data:
            return cls()
        content = json.loads(data.decode("utf-8", "surrogatepass"))
        files = {name: SourceState(**state) for name, state in content["files"].items()}
        return cls(tuple(content["sources"]), files, frozenset(content["removed"]))


def _covers(source: str, name: str) -> bool:
    """Whether a feed or document is a source, or lies in the folder that it is."""
    return name == source or (not is_web(source) and name.startswith(f"{source.rstrip('/')}/"))
