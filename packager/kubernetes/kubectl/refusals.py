"""Translates kubectl's error messages into errors with a fix: no connection, or a request that was refused."""

from __future__ import annotations

import re
from shlex import quote

from packager.base.errors import (
    ClusterError,
    DeniedError,
    MissingNamespaceError,
    MlpackError,
    NotServedError,
    UnreachableError,
    UsageError,
)
from packager.base.units import parse_quantity
from packager.kubernetes.kubectl import KLOG, messages
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import Finding

PREREQUISITE = "MissingPrerequisite"
"""The reason of a refusal because of a missing namespace or service account."""

_VALUES = ("name", "policy", "resource", "verb")
"""The groups of patterns that are values of remedies."""


def error_from(stderr: str) -> MlpackError:
    """Return the error for kubectl's messages on stderr: a UsageError when they are about the requested context."""
    answer = answered(stderr)
    if context := messages.NO_CONTEXT.search(answer):
        name = context[context.lastindex or 0]
        return UsageError(f"context {name!r} not found in the kubeconfig", hint="kubectl config get-contexts")
    if messages.NO_CLUSTER.search(answer):
        return no_cluster_error()
    for trouble in messages.TROUBLES:
        if trouble.pattern.search(answer):
            return trouble.error(f"{trouble.meaning}: {_without_prefix(answer)}", hint=trouble.hint)
    if messages.UNREACHABLE.search(answer) and not messages.ANSWERED.match(answer):
        return no_answer(answer)
    return _denied(answer, _without_prefix(answer)) or ClusterError(
        _without_prefix(answer) or "kubectl failed without a message"
    )


def answered(stderr: str) -> str:
    """Return kubectl's messages on one line, each once: kubectl repeats the message for each of several objects."""
    lines = [line for line in stderr.split("\n") if not KLOG.match(line)]
    answer = " ".join(" ".join(dict.fromkeys(lines)).split()) or " ".join(stderr.split())
    return messages.NO_VALIDATION.sub("", answer).removeprefix("error: ")


def no_answer(why: str, hint: str = "kubectl cluster-info") -> UnreachableError:
    """Return the error that the cluster does not answer, because of `why`."""
    return UnreachableError(f"the cluster does not answer: {why}", hint=hint, why=why)


def no_cluster_error() -> ClusterError:
    """Return the error for a kubectl without a configured cluster."""
    return ClusterError("no cluster is configured: --kubeconfig or --context", hint="kubectl config get-contexts")


def could_not_evaluate(line: str) -> bool:
    """Return whether a line of kubectl says why the cluster could not evaluate a manifest."""
    error = error_from(line)
    if isinstance(error, UnreachableError | UsageError) or messages.NO_CLUSTER.search(line):
        return True
    patterns = (messages.CANNOT_EVALUATE, *(trouble.pattern for trouble in messages.TROUBLES))
    return any(pattern.search(line) for pattern in patterns)


def refusal(subject: str, answer: str, core: str | None = None) -> Finding | None:
    """Return an explanation of the API server's answer for the user; None when it is not a refusal.

    `subject` is the object for which the refused object was created, and `core` the part of the answer to show; without
    it, all except the prefixes of controllers and kubectl.
    """
    answer = " ".join(answer.split())
    core = core or re.sub(r"^(Error creating: |Error from server( \(\w+\))?: )+", "", answer)
    if quota := messages.QUOTA.search(answer):
        return _quota(subject, quota)
    for kind in messages.REFUSALS:
        if match := kind.pattern.search(answer):
            groups = {name: value or "no reason given" for name, value in match.groupdict().items()}
            sentence = kind.message.format(**groups) if kind.message else core
            values = {name: groups[name] for name in _VALUES if name in groups}
            advice = Remedy.of(kind.action, **values)
            return Finding(kind.reason, subject, sentence, advice, final_after=kind.final_after)
    return None


def refused_pod(stderr: str) -> Finding:
    """Return the refusal of a pod that doctor has tried; for a missing object its reason is PREREQUISITE."""
    answer = answered(stderr)
    core = messages.TRIAL_POD_PREFIX.sub("", _without_prefix(answer))
    if messages.PREREQUISITE_MISSING.search(answer):
        return Finding(PREREQUISITE, "", core)
    return refusal("", answer, core) or Finding("Invalid", "", core)


def explained_error(stderr: str) -> MlpackError:
    """Return the error for kubectl's messages on stderr, with the fix."""
    answer = " ".join(stderr.split())
    conflicts = messages.CONFLICT.findall(stderr)
    if conflicts:
        changes = "; ".join(
            f"{manager} has set {', '.join(paths.replace('- ', ' ').split())}" for manager, paths in conflicts
        )
        message = f"the object was changed by another field manager: {changes}"
        return ClusterError(message, hint="--force-conflicts sets these fields as the package says")
    if isinstance(error := error_from(stderr), UnreachableError):
        return error  # a starting API server refuses everything
    if finding := refusal("", answer):
        message = f"the cluster rejects it: {finding.message}"
        return _denied(answer, message, finding.hint) or ClusterError(message, hint=finding.hint)
    if kind := messages.NO_KIND.search(answer):
        return NotServedError(f"{kind[1]} ({kind[2]})")
    if namespace := messages.NO_NAMESPACE.search(answer):
        hint = f"kubectl create namespace {quote(namespace[1])}"
        return MissingNamespaceError(f"namespace {namespace[1]} not found", hint=hint)
    return error


def _denied(answer: str, message: str, hint: str | None = None) -> DeniedError | None:
    """Return the error with `message` if the user lacks a permission; else None."""
    if (right := messages.NO_RIGHT.search(answer)) is None:
        return None
    resource = ".".join(filter(None, (right["resource"], right["group"])))
    return DeniedError(message, verb=right["verb"], resource=resource, is_cluster_wide=bool(right["all"]), hint=hint)


def _quota(subject: str, quota: re.Match[str]) -> Finding:
    used = f"asked for {quota['asked']}, used {quota['used']} of {quota['limit']}"
    message = f"the quota {quota['name']} of the namespace does not allow another pod: {used}"
    if _never_fits(quota["asked"], quota["limit"]):
        return Finding("QuotaExceeded", subject, message, Remedy.of(Action.REQUEST_LESS), final_after=0)
    return Finding("QuotaExceeded", subject, message, Remedy.of(Action.WAIT_FOR_PODS))


def _never_fits(asked: str, limit: str) -> bool:
    """Return whether one pod requests more than the quota allows in total."""
    limits = dict(pair.split("=", 1) for pair in limit.split(",") if "=" in pair)
    for pair in asked.split(","):
        key, _, value = pair.partition("=")
        try:
            if key in limits and parse_quantity(value) > parse_quantity(limits[key]):
                return True
        except ValueError:
            continue
    return False


def _without_prefix(answer: str) -> str:
    return messages.SERVER.sub("", answer)
