"""Every route of the API and of the page, called without permission for its object.

The objects belong to ada, a user of the project `research`. The tests fail if a route has no row.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.values import convert
from packager.service.access.tokens import create
from packager.service.config import ProjectConfig
from packager.service.store.models import StoredDefinition, StoredTemplate
from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN
from tests.service.fake import FakeCluster
from tests.service.page.conftest import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN = "hidden-word"
"""A text in all objects of ada that callers without a role in her project may not read."""

ANONYMOUS, OTHER_USER, VIEWER = None, "other user", "viewer there"
DEVELOPER, ADMIN = "developer elsewhere", "admin elsewhere"
CALLERS = (ANONYMOUS, OTHER_USER, VIEWER, DEVELOPER, ADMIN)
"""An anonymous caller, two callers with roles in ada's project, and two with roles in another project."""

Statuses = tuple[int, int, int, int, int]

# The status of the response to each of CALLERS.
OPEN: Statuses = (200, 200, 200, 200, 200)
ANY_CALLER: Statuses = (401, 200, 200, 200, 200)
OF_PROJECT: Statuses = (401, 200, 200, 404, 404)
OF_OWNER: Statuses = (401, 403, 403, 404, 404)
OF_DEVELOPERS = OF_OWNER
OF_ADMINS_OF_ALL: Statuses = (401, 403, 403, 403, 403)
OF_ADMINS: Statuses = (401, 403, 403, 403, 404)

FILLED = {**bodies.filled(), "taskDef": "research.digits", "project": "research"}
DEFINITION = {**COUNTDOWN, "name": "research.digits", "project": "research"}
TEMPLATE = {"name": "countdown-task", "template": "a: 1"}

# Method, path, body, status of the response to each caller.
API: tuple[tuple[str, str, Any, Statuses], ...] = (
    ("GET", "/healthz", None, OPEN),
    ("GET", "/readyz", None, OPEN),
    ("GET", "/openapi.json", None, OPEN),
    ("GET", "/metrics", None, OF_ADMINS_OF_ALL),
    ("GET", "/v1/whoami", None, ANY_CALLER),
    ("GET", "/v1/projects", None, ANY_CALLER),
    ("GET", "/v1/projects/{project:str}/usage", None, OF_PROJECT),
    ("GET", "/v1/tokens", None, (401, 403, 403, 403, 200)),
    ("POST", "/v1/tokens", {"name": "x", "role": "admin", "project": "research"}, (401, 403, 403, 403, 422)),
    ("DELETE", "/v1/tokens/{identifier:str}", None, OF_ADMINS),
    ("GET", "/v1/templates", None, ANY_CALLER),
    ("POST", "/v1/templates", TEMPLATE, OF_ADMINS_OF_ALL),
    ("GET", "/v1/templates/{name:str}", None, ANY_CALLER),
    ("PUT", "/v1/templates/{name:str}", TEMPLATE, OF_ADMINS_OF_ALL),
    ("DELETE", "/v1/templates/{name:str}", None, OF_ADMINS_OF_ALL),
    ("GET", "/v1/templates/{name:str}/revisions", None, ANY_CALLER),
    ("GET", "/v1/templates/{name:str}/revisions/{number:int}", None, ANY_CALLER),
    ("GET", "/v1/definitions", None, ANY_CALLER),
    ("POST", "/v1/definitions", DEFINITION, (401, 403, 403, 422, 422)),
    ("GET", "/v1/definitions/{name:str}", None, OF_PROJECT),
    ("PUT", "/v1/definitions/{name:str}", DEFINITION, OF_DEVELOPERS),
    ("DELETE", "/v1/definitions/{name:str}", None, OF_DEVELOPERS),
    ("GET", "/v1/definitions/{name:str}/revisions", None, OF_PROJECT),
    ("GET", "/v1/definitions/{name:str}/revisions/{number:int}", None, OF_PROJECT),
    ("GET", "/v1/jobs", None, ANY_CALLER),
    ("POST", "/v1/jobs", FILLED, (401, 422, 403, 422, 422)),  # for ada
    ("GET", "/v1/jobs/{release:str}", None, OF_PROJECT),
    ("PATCH", "/v1/jobs/{release:str}", {"title": "x"}, OF_OWNER),
    ("DELETE", "/v1/jobs/{release:str}", None, OF_OWNER),
    ("GET", "/v1/jobs/{release:str}/manifests", None, OF_PROJECT),
    ("GET", "/v1/jobs/{release:str}/logs", None, OF_OWNER),
    ("GET", "/v1/jobs/{release:str}/metrics", None, OF_PROJECT),
    ("GET", "/v1/jobs/{release:str}/events", None, OF_PROJECT),
    ("POST", "/v1/jobs/{release:str}/cancel", None, OF_OWNER),
    ("POST", "/v1/jobs/{release:str}/rerun", None, OF_OWNER),
    ("GET", "/v1/jobs/{release:str}/callbacks", None, OF_OWNER),
    ("GET", "/v1/events", None, ANY_CALLER),
)

