"""Fuzzes mlpack with mutated specs, packages, archives and imports: each must succeed or end with an error of ours.

python -m tests.fuzz [SUBJECT...] -n 100000 [--seed S]         the same seed makes the same inputs
python -m tests.fuzz specs --seed S --only 4711                one input, whose folder is kept
"""
