"""What the API server says when it refuses to make an object: a quota, Pod Security, a policy, a permission."""

from __future__ import annotations

import re

from packager.cluster.verdict import Finding
from packager.quantity import parse

CONTROLLER_PATIENCE = 15.0
"""A role or a policy may be about to change; controllers try again in the meantime."""

_QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.+), used: (?P<used>.+), limited: (?P<limit>.+)"
)


def refusal(subject: str, said: str) -> Finding | None:
    """Return what the API server's words mean for a person; None when they tell of no refusal.

    Args:
        subject: On whose behalf the refused object was to be made.
        said: The message of an event, or of an error.
    """
    said = " ".join(said.split())
    core = said.removeprefix("Error creating: ").removeprefix("Error from server (Forbidden): ")
    if violated := re.search(r'violates PodSecurity "([^"]+)": (.*)', said):
        level, how = violated.groups()
        message = f"the namespace enforces Pod Security {level}, and the pods break it: {how}"
        return Finding("PodSecurity", subject, message, "use another namespace, or an overlay within it", final_after=0)
    if quota := _QUOTA.search(said):
        used = f"asked for {quota['asked']}, used {quota['used']} of {quota['limit']}"
        message = f"the quota {quota['name']} of the namespace does not allow another pod: {used}"
        if _never_fits(quota["asked"], quota["limit"]):
            return Finding("QuotaExceeded", subject, message, "ask for less in the overlay's resources", final_after=0)
        return Finding("QuotaExceeded", subject, message, "wait for what runs there to end, or ask for less")
    if "must specify" in said and "failed quota" in said:
        return Finding("QuotaExceeded", subject, core, "give each container what the quota counts", final_after=0)
    if "is forbidden" in said or "admission webhook" in said or "denied the request" in said:
        return Finding("Forbidden", subject, core, final_after=CONTROLLER_PATIENCE)
    return None


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
