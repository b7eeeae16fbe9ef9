"""The goals of speed and memory, each a ratio of two things measured in turn in one run: `python -m benchmarks`."""
