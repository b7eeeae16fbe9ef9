"""Everything that would make a package fail on a cluster, found before anything is applied; nothing is left behind.

software    kubectl, the server, the kinds, the operator
permission  the namespace, what the user may do, admission
room        quotas and nodes
reference   claims, secrets, names, and the server's own dry run
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from packager.cluster.doctor import image, permission, reference, room, software
from packager.cluster.doctor.case import unknown
from packager.errors import ClusterError, MlpackError, ToolError, UnreachableError

if TYPE_CHECKING:
    from packager.cluster.doctor.case import Case, Finding

Check = Callable[["Case"], Iterator["Finding"]]

CHECKS: dict[str, Check] = {
    "server": software.versions,
    "kinds": software.kinds,
    "operator": software.operator,
    "namespace": permission.namespace,
    "permissions": permission.permissions,
    "admission": permission.admission,
    "quota": room.quotas,
    "nodes": room.nodes,
    "image": image.images,
    "claims": reference.claims,
    "references": reference.references,
    "names": reference.names,
    "apply": reference.dry_run,
}
"""In the order in which a person mends things. Each can be understood, and can fail, without the others."""

_AT_ONCE = 4


_DENIED = re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"(?: in API group "(?P<group>[^"]*)")?')


def examine(case: Case) -> Iterator[Finding]:
    """Yield what each check has found, in order, as soon as it is known."""
    first, *rest = CHECKS
    found, goes_on = _judge(case, first)
    yield from found
    if not goes_on:
        return
    # Each check waits for kubectl most of the time.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for found, _ in pool.map(lambda word: _judge(case, word), rest):
            yield from found


def _judge(case: Case, word: str) -> tuple[list[Finding], bool]:
    """Return what a check has found, and whether others can find anything."""
    found = []
    try:
        for finding in CHECKS[word](case):
            found.append(finding)  # noqa: PERF402 - what was found before an error counts
    except (ClusterError, ToolError) as error:
        found.append(_not_found_out(case, word, error))
        return found, not isinstance(error, UnreachableError)
    return found, True


def _not_found_out(case: Case, word: str, error: MlpackError) -> Finding:
    denied = _DENIED.search(str(error))
    if denied is None:
        return unknown(word, str(error), error.hint)
    what = denied["resource"] + (f".{denied['group']}" if denied["group"] else "")
    where = "-A" if "at the cluster scope" in str(error) else case.here
    return unknown(word, f"you may not {denied['verb']} {what}", f"kubectl auth can-i {denied['verb']} {what} {where}")
