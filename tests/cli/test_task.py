"""Tests of `mlpack task` with a running task service and a fake cluster."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from packager.base.process import Runner
from packager.cli.host import Host
from tests import tools
from tests.conftest import Mlpack, Outcome
from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN, Service
from tests.service.live import listening

CHECKOUT = Path(__file__).resolve().parents[2]
SET = ("--set", "process.train.number=3")


class Waiting(Runner):
    """A machine whose clock advances by an hour at each sleep; instead of sleeping, it calls the next of `actions`."""

    def __init__(self) -> None:
        self.hours = 0.0
        self.actions: list[Callable[[], Any]] = []

    def clock(self) -> float:
        return self.hours * 3600

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.hours += 1
        if self.actions:
            self.actions.pop(0)()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    service = Service(tmp_path_factory.mktemp("server") / "server.db")
    with listening(service) as address:
        yield service, address


@pytest.fixture
def service(live: tuple[Service, str], monkeypatch: pytest.MonkeyPatch) -> Service:
    """The running service; its address and the token of an admin are in the environment."""
    service, address = live
    monkeypatch.setenv("MLPACK_SERVER", address)
    monkeypatch.setenv("MLPACK_TOKEN", service.tokens["admin"])
    return service


@pytest.fixture(scope="module", autouse=True)
def _registered(live: tuple[Service, str]) -> None:
    service, address = live
    import urllib.request

    for path, body in (
        ("templates", {"name": "digits-task", "template": bodies.TEMPLATE, "description": "Digits\nin two lines"}),
        ("definitions", COUNTDOWN),
        ("definitions", bodies.definition()),
    ):
        request = urllib.request.Request(  # noqa: S310 - of this machine
            f"{address}/v1/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "x-api-key": service.tokens["admin"]},
        )
        urllib.request.urlopen(request, timeout=60).close()  # noqa: S310


def release_of(done: Outcome) -> str:
    assert done.code == 0, done.stderr
    return done.stdout.strip()


def stored(service: Service, release: str) -> str:
    """Return the status of a job in the database."""
    job = service.server.store.job(release)
    assert job
    return job.status


def test_task_lists_and_shows_templates_and_definitions(mlpack: Mlpack, service: Service) -> None:
    done = mlpack("task", "templates", "show")
    assert done.stdout.splitlines()[0].split() == ["NAME", "REVISION", "DESCRIPTION"]
    assert "digits-task           1         Digits\n" in done.stdout
    assert mlpack("task", "definitions", "show").stdout.splitlines()[1].split()[:3] == [
        "countdown",
        "1",
        "countdown-task",
    ]
    assert mlpack("task", "definitions", "show", "-o", "name").stdout == "countdown\ndigits\n"
    shown = yaml.safe_load(mlpack("task", "templates", "show", "digits-task").stdout)
    assert shown["template"] == bodies.TEMPLATE
    assert mlpack("task", "templates", "show", "digits-task", "--revision", "1", "-o", "json").json == shown
    gone = mlpack("task", "definitions", "show", "nothing")
    assert (gone.code, gone.stderr) == (7, "error: definition 'nothing' not found\n")
    assert service.tokens["admin"] not in gone.stderr


def test_task_apply_accepts_edited_output_of_show(mlpack: Mlpack, service: Service, tmp_path: Path) -> None:
    assert service
    file = tmp_path / "digits.yaml"
    both = (
        f"name: own-task\ndescription: Own\ntemplate: |\n  {bodies.TEMPLATE.strip().replace(chr(10), chr(10) + '  ')}\n"
    )
    file.write_text(both + "---\n" + both.replace("own-task", "other-task"), encoding="utf-8")
    tried = mlpack("task", "templates", "apply", "-f", file, "--dry-run")
    assert (tried.code, tried.stdout) == (
        0,
        "template/own-task would be created\ntemplate/other-task would be created\n",
    )
    assert mlpack("task", "templates", "show", "own-task").code == 7
    done = mlpack("task", "templates", "apply", "-f", file)
    assert done.stdout == "template/own-task created: revision 1\ntemplate/other-task created: revision 1\n"
    assert mlpack("task", "templates", "apply", "-f", file, "-o", "name").stdout == "own-task\nother-task\n"
    assert mlpack("task", "templates", "apply", "-f", file).stdout.count("unchanged") == 2
    assert len(mlpack("task", "templates", "apply", "-f", file, "-o", "json").json) == 2
    file.write_text(mlpack("task", "templates", "show", "own-task", "-o", "yaml").stdout, encoding="utf-8")
    assert mlpack("task", "templates", "apply", "-f", file).stdout == "template/own-task unchanged\n"

    body = yaml.safe_load(yaml.safe_dump(bodies.definition(name="own", task_template_name="own-task")))
    file.write_text(json.dumps(body), encoding="utf-8")
    assert mlpack("task", "definitions", "apply", "-f", file).stdout == "definition/own created: revision 1\n"
    shown = mlpack("task", "definitions", "show", "own", "-o", "yaml").stdout
    file.write_text(shown, encoding="utf-8")
    assert mlpack("task", "definitions", "apply", "-f", file).stdout == "definition/own unchanged\n"
    file.write_text(shown.replace("Digits on CPUs", "Digits on GPUs"), encoding="utf-8")
    tried = mlpack("task", "definitions", "apply", "-f", file, "--dry-run")
    assert tried.stdout == "definition/own would be changed\n"
    assert mlpack("task", "definitions", "apply", "-f", file, "-o", "json").json["revision"] == 2
    assert mlpack("task", "definitions", "show", "own", "--revision", "1", "-o", "yaml").stdout == shown

    used = mlpack("task", "templates", "delete", "own-task", "-y")
    assert (used.code, used.stderr) == (7, "error: the template 'own-task' is used by the definitions own\n")
    asked = mlpack("task", "definitions", "delete", "own")
    assert (asked.code, asked.stderr.splitlines()[0]) == (
        9,
        "error: nothing was deleted: there is no terminal to ask on",
    )
    assert mlpack("task", "definitions", "delete", "own", "-y").stderr == "definition/own deleted\n"
    assert mlpack("task", "templates", "delete", "own-task", "-y").code == 0
    gone = mlpack("task", "definitions", "delete", "own", "-y")
    assert (gone.code, gone.stderr) == (7, "error: definition 'own' not found\n")


def test_task_apply_dry_run_names_definitions_with_failing_examples(
    mlpack: Mlpack, service: Service, tmp_path: Path
) -> None:
    assert service
    changed = {"name": "digits-task", "template": "a: {{ nothing }}\n"}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(changed), encoding="utf-8")
    tried = mlpack("task", "templates", "apply", "-f", "t.yaml", "--dry-run")
    assert (tried.code, tried.stdout) == (0, "template/digits-task would be changed\n")
    assert tried.stderr.startswith("warning: digits: with the example filled in: ")


def test_task_creates_follows_reads_and_reruns_job(mlpack: Mlpack, service: Service) -> None:
    release = release_of(mlpack("task", "create", "countdown", *SET, "--set", "name=first"))
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    assert mlpack("task", "status", release).stdout.startswith(f"{release}  pending")
    runner = Waiting()
    mlpack.host = Host(runner)
    service.cluster.logs[f"{release}-x2x9p"] = ["3\n", "\x1b[31m2\n"]

    def run() -> None:
        service.cluster.pod(release, "Running")
        service.until(lambda: stored(service, release) == "running", "running")

    def end() -> None:
        service.cluster.pod(release, "Succeeded", exit_code=0)
        service.cluster.end(release, "Complete")
        service.until(lambda: stored(service, release) == "succeeded", "succeeded")

    runner.actions = [run]
    read = mlpack("task", "logs", release)
    assert (read.code, read.stderr) == (7, "error: the job has no pod: it has not started, or its pods were deleted\n")
    runner.actions = [run, end]
    done = mlpack("task", "status", release, "--wait")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{release}  succeeded: the pod has succeeded\nPOD")
    assert mlpack("task", "logs", release, "--tail", "1").stdout == "\x1b[31m2\n"
    since = mlpack("task", "logs", release, "--since", "2026-11-22T10:00:01Z", "--timestamps")
    assert since.stdout == "2026-11-22T10:00:01.500000Z \x1b[31m2\n"
    unkept = mlpack("task", "logs", release, "--previous")
    assert (unkept.code, unkept.stdout) == (7, "")
    listed = mlpack("task", "list", "--status", "succeeded", "--application", "first", "-o", "name")
    assert listed.stdout == f"{release}\n"
    table = mlpack("task", "list", "--query", release[-6:]).stdout.splitlines()
    assert table[0].split() == ["JOB", "STATUS", "REASON", "DEFINITION", "CREATOR", "CREATED"]
    assert table[1].split()[:5] == [release, "succeeded", "-", "countdown", "admin"]
    again = release_of(mlpack("task", "rerun", release, "--pinned"))
    assert again != release
    trial = mlpack("task", "delete", again, "--dry-run")
    assert (trial.code, trial.stdout, trial.stderr) == (0, f"{again}\n", "dry run: nothing was deleted\n")
    assert mlpack("task", "delete", again, "-y").stderr == f"{again} is being deleted\n"


def test_task_create_wait_exits_with_7_for_failed_job(mlpack: Mlpack, service: Service) -> None:
    runner = Waiting()
    mlpack.host = Host(runner)
    jobs: list[str] = []

    def fail() -> None:
        jobs.extend(
            name for kind, name in service.cluster.objects if kind == "Job" and name.startswith("countdown-sad")
        )
        service.cluster.pod(jobs[0], "Failed", exit_code=3)
        service.cluster.end(jobs[0], "Failed")
        service.until(lambda: stored(service, jobs[0]) == "failed", "failed")

    def applied() -> None:
        service.until(lambda: any("countdown-sad" in name for _, name in service.cluster.objects), "the Job")

    runner.actions = [applied, fail]
    done = mlpack("task", "create", "countdown", *SET, "--set", "name=sad", "--wait", "-o", "json")
    assert done.code == 7, done.stderr
    assert done.json["findings"][0]["message"] == "container counter ended with exit code 3"
    created, first = done.stderr.splitlines()[:2]
    assert created == f"{jobs[0]} created"
    # The control loop may have looked at the cluster before the first question, or not.
    assert first in {"pending", "pending: no pods yet"}
    answer = mlpack("task", "status", jobs[0], "-o", "json")
    assert (answer.code, answer.json["status"]) == (7, "failed")


def test_task_status_watch_exits_with_8_after_timeout(mlpack: Mlpack, service: Service) -> None:
    release = release_of(mlpack("task", "create", "countdown", *SET))
    mlpack.host = Host(Waiting())
    done = mlpack("task", "status", release, "--watch", "--timeout", "90m")
    assert done.code == 8
    assert done.stderr.splitlines()[-2:] == [
        f"error: {release} has not ended: it is pending",
        f"hint: mlpack task status {release} --wait waits again",
    ]
    assert mlpack("task", "cancel", release).stderr == f"{release} is being stopped\n"
    service.until(lambda: stored(service, release) == "deleted", "cancelled")
    twice = mlpack("task", "cancel", release, "-o", "json")
    assert (twice.code, twice.json["error"]["message"]) == (7, "the job has ended: it is deleted")


def test_task_create_dry_run_prints_manifests(mlpack: Mlpack, service: Service, tmp_path: Path) -> None:
    before = len(service.cluster.objects)
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(bodies.filled(creator="admin")), encoding="utf-8")
    done = mlpack("task", "create", "-f", file, "--dry-run")
    assert (done.code, done.stderr) == (0, "")
    manifests = list(yaml.safe_load_all(done.stdout))
    assert {item["kind"] for item in manifests} == {"Job", "PersistentVolumeClaim", "ConfigMap"}
    names = mlpack("task", "create", "-f", file, "--dry-run", "-o", "name").stdout.split()
    assert {name.partition("/")[0] for name in names} == {"job", "persistentvolumeclaim", "configmap"}
    assert "secret-word" not in done.stdout
    assert len(service.cluster.objects) == before


def test_task_create_reports_problems_of_values_with_line_and_column(
    mlpack: Mlpack, service: Service, tmp_path: Path
) -> None:
    assert service
    (tmp_path / "values.yaml").write_text(
        "taskDef: digits\nname: demo\ndescription: x\ncreator: admin\nendpoints:\n- {endpoint: s3://x, type: dataset}\n"
        "process:\n  train:\n    maxSteps: 5\n    saveStep: 1\n  export: {signatureMap: x}\n",
        encoding="utf-8",
    )
    done = mlpack("task", "create", "-f", "values.yaml", "--set", "process.eval.batchSize=many")
    assert done.code == 7
    assert done.stderr.splitlines() == [
        "values.yaml:9:15: /process/train/maxSteps: unknown key 'maxSteps' (did you mean 'maxStep'?)",
        "values.yaml:8:3: /process/eval/batchSize: expected a whole number, found 'many'",
        "error: 2 problems in the filled values",
    ]
    as_json = mlpack("task", "create", "-f", "values.yaml", "-o", "json").json["error"]["problems"]
    assert (as_json[0]["line"], as_json[0]["column"]) == (9, 15)


def test_task_create_with_same_idempotency_key_creates_one_job(mlpack: Mlpack, service: Service) -> None:
    assert service
    first = release_of(mlpack("task", "create", "countdown", *SET, "--idempotency-key", "k"))
    assert release_of(mlpack("task", "create", "countdown", *SET, "--idempotency-key", "k")) == first


def test_task_list_prints_at_most_limit_jobs(mlpack: Mlpack, service: Service) -> None:
    assert service
    for _ in range(2):
        release_of(mlpack("task", "create", "countdown", *SET, "--set", "name=many"))
    done = mlpack("task", "list", "--application", "many", "--limit", "1", "-o", "name")
    assert (len(done.stdout.split()), done.stderr) == (1, "there are more than 1: --limit 0 lists all\n")
    everything = mlpack("task", "list", "--application", "many", "--limit", "0", "-o", "json")
    assert (len(everything.json), everything.stderr) == (2, "")
    nothing = mlpack("task", "list", "--creator", "nobody")
    assert (nothing.code, nothing.stdout, nothing.stderr) == (0, "", "no jobs\n")


def test_task_reads_token_from_file(mlpack: Mlpack, service: Service, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(service.tokens["viewer"] + "\n", encoding="utf-8")
    assert mlpack("task", "list", "--token-file", tmp_path / "token").code == 0
    refused = mlpack("task", "create", "countdown", *SET, "--token-file", tmp_path / "token")
    assert (refused.code, refused.stderr) == (7, "error: expected the role user, found viewer\n")
    missing = mlpack("task", "list", "--token-file", tmp_path / "no")
    assert (missing.code, missing.stderr) == (6, f"error: {tmp_path}/no cannot be read: no such file or directory\n")


def test_task_without_token_explains_how_to_get_token(
    mlpack: Mlpack, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert service
    monkeypatch.delenv("MLPACK_TOKEN")
    done = mlpack("task", "list")
    assert (done.code, done.stderr.splitlines()[-1]) == (
        7,
        "hint: set MLPACK_TOKEN, or --token-file FILE: `mlpack serve token` on the server creates a token",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create",), "a definition is missing"),
        (("create", "x", "--dry-run", "--wait"), "--dry-run and --wait cannot be combined"),
        (("create", "x", "--set", "a"), "--set a: expected PATH=VALUE, such as process.train.number=5"),
        (("create", "-f", "list.yaml"), "list.yaml:1:1: expected a mapping, found a list"),
        (("templates", "show", "--revision", "1"), "--revision needs the name of one of the templates"),
        (("templates", "apply", "-f", "broken.yaml"), "broken.yaml:1:4: not valid YAML"),
        (("definitions", "apply", "-f", "empty.yaml"), "empty.yaml has no definitions"),
        (("definitions", "apply", "-f", "unnamed.yaml"), "unnamed.yaml:1:1: expected a mapping with the key `name`"),
        (("definitions", "apply", "-f", "path.yaml"), "path.yaml:1:7: expected a name of letters, digits and '-_.'"),
        (("list", "--server", "http://h.example"), "http://h.example sends the token, and all values, without"),
    ],
)
def test_task_refuses_invalid_arguments(
    mlpack: Mlpack, service: Service, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert service
    (tmp_path / "list.yaml").write_text("- 1\n", encoding="utf-8")
    (tmp_path / "broken.yaml").write_text("a: }\n", encoding="utf-8")
    (tmp_path / "empty.yaml").write_text("# none\n", encoding="utf-8")
    (tmp_path / "unnamed.yaml").write_text("template: x\n", encoding="utf-8")
    (tmp_path / "path.yaml").write_text("name: ../x\n", encoding="utf-8")
    done = mlpack("task", *arguments)
    assert done.code == 2
    assert message in done.stderr
    assert "mlp_" not in done.stderr


def test_task_without_server_names_option_and_variable(mlpack: Mlpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLPACK_SERVER", raising=False)
    done = mlpack("task", "list")
    assert (done.code, done.stderr) == (
        2,
        "error: a server is missing: --server URL, or MLPACK_SERVER in the environment\n",
    )


def run_of_documentation(
    document: str, heading: str, live: tuple[Service, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run the shell blocks of a section of a document, with address and token in the environment."""
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert blocks[0].startswith("cat")
    service, address = live
    tools.require("curl")
    script = "\n".join(["set -e", *blocks]).replace("countdown", "first").replace("first-task", "countdown-task")
    environment = {**os.environ, "MLPACK_SERVER": address, "MLPACK_TOKEN": service.tokens["developer"]}
    argv = ["bash", "-c", script]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.thorough
def test_first_job_commands_of_documentation_run(live: tuple[Service, str], tmp_path: Path) -> None:
    done = run_of_documentation("docs/service.md", "A first job", live, tmp_path)
    assert '"revision":1' in done.stdout
    assert "kind: Job" in done.stdout
    assert done.stderr.splitlines()[-1].endswith(" is being stopped")
