"""Plan -> Tree: fills in the templates.

`templates/` is laid out like what it produces:

    package/    the files of every package
    overlay/    the files of every overlay, whatever its kind
    scaffold/   what `mlpack init` writes: not a package, but a spec to begin with
    *.yaml      pieces that the others share

So is `packager/workloads/<kind>/templates/`, with what a kind adds: its overlay's files, and to the base what its
workloads need.

A path's FRAMEWORK and OVERLAY become the spec's framework and the overlay's name; `dockerignore` becomes
`.dockerignore`, where the package brings a Dockerfile. Beside the base, `package/` has one folder for each option of
`packager.package.options`, and `site/` with the values that they read. A package contains the options that it was asked
for; of the others that fit, its inventory has the digests, so that each can be added later (`packager.builder.added`).
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from packager.base.errors import SpecError
from packager.base.fields import text
from packager.base.paths import DEFAULT_LIMITS
from packager.base.values import Value, replace
from packager.base.yamlio import MISREAD, load_all, quoted
from packager.builder.templating import Templates, roots
from packager.kubernetes.manifest import Manifest, mapping
from packager.modelspec.model import AnyOverlay
from packager.package import layout, placement, tree
from packager.package.options import (
    CLAIM,
    CLAIM_CLASS,
    OPTIONS,
    PACKAGE_NAME,
    PACKAGE_VOLUME,
    PLACEMENT,
    SECRETS,
    offered,
)
from packager.package.path_checks import ContentError
from packager.package.tree import Entry, Tree
from packager.workloads import structures
from packager.workloads.amounts import quantity_key
from packager.workloads.pods import SITE_ANNOTATIONS, annotation_component

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packager.builder.plan import Plan, PlannedOverlay
    from packager.package.options import Option
    from packager.workloads.pods import Pods

TEMPLATES = roots(Path(__file__).resolve().parent.parent)

# Words that every YAML parser reads as text without quotes: no numbers, dates or words of YAML 1.1.
_PLAIN = re.compile(r"[A-Za-z/$][A-Za-z0-9_./()$=-]*(:[A-Za-z0-9_./()$=-]+)*")

_BLANK_LINES = re.compile(r"^[ \t]*\n", re.MULTILINE)


_NO_MANIFESTS = (f"/{layout.KUSTOMIZATION}", f"/{layout.WIRING}", layout.PATCH)


def render(plan: Plan) -> Tree:
    """Return the package's files."""
    if plan.too_large and PACKAGE_VOLUME not in plan.site.options:
        raise SpecError(f"{plan.name}: the code is too large for ConfigMaps", problems=plan.too_large)
    entries: dict[str, Entry] = {}
    components = Components(plan)
    in_package = list(_in_package(plan, components.kinds))
    of_base = sorted(path.rpartition("/")[2] for _, path in in_package if "/base/" in path)
    context: dict[str, object] = {
        "base": {
            "scripts": [name for name in of_base if name.endswith(".sh")],
            "configurations": [name for name in of_base if name.endswith("-names.yaml")],
        },
        "kinds": components.kinds,
        "workloads": components.workloads,
        "options": plan.options,
        "sections": sections(plan, (*plan.options, *((CLAIM, CLAIM_CLASS) if plan.workspace else ()))),
    }
    for template, path in in_package:
        _add(entries, path, _fill(template, plan=plan, **context))
    files = {option.name: components.files(option.name) for option in offered(plan.traits)}
    for option in plan.options:
        entries |= {entry.path: entry for entry in files.pop(option.name)}
    digests = {name: component_digest(files[name]) for name in files}
    for overlay in plan.overlays:
        _add_overlay(entries, components, overlay)
    if plan.site.annotations:
        every = [(entry, components.label(one)) for one in plan.overlays for entry in components.pods[one.name]]
        text = annotation_component(every, plan.site.annotations)
        path = f"{layout.common(plan.spec.framework)}/{SITE_ANNOTATIONS}/{layout.KUSTOMIZATION}"
        entries[path] = Entry(path, text, len(text))
    for component in plan.site.own:
        for entry in component.files:
            path = f"{layout.common(plan.spec.framework)}/{component.name}/{entry.path}"
            entries[path] = replace(entry, path=path)
    for path, source, executable in plan.payload:
        content = source.path if source.content is None else source.content
        entries[path] = Entry(path, content, source.size, executable)
    entries[layout.SPEC] = Entry(layout.SPEC, plan.text, len(plan.text))
    about = {**plan.about, "options": digests} if digests else plan.about
    package = Tree(plan.name, tuple(entries[path] for path in sorted(entries)), about)
    try:
        tree.check(package, DEFAULT_LIMITS)
    except ContentError as error:
        raise SpecError(f"{plan.name}: {error}", hint="pack many small asset files into one archive") from None
    return package


