"""Masks values that may be secrets, by the names of their keys, and passwords in URLs; shortens texts of others."""

from __future__ import annotations

import re

MASK = "***"

# Plural tokens are counts of a language model, and the PIN in PIN_MEMORY is not a number of a card.
_WORDS = frozenset(
    (
        *("auth", "authorization", "bearer", "cookie", "cred", "credential", "credentials", "creds", "key", "keys"),
        *("pass", "passcode", "passphrase", "passwd", "password", "passwords", "pwd", "secret", "secrets", "token"),
    )
)
_ENDINGS = (
    "accesskey",
    "apikey",
    "authkey",
    "credentials",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "token",
)

# Site options whose values are names of Kubernetes objects.
_NAMES = frozenset(("PULL_SECRET",))
_SITE_NAMES = frozenset(("SECRET",))
"""The same, in `site.env` alone: in mlops.env a variable that is called so may be a password."""

_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/@:\s]*:[^/@\s]*@")


def is_secret(key: str) -> bool:
    """Whether the name of a key says that its value is a secret: HF_TOKEN, dbPassword, AWS_SECRET_ACCESS_KEY."""
    if key in _NAMES:
        return False
    parts = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower())
    numbered = parts[:1] in (["key"], ["keys"]) and len(parts) > 1  # KEY_00 is one of many keys, of anything
    return any(word in _WORDS or word.endswith(_ENDINGS) for word in parts[numbered:])


def masked(key: str, value: str) -> str:
    """Return the value of `key` as it may be shown."""
    return MASK if value and is_secret(key) else masked_urls(value)


def masked_urls(text: str) -> str:
    """Return `text` for display without a key: without the passwords of URLs."""
    return _PASSWORD_IN_URL.sub(f"{MASK}@", text)


def masked_line(line: str, *, is_site: bool = False) -> str:
    """Return a line of an env file, which may be commented out, as it may be shown; any other line as it is."""
    start, key, rest = re.fullmatch(r"([\s#]*)([^=]*)((?:=.*)?)", line, re.DOTALL).groups()  # type: ignore[union-attr]
    if is_site and key in _SITE_NAMES:
        return line
    return f"{start}{key}={masked(key, rest[1:])}" if rest else line


_LONGEST = 2_000


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return a text, without its middle if it has more than `longest` characters."""
    half = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"
