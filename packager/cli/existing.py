"""Asks before a deploy what only the user knows: whether a job that exists is deleted, and results may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import UnansweredError
from packager.cli.asking import has_terminal, require_yes
from packager.cli.console import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.app.deploy import PreparedDeploy
    from packager.cluster.deploy import Situation

_MAX_DIFFERENCES = 20


def delete_existing(prepared: PreparedDeploy, *, replace: bool, yes: bool) -> PreparedDeploy:
    """Delete the jobs that are in the way, when the user wants it, and return the deploy without them.

    Raises:
        UnansweredError: The user has not said so, and cannot be asked.
        MlpackError: The user does not want it.
    """
    # What is as the package says is replaced only where nothing else is in the way.
    blocked = [one.obstacle is not None for one in prepared.per_workload]
    for one, is_blocked in zip(prepared.per_workload, blocked, strict=True):
        replaces = replace and (is_blocked or not any(blocked))
        prepared = prepared.without(one, _delete_workload(one, replace=replaces, yes=yes))
    return prepared


def _delete_workload(prepared: PreparedDeploy, *, replace: bool, yes: bool) -> PreparedDeploy:
    """Delete the job that is in the way, when the user wants it, and return the deploy without it.

    Raises:
        UnansweredError: The user has not said so, and cannot be asked.
        MlpackError: The user does not want it.
    """
    from packager.app.deploy import delete_existing as delete

    if prepared.is_new:
        return prepared
    if prepared.is_same and not replace:
        say(f"{prepared.target.shown} already exists and is up to date")
        return prepared
    if prepared.is_outdated and not replace:
        say(f"{prepared.target.shown} already exists with a different spec; the changes can be applied in place")
        return prepared
    _list_differences(prepared.situation)
    if prepared.obstacle is not None and not (replace or yes):
        unanswered = UnansweredError(
            f"{prepared.obstacle}; nothing was done", hint="--replace deletes it and deploys it again"
        )
        if has_terminal():
            say(f"{prepared.obstacle}.")
        require_yes("Delete it and deploy it again?", unanswered=unanswered, declined="nothing was done")
    say(f"waiting until the earlier {prepared.target.shown} is deleted")
    return delete(prepared)


def warn_of_lost_results(deploys: Sequence[PreparedDeploy], *, yes: bool, way_out: str | None = None) -> None:
    """Print that results are lost with the pods, if they are; ask before a first run if there is a terminal.

    Args:
        deploys: What is about to be deployed.
        yes: Whether the question is answered with yes.
        way_out: How results are kept, where `mlpack configure` is not the way.

    Raises:
        MlpackError: The user wants to keep them.
    """
    losing = [prepared for prepared in deploys if prepared.lost_results is not None]
    for note in dict.fromkeys(f"{one.lost_results}; {way_out}" if way_out else one.loss for one in losing):
        say(f"note: {note}")
    if any(prepared.is_new for prepared in losing) and not yes and has_terminal():
        unanswered = UnansweredError("nothing was deployed", hint="-y answers yes")
        require_yes("Deploy it anyway?", unanswered=unanswered, declined="nothing was deployed")


def _list_differences(situation: Situation) -> None:
    """Say in what the job that is there differs from what would be applied."""
    for subject, difference in situation.differences[:_MAX_DIFFERENCES]:
        say(f"  {subject}  {difference}")
    if (more := len(situation.differences) - _MAX_DIFFERENCES) > 0:
        say(f"  and {more} more difference{'s' if more > 1 else ''}")
