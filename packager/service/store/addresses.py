"""Recognizes addresses of PostgreSQL, without its library. Tests: service/store/test_databases.py."""

from __future__ import annotations


def is_postgres(address: str) -> bool:
    """Whether an address is one of PostgreSQL, and not a file."""
    return address.startswith(("postgresql:", "postgres:"))