def _add_overlay(entries: dict[str, Entry], components: Components, overlay: PlannedOverlay) -> None:
    plan, fitting = components.plan, offered(components.plan.traits_of(overlay))
    label = components.label(overlay)
    context = {
        "overlay": overlay,
        "label": label,
        "pods": components.pods[overlay.name],
        "options": [option for option in plan.options if option in fitting],
        "option_line": option_line,
    }
    manifests = {} if label or plan.nested else components.manifests[overlay.name]
    for template, path in _in_overlay(plan, overlay):
        _add(entries, path, manifests.get(path) or _fill(template, plan=plan, **context))


class Components:
    """The Kustomize components of the options that a package has, or could have."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan  # the package
        self.manifests = {overlay.name: _manifests(plan, overlay) for overlay in plan.overlays}
        self.pods = {  # of each overlay, by its name
            overlay.name: tuple(
                pods for text in self.manifests[overlay.name].values() for pods in pods_in(text, overlay.values.kind)
            )
            for overlay in plan.overlays
        }
        self.workloads = tuple(targets(plan.overlays, self.pods))  # the workloads that the options change
        self.kinds = list(dict.fromkeys(workload.kind for workload in self.workloads))  # the kinds of the workloads

    def files(self, option: str) -> list[Entry]:
        """Return the files of an option, whether it is in the package or not."""
        folder = f"{layout.common('FRAMEWORK')}/{option}/"
        texts = {
            path.replace("FRAMEWORK", self.plan.spec.framework): _fill(
                f"package/{path}", plan=self.plan, workloads=self.workloads
            ).encode()
            for path in _files("package")
            if path.startswith(folder)
        }
        if option == PLACEMENT:
            path = layout.placement(layout.common(self.plan.spec.framework))
            texts[path] = placement.built(self.plan.name, self.plan.site.placement)
        return [Entry(path, text, len(text)) for path, text in texts.items()]

    def label(self, overlay: PlannedOverlay) -> str | None:
        """Return the label by which options select the workload of an overlay; None if its kind selects it."""
        return overlay.name if any(workload.overlay == overlay.name for workload in self.workloads) else None


class OptionTarget(Value, frozen=True):
    """Workloads of one kind that have their pods at the same places."""

    kind: str  # their kind
    pods: tuple[Pods, ...]  # the pods of one of them
    overlay: str | None = None  # the overlay of the only one; None where these are all workloads of the kind
    serves: bool = False  # whether they serve

    @property
    def has_gpus(self) -> bool:
        """Whether the spec gives them GPUs, which an option may replace."""
        return any(pods.gpus for pods in self.pods)

    @property
    def selector(self) -> str | None:
        """The label selector of the workload; None if the kind selects it."""
        return f"mlpack/overlay={self.overlay}" if self.overlay else None


def pods_in(text: str, kind: str) -> tuple[Pods, ...]:
    """Return the pods of the workloads of `kind` among the manifests in `text`."""
    documents, _ = load_all(text.encode(), "")
    workloads = [Manifest(mapping(document.data)) for document in documents]
    return tuple(pods for manifest in workloads if manifest.kind == kind for pods in structures.pods(manifest))


def targets(overlays: Sequence[PlannedOverlay], pods: Mapping[str, tuple[Pods, ...]]) -> Iterator[OptionTarget]:
    """Yield the workloads that the options of a package with these overlays change.

    The component of an option is one for all overlays of a package, and before an overlay adds its suffix all workloads
    of a kind have the same name. So where two overlays of one kind have their pods at different places, each workload
    carries a label with its overlay's name, and the option changes each by itself.
    """
    for kind in dict.fromkeys(overlay.values.kind for overlay in overlays):
        names = [overlay.name for overlay in overlays if overlay.values.kind == kind]
        serves = any(overlay.values.serves for overlay in overlays if overlay.values.kind == kind)
        if len({tuple(map(_place, pods[name])) for name in names}) == 1:
            yield OptionTarget(kind, pods[names[0]], serves=serves)
        else:
            yield from (OptionTarget(kind, pods[name], name, serves) for name in names)


def _place(pods: Pods) -> tuple[object, ...]:
    """Return everything about pods that a patch depends on."""
    return (
        pods.pointer,
        pods.field_path,
        pods.container,
        pods.computes,
        pods.stores,
        pods.labels,
        pods.workload_label,
        pods.port,
        pods.processes,
        pods.prepares,
        pods.has_code,
        pods.starts_torchrun,
        pods.gpus,
    )


def component_digest(files: Iterable[Entry]) -> str:
    """Return the digest of the component of an option, by its files."""
    return tree.component_digest({entry.path: tree.digest_of(entry) for entry in files})


def option_line(option: Option, framework: str) -> str:
    """Return the entry of an option among the components of an overlay."""
    return f"- ../../../common/{framework}/k8s/mlops/{option.name} # {option.summary}"


def sections(plan: Plan, options: Iterable[Option], known: Iterable[str] = ()) -> list[str]:
    """Return a section of `site.env` for each of `options` that has keys which are neither `known` nor in another one.

    A key whose value only a site can know is commented out.
    """
    present = set(known)
    texts = []
    for option in options:
        keys = [key for key in option.keys if plan.has(key.only) and key.name not in present]
        present.update(key.name for key in keys)
        lines = [f"# {option.name}: {option.summary}"]
        for key in keys:
            value = plan.site.values.get(key.name, key.example.replace(PACKAGE_NAME, plan.name))
            is_set = key.usual or key.name in plan.site.values
            lines += [f"# {key.description}", f"{'' if is_set else '#'}{key.name}={value}"]
        if keys:
            texts.append("".join(f"{line}\n" for line in lines))
    return texts


def scaffold(name: str, kind: str | None = None, **values: object) -> Iterator[tuple[str, str, bool]]:
    """Yield the files of a new model's folder: name, content, and whether it is executable.

    `kind` is that of its overlay on several nodes, if the kind's folder has a scaffold of its own.
    """
    folder = f"{_folder(kind)}/" if kind else ""
    for file in _files(_folder(kind) if kind else "scaffold"):
        if not kind or file.startswith("scaffold/"):
            path = file.removeprefix("scaffold/")
            # A template of a program is not a program, so its name has another ending.
            name_of_file = path.removesuffix(".template")
            content = _fill(f"{folder}scaffold/{path}", name=name, **values)
            yield name_of_file, content, name_of_file.endswith((".sh", ".py"))


def sources_script() -> str:
    """Return the script that fetches the sources of a spec."""
    return _fill(f"package/{layout.common('FRAMEWORK')}/base/sources.sh")


def scaffolded() -> tuple[str, ...]:
    """Return the kinds whose folders contain a scaffold."""
    names = [kind.__name__ for kind in get_args(AnyOverlay)]
    return tuple(name for name in names if any(file.startswith("scaffold/") for file in _files(_folder(name))))


def scalar(value: object) -> str:
    """Return `value` as one YAML scalar that every YAML parser reads as exactly this text or number."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in MISREAD:
            return value
        return quoted(value)
    return json.dumps(value)


