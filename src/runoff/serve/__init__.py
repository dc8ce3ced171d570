"""Runoff over HTTP: search, prompt and ingest, rerank and embedding APIs that clients know, and a page to see it work.

Needs the extra ``serve``. ``settings`` says what can be chosen, ``app`` puts the parts together, ``launch`` runs it.
"""
