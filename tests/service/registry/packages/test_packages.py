"""Definitions of packages, over the API and the page, with a cluster in memory."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from packager.service.config import PackagesConfig, RegistryConfig
from tests.broken import pack
from tests.service.page.conftest import Site, text_of
from tests.service.registry.packages.conftest import DEMO, build
from tests.service.registry.packages.fake_registry import registry

if TYPE_CHECKING:
    from pathlib import Path

HIDDEN = "hf_s3cr3tvalue"


def define(site: Site, name: str, **body: Any) -> dict[str, Any]:
    answer = site.post("/v1/definitions", {"name": name, **body}, "developer")
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


@pytest.fixture(scope="module", autouse=True)
def _defined(site: Site) -> None:
    define(site, "demo", package={"source": "file:demo"})


def test_bundled_package_runs_with_filled_values(site: Site) -> None:
    made = define(site, "hello", package={"source": "hello-mpi", "overlay": "multi-node"})
    assert (made["origin"]["name"], made["origin"]["overlay"]) == ("hello-mpi", "multi-node")
    assert made["origin"]["digest"].startswith("sha256:")
    assert made["warnings"][0].startswith("OUTPUT_DIR is ROOT/hello-mpi/output, a folder in the pod")
    assert site.get("/v1/definitions/hello", "viewer").json()["origin"] == made["origin"]
    for path in ("/new", "/definitions"):
        assert "package hello-mpi, multi-node, revision 1" in text_of(site.view(path)), path
    filled = {"taskDef": "hello", "name": "trial", "env": {"OUTPUT_DIR": "/results", "DATASET_DIR": "/data"}}
    preview = site.post("/v1/jobs?dry_run=true", filled, "user").json()
    answer = site.post("/v1/jobs", filled, "user")
    assert answer.status_code == 201, answer.text
    job = answer.json()
    release = job["release"]
    assert (job["template"], job["workload"]["kind"], job["values"]) == (None, "MPIJob", filled)
    assert job["package"] == {key: made["origin"][key] for key in ("name", "overlay", "digest")}
    site.until(lambda: ("MPIJob", release) in site.cluster.objects, "the MPIJob")
    names = {name for _, name in site.cluster.objects if name.startswith(release)}
    assert names == {release, *(f"{release}-{role}" for role in ("env", "runtime", "scripts"))}
    config = site.cluster.objects["ConfigMap", f"{release}-env"]
    assert (config["data"]["OUTPUT_DIR"], config["data"]["REGISTRY"]) == ("/results", "docker.io")
    worker = site.cluster.objects["MPIJob", release]["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    assert worker["metadata"]["labels"]["mlpack.dev/job"] == release
    main = worker["spec"]["containers"][0]
    assert "/results" in [mount["mountPath"] for mount in main["volumeMounts"]]
    assert main["envFrom"] == [{"configMapRef": {"name": f"{release}-env"}}]
    assert [item["kind"] for item in preview["manifests"]] == ["ConfigMap"] * 3 + ["MPIJob"]
    shown = site.get(f"/v1/jobs/{release}/manifests", "viewer").json()
    assert [item["metadata"]["name"] for item in shown] == [f"{release}-{x}" for x in ("env", "runtime", "scripts")] + [
        release
    ]


def test_package_of_a_registry_is_pulled_only_at_registration(tmp_path: Path, packages_folder: Path) -> None:
    archive = tmp_path / "demo.tar.gz"
    pack(packages_folder / "demo", archive)
    with registry() as fake:
        digest = fake.push("team/demo", "1.0", archive.read_bytes())
        body = {"source": f"oci://{fake.host}/team/demo:1.0"}
        plain = Site(tmp_path / "none.db")
        with plain.client:
            refused = plain.post("/v1/definitions", {"name": "demo", "package": body}, "developer")
        site = Site(
            tmp_path / "server.db", packages=PackagesConfig(registries={fake.host: RegistryConfig(insecure=True)})
        )
        with site.client:
            made = define(site, "demo", package=body)
            fake.contents.clear()
            job = site.post("/v1/jobs", {"taskDef": "demo", "env": {"HF_TOKEN": HIDDEN}}, "user")
            again = site.call("PUT", "/v1/definitions/demo", "developer", json={"name": "demo", "package": body})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/package/source")
    assert made["origin"]["pulled"] == f"oci://{fake.host}/team/demo@{digest}"
    assert job.status_code == 201, job.text
    assert (again.status_code, again.json()["errors"][0]["detail"]) == (
        422,
        f"oci://{fake.host}/team/demo:1.0 not found",
    )


def test_secret_is_only_in_the_secret_of_the_job(site: Site) -> None:
    filled = {"taskDef": "demo", "env": {"HF_TOKEN": HIDDEN, "STEPS": 3}}
    answers = [site.post("/v1/jobs?dry_run=true", filled, "user"), site.post("/v1/jobs", filled, "user")]
    assert [answer.status_code for answer in answers] == [200, 201], answers[0].text
    release = answers[1].json()["release"]
    site.until(lambda: ("Job", release) in site.cluster.objects, "the Job")
    secret = site.cluster.objects["Secret", f"{release}-package-secrets"]
    assert secret["stringData"] == {"HF_TOKEN": HIDDEN}
    made = site.cluster.objects["Job", release]["spec"]["template"]["spec"]["containers"][0]
    variable = next(item for item in made["env"] if item["name"] == "HF_TOKEN")
    assert variable["valueFrom"]["secretKeyRef"]["name"] == f"{release}-package-secrets"
    again = site.post(f"/v1/jobs/{release}/rerun", None, "user")
    answers += [again]
    assert again.status_code == 201, again.text
    second = again.json()["release"]
    site.until(lambda: ("Job", second) in site.cluster.objects, "the second Job")
    assert site.cluster.objects["Secret", f"{second}-package-secrets"]["stringData"] == {"HF_TOKEN": HIDDEN}
    answers += [site.get(path) for path in ("/v1/jobs", f"/v1/jobs/{release}", f"/v1/jobs/{release}/manifests")]
    answers += [site.get("/v1/jobs/" + release + "/events")]
    answers += [site.view(f"/jobs/{release}"), site.view(f"/new/demo?values_of={release}")]
    answers += [site.post("/v1/jobs", {**filled, "env": {"HF_TOKEN": HIDDEN, "STEPS": "x"}}, "user")]
    assert [HIDDEN in answer.text for answer in answers] == [False] * len(answers)
    assert answers[1].json()["values"]["env"] == {"HF_TOKEN": "***", "STEPS": 3}
    assert HIDDEN not in "\n".join(site.log)
    stored = b"".join(path.read_bytes() for path in site.path.parent.glob("server.db*"))
    assert HIDDEN.encode() not in stored


@pytest.mark.thorough
def test_changed_package_changes_only_later_revisions(site: Site, demo_package: Path, packages_folder: Path) -> None:
    shutil.copytree(demo_package, packages_folder / "moving")
    first = define(site, "moving", package={"source": "file:moving"})
    release = site.post("/v1/jobs", _of("moving"), "user").json()["release"]
    shutil.rmtree(packages_folder / "moving")
    build(packages_folder / "moving", DEMO.replace("'10'", "'99'"))
    shutil.rmtree(packages_folder / "moving-model")
    assert site.get("/v1/definitions/moving").json()["origin"] == first["origin"]
    assert _steps(site.post("/v1/jobs?dry_run=true", _of("moving"), "user")) == "10"
    body = {"name": "moving", "package": {"source": "file:moving"}}
    put = site.call("PUT", "/v1/definitions/moving", "developer", json=body, headers={"If-Match": '"1"'})
    assert (put.status_code, put.json()["revision"]) == (200, 2), put.text
    assert put.json()["origin"]["digest"] != first["origin"]["digest"]
    assert site.get("/v1/definitions/moving/revisions/1").json()["origin"] == first["origin"]
    again = [site.post(f"/v1/jobs/{release}/rerun{query}", None, "user").json() for query in ("", "?pinned=true")]
    steps = [_steps(site.get(f"/v1/jobs/{job['release']}/manifests"), key=None) for job in again]
    assert steps == ["99", "10"]
    assert [job["package"]["digest"] for job in again] == [put.json()["origin"]["digest"], first["origin"]["digest"]]
    text = text_of(site.view("/definitions/moving"))
    assert "Source" not in text  # this definition has no written source
    assert "Changes since revision 1 origin" in text
    assert "+ added digest: sha256:" in text


def _of(name: str) -> dict[str, Any]:
    return {"taskDef": name, "env": {"HF_TOKEN": "t"}}


def _steps(answer: Any, key: str | None = "manifests") -> str:
    manifests = answer.json()[key] if key else answer.json()
    return str(next(item for item in manifests if item["metadata"]["name"].endswith("-env"))["data"]["STEPS"])
