"""hello-mpi in a cluster that is made up: what kubectl renders of it and prints about it, from look to look.

The fixture `life` puts one in the place of every program that mlpack starts, and hello-mpi into the current folder.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from packager.process import Finished
from tests.fake_cluster import FakeCluster, Object, item, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest

JOB = "hello-mpi-multi-node"
POD = "hello-mpi-single-node"
ENOUGH = 500
"""More commands than any test needs: a wait that takes no time would go on for ever."""

ENDED_WITH_3 = {"terminated": {"exitCode": 3, "reason": "Error", "message": "epoch 1\nno such file: train.csv\n"}}

_RENDERED = Path(__file__).parent / "golden/rendered/hello-mpi.yml"


def rendered(overlay: str) -> list[Object]:
    """Return what kubectl makes of an overlay of hello-mpi; the content of files is left out."""
    found = deepcopy(list(_golden()[overlay].values()))
    for manifest in found:
        if isinstance(data := manifest.get("data"), list):
            manifest["data"] = dict.fromkeys(data, "")
    return found


@cache
def _golden() -> dict[str, dict[str, Object]]:
    return dict(yaml.safe_load(_RENDERED.read_text(encoding="utf-8"))["manifests"])


def worker(index: int, **fields: Any) -> Object:
    """Return a worker of the MPIJob; see `pod`."""
    return pod(f"{JOB}-worker-{index}", "worker", index, **fields)


def launcher(attempt: int = 0, **fields: Any) -> Object:
    """Return the pod of the MPIJob's launcher; see `pod`."""
    return pod(f"{JOB}-launcher-{attempt}", "launcher", attempt, **fields)


def pod(name: str, role: str, index: int, *, state: Object | None = None, **status: Any) -> Object:
    """Return a pod of the MPIJob: `state` is its container's (it runs when there is none), `status` adds to its own."""
    job = "training.kubeflow.org/job"
    labels = {f"{job}-name": JOB, f"{job}-role": role, "training.kubeflow.org/replica-index": str(index)}
    owner = {"kind": "MPIJob", "name": JOB, "uid": f"MPIJob-{JOB}"}
    metadata = {"labels": labels, "ownerReferences": [owner], "creationTimestamp": f"2026-11-21T00:00:0{index}Z"}
    containers = [{"name": role, "image": "a:1", "state": state or {"running": {}}, "restartCount": 0}]
    said = {"phase": "Running", "containerStatuses": containers, **status}
    return item("Pod", name, metadata=metadata, spec={"containers": [{"name": role, "image": "a:1"}]}, status=said)


class _Typed(io.StringIO):
    """A terminal on which somebody types."""

    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, typed: str = "") -> None:
    """Let there be a terminal without colours for the rest of the test, on which `typed` is the answer to everything.

    It is called in a test, not in a fixture: pytest gives each of them a stderr of its own.
    """
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdin", _Typed(typed))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


