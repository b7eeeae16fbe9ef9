"""Converts workload descriptions of other systems into model folders.

Each system has a folder here with a function `read`, which returns a `Draft` (`draft.py`). `source.py` records which
keys of a foreign file have been read, and `specfile.py` writes the spec.
"""
