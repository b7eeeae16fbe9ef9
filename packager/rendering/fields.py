"""Defines the fields that a kustomization of a package may have, at every level.

These are the fields of kustomize's own types (kustomize, api/types) that some kubectl from 1.30 to 1.37 reads, except
those with which kustomize fetches or runs something that is not in the package.

A folder that a kustomization lists under `transformers` renders to objects that kustomize executes as instructions, and
some instructions fetch or run programs. So a package may use them only to fill values into patches, as the option `gpu`
does: such a folder may only render to PatchTransformers that contain their patch. Its files may contain these, or the
options' own PodTemplate, which must be deleted again. Its patches may only delete, and its replacements only fill in
patches.

kustomize is written in Go, which reads `Path` and `paTH` as `path`: only the spelling of this table is accepted.

Tests: verify/test_messages.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.problems import similar
from packager.base.values import Value, field
from packager.kubernetes.manifest import listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.problems import Problem
    from packager.base.yamlio import Document, Location


class KnownFields(Value, frozen=True):
    """The fields of a mapping, each with the fields of its own value: a mapping, or a list of mappings."""

    # the fields by name; None for a field without mappings, or with keys that the user chooses
    fields: Mapping[str, KnownFields | None] = field(default_factory=dict)
    listed: bool = False  # whether these are the fields of each item of a list


def _plain(names: str) -> dict[str, KnownFields | None]:
    return dict.fromkeys(names.split())


def _list(names: str, **nested: KnownFields) -> KnownFields:
    return KnownFields({**_plain(names), **nested}, listed=True)


def _one(names: str, **nested: KnownFields) -> KnownFields:
    return KnownFields({**_plain(names), **nested})


_OPTIONS = _one("labels annotations disableNameSuffixHash immutable")
_SELECTOR = _one("group version kind name namespace labelSelector annotationSelector")
_FILL = _one("delimiter index encoding create")
_GENERATOR = "name namespace behavior files literals envs"
_TARGETS = _list("fieldPaths", select=_SELECTOR, reject=KnownFields(_SELECTOR.fields, listed=True), options=_FILL)
_PATCHES = _list("path patch", target=_SELECTOR, options=_one("allowNameChange allowKindChange"))
_IMAGES = _list("name newName newTag tagSuffix digest")

REPLACEMENTS = _list(
    "path", source=_one("group version kind name namespace fieldPath", options=_FILL), targets=_TARGETS
)
"""The fields of each entry of `replacements`, and of a file that an entry names."""

PATCH_TRANSFORMER = _one("apiVersion kind patch", metadata=_one("name"), target=_SELECTOR)
"""The fields of a PatchTransformer with an inline patch."""

KUSTOMIZATION = _one(
    "apiVersion kind namePrefix nameSuffix namespace commonAnnotations resources components transformers crds"
    " configurations buildMetadata",
    metadata=_one("name namespace labels annotations"),
    labels=_list("pairs includeSelectors includeTemplates", fields=_list("group version kind path create")),
    patches=_PATCHES,
    images=_IMAGES,
    replicas=_list("name count"),
    replacements=REPLACEMENTS,
    configMapGenerator=_list(_GENERATOR, options=_OPTIONS),
    secretGenerator=_list(f"{_GENERATOR} type", options=_OPTIONS),
    generatorOptions=_OPTIONS,
    sortOptions=_one("order", legacySortOptions=_one("orderFirst orderLast")),
)
"""The fields of a kustomization, and of a component."""

TRANSFORMING = KnownFields(
    {
        **_plain("apiVersion kind resources components"),
        "patches": _list("patch"),
        "replacements": _list(
            "",
            source=_one("kind name fieldPath", options=_one("delimiter index")),
            targets=_list("fieldPaths", select=_one("kind name"), options=_one("delimiter index")),
        ),
        "configMapGenerator": KUSTOMIZATION.fields["configMapGenerator"],
        "generatorOptions": _OPTIONS,
    }
)
"""The fields of a kustomization that contains no manifests but the transformers of another."""

_HINTS = {
    **dict.fromkeys(
        ("helmCharts", "helmChartInflationGenerator", "helmGlobals"), "it needs more than kubectl: list what it makes"
    ),
    **dict.fromkeys(
        ("generators", "validators", "openapi"), "it can make kustomize fetch or run something outside the package"
    ),
    "bases": "it is deprecated: list them under `resources`",
    "commonLabels": "it is deprecated: use `labels`",
    "env": "it is deprecated: use `envs`",
    "imageTags": "it is deprecated: use `images`",
    "patchesJson6902": "it is deprecated: use `patches`",
    "patchesStrategicMerge": "it is deprecated: use `patches`",
    "vars": "it is deprecated: use `replacements`",
}
"""Why a package may not have some fields of kustomize, and what takes their place."""


def check(document: Document, fields: KnownFields, above: Location = ()) -> Iterator[Problem]:
    """Yield a finding for each key below `above` that is not in `fields` with this spelling."""
    value: Any = document.data
    for step in above:
        value = value[step]
    if fields.listed and isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, dict):
                yield from _mapping(document, entry, fields, (*above, index))
    elif isinstance(value, dict):
        yield from _mapping(document, value, fields, above)


def _mapping(document: Document, mapping: dict[str, Any], fields: KnownFields, above: Location) -> Iterator[Problem]:
    for key in mapping:
        if key not in fields.fields:
            hint = _HINTS.get(key) or similar(key, fields.fields)
            yield document.problem((*above, key), f"unknown field {key!r}", hint=hint, at_key=True)
        elif (nested := fields.fields[key]) is not None:
            yield from check(document, nested, (*above, key))


_KIND = "PatchTransformer"
_ALLOWED = (("builtin", _KIND), ("v1", "PodTemplate"))


def check_transformer(document: Document, text: bytes) -> Iterator[Problem]:
    """Yield the problems of a manifest in a folder of transformers; `text` is the manifest's whole file."""
    if not isinstance(document.data, dict):
        return
    kind = (document.data.get("apiVersion"), document.data.get("kind"))
    if kind not in _ALLOWED:
        message = f"expected a {_KIND} (apiVersion: builtin) or the options' PodTemplate: no others are allowed here"
        yield document.problem(("kind",), message)
    elif kind[1] == _KIND:
        yield from check(document, PATCH_TRANSFORMER)
        yield from yamlio.indirections(text, document.name)


def check_transforming(document: Document) -> Iterator[Problem]:
    """Yield a finding for each change that a transformers' kustomization makes, other than to the text of patches."""
    for index, entry in enumerate(listing(document.data.get("patches"))):
        if not _deletes(mapping(entry).get("patch")):
            message = "expected `$patch: delete` in the patch: other patches are not allowed there"
            yield document.problem(("patches", index), message)
    for index, entry in enumerate(listing(document.data.get("replacements"))):
        for number, target in enumerate(listing(mapping(entry).get("targets"))):
            kind = mapping(mapping(target).get("select")).get("kind")
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
