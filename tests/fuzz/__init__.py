"""Specs and packages by the million: mutated real ones, each of which has to end well or with one of our own errors.

python -m tests.fuzz [specs|packages] -n 100000 [--seed S]     again, from the same seed: the same inputs
python -m tests.fuzz specs --seed S --only 4711                one of them, whose folder is kept
"""
