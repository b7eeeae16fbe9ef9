"""The types of columns that SQLite and PostgreSQL call by different names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import BigInteger, Boolean, Integer, TypeDecorator

if TYPE_CHECKING:
    from sqlalchemy import Dialect
    from sqlalchemy.types import TypeEngine


class Flag(TypeDecorator[bool]):
    """True or false: an integer in SQLite, whose STRICT tables know no boolean."""

    impl = Boolean
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type of a column."""
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else Boolean())

    def process_result_value(self, value: Any, dialect: Dialect) -> bool | None:  # noqa: ARG002 - as it is called
        """Return a value that was read."""
        return None if value is None else bool(value)


Number = BigInteger().with_variant(Integer, "sqlite")
"""A whole number of 64 bits."""

Text = sqlalchemy.Text().with_variant(sqlalchemy.Text(collation="C"), "postgresql")
"""A text; in its order, and in `<`, its bytes count, as in SQLite."""