def code_span(value: str) -> str:
    """Return `value` as code in a cell of a Markdown table, whatever backticks and bars it holds."""
    fence = "`" * (max((len(run) for run in re.findall("`+", value)), default=0) + 1)
    pad = " " if value.startswith("`") or value.endswith("`") or not value else ""
    return f"{fence}{pad}{cell(value)}{pad}{fence}"


def cell(value: str) -> str:
    """Return `value` as text in a cell of a Markdown table."""
    return value.replace("|", r"\|")


def _add(entries: dict[str, Entry], path: str, content: str) -> None:
    data = content.encode()
    entries[path] = Entry(path, data, len(data), executable=path.endswith(".sh"))


def _in_package(plan: Plan, kinds: list[str]) -> Iterator[tuple[str, str]]:
    optional = tuple(f"{layout.common('FRAMEWORK')}/{option.name}/" for option in OPTIONS)
    scripts = {
        "/base/requirements.sh": plan.variant.requirements,
        "/base/sources.sh": plan.spec.sources,
        "/base/torchrun.sh": plan.has("elastic"),
        "/base/meet.sh": any(overlay.values.has_meeting(overlay.run) for overlay in plan.overlays),
    }
    unused = [path for path, is_used in scripts.items() if not is_used]
    without = {
        "dockerignore": plan.dockerfile,
        f"{layout.SCRIPTS}/": plan.config_maps,
        f"{layout.common('FRAMEWORK')}/{SECRETS.name}/": plan.spec.secrets,
        f"{layout.overlay(layout.WORKSPACE)}/": plan.workspace,
        f"{layout.common('FRAMEWORK')}/{CLAIM.name}/": plan.workspace,
        f"{layout.common('FRAMEWORK')}/{CLAIM_CLASS.name}/": plan.workspace,
    }
    skipped = (*optional, *(start for start, is_used in without.items() if not is_used))
    for root in ("package", *map(_folder, kinds)):
        for path in _files(root):
            if path.startswith(skipped) or path.endswith(tuple(unused)) or "OVERLAY" in path:
                continue
            if root == "package" or path.startswith(f"{layout.QUICKSTART}/"):
                name = ".dockerignore" if path == "dockerignore" else path.replace("FRAMEWORK", plan.spec.framework)
                yield f"{root}/{path}", name


