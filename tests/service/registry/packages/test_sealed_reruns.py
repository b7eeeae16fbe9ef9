"""A rerun of a job with a secret, of a definition whose key is no longer a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.service.registry.packages.conftest import DEMO, build

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.page.conftest import Site

HIDDEN = "hf_s3cr3tvalue"
SECRET = DEMO.replace("HF_TOKEN: {description: A token of huggingface.co.}", "DSN: {description: A database.}")
PLAIN = DEMO.replace("NOTE: ''", "NOTE: '', DSN: none").partition("secrets:")[0]


def test_rerun_is_refused_when_a_secret_would_become_a_plain_value(site: Site, packages_folder: Path) -> None:
    build(packages_folder / "open", SECRET)
    body = {"name": "open", "package": {"source": "file:open"}}
    assert site.post("/v1/definitions", body, "developer").status_code == 201
    job = site.post("/v1/jobs", {"taskDef": "open", "env": {"DSN": HIDDEN}}, "user")
    assert job.status_code == 201, job.text
    build(packages_folder / "plain", PLAIN)
    body["package"] = {"source": "file:plain"}
    changed = site.call("PUT", "/v1/definitions/open", "developer", json=body, headers={"If-Match": '"1"'})
    assert changed.status_code == 200, changed.text
    refused = site.post(f"/v1/jobs/{job.json()['release']}/rerun", None, "user")
    assert refused.status_code == 422
    assert refused.json()["errors"] == [
        {
            "pointer": "/env/DSN",
            "detail": "was filled in as a secret, and the definition no longer keeps it secret",
        }
    ]
    stored = b"".join(path.read_bytes() for path in site.path.parent.glob("server.db*"))
    assert HIDDEN.encode() not in stored
