"""The views of several jobs: their list, in which some are chosen, and the comparison of those."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from litestar import Response, get, post

from packager.base.values import Value, replace
from packager.diagnosis.curves.figure import figures, number
from packager.service.api.access import CallerDependency, HttpRequest, ServerDependency
from packager.service.failures import Failure
from packager.service.page.html import between, moment, redirect, respond
from packager.service.page.jobs import flat
from packager.service.store.store import STATUSES, JobQuery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.diagnosis.curves.points import Curve
    from packager.service.use.answers import Job

_PAGE = 50
_PAGE_OF_A_DEFINITION = 100
_MOST_COLUMNS = 8
_MOST_COMPARED = 8
_FILTERS = ("status", "definition", "creator", "application", "project", "since", "until", "ended_since", "q")
_SHOWN_ELSEWHERE = ("creator", "description")
_NOT_A_NUMBER = number(None)


class Column(Value, frozen=True):
    """A column of a list of jobs: a filled value, or the last value of a metric."""

    key: str  # of the value, or `metric:` and the name
    cells: Mapping[str, str | float]  # by release


class Row(Value, frozen=True):
    """A row of a comparison, with a cell for each job."""

    key: str
    cells: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether two jobs have different values."""
        return len(set(self.cells)) > 1


@get("/jobs", include_in_schema=False)
async def jobs(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Show a page of the list of jobs."""
    return await _list(request, server, caller)


async def _list(
    request: HttpRequest,
    server: ServerDependency,
    caller: CallerDependency,
    failures: Mapping[str, Failure] | None = None,
) -> Response[str]:
    """Return the list of jobs, with the failures of an action by the releases of the jobs."""
    query = request.query_params
    filters = {key: value for key in _FILTERS if (value := query.get(key, "").strip())}
    after = await server.events.position()
    limit = _PAGE_OF_A_DEFINITION if "definition" in filters else _PAGE
    page = await server.jobs.search(caller, JobQuery(limit=limit, cursor=query.get("cursor") or None, **filters))
    columns: Sequence[Column] = ()
    if "definition" in filters:
        columns = await asyncio.to_thread(_columns, page.items, await server.jobs.last_values(page.items))
    choices = await server.jobs.choices(caller)
    return await respond(
        request,
        caller,
        "jobs",
        next(iter(failures.values())).status if failures else 200,
        jobs=_sorted(page.items, columns, query.get("sort", "")),
        columns=columns,
        sort=query.get("sort", ""),
        following=page.next,
        is_first="cursor" not in query,
        filters=filters,
        choices={key: sorted({*values, filters.get(key, "")} - {""}) for key, values in choices.items()},
        more=not filters.keys() <= {"status", "q"},
        statuses=STATUSES,
        failures=failures or {},
        after=after,
    )


def _columns(jobs: Sequence[Job], last_values: Mapping[str, Mapping[str, float | None]]) -> list[Column]:
    """Return the columns of the filled values that differ between jobs, and of their metrics."""
    values = {job.release: dict(flat(job.values)) for job in jobs}
    columns = []
    for key in dict.fromkeys(key for items in values.values() for key in items if key not in _SHOWN_ELSEWHERE):
        cells = {release: items.get(key, "") for release, items in values.items()}
        if len(set(cells.values())) > 1:
            columns.append(Column(key, cells))
    metrics: dict[str, dict[str, str | float]] = {}
    for release, ends in last_values.items():
        for name, last in ends.items():
            metrics.setdefault(name, {})[release] = _NOT_A_NUMBER if last is None else last
    shown = [Column(f"metric:{name}", cells) for name, cells in metrics.items()]
    return [*columns[:_MOST_COLUMNS], *shown[:_MOST_COLUMNS]]


def _sorted(jobs: Sequence[Job], columns: Sequence[Column], sort: str) -> list[Job]:
    """Return jobs in the order of a column, `-` before its key for the greatest first; those without a value last."""
    cells = next((column.cells for column in columns if column.key == sort.removeprefix("-")), {})
    ordered = [job for job in jobs if cells.get(job.release, "") != ""]
    ordered.sort(key=lambda job: _order(cells[job.release]), reverse=sort.startswith("-"))
    return [*ordered, *(job for job in jobs if cells.get(job.release, "") == "")]


def _order(cell: str | float) -> tuple[bool, float, str]:
    """Return the order of a value: numbers, also those in texts, come before other texts."""
    try:
        return (False, float(cell), "")
    except ValueError:
        return (True, 0.0, str(cell))


@post("/jobs", include_in_schema=False)
async def change(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Cancel or delete the chosen jobs, each as its own view does."""
    form, use = await request.form(), server.jobs
    storage = {"delete": "keep", "delete-storage": "delete"}.get(str(form.get("action")))
    failures: dict[str, Failure] = {}
    for release in list(dict.fromkeys(map(str, form.getall("job", ()))))[:_PAGE_OF_A_DEFINITION]:
        try:
            await (use.delete(caller, release, storage) if storage else use.cancel(caller, release))
        except Failure as failure:
            failures[release] = failure
    return await _list(request, server, caller, failures) if failures else redirect(f"/jobs?{request.url.query}")


@get("/compare", include_in_schema=False)
async def compare(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Show some jobs side by side, with the curves of one metric in one chart."""
    query = request.query_params
    releases = list(dict.fromkeys(query.getall("job", ())))
    if not 0 < len(releases) <= _MOST_COMPARED:
        raise Failure("invalid-query", f"choose at most {_MOST_COMPARED} jobs to compare, and at least one")
    chosen = [await server.jobs.job(caller, release) for release in releases]
    found = await asyncio.gather(*(server.jobs.curves(caller, release) for release in releases))
    titles = [job.title for job in chosen]
    labels = [job.title if job.title and titles.count(job.title) == 1 else job.release for job in chosen]
    metrics: dict[str, dict[str, Curve]] = {}
    for label, curves in zip(labels, found, strict=True):
        for curve in reversed(curves):  # of several pods, the first one counts
            metrics.setdefault(curve.name, {})[label] = replace(curve, pod=label)
    metric = next((name for name in (query.get("metric"), "loss") if name in metrics), next(iter(sorted(metrics)), ""))
    is_logarithmic = query.get("scale") == "log"
    values = await asyncio.to_thread(lambda: [dict(flat(job.values)) for job in chosen])
    keys = dict.fromkeys(key for items in values for key in items if key not in _SHOWN_ELSEWHERE)
    ends = {
        name: {label: number(curve.last[1]) for label, curve in items.items() if curve.last}
        for name, items in metrics.items()
    }
    return await respond(
        request,
        caller,
        "compare",
        jobs=chosen,
        metrics=sorted(metrics),
        metric=metric,
        figures=figures(list(metrics.get(metric, {}).values()), is_logarithmic=is_logarithmic),
        is_logarithmic=is_logarithmic,
        rows=(
            *(Row(f"last {name}", tuple(last.get(label, "") for label in labels)) for name, last in ends.items()),
            *(Row(key, tuple(items.get(key, "") for items in values)) for key in keys),
            Row("Definition", tuple(f"{job.definition.name}, revision {job.definition.revision}" for job in chosen)),
            Row("Project", tuple(job.project for job in chosen)),
            Row("Creator", tuple(job.creator for job in chosen)),
            Row("GPUs", tuple(str(job.gpus) for job in chosen)),
            Row("Created", tuple(moment(job.created) for job in chosen)),
            Row("Duration", tuple(between(job.started, job.ended) for job in chosen)),
        ),
    )


HANDLERS = (jobs, change, compare)
"""The routes."""
