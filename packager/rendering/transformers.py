"""Checks transformers: a package may use them only to fill values into patches, as the option `gpu` does.

A folder that a kustomization lists under `transformers` renders to objects that kustomize executes as instructions, and
some instructions fetch or run programs. So a folder of transformers may only render to PatchTransformers that contain
their patch. Its files may contain PatchTransformers, or the options' own PodTemplate, which must be deleted again. Its
patches may only delete, and its replacements may only fill in patches.

Tests: verify/test_messages.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.rendering import fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Document

_KIND = "PatchTransformer"
_ALLOWED = (("builtin", _KIND), ("v1", "PodTemplate"))


def manifest(document: Document, text: bytes) -> Iterator[Problem]:
    """Yield the problems of a manifest in a folder of transformers; `text` is the manifest's whole file."""
    if not isinstance(document.data, dict):
        return
    kind = (document.data.get("apiVersion"), document.data.get("kind"))
    if kind not in _ALLOWED:
        message = f"expected a {_KIND} (apiVersion: builtin) or the options' PodTemplate: no others are allowed here"
        yield document.problem(("kind",), message)
    elif kind[1] == _KIND:
        yield from fields.check(document, fields.PATCH_TRANSFORMER)
        yield from yamlio.indirections(text, document.name)


def check(document: Document) -> Iterator[Problem]:
    """Yield a finding for each change that a transformers' kustomization makes, other than to the text of patches."""
    for index, entry in enumerate(_list(document.data.get("patches"))):
        if not _deletes(entry.get("patch") if isinstance(entry, dict) else None):
            message = "expected `$patch: delete` in the patch: other patches are not allowed there"
            yield document.problem(("patches", index), message)
    for index, entry in enumerate(_list(document.data.get("replacements"))):
        for number, target in enumerate(_list(entry.get("targets") if isinstance(entry, dict) else None)):
            select = target.get("select") if isinstance(target, dict) else None
            kind = select.get("kind") if isinstance(select, dict) else None
            if kind != _KIND or target.get("fieldPaths") != ["patch"]:
                message = f"expected the field `patch` of a {_KIND}: transformers may set nothing else"
                yield document.problem(("replacements", index, "targets", number), message)


def _deletes(patch: Any) -> bool:
    """Whether a patch only deletes objects."""
    if not isinstance(patch, str):
        return False
    documents, problems = yamlio.load_all(patch.encode(errors="replace"), "")
    return not (problems or yamlio.indirections(patch.encode(errors="replace"), "")) and all(
        isinstance(document.data, dict) and document.data.get("$patch") == "delete" for document in documents
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
