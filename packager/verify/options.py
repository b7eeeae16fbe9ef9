"""Checks the site options of an overlay: they are compatible and have their values. Tests: test_options.py."""

from __future__ import annotations

import posixpath
from collections import ChainMap
from typing import TYPE_CHECKING, Any

from packager.base.problems import Problem
from packager.kubernetes.manifest import at, listing
from packager.package import layout
from packager.package.options import CLAIMS, GITOPS, KEYS, KNOWN, PACKAGE_VOLUME, PLACEMENT, TRAITS, conflicts, faults
from packager.package.options import GANG_OPTION as GANG
from packager.rendering.origins import Operations, Position, Written, matches
from packager.verify import schema
from packager.workloads import structures
from packager.workloads.kinds import kinds
from packager.workloads.structures import gang

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from packager.base.yamlio import Location
    from packager.rendering.overlay import RenderedOverlay
    from packager.rendering.sources import Sources

_TTLS: tuple[Location, ...] = (("spec", "ttlSecondsAfterFinished"), ("spec", "runPolicy", "ttlSecondsAfterFinished"))
"""The fields by which a cluster deletes a finished Job or JobSet, and a finished MPIJob's launcher."""


def switched_on(sources: Sources) -> dict[str, str]:
    """Return the options and other built-in components that an overlay has on, each with its folder.

    A site's own component with the name of an option, in another folder, is not included.
    """
    on = {posixpath.basename(folder): folder for folder, _ in sources.components}
    return {
        name: folder for name, folder in on.items() if name in KNOWN and layout.is_common(posixpath.dirname(folder))
    }


def site_values(sources: Sources) -> dict[str, str]:
    """Return the values in `site.env` of the options that an overlay has on."""
    folders = {posixpath.dirname(folder) for folder in switched_on(sources).values()}
    return dict(ChainMap(*(sources.env_file(layout.site_env(folder)).values for folder in folders)))


def claims(sources: Sources) -> frozenset[str]:
    """Return the claims that the options that an overlay has on name, and those that the spec names."""
    site = site_values(sources)
    keys = (key.name for name in switched_on(sources) for key in KNOWN[name].keys if key.name in CLAIMS)
    return sources.declared.claims.union(site[key] for key in keys if key in site)


def supporting(sources: Sources, versions: Sequence[str]) -> tuple[str, ...]:
    """Return those minor versions of Kubernetes that have the fields of every option that an overlay has on."""
    since = [schema.minor_of(option) for name in switched_on(sources) if (option := KNOWN[name].since)]
    return tuple(version for version in versions if all(schema.minor_of(version) >= oldest for oldest in since))


def check(sources: Sources, overlay: str, versions: Collection[str] = ()) -> Iterator[Problem]:
    """Yield a finding for each component that is listed twice, for options that conflict, and for invalid values."""
    listed: dict[str, Position] = {}
    for folder, place in sources.components:
        if folder in listed:
            yield Problem(*place, "this component is listed twice", "keep one of them")
        listed.setdefault(folder, place)
    on = switched_on(sources)
    places = {name: listed[folder] for name, folder in on.items()}
    for conflict in conflicts(on):
        yield Problem(*places[str(conflict.location[-1])], conflict.message, conflict.hint)
    for name in on:
        since = KNOWN[name].since
        if since and (older := [version for version in versions if schema.minor_of(version) < schema.minor_of(since)]):
            message = f"{name} needs Kubernetes {since} or later, not {', '.join(older)}"
            yield Problem(*places[name], message, "switch it off for this cluster")
    if "queue" in on:
        yield from _suspended(sources)
    for common in {posixpath.dirname(folder) for folder in on.values()}:
        yield from _values(sources, places, layout.site_env(common), layout.env(overlay))


