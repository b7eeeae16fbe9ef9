"""Turns what other systems describe a workload with into a model folder.

Each system has a folder here with a function `read`, which returns a `Draft`. `draft.py` says what that is, `source.py`
keeps account of every key of a foreign file, and `specfile.py` writes the spec.
"""
