"""The types of columns that have different names in SQLite and PostgreSQL. Tests: service/store/test_migration.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy
from sqlalchemy import BigInteger, Boolean, Integer, TypeDecorator

if TYPE_CHECKING:
    from sqlalchemy import Dialect
    from sqlalchemy.types import TypeEngine


class Flag(TypeDecorator[bool]):
    """A boolean; an integer in SQLite, whose STRICT tables have no boolean type."""

    impl = Boolean
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[bool] | TypeEngine[int]:
        """Return the type of the column in a dialect."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Integer())
        return dialect.type_descriptor(Boolean())

    def process_result_value(self, value: object, dialect: Dialect) -> bool | None:  # noqa: ARG002 - the signature of `TypeDecorator`
        """Return a value from the database as a boolean."""
        return None if value is None else bool(value)


Number = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit integer."""

Text = sqlalchemy.Text().with_variant(sqlalchemy.Text(collation="C"), "postgresql")
"""A text that is compared and sorted by its bytes, as in SQLite."""
