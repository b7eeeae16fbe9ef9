"""Fuzzes mlpack with mutated packages, archives and answers of registries: each must succeed or end in our error.

python -m tests.fuzz [SUBJECT...] -n 100000 [--seed S]         the same seed makes the same inputs
python -m tests.fuzz packages --seed S --only 4711                one input, whose folder is kept
"""
