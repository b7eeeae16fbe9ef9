"""The owners of jobs: people with one name, from a token and an issuer, or with one subject at two issuers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.service.access.issuer_tokens import Issuer
from packager.service.access.tokens import create
from packager.service.config import OidcConfig, ProjectConfig
from tests.service import bodies
from tests.service.api.conftest import Service
from tests.service.issuer import FakeIssuer, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HIDDEN = "a-secret-of-roots"
ENDPOINTS = [{"endpoint": "s3://b/x", "type": "dataset", "headers": {"x-key": HIDDEN}}]
ROLES: dict[str, Any] = {"ml-users": "user", "ml-leads": "developer"}
REFUSED = [("GET", "/logs"), ("GET", "/callbacks"), ("POST", "/cancel"), ("POST", "/rerun"), ("DELETE", "")]


class Named(Service):
    """A server with an issuer and a token; their owners are all called root."""

    def __init__(self, path: Path, fake: FakeIssuer) -> None:
        issuer = Issuer(OidcConfig(issuer=fake.url, audience="mlpack", roles=ROLES))
        super().__init__(path, issuer=issuer, projects={"default": ProjectConfig(max_running_per_creator=1)})
        self.fake = fake
        self.tokens["root"] = create(self.server.store, "root", "user", None)[1]
        for role, subject, group in (
            ("root of the issuer", "s-1", "ml-users"),
            ("another root of the issuer", "s-2", "ml-users"),
            ("developer of the issuer", "s-3", "ml-leads"),
        ):
            self.tokens[role] = fake.token(preferred_username="root", sub=subject, groups=[group])

    def job(self, role: str, **changes: Any) -> str:
        filled = bodies.filled(endpoints=ENDPOINTS, creator="root")
        answer = self.post("/v1/jobs", {**filled, **changes}, role)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["release"])

    def allowed(self, release: str, role: str) -> set[bool]:
        """Send the requests in REFUSED; return True for allowed ones, False for refused ones, which change nothing."""
        answers = [self.call(method, f"/v1/jobs/{release}{path}", role) for method, path in REFUSED]
        assert not any(HIDDEN in answer.text for answer in answers)
        return {answer.status_code != 403 for answer in answers}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Named]:
    with running() as fake:
        service = Named(tmp_path / "server.db", fake)
        with service.client:
            template = {"name": "digits-task", "template": bodies.TEMPLATE}
            assert service.post("/v1/templates", template).status_code == 201
            assert service.post("/v1/definitions", bodies.definition()).status_code == 201
            yield service


def test_token_and_persons_of_the_same_name_do_not_share_jobs(service: Named) -> None:
    of_token, of_issuer = service.job("root"), service.job("root of the issuer")
    assert service.get(f"/v1/jobs/{of_token}").json()["owner"] == "token:root"
    assert service.get(f"/v1/jobs/{of_issuer}").json()["owner"] == f"{service.fake.url} s-1"
    for release, owner in ((of_token, "root"), (of_issuer, "root of the issuer")):
        for role in ("root", "root of the issuer", "another root of the issuer"):
            if role != owner:
                assert service.allowed(release, role) == {False}, (release, role)
    assert service.post(f"/v1/jobs/{of_token}/rerun", None, "root").status_code == 201
    assert service.post(f"/v1/jobs/{of_issuer}/rerun", None, "root of the issuer").status_code == 201


def test_person_keeps_a_job_after_a_change_of_name(service: Named) -> None:
    release = service.job("root of the issuer")
    service.tokens["renamed"] = service.fake.token(sub="s-1", preferred_username="ada")
    again = service.post(f"/v1/jobs/{release}/rerun", None, "renamed")
    assert (again.status_code, again.json()["owner"]) == (201, f"{service.fake.url} s-1")
    assert service.call("DELETE", f"/v1/jobs/{release}", "renamed").status_code == 202


def test_developer_with_the_name_of_the_owner_gets_no_secrets(service: Named) -> None:
    release = service.job("root")
    refused = service.post(f"/v1/jobs/{release}/rerun", None, "developer of the issuer")
    assert (refused.status_code, HIDDEN in refused.text) == (403, False)


def test_rerun_by_a_developer_keeps_the_owner_of_the_job(service: Named) -> None:
    """The filled values contain the name of the creator, which alone would mean the token of that name."""
    release = service.job("root of the issuer", endpoints=[{"endpoint": "s3://b/x", "type": "dataset"}])
    again = service.post(f"/v1/jobs/{release}/rerun", None, "developer").json()
    assert (again["creator"], again["owner"]) == ("root", f"{service.fake.url} s-1")


def test_idempotency_key_belongs_to_one_person(service: Named) -> None:
    headers = {"Idempotency-Key": "k"}
    filled = bodies.filled(creator="root")
    releases = {
        service.post("/v1/jobs", filled, role, headers=headers).json()["release"]
        for role in ("root", "root of the issuer", "another root of the issuer")
    }
    assert len(releases) == 3


def test_limit_for_each_creator_counts_people_and_not_names(service: Named) -> None:
    roles = ("root", "root of the issuer", "another root of the issuer")
    statuses = [service.get(f"/v1/jobs/{service.job(role)}").json()["status"] for role in (*roles, "root")]
    assert [status == "queued" for status in statuses] == [False, False, False, True]
