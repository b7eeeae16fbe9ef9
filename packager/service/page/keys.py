"""The idempotency keys in forms: a form that is sent twice makes one job. Tests: service/page/test_new.py."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packager.service.failures import Failure


def next_key(key: str | None = None, failure: Failure | None = None) -> str:
    """Return the key for a form.

    Args:
        key: The key with which the form was sent; None for a form that was not sent.
        failure: The failure of the request; None without one.

    Returns:
        The same key if the request may have created a job, or may still do so; otherwise a new key.
    """
    may_create = failure is not None and failure.status >= 500
    return key if key and may_create else secrets.token_hex(16)
