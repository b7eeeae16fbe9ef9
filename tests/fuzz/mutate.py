"""Mutations of bytes, without regard to structure, and of values, with the structure of YAML and Kubernetes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

# fmt: off
_TOKENS = (
    b": ", b"- ", b"\n", b"\t", b"\r\n", b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8",
    b"---\n", b"...\n", b"&a ", b"*a", b"<<: ", b"!!python/object:os.system ", b"!!binary ", b"? ", b"| ", b"> ",
    b"{", b"}", b"[", b"]", b"'", b'"', b"#", b"%YAML 9.9\n", b"${", b"{{", b"{%", b"$(", b"`", b"../", b"/", b"\\",
    b"~", b"1e999", b"0x", b"9" * 400, b"A" * 70_000, b"[" * 2000, b"{a: " * 500, b"=",
)

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**70), 0.5, 1e308, float("inf"), float("nan"),
    "", " ", "x", "\0", "\n", "a\nb", "..", "../../../etc/passwd", "/etc/passwd", ".", "/", "~", "-", "--help",
    "${PATH}", "$(id)", "`id`", "{{ 7 * 7 }}", "{% raw %}", "null", "yes", "010", "1.10", "12:30", "1e3", "=", "#",
    "a: b", "[", "*a", "&a", "!x", "%", "@", "\u2028", "\ufeff", "\U0001f600", "e\u0301", "\u202e", "ROOT", "ROOT/x",
    "MPIJob", "Pod", "multi-node", "1000", "500m", "4Gi", "1Ei", "-5m", "1e-9Gi", "9" * 5000, "a" * 300, "a" * 70_000,
    "x:latest", "a/b:c@sha256:" + "0" * 64,
    [], {}, [[]], [{}], [None], {"": None}, {"a": {"b": ["c"]}}, ["a", "a"],
)
# fmt: on


def raw(random: Random, data: bytes) -> bytes:
    """Return `data` with a few bytes changed, deleted or repeated, or with tokens of YAML and templates inserted."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        at = random.randrange(len(changed) + 1)
        length = random.choice((1, 1, 2, 4, 16, 64, 512))
        match random.randrange(6):
            case 0:
                if changed:
                    changed[at % len(changed)] ^= 1 << random.randrange(8)
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = changed[at : at + length]
            case 3:
                changed[at:at] = random.choice(_TOKENS)
            case 4:
                changed[at : at + length] = random.randbytes(length)
            case _:
                if random.random() < 0.2:
                    del changed[at:]
    return bytes(changed)


def value(random: Random, document: Any) -> Any:
    """Return a copy of `document`, a tree of mappings and lists, in which a few nodes are changed."""
    document = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        holders = list(_holders(document))
        if not holders:
            return _any(random)
        holder = random.choice(holders)
        _change(random, holder, holders)
    return document


def _change(random: Random, holder: Any, holders: list[Any]) -> None:
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    if not keys:
        holder.update(key=_any(random)) if isinstance(holder, dict) else holder.append(_any(random))
        return
    key = random.choice(keys)
    match random.randrange(7):
        case 0 | 1:
            holder[key] = _any(random)
        case 2:
            del holder[key]
        case 3:
            _repeat(random, holder, key)
        case 4:
            other = random.choice(holders)
            if len(repr(other)) < 20_000:
                holder[key] = copy.deepcopy(other)
        case 5:
            holder[key] = random.choice(([holder[key]], {"x": holder[key]}))
        case _:
            holder[key] = _scalar(random, holder[key])


def _repeat(random: Random, holder: Any, key: Any) -> None:
    """Rename the key of a mapping, or repeat the item of a list."""
    if isinstance(holder, dict):
        holder[_key(random, key)] = holder.pop(key)
    else:
        holder.append(copy.deepcopy(holder[key]))


def _scalar(random: Random, old: Any) -> Any:
    if isinstance(old, str):
        return raw(random, old.encode(errors="replace")).decode("utf-8", "replace")
    if isinstance(old, int):
        return random.choice((old + 1, -old, old * 10**6, str(old)))
    return old


def _key(random: Random, key: Any) -> str:
    if random.random() < 0.5:
        return raw(random, str(key).encode(errors="replace")).decode("utf-8", "replace")[:300]
    return str(random.choice(VALUES))[:300]


def _any(random: Random) -> Any:
    return copy.deepcopy(random.choice(VALUES))


def _holders(node: Any) -> Any:
    if isinstance(node, dict | list):
        yield node
        for child in node.values() if isinstance(node, dict) else node:
            yield from _holders(child)
