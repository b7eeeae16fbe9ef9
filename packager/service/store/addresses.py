"""Recognizes addresses of PostgreSQL, without its library."""

from __future__ import annotations


def is_postgres(address: str) -> bool:
    """Whether an address is one of PostgreSQL, and not a file."""
    return address.startswith(("postgresql:", "postgres:"))
