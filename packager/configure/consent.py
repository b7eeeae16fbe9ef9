"""Determines the options with which `mlpack deploy` accepts edits. Tests: configure/test_agreement.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.values import Value
from packager.configure import settings
from packager.kubernetes.allowed import words
from packager.kubernetes.podsecurity import Level
from packager.package import kustomization, layout
from packager.package import options as components

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.configure.settings import Files

_ACCOUNT = "service-account"


class Consent(Value, frozen=True):
    """The options with which a user accepts the edits of a package."""

    # the Pod Security level that options need which the package was sealed without; None if they need none
    level: Level | None
    allowed: tuple[str, ...]  # the values for `--allow`


def consent(files: Files) -> Consent:
    """Return the options with which a user accepts the package in `files`, so that it can be deployed.

    A change by hand of a manifest may need more: only `mlpack verify` renders it.
    """
    new_options = {name for overlay in files.package.overlays for name in _new_options(files, overlay)}
    with_capability = {option.name for option in components.OPTIONS if option.capabilities}
    level = components.level(new_options - with_capability)
    variables = [words.variable(key) for overlay in files.package.overlays for key in _new_keys(files, overlay)]
    allowed = [word for word in variables if words.is_word(word)]  # `verify` refuses the others in any case
    if _ACCOUNT in new_options:
        allowed.append("ServiceAccount")
    texts = [files.read(path) for path in settings.site_files(files.package)]
    values = {line.key: line.value for text in texts for line in envfile.lines(text)}
    if any(components.secret(name, values) for name in new_options):
        allowed.append("Secret")
    return Consent(None if level is Level.restricted else level, tuple(dict.fromkeys(allowed)))


def _new_options(files: Files, overlay: str) -> Iterator[str]:
    """Yield the options that are on, and were off when the package was sealed."""
    sealed = files.package.sealed(layout.kustomization(overlay))
    before = {component.name for component in kustomization.components(sealed or b"") if component.on}
    yield from (name for name, is_on in settings.options(files, overlay).items() if is_on and name not in before)


def _new_keys(files: Files, overlay: str) -> Iterator[str]:
    """Yield the keys of an mlops.env that it was sealed without."""
    path = layout.env(overlay)
    yield from (line.key for line in envfile.added(files.package.sealed(path) or b"", files.read(path)))
