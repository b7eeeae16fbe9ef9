"""Specs, packages, archives and imports by the million: mutated real ones, each of which ends well or with our error.

python -m tests.fuzz [SUBJECT...] -n 100000 [--seed S]         again, from the same seed: the same inputs
python -m tests.fuzz specs --seed S --only 4711                one of them, whose folder is kept
"""