@dataclass
class Life(FakeCluster):
    """A cluster in which things happen. `refused` also takes `get mpijobs`: what is said to that.

    Attributes:
        overlays: What kubectl renders, by overlay.
        moments: What happens before each look at a workload that is there, one after the other; then nothing more.
        logs: What `kubectl logs` prints, by pod; a pod without a log is not known.
        archive: What a command in a container writes: the tar of its results.
        broke: What kubectl says when it ends, of a command in a container, and its exit code.
        attached: What was run on the user's own terminal.
        readers: The pods that were made to read results.
        reader_status: What becomes of them; None when somebody deletes them at once.
    """

    overlays: dict[str, list[Object]] = field(
        default_factory=lambda: {name: rendered(name) for name in ("multi-node", "single-node")}
    )
    moments: list[Callable[[], object]] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    archive: bytes = b""
    broke: tuple[int, str] = (0, "")
    attached: list[str] = field(default_factory=list)
    readers: list[Object] = field(default_factory=list)
    reader_status: Object | None = field(default_factory=lambda: {"phase": "Running"})

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> Finished:
        """As `packager.process.run`."""
        verb, *what = [word for word in argv[1:] if not word.startswith("-")]
        if verb == "kustomize":
            return Finished(0, yaml.safe_dump_all(self.overlays[Path(what[0]).name]), "")
        if verb == "logs":
            self.calls.append(" ".join(argv[1:]))
            log = self.logs.get(what[0])
            return Finished(1, "", f'pods "{what[0]}" not found') if log is None else Finished(0, log, "")
        assert len(self.calls) < ENOUGH, "it is waited for what never comes"
        if verb == "get" and self.moments and any(self._is_there(name) for name in what):
            self.moments.pop(0)()
        about = what[0].partition("/")[0].partition(".")[0] if what else ""
        about = _given(argv)["kind"].lower() if verb == "create" else about
        if said := self.refused.get(f"{verb} {about}".strip()):
            return Finished(1, "", said)
        done = super().run(argv, timeout=timeout)
        if done.returncode == 0 and not any(word.startswith("--dry-run") for word in argv):
            if verb == "apply":
                self._make(_given(argv)["items"])
            elif verb == "create" and about == "pod":
                self.readers.append(_given(argv))
                if self.reader_status is not None:
                    self._make([{**self.readers[-1], "status": self.reader_status}])
            elif verb == "delete":
                self.objects = [each for each in self.objects if not any(_names(name, each) for name in what)]
        return done

    @contextmanager
    def stream(self, argv: Sequence[str]) -> Iterator[Any]:
        """As `packager.process.stream`."""
        self.calls.append(" ".join(argv[1:]))
        yield _Running(io.BytesIO(self.archive), Finished(self.broke[0], "", self.broke[1]))

    def attach(self, argv: Sequence[str], **_options: Any) -> int:
        """As `packager.process.attached`."""
        self.attached.append(" ".join(argv[1:]))
        return self.broke[0]

    def deploy(self, overlay: str = "multi-node") -> Object:
        """Bring hello-mpi there as kubectl alone does, and return its workload."""
        self._make(self.overlays[overlay])
        return self.find("Pod", POD) if overlay == "single-node" else self.find("MPIJob", JOB)

    def find(self, kind: str, name: str) -> Object:
        """Return what is there."""
        return next(each for each in self.objects if (each["kind"], each["metadata"]["name"]) == (kind, name))

    def start(self) -> None:
        """Let the MPIJob run."""
        self.objects += [launcher(), worker(0), worker(1)]
        self.find("MPIJob", JOB)["status"] = {"conditions": [{"type": "Running", "status": "True"}]}

    def end(self, how: str = "Succeeded", **condition: str) -> None:
        """Let the MPIJob end."""
        self.find("MPIJob", JOB)["status"] = {"conditions": [{"type": how, "status": "True", **condition}]}

    def lose(self) -> None:
        """Let the server answer no more."""
        self.version = (34, None)

    def answer(self) -> None:
        """Let it answer again."""
        self.version = (34, 34)

    def vanish(self) -> None:
        """Let everything be gone."""
        self.objects = []

    def _is_there(self, what: str) -> bool:
        workloads = [each for each in self.objects if each["metadata"]["name"] in (JOB, POD)]
        return any(_names(what, each) for each in workloads)

    def _make(self, manifests: list[Object]) -> None:
        there = {(each["kind"], each["metadata"]["name"]): each for each in self.objects}
        for manifest in manifests:
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            made = {"namespace": "team", "uid": f"{kind}-{name}", "creationTimestamp": datetime.now(UTC).isoformat()}
            old = there.get((kind, name), {})
            there[kind, name] = {**old, **deepcopy(manifest), "metadata": {**made, **manifest["metadata"]}}
        self.objects = list(there.values())


@dataclass
class _Running:
    """As `packager.process.Running`."""

    stdout: io.BytesIO
    end: Finished

    def wait(self) -> Finished:
        return self.end


def _given(argv: Sequence[str]) -> Object:
    """Return what a command is given in a file."""
    file = next(word for word in argv if word.startswith("--filename=")).partition("=")[2]
    return dict(json.loads(Path(file).read_text(encoding="utf-8")))


def _names(what: str, each: Object) -> bool:
    """Whether `resource/name` of a command line means an object."""
    resource, _, name = what.partition("/")
    return (kind_of(resource), name) == (each["kind"], each["metadata"]["name"])
