"""Translates kubectl's error messages into errors with a fix: no connection, or a request that was refused."""

from __future__ import annotations

import re
from shlex import quote

from packager.base.errors import ClusterError, ConflictError, MlpackError, UnreachableError, UsageError
from packager.base.quantity import parse
from packager.kubectl import sentences
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import Finding

NO_ANSWER = "the cluster does not answer: "
"""The beginning of the message of an UnreachableError."""

_VALUES = ("name", "policy", "resource", "verb")
"""The groups of patterns that are values of remedies."""


def error_from(stderr: str) -> MlpackError:
    """Return the error for kubectl's messages on stderr: a UsageError when they are about the requested context."""
    lines = [line for line in stderr.split("\n") if not sentences.KLOG.match(line)]
    # kubectl repeats the message for each of several objects.
    message = " ".join(" ".join(dict.fromkeys(lines)).split()) or " ".join(stderr.split())
    message = sentences.NO_VALIDATION.sub("", message).removeprefix("error: ")
    if context := sentences.NO_CONTEXT.search(message):
        name = context[context.lastindex or 0]
        return UsageError(f"context {name!r} not found in the kubeconfig", hint="kubectl config get-contexts")
    if sentences.NO_CLUSTER.search(message):
        return no_cluster_error()
    for trouble in sentences.TROUBLES:
        if trouble.pattern.search(message):
            return ClusterError(f"{trouble.meaning}: {_without_prefix(message)}", hint=trouble.hint)
    if sentences.UNREACHABLE.search(message) and not sentences.ANSWERED.match(message):
        return UnreachableError(NO_ANSWER + message, hint="kubectl cluster-info")
    return ClusterError(_without_prefix(message) or "kubectl failed without a message")


def no_cluster_error() -> ClusterError:
    """Return the error for a kubectl without a configured cluster."""
    return ClusterError("no cluster is configured: --kubeconfig or --context", hint="kubectl config get-contexts")


def is_forbidden(error: MlpackError) -> bool:
    """Return whether the user lacks a permission; refusals of admission, also called "forbidden", do not count."""
    return bool(sentences.NO_RIGHT.search(str(error)))


def was_evaluated(error: MlpackError) -> bool:
    """Return whether the cluster has evaluated the request; it has not if the message is about another failure."""
    not_evaluated = tuple(f"{trouble.meaning}: " for trouble in sentences.TROUBLES if not trouble.was_evaluated)
    return not (isinstance(error, UnreachableError) or str(error).startswith(not_evaluated))


def could_not_evaluate(line: str) -> bool:
    """Return whether a line of kubectl says why the cluster could not evaluate a manifest."""
    error = error_from(line)
    if isinstance(error, UnreachableError | UsageError) or sentences.NO_CLUSTER.search(line):
        return True
    patterns = (sentences.CANNOT_EVALUATE, *(trouble.pattern for trouble in sentences.TROUBLES))
    return any(pattern.search(line) for pattern in patterns)


def refusal(subject: str, message: str) -> Finding | None:
    """Return an explanation of the API server's message for the user; None when it is not a refusal.

    Args:
        subject: The object for which the refused object was created.
        message: The message of an event, or of an error.
    """
    message = " ".join(message.split())
    core = re.sub(r"^(Error creating: |Error from server( \(\w+\))?: )+", "", message)
    if quota := sentences.QUOTA.search(message):
        return _quota(subject, quota)
    for kind in sentences.REFUSALS:
        if match := kind.pattern.search(message):
            groups = {name: value or "no reason given" for name, value in match.groupdict().items()}
            sentence = kind.message.format(**groups) if kind.message else core
            values = {name: groups[name] for name in _VALUES if name in groups}
            advice = Remedy.of(kind.action, **values)
            return Finding(kind.reason, subject, sentence, advice, final_after=kind.final_after)
    return None


def explained_error(stderr: str) -> MlpackError:
    """Return the error for kubectl's messages on stderr, with the fix."""
    message = " ".join(stderr.split())
    conflicts = sentences.CONFLICT.findall(stderr)
    if conflicts:
        fields = [(manager, paths.replace("- ", " ").split()) for manager, paths in conflicts]
        changes = "; ".join(f"{manager} has set {', '.join(paths)}" for manager, paths in fields)
        return ConflictError(
            f"the object was changed by another field manager: {changes}",
            frozenset((manager, path) for manager, paths in fields for path in paths),
            hint="--force-conflicts sets these fields as the package says",
        )
    if isinstance(error := error_from(stderr), UnreachableError):
        return error  # a starting API server refuses everything
    if finding := refusal("", message):
        return ClusterError(f"the cluster rejects it: {finding.message}", hint=finding.hint)
    if kind := sentences.NO_KIND.search(message):
        return ClusterError(f"the cluster does not serve {kind[1]} ({kind[2]}): its operator is not installed")
    if namespace := sentences.NO_NAMESPACE.search(message):
        hint = f"kubectl create namespace {quote(namespace[1])}"
        return ClusterError(f"namespace {namespace[1]} not found", hint=hint)
    return error


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
            if key in limits and parse(value) > parse(limits[key]):
                return True
        except ValueError:
            continue
    return False


def _without_prefix(message: str) -> str:
    return sentences.SERVER.sub("", message)
