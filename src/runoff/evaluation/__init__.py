"""Evaluation on labelled data: what `runoff eval` does, for programs (needs the extra `eval`)."""

from .collection import Collection, Query, load
from .experiment import Evaluation, Labelled, Settings, from_folder, from_questions, make_folder, require_packages, run

__all__ = [
    "Collection",
    "Evaluation",
    "Labelled",
    "Query",
    "Settings",
    "from_folder",
    "from_questions",
    "load",
    "make_folder",
    "require_packages",
    "run",
]
