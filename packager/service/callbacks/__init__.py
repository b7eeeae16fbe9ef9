"""Callbacks: tells the endpoints of a job what becomes of it."""
