"""Asks before a deploy whether a job may be deleted, and results may be lost. Tests: cli/test_deploy.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import UnansweredError
from packager.cli.asking import has_terminal, require_yes
from packager.cli.console import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.cluster.apply import Situation
    from packager.cluster.deploy import PreparedDeploy

_MAX_DIFFERENCES = 20


def delete_existing(prepared: PreparedDeploy, *, replace: bool, yes: bool) -> PreparedDeploy:
    """Delete existing jobs that must be replaced, if the user agrees, and return the deploy without them.

    Raises:
        UnansweredError: The user has not agreed with an option, and there is no terminal to ask on.
        MlpackError: The user does not agree.
    """
    # An unchanged job is replaced only if no other job has to be replaced.
    blocked = [one.obstacle is not None for one in prepared.per_workload]
    for one, is_blocked in zip(prepared.per_workload, blocked, strict=True):
        replaces = replace and (is_blocked or not any(blocked))
        prepared = prepared.without(one, _delete_workload(one, replace=replaces, yes=yes))
    return prepared


def _delete_workload(prepared: PreparedDeploy, *, replace: bool, yes: bool) -> PreparedDeploy:
    """Delete the existing job of one workload, if the user agrees, and return the deploy without it."""
    from packager.cluster.deploy import delete_existing as delete

    if prepared.is_new:
        return prepared
    if prepared.is_same and not replace:
        is_changed = bool(prepared.situation.differences)
        how = "as the cluster's policies have changed it" if is_changed else "and is up to date"
        say(f"{prepared.target.shown} already exists {how}")
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
    """Print where results go, or that they are lost; then, before a first run, ask if there is a terminal.

    Raises:
        MlpackError: The user does not want to lose the results.
    """
    for place in dict.fromkeys(place for prepared in deploys for place in prepared.kept_results):
        say(place)
    losing = [prepared for prepared in deploys if prepared.lost_results is not None]
    for note in dict.fromkeys(f"{one.lost_results}; {way_out}" if way_out else one.loss for one in losing):
        say(f"note: {note}")
    if any(prepared.is_new for prepared in losing) and not yes and has_terminal():
        unanswered = UnansweredError("nothing was deployed", hint="-y answers yes")
        require_yes("Deploy it anyway?", unanswered=unanswered, declined="nothing was deployed")


def _list_differences(situation: Situation) -> None:
    """Print the differences between the existing objects and those of the overlay."""
    for subject, difference in situation.differences[:_MAX_DIFFERENCES]:
        say(f"  {subject}  {difference}")
    if (more := len(situation.differences) - _MAX_DIFFERENCES) > 0:
        say(f"  and {more} more difference{'s' if more > 1 else ''}")
