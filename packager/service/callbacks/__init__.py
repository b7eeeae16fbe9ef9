"""Callbacks: reports changes of a job's status to its endpoints."""
