"""Translates kubectl's error messages into errors with a fix: no connection, or a request that was refused."""

from __future__ import annotations

import re
from shlex import quote

from packager.base.errors import ClusterError, ConflictError, MlpackError, UnreachableError, UsageError
from packager.base.quantity import parse
from packager.kubectl import sentences
from packager.kubernetes.verdict import Finding

NO_ANSWER = "the cluster does not answer: "
"""How the message of an UnreachableError begins."""


def error_from(stderr: str) -> MlpackError:
    """Return the error for kubectl's messages on stderr: a UsageError when they are about the requested context."""
    lines = [line for line in stderr.split("\n") if not sentences.KLOG.match(line)]
    # Of several objects, kubectl says it once for each.
    words = " ".join(" ".join(dict.fromkeys(lines)).split()) or " ".join(stderr.split())
    words = sentences.NO_VALIDATION.sub("", words).removeprefix("error: ")
    if context := sentences.NO_CONTEXT.search(words):
        name = context[context.lastindex or 0]
        return UsageError(f"context {name!r} not found in the kubeconfig", hint="kubectl config get-contexts")
    if sentences.NO_CLUSTER.search(words):
        return no_cluster_error()
    for trouble in sentences.TROUBLES:
        if trouble.words.search(words):
            return ClusterError(f"{trouble.meaning}: {_without_prefix(words)}", hint=trouble.hint)
    if sentences.UNREACHABLE.search(words) and not sentences.ANSWERED.match(words):
        return UnreachableError(NO_ANSWER + words, hint="kubectl cluster-info")
    return ClusterError(_without_prefix(words) or "kubectl failed without a message")


def no_cluster_error() -> ClusterError:
    """Return the error that kubectl knows no cluster."""
    return ClusterError("no cluster is configured: --kubeconfig or --context", hint="kubectl config get-contexts")


def is_forbidden(error: MlpackError) -> bool:
    """Whether the message says that the user lacks a permission; admission also calls its refusals "forbidden"."""
    return bool(sentences.NO_RIGHT.search(str(error)))


def was_evaluated(error: MlpackError) -> bool:
    """Whether the message is a decision of the cluster on the request, and not that the request was never evaluated."""
    not_evaluated = tuple(f"{trouble.meaning}: " for trouble in sentences.TROUBLES if not trouble.was_evaluated)
    return not (isinstance(error, UnreachableError) or str(error).startswith(not_evaluated))


def could_not_evaluate(line: str) -> bool:
    """Whether a line from kubectl says that the cluster could not evaluate a manifest, and why."""
    error = error_from(line)
    if isinstance(error, UnreachableError | UsageError) or sentences.NO_CLUSTER.search(line):
        return True
    words = (sentences.CANNOT_EVALUATE, *(trouble.words for trouble in sentences.TROUBLES))
    return any(pattern.search(line) for pattern in words)


def refusal(subject: str, message: str) -> Finding | None:
    """Return an explanation of the API server's message for the user; None when it is not a refusal.

    Args:
        subject: On whose behalf the refused object was to be made.
        message: The message of an event, or of an error.
    """
    message = " ".join(message.split())
    core = re.sub(r"^(Error creating: |Error from server( \(\w+\))?: )+", "", message)
    if quota := sentences.QUOTA.search(message):
        return _quota(subject, quota)
    for kind in sentences.REFUSALS:
        if match := kind.pattern.search(message):
            words = {name: value or "no reason given" for name, value in match.groupdict().items()}
            sentence = kind.message.format(**words) if kind.message else core
            hint = kind.hint.format(**{name: quote(value) for name, value in words.items()})
            return Finding(kind.reason, subject, sentence, hint, final_after=kind.final_after)
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
        return error  # an API server that starts refuses everything
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
        return Finding("QuotaExceeded", subject, message, "request less in the overlay's resources", final_after=0)
    return Finding("QuotaExceeded", subject, message, "wait for running pods to end, or request less")


def _never_fits(asked: str, limit: str) -> bool:
    """Whether one pod asks for more than the quota would give if nothing else were there."""
    limits = dict(pair.split("=", 1) for pair in limit.split(",") if "=" in pair)
    for pair in asked.split(","):
        key, _, value = pair.partition("=")
        try:
            if key in limits and parse(value) > parse(limits[key]):
                return True
        except ValueError:
            continue
    return False


def _without_prefix(words: str) -> str:
    return sentences.SERVER.sub("", words)
