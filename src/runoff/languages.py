"""Language tags as sources write them, to BCP 47 (RFC 5646). What is no tag, or names no language, is none."""

from __future__ import annotations

import re

_TAG = re.compile(
    r"(?P<language>[a-z]{2,3})(?:-[a-z]{3}){0,3}(?:-(?P<script>[a-z]{4}))?(?:-(?P<region>[a-z]{2}|[0-9]{3}))?"
    r"(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*(?:-[a-wyz0-9](?:-[a-z0-9]{2,8})+)*(?:-x(?:-[a-z0-9]{1,8})+)?"
)
_LONGEST = 100
_NO_LANGUAGES = frozenset(("und", "mul", "mis", "zxx"))
# Withdrawn codes that software still writes, by the registry's preferred values.
_PREFERRED = {"iw": "he", "in": "id", "ji": "yi"}


def normal(tag: str) -> str | None:
    """Language, script and region of a tag, in the usual case: ``PT_br`` is ``pt-BR``, ``zh-hans`` is ``zh-Hans``.

    Variants, extensions and private parts are left out. None where the text is no tag or stands for no one language.
    """
    match = _TAG.fullmatch(tag.strip().lower().replace("_", "-")) if len(tag) <= _LONGEST else None
    if match is None or match["language"] in _NO_LANGUAGES:
        return None
    language = _PREFERRED.get(match["language"], match["language"])
    return "-".join(filter(None, (language, (match["script"] or "").title(), (match["region"] or "").upper())))