def _in_overlay(plan: Plan, overlay: PlannedOverlay) -> Iterator[tuple[str, str]]:
    for root in ("overlay", _folder(overlay.values.kind)):
        for path in _files(root):
            if "OVERLAY" in path:
                name = path.replace("OVERLAY", overlay.name).replace("FRAMEWORK", plan.spec.framework)
                yield f"{root}/{path}", name


def _manifests(plan: Plan, overlay: PlannedOverlay) -> dict[str, str]:
    """Return the manifests of an overlay by their paths, without a label: neither kustomization, wiring nor patch.

    Where the code is in folders, most of a manifest may be the list of its files, which says nothing about pods: the
    first one stands for all of them.
    """
    if plan.nested:
        plan = replace(plan, code=tuple(replace(part, files=part.files[:1]) for part in plan.code[:1]))
    return {
        path: _fill(template, plan=plan, overlay=overlay, label=None)
        for template, path in _in_overlay(plan, overlay)
        if path.endswith(".yaml") and not path.endswith(_NO_MANIFESTS)
    }


def _folder(kind: str) -> str:
    """Return the folder of a kind in `packager/workloads`."""
    return kind.lower()


@cache
def _files(root: str) -> tuple[str, ...]:
    top = str(TEMPLATES.get(root) or TEMPLATES[""] / root)
    # os.walk takes a fifth of the time of Path.rglob, which a small build would notice.
    names = (f"{folder}/{name}" for folder, _, files in os.walk(top) for name in files)
    return tuple(sorted(name.removeprefix(f"{top}/") for name in names))


@cache
def _templates() -> Templates:
    return Templates(
        TEMPLATES, {"yaml": scalar, "text": text, "cell": cell, "code": code_span, "quantity_key": quantity_key}
    )


def _fill(template: str, **context: object) -> str:
    content = _templates().fill(template, context)
    if template.endswith(".yaml") and "scaffold/" not in template:
        # A macro ends with its last line's newline, and so does the line that calls it.
        content = _BLANK_LINES.sub("", content)
    return content
