"""The subjects of the fuzzer, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz import archives, packages, registries

if TYPE_CHECKING:
    from tests.fuzz.runner import Subject

SUBJECTS: dict[str, Subject] = {
    "packages": packages.subject,
    "archives": archives.subject,
    "registries": registries.subject,
}