def check_gitops(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding if the option gitops is on for a workload that serves, or that is deleted after its end."""
    folder = switched_on(overlay.sources).get(GITOPS)
    if folder is None:
        return
    place = next(place for listed, place in overlay.sources.components if listed == folder)
    for manifest in overlay.manifests:
        workload = kinds().get(manifest.kind)
        if workload is not None and workload.serves:
            reason = TRAITS["ends"].format(manifest)
            yield Problem(*place, f"{GITOPS}: {reason}", "switch it off: Flux and Argo CD change a Deployment in place")
        for location in _TTLS:
            if at(manifest.data, location) is not None:
                message = f"{GITOPS} is on, and Flux and Argo CD start the work again when it has been deleted"
                yield overlay.problem(manifest, location, message, "remove ttlSecondsAfterFinished")


def check_gang(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding if the option gang names a scheduler that starts the pods of a workload one by one."""
    folder = switched_on(overlay.sources).get(GANG)
    for manifest in overlay.manifests if folder else ():
        if manifest.kind == "JobSet" and gang(manifest) == "kai":
            place = next(place for listed, place in overlay.sources.components if listed == folder)
            message = f"{GANG}: KAI has no groups for a JobSet, so it would start the pods of {manifest} one by one"
            yield Problem(*place, message, "set GANG to volcano or coscheduling")


def check_code(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each workload whose code is in no ConfigMap, if nothing mounts it either."""
    for manifest in overlay.manifests:
        for pods in structures.pods(manifest):
            for location, volume in pods.volumes() if pods.has_code else ():
                if volume.get("name") == "scripts" and "emptyDir" in volume:
                    message = "the code of this package is too large for ConfigMaps, and nothing mounts it"
                    yield overlay.problem(manifest, location, message, f"switch on {PACKAGE_VOLUME}")


def _suspended(sources: Sources) -> Iterator[Problem]:
    """Yield a finding for every manifest or patch that sets `suspend` itself."""
    for origin in sources.origins:
        if isinstance(origin, Written):
            for location in (("spec", "suspend"), ("spec", "runPolicy", "suspend")):
                if at(origin.document.data, location) is not None:
                    message = "queue and suspend cannot be combined: Kueue itself suspends and resumes the workload"
                    yield origin.document.problem(location, message, hint="remove suspend", at_key=True)


def _values(sources: Sources, on: dict[str, Position], site: str, environment: str) -> Iterator[Problem]:
    """Yield the problems with the values that the options `on` read in two env files."""
    of_site, of_overlay = sources.env_file(site), sources.env_file(environment)
    for option, fault in faults(on, of_site.values, of_overlay.values):
        key = str(fault.location[-1])
        file, keys = (site, of_site.keys) if key in KEYS else (environment, of_overlay.keys)
        place, hint = keys.get(key), f"set it in {sources.shown(file)}"
        yield Problem(*(place or on[option]), fault.message, None if place else hint)


def check_placement(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each node label and toleration that another patch, or the option placement, replaces.

    kustomize applies components in the order in which they are listed: a list of tolerations takes the place of an
    earlier one, and the option takes the place of both fields.
    """
    if PLACEMENT not in switched_on(overlay.sources):
        return
    for origin in overlay.sources.origins:
        if not isinstance(origin, Written | Operations):
            continue
        is_option = isinstance(origin, Written) and origin.kind == "PodTemplate"
        pods = [pods for pods in overlay.pods if is_option or matches(pods.manifest.data, origin.kind, origin.name)]
        for location, field, entry in _placed(origin.document.data):
            has_entry = [_is_placed(pods.spec, field, entry) for pods in pods]
            if entry not in _USUAL and has_entry and not (all(has_entry) if is_option else any(has_entry)):
                name = "a component or a patch" if is_option else "the option placement, or another patch,"
                fix = "set all of them in placement.yaml, or list the component below placement"
                message = f"{name} replaces {field} of the pods, so this has no effect"
                yield origin.document.problem(location, message, hint=fix)


_USUAL = (
    {"kubernetes.io/os": "linux"},
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
)
"""The entries of site/placement.yaml as built, which repeat the defaults."""


def _placed(value: Any, location: Location = ()) -> Iterator[tuple[Location, str, Any]]:
    """Yield each node label and toleration in a manifest or a patch: its location, its field, and itself."""
    for key, content in value.items() if isinstance(value, dict) else enumerate(listing(value)):
        here = (*location, key)
        field = str(value.get("path")).rpartition("/")[2] if key == "value" else key  # of an operation (RFC 6902)
        if field == "nodeSelector" and isinstance(content, dict):
            yield from (((*here, label), field, {label: text}) for label, text in content.items())
        elif field == "tolerations" and isinstance(content, list):
            yield from (((*here, index), field, entry) for index, entry in enumerate(content))
        else:
            yield from _placed(content, here)


def _is_placed(spec: Mapping[str, Any], field: str, entry: Any) -> bool:
    """Return whether the spec of a pod has a node label, or a toleration; a label that is deleted is always there."""
    if field == "tolerations":
        return entry in (spec.get(field) or ())
    return all(text is None or (spec.get(field) or {}).get(name) == text for name, text in entry.items())
