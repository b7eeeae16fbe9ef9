"""Determines how a workload is, and why, from the objects of one moment: pure functions that ask no cluster."""
