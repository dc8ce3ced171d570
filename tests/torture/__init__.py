"""Torture of the store: each module holds one promise, as a function of a folder, a count and a seed.

A function returns figures for the record and raises ``AssertionError`` where the promise is broken. Each runs in a
process of its own without threads, which forks the children that it kills.
"""
