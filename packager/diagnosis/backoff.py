"""Determines before when a kubelet does not try again what has failed: to pull an image, to start a container. Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from packager.kubernetes.objects import events_about, last_seen, moment, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from packager.kubernetes.objects import Object

_FIRST_PAUSE = timedelta(seconds=10)
_LONGEST_PAUSE = timedelta(minutes=5)
"""The pauses before an image is pulled again, twice as long each time (pkg/kubelet: imageBackOffPeriod,
MaxImageBackOff)."""

_MOST_DOUBLINGS = 5

# A kubelet's message about a container that it holds back (pkg/kubelet/kuberuntime: doBackOff), with a Go duration.
_HELD_BACK = re.compile(r"back-off (?:(\d+)h)?(?:(\d+)m)?(?:(\d+)(?:\.\d+)?s)? restarting failed container")


def next_start(container: Object) -> datetime | None:
    """Return when a container in CrashLoopBackOff may start again; None if its kubelet does not say so."""
    end = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
    pause = _HELD_BACK.match(sentence(container["state"].get("waiting") or {}))
    if not (end and pause):
        return None
    hours, minutes, seconds = (int(number or 0) for number in pause.groups())
    return moment(end) + timedelta(hours=hours, minutes=minutes, seconds=seconds)


def failed_pulls(pod: Object, image: str, events: Sequence[Object]) -> list[Object]:
    """Return the events about failed pulls of an image for a pod since the last good one, the oldest first."""
    about_pod = events_about(events, pod)
    good = [last_seen(event) for event in about_pod if event.get("reason") == "Pulled" and f'"{image}"' in _text(event)]
    failed = [event for event in about_pod if _text(event).startswith(f'Failed to pull image "{image}"')]
    return [event for event in failed if last_seen(event) > max(good, default="")]


def next_pull(failed: Sequence[Object]) -> datetime | None:
    """Return the end of the pause of a kubelet after these failed pulls of an image; None without their events."""
    if not failed:
        return None
    tries = sum(int(event.get("count") or 1) for event in failed)
    pause: timedelta = min(_FIRST_PAUSE * 2 ** min(tries - 1, _MOST_DOUBLINGS), _LONGEST_PAUSE)
    return moment(last_seen(failed[-1])) + pause


def _text(event: Object) -> str:
    return str(event.get("message") or "")
