"""Runs the user's own kubectl, and explains its errors."""
