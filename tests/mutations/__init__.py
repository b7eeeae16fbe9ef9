"""Mistakes that somebody could make in the product, each with the tests that are to fail for it: `mutations.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("mutations.toml")


@dataclass(frozen=True)
class Mutation:
    """A mistake in one file of the product.

    Attributes:
        name: The name on the command line.
        file: The path of the file below the checkout.
        old: The text that it replaces, which occurs once in the file.
        new: The text in its place.
        defect: The defect that a user would see.
        tests: The paths that catch it, those that find it soonest first.
        caught: Whether a test catches it; false for a known gap.
    """

    name: str
    file: str
    old: str
    new: str
    defect: str
    tests: tuple[str, ...]
    caught: bool

    def apply(self, checkout: Path) -> None:
        """Change the file in a checkout. Raises ValueError if the old text does not occur once there."""
        path = checkout / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: the old text occurs {text.count(self.old)} times")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def read() -> tuple[Mutation, ...]:
    """Return the mutations of the list."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutation"]
    return tuple(Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries)
