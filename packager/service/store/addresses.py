"""Tells which kind of database an address names, without its library."""

from __future__ import annotations


def is_postgres(address: str) -> bool:
    """Whether an address is one of PostgreSQL, and not of a file."""
    return address.startswith(("postgresql:", "postgres:"))
