"""The options of a site that an overlay has on: whether they go together, and have what they need."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from packager import envfile
from packager.components import BY_NAME, KEYS, SITE, conflicts, faults
from packager.problems import Problem
from packager.verify.origins import Place, Written
from packager.verify.overlay import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.verify.sources import Sources


def check(sources: Sources, overlay: str) -> Iterator[Problem]:
    """Yield a finding for every component that is listed twice, for options that do not go together, and for values.

    Args:
        sources: What the overlay is made of.
        overlay: Its folder, below the package's root.
    """
    listed: dict[str, Place] = {}
    for folder, place in sources.components:
        if folder in listed:
            yield Problem(*place, "this component is listed twice", "keep one of them")
        listed.setdefault(folder, place)
    on = {posixpath.basename(folder): folder for folder in listed if posixpath.basename(folder) in BY_NAME}
    places = {name: listed[folder] for name, folder in on.items()}
    for conflict in conflicts(on):
        yield Problem(*places[conflict.names[-1]], conflict.message, conflict.hint)
    if "queue" in on:
        yield from _suspended(sources)
    for common in {posixpath.dirname(folder) for folder in on.values()}:
        yield from _values(sources, places, f"{common}/{SITE}/{SITE}.env", f"{overlay}/mlops.env")


def _suspended(sources: Sources) -> Iterator[Problem]:
    """Yield a finding for every manifest or patch that says itself whether the workload is suspended."""
    for origin in sources.origins:
        if isinstance(origin, Written):
            for location in (("spec", "suspend"), ("spec", "runPolicy", "suspend")):
                if at(origin.document.data, location) is not None:
                    message = "queue and suspend do not go together: Kueue itself suspends the workload, and resumes it"
                    yield origin.document.problem(location, message, hint="leave suspend out", at_key=True)


def _values(sources: Sources, on: dict[str, Place], site: str, environment: str) -> Iterator[Problem]:
    """Yield what is wrong with the values that the options `on` read in two env files."""
    values, lines = _read(sources, site)
    others, other_lines = _read(sources, environment)
    for fault in faults(on, values, others):
        file = site if fault.key in KEYS else environment
        place = (lines if fault.key in KEYS else other_lines).get(fault.key)
        hint = None if place else f"fill it in in {sources.shown(file)}"
        yield Problem(*(place or on[fault.option]), fault.message, hint)


def _read(sources: Sources, path: str) -> tuple[dict[str, str], dict[str, Place]]:
    file = sources.path(path)
    if not file.is_file():
        return {}, {}
    lines = list(envfile.lines(file.read_bytes()))
    name = sources.shown(path)
    return {line.key: line.value for line in lines}, {line.key: Place(name, line.number, 1) for line in lines}
