"""Definitions of packages, over the API and the page, with a cluster in memory."""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.service.access.tokens import create
from packager.service.config import PackagesConfig, RegistryConfig
from packager.service.registry.packages.reading import PackageReader
from tests.service.api.conftest import COUNTDOWN
from tests.service.page.conftest import Site, text_of
from tests.service.registry.packages.conftest import DEMO, build
from tests.service.registry.packages.fake_registry import registry

if TYPE_CHECKING:
    from packager.service.registry.packages.content import PackageBody, PackageContent

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


def test_launcher_of_a_package_sets_the_job_status(site: Site) -> None:
    define(site, "launched", package={"source": "hello-mpi", "overlay": "multi-node"})
    answer = site.post("/v1/jobs", {"taskDef": "launched", "env": {"OUTPUT_DIR": "/results"}}, "user")
    assert answer.status_code == 201, answer.text
    release = answer.json()["release"]
    site.until(lambda: ("MPIJob", release) in site.cluster.objects, "the MPIJob")
    job = site.cluster.objects["MPIJob", release]
    template = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    labels = {**template["metadata"]["labels"], "training.kubeflow.org/job-role": "launcher"}
    metadata = {
        "name": f"{release}-launcher",
        "namespace": "tests",
        "uid": "uid-of-launcher",
        "labels": {"app": release},  # without labels of the server
        "ownerReferences": [{"uid": job["metadata"]["uid"]}],
    }
    spec = {"template": {**template, "metadata": {"labels": labels}}}
    site.cluster.put({"kind": "Job", "metadata": metadata, "spec": spec, "status": {"active": 1}})
    site.cluster.pod(f"{release}-launcher", "Running")
    assert [pod["name"] for pod in site.status(release, "running")["pods"]] == [f"{release}-launcher-x2x9p"]