# Callers who have not signed in are redirected to the sign-in page.
SEEN_BY_ANY: Statuses = (303, 200, 200, 200, 200)
SEEN_IN_PROJECT: Statuses = (303, 200, 200, 404, 404)
SENT_BY_OWNER: Statuses = (303, 403, 403, 404, 404)
SEEN_BY_ADMINS: Statuses = (303, 403, 403, 403, 200)
SENT_BY_ADMINS: Statuses = (303, 403, 403, 403, 404)

LED_ON: Statuses = (303, 303, 303, 303, 303)
ABSENT: Statuses = (404, 404, 404, 404, 404)

FORM = {"/process/train/number": "3", "/project": "research", "/creator": "ada"}
PAGE: tuple[tuple[str, str, Any, Statuses], ...] = (
    ("GET", "/", None, LED_ON),
    ("GET", "/static/{digest:str}/{name:str}", None, OPEN),
    ("GET", "/sign-in", None, OPEN),
    ("POST", "/sign-in", {"token": "mlp_wrong"}, (401, 401, 401, 401, 401)),
    ("GET", "/sign-in/issuer", None, ABSENT),  # this server has none
    ("GET", "/sign-in/answer", None, ABSENT),
    ("GET", "/jobs", None, SEEN_BY_ANY),
    ("POST", "/jobs", {"job": "{release}", "action": "delete-storage"}, SENT_BY_OWNER),
    ("GET", "/compare?job={release:str}", None, SEEN_IN_PROJECT),
    ("GET", "/jobs/{release:str}", None, SEEN_IN_PROJECT),
    ("POST", "/jobs/{release:str}/title", {"title": "x"}, SENT_BY_OWNER),
    ("POST", "/jobs/{release:str}/cancel", {}, SENT_BY_OWNER),
    ("POST", "/jobs/{release:str}/rerun", {}, SENT_BY_OWNER),
    ("POST", "/jobs/{release:str}/delete", {}, SENT_BY_OWNER),
    ("GET", "/new", None, SEEN_BY_ANY),
    ("GET", "/new/{name:str}", None, (303, 200, 403, 404, 404)),
    ("POST", "/new/{name:str}", FORM, (303, 422, 403, 404, 404)),  # for ada
    ("GET", "/definitions", None, SEEN_BY_ANY),
    ("GET", "/definitions/{name:str}", None, SEEN_IN_PROJECT),
    ("GET", "/templates", None, SEEN_BY_ANY),
    ("GET", "/templates/{name:str}", None, SEEN_BY_ANY),
    ("GET", "/overview", None, SEEN_BY_ANY),
    ("GET", "/tokens", None, SEEN_BY_ADMINS),
    ("POST", "/tokens", {"name": "x", "role": "admin", "project": "research"}, (303, 403, 403, 403, 422)),
    ("POST", "/tokens/{identifier:str}/remove", {}, SENT_BY_ADMINS),
    ("POST", "/sign-out", {}, LED_ON),  # the last row, because it ends the sessions of the callers
)


def untyped(path: str) -> str:
    """Return the path of a route without the types of its parameters."""
    return re.sub(":(str|int|path)}", "}", path)


