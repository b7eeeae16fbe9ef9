"""Defines the fields that a kustomization of a package may have, at every level.

These are the fields of kustomize's own types (kustomize, api/types) that some kubectl from 1.30 to 1.37 reads, except
those with which kustomize fetches or runs something that is not in the package.

kustomize is written in Go, which reads `Path` and `paTH` as `path`: only the spelling of this table is accepted.

Tests: verify/test_messages.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.problems import similar
from packager.base.values import Value, field

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
_GENERATOR = "name namespace behavior files literals envs env"
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
    "apiVersion kind namePrefix nameSuffix namespace commonAnnotations commonLabels resources bases components"
    " transformers crds configurations patchesStrategicMerge buildMetadata",
    metadata=_one("name namespace labels annotations"),
    labels=_list("pairs includeSelectors includeTemplates", fields=_list("group version kind path create")),
    patches=_PATCHES,
    patchesJson6902=_PATCHES,
    images=_IMAGES,
    imageTags=_IMAGES,
    replicas=_list("name count"),
    replacements=REPLACEMENTS,
    configMapGenerator=_list(_GENERATOR, options=_OPTIONS),
    secretGenerator=_list(f"{_GENERATOR} type", options=_OPTIONS),
    generatorOptions=_OPTIONS,
    vars=_list(
        "name",
        objref=_one("apiVersion group version kind name namespace"),
        fieldref=_one("fieldPath fieldpath"),
    ),
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

_FORBIDDEN = {
    **dict.fromkeys(("helmCharts", "helmChartInflationGenerator", "helmGlobals"), "{} needs more than kubectl"),
    **dict.fromkeys(
        ("generators", "validators", "openapi"),
        "{} is not allowed in a package: it can make kustomize fetch or run something outside the package",
    ),
}


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
            message, hint = _unknown(key, fields)
            yield document.problem((*above, key), message, hint=hint, at_key=True)
        elif (nested := fields.fields[key]) is not None:
            yield from check(document, nested, (*above, key))


def _unknown(key: str, fields: KnownFields) -> tuple[str, str | None]:
    """Return the message about an unknown key, and a hint to the fix."""
    if key in _FORBIDDEN:
        return _FORBIDDEN[key].format(key), None
    for known in (*fields.fields, *_FORBIDDEN):
        if known.casefold() == key.casefold():  # casefold maps every letter that Go treats as another to that letter
            hint = f"write {known!r}" if known in fields.fields else None
            return f"kubectl reads the key {key!r} as {known!r}", hint
    return f"unknown field {key!r}", similar(key, fields.fields)
