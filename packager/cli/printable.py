"""Escapes control characters and others that a terminal would act on or not show."""

import unicodedata

# Control characters, format characters (bidirectional overrides among them), surrogates, separators of lines.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def printable(text: str) -> str:
    r"""Return `text` on one line, with escapes such as `\x1b` for characters that a terminal acts on or does not show.

    Control and format characters (Unicode's Cc and Cf) are escaped, except a tab; so are line and paragraph
    separators, and the surrogates that represent bytes that are not UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(_escaped(character) if _is_hidden(character) else character for character in text)


def printable_json(text: str) -> str:
    """Return equivalent JSON, with escapes for characters that a terminal acts on or does not show."""
    return "".join(
        _json_escaped(character) if character != "\n" and _is_hidden(character) else character for character in text
    )


def _is_hidden(character: str) -> bool:
    return character != "\t" and unicodedata.category(character) in _HIDDEN


def _escaped(character: str) -> str:
    if character in "\n\r":
        return {"\n": r"\n", "\r": r"\r"}[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))