class Tenants(Site):
    """A site with two projects, and in `research` a job, a definition and a token of ada.

    Attributes:
        names: The values of the parameters in paths.
    """

    def __init__(self, path: Any) -> None:
        cluster = FakeCluster()
        cluster.namespaces = {"ml-research", "ml-vision"}
        projects = {name: convert({"namespace": f"ml-{name}"}, ProjectConfig) for name in ("research", "vision")}
        super().__init__(path, cluster=cluster, projects=projects)
        for name, role, project in (
            ("ada", "user", "research"),
            (OTHER_USER, "user", "research"),
            (VIEWER, "viewer", "research"),
            (DEVELOPER, "developer", "vision"),
            (ADMIN, "admin", "vision"),
        ):
            self.tokens[name] = create(self.server.store, name.replace(" ", "-"), role, None, project)[1]
        self.names: dict[str, str] = {}

    def fill(self) -> None:
        """Create the objects of ada."""
        assert self.post("/v1/templates", {"name": "digits-task", "template": bodies.TEMPLATE}).status_code == 201
        body = bodies.definition(name="research.digits", project="research", description=HIDDEN)
        assert self.post("/v1/definitions", body).status_code == 201
        filled = bodies.filled(taskDef="research.digits", project="research", description=HIDDEN)
        filled["endpoints"][1]["headers"] = {"x-api-key": HIDDEN}
        answer = self.post("/v1/jobs", filled, "ada")
        assert answer.status_code == 201, answer.text
        release = answer.json()["release"]
        self.until(lambda: ("Job", release) in self.cluster.objects, "the Job")
        self.cluster.logs = {f"{release}-x2x9p": [f"{HIDDEN}\n"]}
        self.cluster.pod(release, "Running")
        self.status(release, "running")
        callbacks = self.until(lambda: self.get(f"/v1/jobs/{release}/callbacks").json()["items"], "a callback")
        tokens = {token["name"]: token["id"] for token in self.get("/v1/tokens").json()["items"]}
        self.names = {"release": release, "project": "research", "number": "1", "callback": callbacks[0]["id"]}
        self.names |= {
            "digest": "0",
            "token": tokens["ada"],
            "template": "countdown-task",
            "definition": "research.digits",
        }

    def place(self, template: str) -> str:
        """Return the path of a route with the names of ada's objects."""
        first = template.removeprefix("/v1").split("/")[1]
        files = {"static": "page.css", "templates": self.names["template"]}
        named = {"name": files.get(first, self.names["definition"])}
        named["identifier"] = self.names["callback" if "callbacks" in template else "token"]
        return untyped(template).format(**{**self.names, **named})

    def stored(self) -> str:
        """Return ada's objects, which other callers must not change, as text."""
        store = self.server.store
        job = store.job(self.names["release"])
        assert job is not None
        tokens = sorted((token.name, token.role) for token in store.tokens.all())
        kept = (job.goal, job.title, len(self.get("/v1/jobs").json()["items"]), tokens)
        return str(
            [
                kept,
                store.revisions.current(StoredTemplate),
                store.revisions.current(StoredDefinition),
                sorted(map(str, self.cluster.objects)),
            ]
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    site = Tenants(tmp_path_factory.mktemp("refusals") / "server.db")
    with site.client:
        site.fill()
        yield site


def test_table_has_a_row_for_every_route(site: Tenants) -> None:
    routes = {
        (method, route.path_format)
        for route in site.client.app.routes
        for method in getattr(route, "methods", ())
        if method not in ("OPTIONS", "HEAD") and not route.path.startswith("/schema")
    }
    plain = {(method, untyped(path.partition("?")[0])) for method, path, _, _ in (*API, *PAGE)}
    assert routes == plain


@pytest.mark.parametrize(("method", "template", "body", "statuses"), API, ids=lambda value: str(value)[:60])
def test_api_refuses_callers_without_permission(
    site: Tenants, method: str, template: str, body: Any, statuses: Statuses
) -> None:
    path, before = site.place(template), site.stored()
    answers = [site.call(method, path, caller, **({"json": body} if body else {})) for caller in CALLERS]
    assert tuple(answer.status_code for answer in answers) == statuses, [answer.text for answer in answers]
    check(site, before, answers)


@pytest.mark.parametrize(("method", "template", "form", "statuses"), PAGE, ids=lambda value: str(value)[:60])
def test_page_refuses_callers_without_permission(
    site: Tenants, method: str, template: str, form: Any, statuses: Statuses
) -> None:
    path, before = site.place(template), site.stored()
    texts = {key: str(value).replace("{release}", site.names["release"]) for key, value in (form or {}).items()}
    answers = [site.view(path, caller) if method == "GET" else site.send(path, texts, caller) for caller in CALLERS]
    assert tuple(answer.status_code for answer in answers) == statuses, [answer.text for answer in answers]
    if statuses[0] == 303 and statuses is not LED_ON:
        assert answers[0].headers["location"].startswith("/sign-in")
    check(site, before, answers)


def check(site: Tenants, before: str, answers: list[Any]) -> None:
    """Check that no object has changed, and that no response to another project contains a hidden text."""
    assert site.stored() == before
    for caller, answer in zip(CALLERS, answers, strict=True):
        if caller not in (OTHER_USER, VIEWER):
            assert not [word for word in (HIDDEN, "ml-research") if word in answer.text], caller


def test_objects_of_other_projects_are_refused_like_missing_objects(site: Tenants) -> None:
    """Status and problem are the same, except for the requested name."""
    missing = {"release": "digits-zzzzzz", "project": "none", "number": "1", "callback": "none", "digest": "0"}
    missing |= {"token": "none", "template": "none", "definition": "research.none"}
    for method, template, body, statuses in API:
        if 404 not in statuses:
            continue
        for caller in (DEVELOPER, ADMIN):
            texts = []
            for names in (site.names, missing):
                known, site.names = site.names, names
                renamed = json.loads(json.dumps(body).replace("research.digits", names["definition"]))
                try:
                    answer = site.call(method, site.place(template), caller, **({"json": renamed} if body else {}))
                finally:
                    site.names = known
                problem = {**answer.json(), "instance": ""}
                text = json.dumps([answer.status_code, problem])
                for name in sorted(names.values(), key=len, reverse=True):
                    text = text.replace(name, "NAME") if len(name) > 3 else text
                texts.append(text)
            assert texts[0] == texts[1], (method, template, caller)
