"""The subjects of the fuzzer, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz import archives, imports, packages, registries, specs

if TYPE_CHECKING:
    from tests.fuzz.runner import Subject

SUBJECTS: dict[str, Subject] = {
    "specs": specs.subject,
    "packages": packages.subject,
    "archives": archives.subject,
    "imports": imports.subject,
    "registries": registries.subject,
}
