"""A fake cluster for hello-mpi, whose state changes while a command observes it.

The fixture `life` replaces every program that mlpack starts by such a cluster, and copies hello-mpi into the current
folder.
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

from packager.base.process import SYSTEM, Finished
from tests.fake_cluster import FakeCluster, Object, item, kind_of, manifest_given, without_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest

JOB = "hello-mpi-multi-node"
POD = "hello-mpi-single-node"
SERVER = "hello-mpi-server"
OUTPUT = "/ROOT/hello-mpi/output"
MAX_CALLS = 500
"""More commands than any test needs; ends a test whose wait, which takes no time, would not end."""

ENDED_WITH_3 = {"terminated": {"exitCode": 3, "reason": "Error", "message": "epoch 1\nno such file: train.csv\n"}}

_RENDERED = Path(__file__).parent / "golden/rendered/hello-mpi.yml"


def rendered(overlay: str) -> list[Object]:
    """Return the rendered objects of an overlay of hello-mpi, without the content of files."""
    objects = deepcopy(list(_golden()[overlay].values()))
    for manifest in objects:
        if isinstance(data := manifest.get("data"), list):
            manifest["data"] = dict.fromkeys(data, "")
    return objects


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
    """Return a pod of the MPIJob with the container state `state`, by default running, and fields of its status."""
    job = "training.kubeflow.org/job"
    labels = {f"{job}-name": JOB, f"{job}-role": role, "training.kubeflow.org/replica-index": str(index)}
    owner = {"kind": "MPIJob", "name": JOB, "uid": f"MPIJob-{JOB}"}
    metadata = {"labels": labels, "ownerReferences": [owner], "creationTimestamp": f"2026-11-21T00:00:0{index}Z"}
    containers = [{"name": role, "image": "a:1", "state": state or {"running": {}}, "restartCount": 0}]
    pod_status = {"phase": "Running", "containerStatuses": containers, **status}
    return item("Pod", name, metadata=metadata, spec={"containers": [{"name": role}]}, status=pod_status)


class _Typed(io.StringIO):
    """The stdin of a terminal, with typed text."""

    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, typed: str = "") -> None:
    """Simulate a terminal without colours for the rest of the test; questions are answered with lines of `typed`.

    Call it in a test, not in a fixture: pytest replaces stderr between fixture and test.
    """
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdin", _Typed(typed))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


@dataclass
class Life(FakeCluster):
    """A fake cluster whose state changes. Keys of `refused` also include requests such as `get mpijobs`.

    Attributes:
        overlays: The rendered objects, by overlay.
        moments: Functions that are called one by one before each request for an existing workload.
        has_namespace: Whether the namespace exists; an object of the kind Namespace may say that it is being deleted.
        refused_once: The refusal of the next command only that does not force conflicts, by its first words.
        logs: The output of `kubectl logs`, by pod; a pod without an entry is not found.
        watched: The output of `kubectl get --watch`, which then ends.
        output: The folder of the results in every container, on which commands in containers run.
        broke: The exit code and stderr of kubectl for a command in a container.
        during_command: A function that is called while a command in a container runs.
        silence: Seconds without output from a command whose output is streamed.
        is_cut: Whether the connection ends before a command in a container ends.
        commands: The commands that were run on the user's terminal.
        readers: The pods that were created to read results.
        reader_status: The status of these pods; None if they are deleted at once.
    """

    overlays: dict[str, list[Object]] = field(
        default_factory=lambda: {name: rendered(name) for name in ("multi-node", "single-node")}
    )
    moments: list[Callable[[], object]] = field(default_factory=list)
    has_namespace: bool = True
    refused_once: dict[str, str] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    watched: bytes = b""
    output: Path = Path("nowhere")
    broke: tuple[int, str] = (0, "")
    is_cut: bool = False
    during_command: Callable[[], object] = lambda: None
    silence: int = 0
    commands: list[str] = field(default_factory=list)
    readers: list[Object] = field(default_factory=list)
    reader_status: Object | None = field(default_factory=lambda: {"phase": "Running"})

    def carry_out(self, argv: Sequence[str]) -> Finished:
        """Run a command, and return its exit code and output."""
        verb, *what = [word for word in argv[1:] if not word.startswith("-")]
        if verb == "kustomize":
            return Finished(0, yaml.safe_dump_all(self.overlays[Path(what[0]).name]), "")
        assert len(self.calls) < MAX_CALLS, "it is waited for what never comes"
        if verb == "get" and self.moments and any(self._is_there(name) for name in what):
            self.moments.pop(0)()
        about = what[0].partition("/")[0].partition(".")[0] if what else ""
        about = manifest_given(argv)["kind"].lower() if verb == "create" else about
        asked = f"{verb} {about}".strip()
        if "--force-conflicts" not in argv and asked in self.refused_once:
            return Finished(1, "", self.refused_once.pop(asked))
        if refusal := self.refused.get(asked):
            return Finished(1, "", refusal)
        done = super().carry_out(argv)
        if what == ["namespaces/team"] and self.has_namespace and not done.stdout:
            return Finished(0, json.dumps(item("Namespace", "team")), "")
        if done.returncode == 0 and not any(word.startswith("--dry-run") for word in argv):
            if verb == "apply":
                self._make([self.merged(manifest) for manifest in manifest_given(argv)["items"]])
            elif verb == "create" and about == "pod":
                self.readers.append(manifest_given(argv))
                if self.reader_status is not None:
                    self._make([{**self.readers[-1], "status": self.reader_status}])
        return done

    @contextmanager
    def stream(
        self, argv: Sequence[str], *, idle: Callable[[float], object], keep_stdin_open: bool = False, **_options: Any
    ) -> Iterator[Any]:
        argv = without_connection(argv)
        if "--watch" in argv:  # in a thread of its own, at any time
            yield _Running(io.BytesIO(self.watched), Finished(0, "", ""))
            return
        self.calls.append(" ".join(argv[1:]))
        assert len(self.calls) < MAX_CALLS, "it is waited for what never comes"
        for seconds in range(1, self.silence + 1):
            idle(seconds)
        verb, *what = [word for word in argv[1:] if not word.startswith("-")]
        if verb == "logs":
            yield self._log(what[0])
            return
        self.during_command()
        assert keep_stdin_open
        script = argv[argv.index("--") + 1 :]
        if self.broke[0] or self.is_cut:
            end = b"" if self.is_cut else f"{script[4]} {self.broke[0]}\n".encode()
            yield _Scripted(io.BytesIO(end), Finished(self.broke[0], "", self.broke[1]))
            return
        script = [str(self.output) if word == OUTPUT else word for word in script]
        with SYSTEM.stream(script, idle=idle, keep_stdin_open=True) as running:
            yield running

    def _log(self, pod: str) -> _Running:
        if refusal := self.refused.get("logs"):
            return _Running(io.BytesIO(), Finished(1, "", refusal))
        log = self.logs.get(pod)
        end = Finished(1, "", f'pods "{pod}" not found') if log is None else Finished(0, "", "")
        return _Running(io.BytesIO((log or "").encode()), end)

    def run_in_terminal(self, argv: Sequence[str], **_options: Any) -> int:
        self.commands.append(" ".join(without_connection(argv)[1:]))
        return self.broke[0]

    def deploy(self, overlay: str = "multi-node") -> Object:
        """Create the objects of an overlay, as kubectl without mlpack does, and return the workload."""
        self._make(self.overlays[overlay])
        return self.find("Pod", POD) if overlay == "single-node" else self.find("MPIJob", JOB)

    def find(self, kind: str, name: str) -> Object:
        """Return the object with this kind and name."""
        return next(obj for obj in self.objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name))

    def start(self) -> None:
        """Start the MPIJob and its pods."""
        self.objects += [launcher(), worker(0), worker(1)]
        self.find("MPIJob", JOB)["status"] = {"conditions": [{"type": "Running", "status": "True"}]}

    def end(self, how: str = "Succeeded", **condition: str) -> None:
        """End the MPIJob with the condition `how`."""
        self.find("MPIJob", JOB)["status"] = {"conditions": [{"type": how, "status": "True", **condition}]}

    def end_pod(self, phase: str = "Succeeded") -> None:
        """End the Pod with this phase, with exit code 3 if it fails."""
        state = ENDED_WITH_3 if phase == "Failed" else {"terminated": {"exitCode": 0, "reason": "Completed"}}
        containers = [{"name": "main", "image": "a:1", "state": state, "restartCount": 0}]
        self.find("Pod", POD)["status"] = {"phase": phase, "containerStatuses": containers}

    def go_silent(self) -> None:
        """Let the server stop answering."""
        self.version = (34, None)

    def answer(self) -> None:
        """Let the server answer again."""
        self.version = (34, 34)

    def remove_all(self) -> None:
        """Delete all objects."""
        self.objects = []

    def _is_there(self, what: str) -> bool:
        if what.startswith("/"):  # a path, not an object
            return False
        workloads = [obj for obj in self.objects if obj["metadata"]["name"] in (JOB, POD, SERVER)]
        return any(_names(what, obj) for obj in workloads)

    def _make(self, manifests: list[Object]) -> None:
        by_key = {(obj["kind"], obj["metadata"]["name"]): obj for obj in self.objects}
        for manifest in manifests:
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            made = {"namespace": "team", "uid": f"{kind}-{name}", "creationTimestamp": datetime.now(UTC).isoformat()}
            old = by_key.get((kind, name), {})
            by_key[kind, name] = {**old, **deepcopy(manifest), "metadata": {**made, **manifest["metadata"]}}
        self.objects = list(by_key.values())


@dataclass(eq=False)
class _Running:
    """A fake `packager.base.process.Running`."""

    stdout: io.BytesIO
    end: Finished

    def wait(self) -> Finished:
        return self.end

    def release(self) -> None:
        """Do nothing, because the program has ended."""

    stop = release


class _Scripted(_Running):
    """A script that ends before it has read its input."""

    def feed(self, _given: object) -> None:
        """Do nothing."""

    require_fed = close_input = _Running.release
    give_up = _Running.wait


def _names(what: str, obj: Object) -> bool:
    """Return whether `resource/name` on a command line names the object."""
    resource, _, name = what.partition("/")
    return (kind_of(resource), name) == (obj["kind"], obj["metadata"]["name"])
