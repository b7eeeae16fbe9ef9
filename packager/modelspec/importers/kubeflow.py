"""Reads the jobs of Kubeflow's operators, and plain JobSets, into Drafts: JobSets, Jobs and MPIJobs.

The forms are those of kubeflow/training-operator v1.9 (pkg/apis/kubeflow.org/v1), kubeflow/mpi-operator v0.6
(pkg/apis/kubeflow/v2beta1), kubeflow/trainer v2 (pkg/apis/trainer/v1alpha1) and JobSet v1alpha2. What an operator puts
into the environment is what `rendezvous` of a JobSet puts there.

Tests: modelspec/importers/test_kubeflow.py.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from packager.base.problems import show
from packager.base.values import Value, replace
from packager.modelspec.importers import jobs, pods
from packager.modelspec.importers.draft import Draft
from packager.modelspec.importers.jobs import Role
from packager.modelspec.importers.pods import Container
from packager.modelspec.importers.source import ForeignValue, Given, Ledger, Source, decided, printable
from packager.workloads.jobset.rendezvous import RENDEZVOUS
from packager.workloads.launchers import reserved_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Document, Location

_KUBEFLOW, _JOBSET = "a job of Kubeflow", "a JobSet"
_LONGEST = 20  # <name>-training-multi-node-evaluator-0-999-abcde has to be a DNS label
_UNREAD = "edit the overlay's manifest in the package, if the job needs it"
_TRAINER = "trainer.kubeflow.org/trainjob-ancestor-step"
_QUEUE = "kueue.x-k8s.io/queue-name"
_V1 = ("kubeflow.org/v1", "kubeflow.org/v1beta2", "kubeflow.org/v1beta1")
_NO_PROBES = ("is not carried over: a job has no probes", None)
_SECURITY = ("is not carried over: a package sets its own", "mlpack configure --uid, --gid, --fs-group; --with rdma")
_POD = {
    "dnsPolicy": ("is not carried over: it is that of the cluster", None),
    "schedulerName": ("is not carried over", "--with queue, or --with gang"),
    "terminationGracePeriodSeconds": ("is not carried over", "stops_within of the overlay"),
    "securityContext": _SECURITY,
    "hostIPC": ("is not carried over", "--with shared-memory"),
}
_CONTAINER = {
    "imagePullPolicy": ("is not carried over: Kubernetes decides by the tag", None),
    "securityContext": _SECURITY,
    "terminationMessagePath": ("is not carried over: the end of the log is the message", None),
    "terminationMessagePolicy": ("is not carried over: the end of the log is the message", None),
    "envFrom": ("is not carried over", "list its keys under environment, or under secrets"),
    "livenessProbe": _NO_PROBES,
    "readinessProbe": _NO_PROBES,
    "startupProbe": _NO_PROBES,
    "lifecycle": ("is not carried over", "do it in the program"),
}
"""The fields of pods and of their main container that no spec has."""


_MPIRUN = re.compile(r"^(exec |time |if |! )+|>.*$|\|.*$|2>&1|&$")
_MPIRUN_WORD = re.compile(r"(.*/)?(mpirun|mpiexec|mpiexec\.hydra|horovodrun)")


class Operator(Value, frozen=True):
    """One kind of job: where it has its pods, and what its operator gives to them."""

    versions: tuple[str, ...]
    roles: tuple[str, ...] = ()
    key: str = ""  # of the roles in `spec`
    container: str | None = None  # the first one when None
    port_name: str = ""
    framework: str = "python"
    refused: str = ""  # why jobs of the kind are not imported


_WRITE = "jobs of this kind are not imported: write a spec with rendezvous {} (mlpack init --kind JobSet)"
_TENSORFLOW = ("Chief", "Master", "PS", "Evaluator", "Worker")
OPERATORS = {
    "PyTorchJob": Operator(
        _V1, ("Master", "Worker"), "pytorchReplicaSpecs", "pytorch", "pytorchjob-port", framework="pytorch"
    ),
    "TFJob": Operator(_V1, _TENSORFLOW, "tfReplicaSpecs", "tensorflow", "tfjob-port", framework="tensorflow"),
    "MPIJob": Operator((*_V1, "kubeflow.org/v2beta1"), ("Launcher", "Worker"), "mpiReplicaSpecs", framework="mpi"),
    "TrainJob": Operator(("trainer.kubeflow.org/v1alpha1",), framework="pytorch"),
    "JobSet": Operator(("jobset.x-k8s.io/v1alpha2",)),
    "XGBoostJob": Operator(_V1, refused=_WRITE.format("xgboost")),
    "PaddleJob": Operator(_V1, refused=_WRITE.format("none")),
    "JAXJob": Operator(_V1, refused=_WRITE.format("jax")),
}


class Found(Value, frozen=True):
    """A job in a file."""

    document: Document
    location: Location
    kind: str
    shown: str  # the file
    others: tuple[tuple[Document, Location], ...]  # the objects of the file that are no jobs


def find(text: bytes, name: str, *, sets: bool = False) -> list[Found]:
    """Return the jobs of Kubeflow, or the JobSets, in a file with several documents or lists of objects."""
    what = _JOBSET if sets else _KUBEFLOW
    documents = jobs.documents(text, name, what)
    objects: list[tuple[Document, Location]] = []
    for document in documents:
        listed = document.data.get("items") if isinstance(document.data, dict) else None
        is_list = isinstance(listed, list) and str(document.data.get("kind")).endswith("List")
        objects += [(document, ("items", index)) for index in range(len(listed or ()))] if is_list else [(document, ())]
    kinds = [_kind_of(_at(*place)) for place in objects]
    chosen = [kind is not None and (kind == "JobSet") is sets for kind in kinds]
    others = tuple(place for place, is_job in zip(objects, chosen, strict=True) if not is_job)
    found = [
        Found(*place, kind or "", name, others)
        for place, kind, is_job in zip(objects, kinds, chosen, strict=True)
        if is_job
    ]
    if not found:
        kinds_shown = "a JobSet (jobset.x-k8s.io/v1alpha2)" if sets else "a PyTorchJob, TFJob, MPIJob or TrainJob"
        raise jobs.expected(name, what, f"expected {kinds_shown}", documents)
    return found


def _at(document: Document, location: Location) -> Any:
    value = document.data
    for step in location:
        value = value[step]
    return value


def _kind_of(data: Any) -> str | None:
    kind = data.get("kind") if isinstance(data, dict) else None
    known = OPERATORS.get(kind) if isinstance(kind, str) else None
    return str(kind) if known and data.get("apiVersion") in known.versions else None


def read(found: Found, image: str | None = None) -> Draft:
    """Return the draft of a job; `image` replaces its image.

    Raises:
        SpecError: The job cannot run without a part that is not carried over.
    """
    what = _JOBSET if found.kind == "JobSet" else _KUBEFLOW
    ledger = Ledger()
    name = found.shown.replace("\\", "/").rpartition("/")[2]
    source = Source(found.document, ledger, name, found.location)
    verb = "jobset" if found.kind == "JobSet" else "kubeflow"
    draft = Draft(found.shown, what, f"Imported from {printable(name)} by `mlpack import {verb}`.", ledger)
    reader = _JobImport(draft, source.root, found, image)
    reader.put()
    ledger.check(found.shown, what)
    for one in (source, *reader.used):
        one.report_unread(_UNREAD)
    for document, location in found.others:
        if (document, location) not in [(one.document, one.base) for one in reader.used]:
            message = f"{jobs.described(_at(document, location))} is not carried over: a package makes its own objects"
            ledger.findings.append(document.problem(location, message, hint="apply it apart, if the job needs it"))
    return draft


class _JobImport:
    """The import of one job."""

    def __init__(self, draft: Draft, root: ForeignValue, found: Found, image: str | None) -> None:
        self.draft = draft
        self.root = root
        self.found = found
        self.operator = OPERATORS[found.kind]
        self.image = image
        self.used: list[Source] = []  # other objects that the job refers to
        self.place: Location = ("overlays", "multi-node")
        self.every: list[Role] = []  # the roles as they are in the job

    def put(self) -> None:
        """Fill in the draft; problems and findings are in the ledger."""
        for key in ("kind", "apiVersion"):
            self.root.child(key)
        if status := self.root.child("status"):
            status.done()
        if self.operator.refused:
            self.root.refuse(self.operator.refused)
            return
        if any(isinstance(value, str) and "$" in value for value in _values(self.root.value, ("replicas", "image"))):
            self.root.refuse("this is a template: $NAME stands for values", "fill it in first: envsubst")
            return
        labels = self.root.at("metadata", "labels")
        if labels and (queue := labels.child(_QUEUE)) and (text := queue.text()):
            queue.leave("is the option queue of a site", self.draft.option("queue", QUEUE=text))
        framework = (self.operator.framework, f"what runs in {self.found.kind}s")
        spec = self.root.at("spec")
        roles = [str(one.get("name")) for one in _values(self.root.value, ("replicatedJobs",)) if isinstance(one, dict)]
        longest = _LONGEST - max((len(role) - len("evaluator") for role in roles), default=0)
        jobs.put_names(self.draft, self.root, "job", min(max(longest, 5), _LONGEST), framework)
        if spec is None:
            self.root.refuse("the key 'spec' is missing")
            return
        put = {
            "PyTorchJob": self._put_pytorch,
            "TFJob": self._put_tensorflow,
            "MPIJob": self._put_mpi,
            "TrainJob": self._put_train_job,
            "JobSet": self._put_job_set,
        }
        put[self.found.kind](spec)
        self.draft.put(("variants", 0, "mode"), "training", f"what a {self.found.kind} does")

    def _roles(self, spec: ForeignValue) -> list[Role]:
        """Return the roles of a job of the training operator or mpi-operator that have pods."""
        holder = spec.at(self.operator.key)
        # The operators take the names of roles in any case.
        names = {name.lower(): name for name in self.operator.roles}
        entries = {names.get(one.key.lower(), one.key): one for one in holder.children()} if holder else {}
        if not entries:
            spec.refuse(f"the key {self.operator.key!r} is missing", "it lists the pods of each role")
        for name, entry in entries.items():
            if name not in self.operator.roles:
                expected = f"the roles are: {', '.join(self.operator.roles)}"
                entry.refuse(f"unknown role {show(name)}", expected, at_key=True)
        roles = [
            self._role(name.lower(), entries[name], entries[name].at("template"), entries[name].child("replicas"))
            for name in self.operator.roles
            if name in entries
        ]
        self.every = [role for role in roles if role]
        return self.every

    def _role(
        self, name: str, entry: ForeignValue, template: ForeignValue | None, count: ForeignValue | None
    ) -> Role | None:
        number = count.whole(0, 10_000) if count else 1
        if template is None:
            entry.refuse("the key 'template' is missing", at_key=True)
        if template is None or number is None:
            return None
        listed = template.items_at("spec", "containers")
        names = [one.string("name") for one in listed if isinstance(one.value, dict)]
        main = self.operator.container if self.operator.container in names else None
        ports = (self.operator.port_name,) if self.operator.port_name else ()
        if (pod := template.at("spec")) is None or (container := pods.read(template, main, self.draft, ports)) is None:
            return None
        pod.leave_keys(_POD)
        found_at = listed[names.index(main) if main else 0]
        found_at.leave_keys(_CONTAINER)
        origin = count.origin if count else decided("the operator's default")
        port = jobs.port_of(template, ports)
        given = Given(port.whole(1, 65_535), port.origin) if port else Given(None, decided("the operator's default"))
        return Role(name, Given(number, origin), entry, template, container, given) if number else None

    def _put_job(self, roles: list[Role], spec: ForeignValue, environment: dict[str, str]) -> None:
        """Put a Job for the only pod of a job, with what the operator sets in its environment."""
        self.place = ("overlays", "single-node")
        self.draft.put((*self.place, "kind"), "Job", "a job of one pod")
        self._put_pods(roles, spec, None, environment)

    def _put_set(self, way: str, roles: list[Role], spec: ForeignValue, port: int = 0) -> None:
        self.draft.put((*self.place, "kind"), "JobSet", "a job of several pods")
        self.draft.put((*self.place, "rendezvous"), way, f"how a {self.found.kind} connects its pods")
        given = next((role.port for role in roles if role.port.value), None)
        if given and given.value != RENDEZVOUS[way].port:
            self.draft.put((*self.place, "port"), given.value, given.origin)
        elif port and port != RENDEZVOUS[way].port:
            self.draft.put((*self.place, "port"), port, "the operator's default")
        for role in roles:
            self.draft.put((*self.place, "roles", role.name), {}, role.entry.origin)
        self._put_pods(roles, spec, way, {})

    def _put_pods(self, roles: list[Role], spec: ForeignValue, way: str | None, environment: dict[str, str]) -> None:
        """Put everything that roles say of their pods into the overlay."""
        jobs.put_images(
            self.draft, self.place, sorted(roles, key=lambda role: role.name in ("worker", "node")), self.image
        )
        jobs.put_directory(self.draft, self.place, roles)
        jobs.put_gpus(self.draft, self.place, way, roles)
        jobs.put_environments(self.draft, self.place, roles, RENDEZVOUS[way].refused if way else lambda _: None)
        for key, value in environment.items():
            if key not in self.draft.data["overlays"][self.place[1]].get("environment", {}):
                self.draft.put((*self.place, "environment", key), value, "what the operator sets")
        if way:
            names = {name for role in roles for name in RENDEZVOUS[way].names(role.name, is_plain=True)}
            jobs.put_programs(self.draft, self.place, roles, names)
        else:
            known = {
                *self.draft.data["overlays"][self.place[1]].get("environment", ()),
                *self.draft.data.get("secrets", ()),
            }
            jobs.put_program(self.draft, self.place, roles[0].container, known)
            pods.put_resources(self.draft, self.place, roles[0].container.resources)
        if way is None and roles[0].container.command is None and roles[0].container.args is None:
            self.draft.put((*self.place, "command"), [], "none: the image's own entrypoint")
        holders = [holder for holder in (spec.at("runPolicy"), spec) if holder]
        for holder in holders:
            holder.leave_keys({"managedBy": ("is not carried over", "the option queue is for Kueue")})
        jobs.put_policies(self.draft, self.place, holders, self.every or roles)

    def _put_pytorch(self, spec: ForeignValue) -> None:
        roles = self._roles(spec)
        elastic, number = spec.child("elasticPolicy"), spec.child("nprocPerNode")
        if self.draft.ledger.problems or not roles:
            return
        self._put_nodes(roles, spec, number, 23456)
        if elastic:
            self._put_elastic(elastic)

    def _put_nodes(self, roles: list[Role], spec: ForeignValue, number: ForeignValue | None, port: int) -> None:
        """Put the nodes that torch connects: a master, if there is one, and workers, which have to be the same."""
        main = roles[-1]
        if len(roles) > 1:
            self._check_same(roles[0], main)
            if self.draft.ledger.problems:
                return
        count = sum(role.count.value for role in roles)
        words = _words(main.container)
        processes = (number.text() or "auto") if number else "auto"
        launches = any(word.rpartition("/")[2] in ("torchrun", "accelerate", "deepspeed") for word in words) or any(
            "torch.distributed" in word or "torchrun" in word for word in words
        )
        is_python = bool(words) and re.fullmatch(r"(.*/)?python[0-9.]*", words[0]) is not None
        if processes.isdigit():
            processes_per_node: int | str = int(processes)
        else:  # without a launcher, the operator starts one process on each node
            processes_per_node = 1 if is_python and not launches else "per-gpu" if processes == "gpu" else "auto"
        if count == 1:
            address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(main.port.value or port), "RANK": "0"}
            environment = {**address, "WORLD_SIZE": "1", "PET_NPROC_PER_NODE": str(processes_per_node)}
            self._put_job([main], spec, environment if processes_per_node != "per-gpu" else address)
            return
        node = replace(main, name="node", count=Given(count, main.count.origin))
        self._put_set("torch", [node], spec, port)
        origin = number.origin if number else "what the operator starts"
        self.draft.put((*self.place, "processes_per_node"), processes_per_node, origin)

    def _check_same(self, master: Role, worker: Role) -> None:
        """Refuse a master that starts something else than the workers do; report its other differences."""
        one, other = master.container, worker.container
        image = one.image and other.image and one.image.value != other.image.value and self.image is None
        if _words(one) != _words(other) or (one.command is None) != (other.command is None) or image:
            what = "another image" if image else "another program"
            hint = "start the same on all nodes: RANK is 0 on the first" + (
                "; --image names one for all" if image else ""
            )
            master.entry.refuse(f"the master has {what} than the workers", hint, at_key=True)
        fields: list[tuple[dict[Any, Given], dict[Any, Given]]] = [
            (one.environment, other.environment),
            (one.resources, other.resources),
        ]
        for place, given, of_workers in [(key, value, b.get(key)) for a, b in fields for key, value in a.items()]:
            if of_workers is None or str(of_workers.value) != str(given.value):
                name = place if isinstance(place, str) else f"resources.{'.'.join(map(str, place))}"
                self.draft.note(
                    given.origin, f"{name} of the master becomes that of the workers", "it is one of the nodes"
                )
        for gpus in one.gpus if not other.gpus else ():
            gpus.entry.leave("of the master becomes that of the workers", "it is one of the nodes")

    def _put_elastic(self, elastic: ForeignValue) -> None:
        """Put the option elastic, where torchrun starts the nodes."""
        overlay = self.draft.data["overlays"].get("multi-node", {})
        command = overlay.get("command") or overlay.get("roles", {}).get("node", {}).get("command") or [""]
        if command[0] != "torchrun":
            elastic.leave("is not carried over", "start the nodes by `torchrun`, and build with --with elastic")
            return
        keys = {"ELASTIC_MIN": "minReplicas", "ELASTIC_RESTARTS": "maxRestarts"}
        hint = self.draft.option(
            "elastic", **{key: text for key, name in keys.items() if (text := elastic.string(name))}
        )
        elastic.leave("is the option elastic of a site, for as many nodes as there are replicas", hint)

    def _put_tensorflow(self, spec: ForeignValue) -> None:
        roles = [replace(role, name=role.name.replace("master", "chief")) for role in self._roles(spec)]
        spec.leave_keys({"enableDynamicWorker": ("is not carried over: the number of workers is fixed", None)})
        if self.draft.ledger.problems or not roles:
            return
        if sum(role.count.value for role in roles) == 1:
            self._put_job(roles, spec, {})
            return
        self._put_set("tensorflow", roles, spec)
        names = [role.name for role in roles]
        leader = "chief" if "chief" in names else "worker" if "worker" in names else names[0]
        self.draft.put((*self.place, "success"), [leader], "the role that the operator waited for")
        worker = next((role for role in roles if role.name == "worker"), None)
        if leader == "worker" and worker and worker.count.value > 1:
            hint = "let the other workers end as well"
            worker.entry.note("succeeds when all workers do; the operator waited for the first one", hint)

    def _put_mpi(self, spec: ForeignValue) -> None:
        roles = {role.name: role for role in self._roles(spec)}
        version = self.root.child("apiVersion")
        if version and version.value != "kubeflow.org/v2beta1":
            hint = "the image needs sshd, which images for v1 often lack: mlpack build, then mlpack doctor"
            version.note("of mpi-operator v1 used kubectl exec; v2beta1 uses ssh", hint)
        launcher, worker = roles.get("launcher"), roles.get("worker")
        if not launcher or not worker:
            spec.refuse("expected a launcher and workers", "a launcher alone is a Job: write a spec for it")
            return
        self.draft.put((*self.place, "kind"), "MPIJob", self.root.origin)
        slots, form = spec.child("slotsPerWorker"), spec.child("mpiImplementation")
        as_worker = spec.child("runLauncherAsWorker")
        count = worker.count.value + bool(as_worker and as_worker.value)
        if as_worker and as_worker.value:
            as_worker.leave("becomes one more worker", "the launcher only waits")
        self.draft.put((*self.place, "workers"), count, worker.count.origin)
        number = slots.whole(1, 1_000) if slots else 1
        self.draft.put((*self.place, "slots_per_worker"), number, slots.origin if slots else "the operator's default")
        if form and (text := form.text()) and text != "OpenMPI":
            self.draft.put((*self.place, "mpi"), text.lower(), form.origin)
        spec.leave_keys({
            "sshAuthMountPath": ("is not carried over: the package mounts the keys itself", None),
            "launcherCreationPolicy": ("is not carried over: the launcher waits for the workers itself", None),
            "mainContainer": ("is not carried over: a pod of a package has one container", None),
        })  # fmt: skip
        program = self._ranks(launcher)
        for given in (worker.container.command, worker.container.args):
            if given:
                path = given.origin.comment.partition(": ")[2]
                self.draft.note(given.origin, f"{path} is not carried over: the package starts sshd in the workers")
        if not program:
            return
        self._put_ranks(spec, launcher, worker, program)

    def _put_ranks(self, spec: ForeignValue, launcher: Role, worker: Role, program: list[str]) -> None:
        """Put the image, the variables and the resources of an MPIJob, and what each rank runs."""
        jobs.put_images(self.draft, self.place, [worker], self.image)
        own = launcher.container.image
        if own and worker.container.image and own.value != worker.container.image.value:
            own.leave("is replaced by the workers' image", "the launcher runs in it too")
        jobs.put_directory(self.draft, self.place, [launcher])
        if (folder := worker.container.directory) and folder != launcher.container.directory:
            self.draft.note(folder.origin, "workingDir is not carried over: ranks start in that of the launcher")
        jobs.put_gpus(self.draft, self.place, None, [worker])
        variables = {**worker.container.environment, **launcher.container.environment}
        for name, given in worker.container.environment.items():
            if variables[name].value != given.value:
                self.draft.note(
                    given.origin, f"{name} becomes that of the launcher", "all ranks have the same variables"
                )
        merged = replace(worker, container=replace(worker.container, environment=variables))
        jobs.put_environments(self.draft, self.place, [merged], lambda key: reserved_by(key, "mpi"))
        pods.put_resources(self.draft, self.place, worker.container.resources)
        for place, quantity in launcher.container.resources.items():
            self.draft.put((*self.place, "launcher_resources", *place), quantity.value, quantity.origin)
        for gpus in launcher.container.gpus:
            gpus.entry.leave("is not carried over: the launcher only waits", None)
        known = {*self.draft.data["overlays"]["multi-node"].get("environment", ()), *self.draft.data.get("secrets", ())}
        words = [pods.escaped(word, known) for word in program]
        start = launcher.container.command or launcher.container.args
        self.draft.put((*self.place, "command"), words, start.origin if start else "what each rank runs")
        if launcher.container.args:
            self.draft.origins[*self.place, "command", 0] = launcher.container.args.origin
        jobs.put_policies(
            self.draft, self.place, [one for one in (spec.at("runPolicy"), spec) if one], [launcher, worker]
        )

    def _ranks(self, launcher: Role) -> list[str]:
        """Return the program of each rank: the launcher's without mpirun and its options."""
        words = _words(launcher.container)
        if words and words[0].rpartition("/")[2] in ("sh", "bash") and len(words[-1].split()) > 1:
            lines = [_MPIRUN.sub("", line.strip()) for line in re.split(r"\n|;|&&", words[-1].replace("\\\n", " "))]
            calls = [line for line in lines if line and _MPIRUN_WORD.fullmatch(line.split()[0])]
            words = shlex.split(calls[0]) if len(calls) == 1 and calls[0].count("'") % 2 == 0 else []
            if calls and len([line for line in lines if line and not line.startswith("#")]) > 1:
                message = "of the launcher's script, only mpirun is carried over"
                launcher.entry.note(message, "the package waits for the workers, and starts one rank for each slot")
        words = words[1:] if words[:1] == ["exec"] else words
        if not words or not _MPIRUN_WORD.fullmatch(words[0]):
            hint = "write a spec: `command` of an MPIJob is what each rank runs, and the package starts mpirun"
            launcher.entry.refuse("the launcher does not start mpirun itself", hint, at_key=True)
            return []
        program = jobs.mpirun(self.draft, self.place, launcher.entry, words)
        if not program or (
            any(re.search(r"\$\{?[A-Za-z0-9_@]|`|\$\(", word) for word in program)
            and len(_words(launcher.container)) < 4
        ):
            hint = "write a spec: `command` is what each rank runs, without a shell"
            launcher.entry.refuse("the program that mpirun starts needs a shell", hint, at_key=True)
        return program

    def _put_train_job(self, spec: ForeignValue) -> None:
        """Put a TrainJob over the runtime that it names, which has to be in the same file unless it is for torch."""
        name, trainer = spec.string("runtimeRef", "name"), spec.child("trainer")
        for key in ("apiGroup", "kind"):
            spec.at("runtimeRef", key)
        runtime = next((place for place in self.found.others if _is_runtime(_at(*place), name)), None)
        role = self._runtime_role(runtime) if runtime else None
        policy = self.used[-1].root.at("spec", "mlPolicy") if self.used else None
        is_torch = bool(policy and policy.child("torch")) or (runtime is None and name.startswith("torch"))
        if not is_torch:
            hint = f"put it beside the job: kubectl get clustertrainingruntime {name} -o yaml"
            message = "is for another framework than torch" if runtime else "is not in the file"
            self.root.refuse(f"the runtime {show(name)} {message}", hint)
        if self.draft.ledger.problems:
            return
        number = (trainer.child("numNodes") if trainer else None) or (policy.child("numNodes") if policy else None)
        processes = (trainer.child("numProcPerNode") if trainer else None) or (
            policy.at("torch", "numProcPerNode") if policy else None
        )
        base = role.container if role else Container(None, None, None, {}, {}, (), None, ())
        container = self._trained(base, trainer) if trainer else base
        count = Given(number.whole(1, 10_000) if number else 1, number.origin if number else decided("the default"))
        if self.draft.ledger.problems:
            return
        entry = trainer or spec
        node = Role("node", count, entry, role.template if role else entry, container, Given(None, decided("no port")))
        self._put_nodes([node], spec, processes, 29500)

    def _runtime_role(self, place: tuple[Document, Location]) -> Role | None:
        document, location = place
        source = Source(document, self.draft.ledger, self.root.source.shown, location)
        self.used.append(source)
        for entry in source.root.children_at("metadata"):
            if entry.key == "name":
                entry.done()
        for key in ("apiVersion", "kind"):
            source.root.child(key)
        role = None
        for job in source.root.items_at("spec", "template", "spec", "replicatedJobs"):
            metadata = job.at("template", "metadata")
            labels = metadata.at("labels") if metadata else None
            if job.string("name") == "node" or (labels and labels.string(_TRAINER) == "trainer"):
                role = self._role("node", job, job.at("template", "spec", "template"), None)
            else:
                job.leave(
                    "is not carried over: the package has no step before the nodes", "sources of a spec fetch files"
                )
        return role

    def _trained(self, base: Container, trainer: ForeignValue) -> Container:
        """Return the container of a runtime with what a TrainJob sets in its place."""
        words = {
            key: Given(entry.words(), entry.origin) for key in ("command", "args") if (entry := trainer.child(key))
        }
        resources, gpus = pods.quantities(trainer.child("resourcesPerNode"))
        variables = pods.variables(trainer.child("env"), self.draft)
        return replace(
            base,
            image=trainer.child("image") or base.image,
            command=words.get("command", base.command),
            args=words.get("args", None if "command" in words else base.args),
            environment={**base.environment, **variables},
            resources=resources or base.resources,
            gpus=gpus or (() if resources else base.gpus),
        )

    def _put_job_set(self, spec: ForeignValue) -> None:
        roles: list[Role] = []
        for job in spec.items_at("replicatedJobs"):
            of_job = job.at("template", "spec")
            count = self._pods_of(job, of_job) if of_job else None
            if role := self._role(job.string("name"), job, of_job.at("template") if of_job else None, None):
                roles.append(replace(role, count=count or role.count))
        if self.draft.ledger.problems or not roles:
            spec.refuse("expected replicatedJobs with pods")
            return
        name = str(self.root.value.get("metadata", {}).get("name"))
        is_torch = self._check_indices(roles, name)
        if self.draft.ledger.problems:
            return
        if is_torch:
            self._put_nodes(roles, spec, None, 29500)
        elif sum(role.count.value for role in roles) == 1:
            self._put_job(roles, spec, {})
        else:
            self._put_set("none", roles, spec)
            targets = spec.at("successPolicy", "targetReplicatedJobs")
            success = (targets.words() if targets else None) or [role.name for role in roles]
            self.draft.put((*self.place, "success"), success, targets.origin if targets else "JobSet's default")
        limit = spec.at("failurePolicy", "maxRestarts")
        if limit and (retries := limit.whole(0, 100)) is not None:
            self.draft.put((*self.place, "retries"), retries, limit.origin)
        network = {"network": ("is not carried over: the package sets its own", None)}
        spec.leave_keys(network | {"startupPolicy": ("is not carried over: all pods start together", None)})

    def _check_indices(self, roles: list[Role], name: str) -> bool:
        """Refuse programs that need names or indices of pods as they are now; return whether torch has its own."""
        for role in roles if len(roles) > 1 else ():
            texts = [*_words(role.container), *(str(one.value) for one in role.container.environment.values())]
            if any(f"{name}-{other.name}-" in text for other in roles for text in texts):
                hint = "pods are called $(JOBSET_NAME)-ROLE-0-INDEX.$(JOBSET_NAME) in a package"
                role.entry.refuse(f"its program names pods of {name}, which get another name", hint)
        entries = [item for role in roles for item in _variables(role)]
        names = {item.string("name") for item in entries}
        indexed = [one.string("name") for one in entries if "job-completion-index" in str(one.value.get("valueFrom"))]
        is_torch = len(roles) == 1 and bool(names & {"RANK", "NODE_RANK", "MASTER_ADDR", "PET_MASTER_ADDR"})
        if indexed and not is_torch:
            hint = "the program finds the index in JOB_COMPLETION_INDEX"
            roles[0].entry.refuse(f"{', '.join(indexed)}: a package has no variables with the pod's index", hint)
        return is_torch

    def _pods_of(self, job: ForeignValue, of_job: ForeignValue) -> Given | None:
        """Return the number of pods of a role of a JobSet."""
        replicas, parallel = job.child("replicas"), of_job.child("parallelism")
        completions = of_job.child("completions")
        numbers = [one.whole(0, 10_000) if one else 1 for one in (replicas, parallel)]
        if completions and completions.value != (parallel.value if parallel else 1):
            completions.refuse("expected as many as parallelism", "all pods of a role run at once")
        of_job.leave_keys({
            "backoffLimit": ("is not carried over: a pod cannot join again", "retries of the overlay"),
            "completionMode": ("is not carried over: it is Indexed", None),
            "activeDeadlineSeconds": ("is not carried over", "deadline of the overlay"),
        })  # fmt: skip
        if None in numbers:
            return None
        return Given((numbers[0] or 0) * (numbers[1] or 0), (parallel or replicas or job).origin)


def _is_runtime(data: Any, name: str) -> bool:
    kinds = ("ClusterTrainingRuntime", "TrainingRuntime")
    return isinstance(data, dict) and data.get("kind") in kinds and (data.get("metadata") or {}).get("name") == name


def _words(container: Container) -> list[str]:
    return [str(word) for given in (container.command, container.args) if given for word in given.value]


def _variables(role: Role) -> list[ForeignValue]:
    listed = role.template.items_at("spec", "containers")
    return [item for one in listed[:1] for item in one.items_at("env") if isinstance(item.value, dict)]


def _values(data: Any, keys: Sequence[str]) -> Iterator[Any]:
    """Yield each value under one of the keys, at any depth."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if key in keys:
            yield from value if isinstance(value, list) else (value,)
        yield from _values(value, keys)
