"""Reads numbers from the lines of logs into curves, and draws them."""
