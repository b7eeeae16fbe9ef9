"""Finds the line in the log of a failed job that explains the failure. Tests: service/jobs/test_failure_line.py."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from packager.diagnosis.curves.points import measured
from packager.kubernetes.manifest import listing, mapping
from packager.service.jobs.logs import kept_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.service.store.models import StoredJob
    from packager.service.store.small import KeptLogs

_MOST_LOGS = 4
_LONGEST = 400

_PREFIX = re.compile(r"\x1b\[[0-9;]*m|\[rank\d+\]: ?")
"""Colors, and the beginning of each line of a traceback in PyTorch 2."""

_TRACEBACK = "Traceback (most recent call last):"
_OF_LAUNCHER = "torch.distributed.elastic"
"""The beginning of the error that torchrun raises below the error of a program."""

_ERROR = re.compile(
    r"\w(Error|Exception)\b|\b(error|exception|fatal|panic|killed|aborted|cannot|failed|fault|out of memory|no such)\b",
    re.IGNORECASE,
)


def explaining(lines: Iterable[str]) -> tuple[int, str] | None:
    """Return the line of a log that explains why its program failed, after its rank; None if there is none.

    The ranks: 0 for the error of Python's last traceback, 1 for the last line with a word such as `error`, and 2 for
    the last line.
    """
    found: dict[int, str] = {}
    is_traceback = False
    for line in lines:
        text = _PREFIX.sub("", line.rstrip("\r\n").rpartition("\r")[2]).rstrip()
        if text.startswith(_TRACEBACK):
            is_traceback = True
        elif is_traceback and text and not text[0].isspace():
            is_traceback = False
            if not (text.startswith(_OF_LAUNCHER) and 0 in found):
                found[0] = text
        if text.strip() and measured(text) is None:
            found[2] = text.strip()
            if _ERROR.search(text):
                found[1] = text.strip()
    return next(((rank, found[rank][:_LONGEST]) for rank in sorted(found)), None)


def failure_line(logs: KeptLogs, job: StoredJob) -> str | None:
    """Return the line in the kept logs of a failed job that explains the failure; None if there is none."""
    failed = str(mapping(next(iter(listing(json.loads(job.findings))), None)).get("subject"))
    kept = sorted(logs.of_job(job.release), key=lambda log: (f"pod/{log.pod}" != failed, log.instance))
    found = (explaining(kept_lines(logs.content(log), tail=None, since=None)) for log in kept[:_MOST_LOGS])
    ranked = sorted(filter(None, found), key=lambda line: line[0])
    return ranked[0][1] if ranked else None
