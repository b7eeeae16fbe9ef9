"""Checks that the sources that pods fetch are there, with the size in the spec: a part of `mlpack doctor`."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from packager.base.errors import MlpackError
from packager.cluster.doctor.case import fails, note, ok, unknown
from packager.kubernetes.manifest import listing, mapping
from packager.package.path_checks import shown
from packager.publish.sources import S3, Keys, SourceAnswer, SourceState, look_up, may_use_role
from packager.workloads.scripts import FetchedSource, fetched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.app.target import Target
    from packager.cluster.doctor.case import CheckResult
    from packager.publish.client import Access

_AT_ONCE = 4

_S3_KEY = "AWS_ACCESS_KEY_ID"


def check(target: Target, access: Access, variables: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield the finding about each source.

    Args:
        target: The overlay.
        access: The way to the network, and to registries.
        variables: The user's environment: keys for the hub and the S3 server that it names itself.
    """
    sources = dict(_sources(target))
    keys = Keys(_of_package(target), variables, target.kubectl.runner.now())

    def result(source: FetchedSource) -> CheckResult:
        try:
            answer = look_up(source.address, access, keys)
            return _result(source, sources[source], answer, may_have_role=may_use_role(source.address, keys))
        except MlpackError as error:
            return unknown("sources", f"{shown(source.address)} could not be looked up: {error}", error.hint)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(result, sources)


def _sources(target: Target) -> Iterator[tuple[FetchedSource, str | None]]:
    """Yield each source, and the name of the secret with which pods ask for it; None without one."""
    for pods in target.rendered.pods:
        for _, container in pods.containers():
            names = {mapping(variable).get("name") for variable in listing(container.get("env"))}
            for _, source in fetched([str(word) for word in listing(container.get("command"))]):
                key = _S3_KEY if source.address.startswith(S3) and _S3_KEY in names else None
                yield source, source.secret or key


def _of_package(target: Target) -> dict[str, str]:
    """Return the variables of the overlay's mlops.env."""
    maps = (item.get("data", {}) for item in target.manifests.objects if item["kind"] == "ConfigMap")
    return next((data for data in maps if "OUTPUT_DIR" in data), {})


def _result(source: FetchedSource, secret: str | None, answer: SourceAnswer, *, may_have_role: bool) -> CheckResult:
    address = shown(source.address)
    if answer.state is not SourceState.THERE:
        how = "with your key" if answer.with_key else "without a key"
        reason = "cannot be read" if answer.state is SourceState.DENIED else "was not found"
        if secret is None and may_have_role and answer.state is SourceState.DENIED:
            fix = "add the secrets of its key to the spec, or give the pods a role in AWS, and botocore"
            return unknown("sources", f"{address} cannot be read {how}; the pods may have a role in AWS that can", fix)
        if secret is None:
            return fails("sources", f"{address} {reason}, and the spec names no secret for it")
        return note("sources", f"{address} {reason} {how}; only the pods have the secret {shown(secret)}")
    if answer.size is None:
        return ok("sources", f"{address} is there; the server does not report its size")
    expected = int(source.size) if re.fullmatch("[0-9]{1,18}", source.size) else -1
    if answer.size > expected or (source.sha256 is not None and answer.size != expected):
        message = f"{address} has {answer.size:,} bytes, and the package expects {shown(source.size)}"
        return fails("sources", message, "correct `size` in the spec, and build it again")
    return ok("sources", f"{address} is there: {answer.size:,} bytes")