def test_complaints_about_package_of_a_registry_name_its_reference(tmp_path: Path, packages_folder: Path) -> None:
    archive = tmp_path / "demo.tar.gz"
    with tarfile.open(archive, "w:gz", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(packages_folder / "demo", "demo", filter=lambda entry: None if entry.name.endswith(".env") else entry)
    with registry() as fake:
        fake.push("team/demo", "1.0", archive.read_bytes())
        source = f"oci://{fake.host}/team/demo:1.0"
        site = Site(
            tmp_path / "server.db", packages=PackagesConfig(registries={fake.host: RegistryConfig(insecure=True)})
        )
        with site.client:
            refused = site.post("/v1/definitions", {"name": "demo", "package": {"source": source}}, "developer")
    details = [error["detail"] for error in refused.json()["errors"]]
    assert refused.status_code == 422
    assert [detail for detail in details if detail.startswith(f"{source}:quickstart/")]
    assert not [detail for detail in details if "oci:/" in detail.replace(source, "") or str(tmp_path) in detail]


def test_package_of_a_registry_is_pulled_only_at_registration(tmp_path: Path, packages_folder: Path) -> None:
    archive = tmp_path / "demo.tar.gz"
    with tarfile.open(archive, "w:gz", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(packages_folder / "demo", "demo")
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


def test_packages_of_a_caller_are_read_one_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further registrations of the caller wait or are refused; other requests are answered."""
    begun: list[str] = []
    may_go_on = threading.Event()
    read = PackageReader.read

    def slow(reader: PackageReader, body: PackageBody, project: str | None = None) -> PackageContent:
        begun.append(body.source)
        assert may_go_on.wait(120)
        return read(reader, body, project)

    monkeypatch.setattr(PackageReader, "read", slow)
    statuses: list[int] = []

    def register(name: str) -> None:
        body = {"name": name, "package": {"source": "file:demo"}}
        statuses.append(site.post("/v1/definitions", body, "developer").status_code)

    registering = [threading.Thread(target=register, args=(f"slow-{number}",)) for number in range(3)]
    for thread in registering:
        thread.start()
    waiting = site.server._reading._turns._waiting  # noqa: SLF001
    site.until(lambda: len(begun) == 1 and len(waiting) == 2, "one of three to be read")
    monkeypatch.setattr(waiting, "_most", 2)
    more = site.post("/v1/definitions", {"name": "more", "package": {"source": "file:demo"}}, "developer")
    assert (more.status_code, more.headers["retry-after"]) == (429, "1")
    assert more.json()["detail"].startswith("2 requests of this kind wait")
    assert site.post("/v1/definitions?dry_run=true", {**COUNTDOWN, "name": "quick"}, "developer").status_code == 200
    assert len(begun) == 1
    may_go_on.set()
    for thread in registering:
        thread.join(120)
    assert statuses == [201, 201, 201]


def test_rendered_package_is_not_listed_as_a_template(site: Site) -> None:
    names = [item["name"] for item in site.get("/v1/templates").json()["items"]]
    assert all(":" not in name for name in names)
    rows = sqlite3.connect(site.path).execute("SELECT name FROM templates WHERE name LIKE 'package:%'").fetchall()
    for path in ("", "/revisions", "/revisions/1"):
        assert site.get(f"/v1/templates/{rows[0][0]}{path}").status_code == 404
    assert site.post("/v1/definitions", {"name": "x", "task_template_name": rows[0][0]}).status_code == 422


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


def test_rerun_with_secrets_is_allowed_only_to_their_owner(site: Site) -> None:
    site.tokens["other user"] = create(site.server.store, "eve", "user", None)[1]
    filled = {"taskDef": "demo", "env": {"HF_TOKEN": HIDDEN, "STEPS": 3}}
    release = site.post("/v1/jobs", filled, "user").json()["release"]
    roles = ("viewer", "other user", "developer", "admin", "user")
    answers = [site.post(f"/v1/jobs/{release}/rerun", None, role) for role in roles]
    assert [answer.status_code for answer in answers] == [403, 403, 403, 403, 201]
    assert [HIDDEN in answer.text for answer in answers] == [False] * len(answers)


@pytest.mark.parametrize(
    "value",
    [
        "x\nkind: Pod",
        'x"\nspec:\n  hostNetwork: true\n#',
        "{{7*7}}",
        "{% include 'x' %}",
        "a: &b [*b]",
        "!!python/x y",
        "$(HF_TOKEN)",
        "\x00",
        "v0n1e",
    ],
)
def test_values_of_a_package_change_only_scalars(site: Site, value: str) -> None:
    shape = _shape(site.post("/v1/jobs?dry_run=true", _filled("plain"), "user").json()["manifests"])
    answer = site.post("/v1/jobs?dry_run=true", _filled(value), "user")
    if "\0" in value:
        assert (answer.status_code, answer.json()["detail"]) == (422, "a text has the character NUL")
    elif "\n" in value:
        assert answer.json()["errors"][0]["detail"] == "expected one line without control characters"
    else:
        manifests = answer.json()["manifests"]
        assert _shape(manifests) == shape
        assert next(item["data"] for item in manifests if "NOTE" in item.get("data", ()))["NOTE"] == value


def _filled(note: str) -> dict[str, Any]:
    return {"taskDef": "demo", "env": {"NOTE": note, "HF_TOKEN": "t"}}


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else type(value)


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


def test_put_of_an_unchanged_package_keeps_its_revision(site: Site) -> None:
    first = define(site, "steady", package={"source": "file:demo"})
    body = {"name": "steady", "package": {"source": "file:demo"}}
    answers = [
        site.call("PUT", "/v1/definitions/steady", "developer", json=body, headers={"If-Match": '"1"'})
        for _ in range(2)
    ]
    assert [(answer.status_code, answer.json()["revision"]) for answer in answers] == [(200, 1), (200, 1)]
    assert answers[0].json()["origin"] == first["origin"]
    tried = site.post("/v1/definitions?dry_run=true", body, "developer")
    assert tried.json()["outcome"] == "unchanged", tried.text


def _of(name: str) -> dict[str, Any]:
    return {"taskDef": name, "env": {"HF_TOKEN": "t"}}


def _steps(answer: Any, key: str | None = "manifests") -> str:
    manifests = answer.json()[key] if key else answer.json()
    return str(next(item for item in manifests if item["metadata"]["name"].endswith("-env"))["data"]["STEPS"])


@pytest.mark.parametrize(
    ("package", "detail", "hint"),
    [
        (
            {"source": "file:demo", "options": ["output-host-path"], "site": {"OUTPUT_HOST_PATH": "/srv"}},
            'a folder of the node, which Pod Security "restricted" forbids',
            "the option output-host-path of the package: use the option pvc for storage",
        ),
        (
            {"source": "resnet50v1-5-fp32-serving"},
            "Deployment (apps/v1) is not a kind that a task may create",
            None,
        ),
    ],
)
def test_package_with_forbidden_objects_is_refused_at_registration(
    site: Site, package: dict[str, Any], detail: str, hint: str | None
) -> None:
    answer = site.post("/v1/definitions", {"name": "no", "package": package}, "developer")
    assert answer.status_code == 422, answer.text
    errors = answer.json()["errors"]
    assert any(detail in error["detail"] for error in errors), errors
    assert hint is None or errors[0]["hint"].startswith(hint)
    assert site.get("/v1/definitions/no").status_code == 404


def test_options_of_a_package_add_claims_to_its_jobs(site: Site) -> None:
    package = {"source": "file:demo", "options": ["output-pvc"], "site": {"OUTPUT_CLAIM": "results"}}
    made = define(site, "claims", package=package, system_values="env:\n  REGISTRY: r.example.com:5000/ml\n")
    assert made["origin"]["options"] == ["output-pvc", "secrets"]
    assert made["warnings"] == []
    manifests = site.post("/v1/jobs?dry_run=true", _of("claims"), "user").json()["manifests"]
    spec = manifests[-1]["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == "r.example.com:5000/ml/demo:1.0"
    assert {"claimName": "results"} in [volume.get("persistentVolumeClaim") for volume in spec["volumes"]]


def test_hostile_archives_are_refused_and_leave_no_files(site: Site, packages_folder: Path) -> None:
    with tarfile.open(packages_folder / "evil.tar.gz", "w:gz") as archive:
        for name, target in (("demo/x", "/etc/passwd"), ("demo/../../y", None)):
            member = tarfile.TarInfo(name)
            member.type = tarfile.SYMTYPE if target else tarfile.REGTYPE
            member.linkname = target or ""
            archive.addfile(member)
    answer = site.post("/v1/definitions", {"name": "evil", "package": {"source": "file:evil.tar.gz"}}, "developer")
    assert answer.status_code == 422
    assert str(packages_folder) not in answer.text
    assert not (packages_folder.parent / "y").exists()
    with tarfile.open(packages_folder / "bomb.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("demo/zeros")
        member.size = 200 << 20
        with Path("/dev/zero").open("rb") as zeros:
            archive.addfile(member, zeros)
    answer = site.post("/v1/definitions", {"name": "bomb", "package": {"source": "file:bomb.tar.gz"}}, "developer")
    assert answer.status_code == 422, answer.text


def test_viewers_and_users_cannot_register_packages(site: Site) -> None:
    for role in ("viewer", "user"):
        answer = site.post("/v1/definitions", {"name": "x", "package": {"source": "hello-mpi"}}, role)
        assert answer.status_code == 403


def test_page_registers_a_package_and_creates_its_job(site: Site) -> None:
    form = {"name": "by-form", "source": "file:demo", "options": "", "site": "", "overlay": "single-node"}
    trial = site.send("/new-definition", {**form, "action": "trial"}, "developer")
    assert "The example makes these objects" in text_of(trial), text_of(trial)
    assert site.send("/new-definition", {**form, "action": "register"}, "developer").status_code == 303
    view = text_of(site.view("/definitions/by-form"))
    assert "Package demo-fp32-training, single-node" in view
    assert "STEPS=10 How long it trains. Users may set it." in view
    assert "REGISTRY=docker.io" in view
    assert "A secret, which users fill in: required." in view
    assert "package demo-fp32-training, single-node" in text_of(site.view("/definitions"))
    page = site.view("/new/by-form", "user")
    assert 'type="password" name="/env/HF_TOKEN"' in page.text
    assert 'name="/env/STEPS" value=""' in page.text
    inputs = {"/env/STEPS": "7", "/env/HF_TOKEN": HIDDEN, "action": "preview"}
    preview = site.send("/new/by-form", inputs, "user")
    assert "These manifests would be applied" in text_of(preview), text_of(preview)
    assert HIDDEN not in preview.text
    made = site.send("/new/by-form", {**inputs, "action": "create"}, "user")
    assert made.status_code == 303, text_of(made)
    job = text_of(site.view(made.headers["location"]))
    assert "Package demo-fp32-training, single-node" in job
    edit = site.view("/definitions/by-form/edit", "developer").text
    assert 'value="file:demo"' in edit
    wrong = site.send("/new-definition", {**form, "name": "w", "source": "file:nothing"}, "developer")
    assert wrong.status_code == 422
    assert "Package: file:nothing not found in the server's folder of packages" in text_of(wrong)


def test_users_choose_only_scripts_of_the_package(site: Site, packages_folder: Path) -> None:
    scripts = DEMO.replace("files: [train.sh]", "files: [train.sh, test.sh]")
    scripts = scripts.replace("script: train.sh", "scripts: [train.sh, test.sh]")
    build(packages_folder / "several", scripts, {"test.sh": "#!/bin/sh\necho tested\n"})
    define(site, "several", package={"source": "file:several"})
    chosen = {"taskDef": "several", "env": {"SCRIPT": "test.sh", "HF_TOKEN": "t"}}
    assert site.post("/v1/jobs?dry_run=true", chosen, "user").status_code == 200
    wrong = site.post("/v1/jobs", {**chosen, "env": {"SCRIPT": "../../../../bin/sh", "HF_TOKEN": "t"}}, "user")
    assert wrong.status_code == 422
    assert "train.sh" in wrong.text


def test_package_job_sends_callbacks_to_its_endpoint(site: Site) -> None:
    endpoint = {"type": "event", "endpoint": "https://example.com/hook", "headers": {"x-api-key": "k"}}
    answer = site.post("/v1/jobs", {**_of("demo"), "endpoints": [endpoint, {"type": "event"}]}, "user")
    assert answer.status_code == 201, answer.text
    release = answer.json()["release"]
    told = site.until(lambda: [url for url, _, body in site.endpoints.got if body["task_id"] == release], "a callback")
    assert told == ["https://example.com/hook"]
    assert answer.json()["values"]["endpoints"][0]["headers"] == {"x-api-key": "***"}
