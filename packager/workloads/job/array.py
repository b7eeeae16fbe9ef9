"""Job array: a Job that runs its program once for each index, some of them at a time (completionMode Indexed).

Kubernetes itself tells each container its index in JOB_COMPLETION_INDEX, from 1.22 on (pkg/controller/job,
indexed_job_utils.go). One count of failed pods, backoffLimit, holds for all indexes together: `backoffLimitPerIndex` is
younger than 1.28, and older API servers refuse a manifest that has it.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from packager.kubernetes.objects import annotation, created, status
from packager.kubernetes.pods import failure
from packager.workloads.launchers import INDEX_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packager.kubernetes.objects import Object


def indexes(job: Object) -> range:
    """Return the indexes of an array; none for another Job."""
    spec = job["spec"]
    return range(int(spec.get("completions") or 0) if spec.get("completionMode") == "Indexed" else 0)


def newest(pods: Iterable[Object]) -> dict[int, Object]:
    """Return the newest pod of each index that has any, in order of the indexes."""
    by_index = {_index(pod): pod for pod in sorted(pods, key=created)}
    return {index: by_index[index] for index in sorted(by_index) if index >= 0}


def _index(pod: Object) -> int:
    """Return the index of a pod; -1 for one that has none."""
    index = annotation(pod, INDEX_ANNOTATION) or ""
    return int(index) if re.fullmatch("[0-9]{1,10}", index) else -1


def lacks_pods(job: Object) -> bool:
    """Whether there are fewer pods at work than there might be."""
    counts = status(job)
    left = len(indexes(job)) - counts.get("succeeded", 0)
    return bool(counts.get("active", 0) < min(left, job["spec"].get("parallelism", 1)))


def progress(job: Object) -> str:
    """Return the number of finished indexes, and of failed pods."""
    counts = status(job)
    failed = counts.get("failed", 0)
    done = f"{counts.get('succeeded', 0)} of {len(indexes(job))} done"
    return f"{done}, {failed} failed" if failed else done


def failed(pods: Sequence[Object], retries: int) -> str:
    """Return the failed indexes of an array whose Job has failed."""
    numbers = [index for index, pod in newest(pods).items() if failure(pod)]
    if not numbers:
        return "one of its indexes has failed"
    which = f"index {numbers[0]} has" if len(numbers) == 1 else f"indexes {listed(numbers)} have"
    again = f", after {retries} retr{'ies' if retries > 1 else 'y'} of all indexes together" if retries else ""
    return f"{which} failed{again}"


def listed(numbers: Iterable[int]) -> str:
    """Return numbers in order as a person lists them: 0, 3-5."""
    groups = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
