"""Reads the jobs of Kubeflow's operators and of MXNet's, and plain JobSets, into Drafts: JobSets, Jobs and MPIJobs.

The forms are those of kubeflow/training-operator v1.9 (pkg/apis/kubeflow.org/v1; of MXJobs up to v1.8.1),
deepinsight/mxnet-operator (pkg/spec/mx_job.go), kubeflow/mpi-operator v0.6 (pkg/apis/kubeflow/v2beta1),
kubeflow/trainer v2 (pkg/apis/trainer/v1alpha1) and JobSet v1alpha2. What an operator puts into the environment is what
`rendezvous` of a JobSet puts there.

Tests: modelspec/importers/test_kubeflow.py.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.problems import Problem, show
from packager.base.values import Value, replace
from packager.modelspec.importers import jobs, pods
from packager.modelspec.importers.draft import Draft
from packager.modelspec.importers.jobs import JobImport, Role
from packager.modelspec.importers.pods import Container
from packager.modelspec.importers.source import ForeignValue, Given, Source, decided, invalid
from packager.workloads.jobset.rendezvous import RENDEZVOUS
from packager.workloads.program import reserved_by

if TYPE_CHECKING:
    from packager.base.yamlio import Document, Location

_VERBS = {
    "kubeflow": ("a job of Kubeflow", "a PyTorchJob, TFJob, MPIJob or TrainJob"),
    "jobset": ("a JobSet", "a JobSet (jobset.x-k8s.io/v1alpha2)"),
    "mxjob": ("an MxJob", "an MxJob (apiVersion mxnet.mlkube.io/v1beta1 or kubeflow.org/v1, for example)"),
}
"""By the verb of `mlpack import`: what a file is imported as, and what it has to contain."""

_TRAINER = "trainer.kubeflow.org/trainjob-ancestor-step"
_V1 = ("kubeflow.org/v1", "kubeflow.org/v1beta2", "kubeflow.org/v1beta1")
_MPIRUN = re.compile(r"^(exec |time |if |! )+|>.*$|\|.*$|2>&1|&$")
_MPIRUN_WORD = re.compile(r"(.*/)?(mpirun|mpiexec|mpiexec\.hydra|horovodrun)")


class Operator(Value, frozen=True):
    """One kind of job: where it has its pods, and what its operator gives to them."""

    versions: tuple[str, ...]
    roles: tuple[str, ...] = ()
    key: str = ""  # of the roles in `spec`
    container: str = ""  # the first one if none has the name
    port: str = ""  # its name
    framework: str = "python"
    refused: str = ""  # why jobs of the kind are not imported
    verb: str = "kubeflow"
    longest: int = 20  # <name>-training-multi-node-evaluator-0-999-abcde has to be a DNS label


_WRITE = "jobs of this kind are not imported: write a spec with rendezvous {} (mlpack init --kind JobSet)"
OLD_MX = ("mlkube.io/v1beta1", "mxnet.mlkube.io/v1beta1", "kubeflow.org/v1alpha1")
_MX = ("Scheduler", "Server", "Worker", "TunerTracker", "TunerServer", "Tuner")
_TENSORFLOW = ("Chief", "Master", "PS", "Evaluator", "Worker")
OPERATORS = {
    "PyTorchJob": Operator(
        _V1, ("Master", "Worker"), "pytorchReplicaSpecs", "pytorch", "pytorchjob-port", framework="pytorch"
    ),
    "TFJob": Operator(_V1, _TENSORFLOW, "tfReplicaSpecs", "tensorflow", "tfjob-port", framework="tensorflow"),
    "MPIJob": Operator((*_V1, "kubeflow.org/v2beta1"), ("Launcher", "Worker"), "mpiReplicaSpecs", framework="mpi"),
    "TrainJob": Operator(("trainer.kubeflow.org/v1alpha1",), framework="pytorch"),
    "JobSet": Operator(("jobset.x-k8s.io/v1alpha2",), verb="jobset"),
    "MxJob": Operator(OLD_MX, _MX, "replicaSpecs", "mxnet", "mxjob-port", "mxnet", verb="mxjob", longest=24),
    "MXJob": Operator(
        (*OLD_MX, "kubeflow.org/v1alpha2", "kubeflow.org/v1beta1", "kubeflow.org/v1"),
        *(_MX, "mxReplicaSpecs", "mxnet", "mxjob-port", "mxnet"),
        verb="mxjob",
        longest=24,
    ),
    "XGBoostJob": Operator(_V1, refused=_WRITE.format("xgboost")),
    "PaddleJob": Operator(_V1, refused=_WRITE.format("none")),
    "JAXJob": Operator(_V1, refused=_WRITE.format("jax")),
}


class Found(Value, frozen=True):
    """An object of a file: a job, or another one."""

    document: Document
    location: Location
    shown: str  # the file
    others: tuple[Found, ...] = ()  # the objects of the file that are no jobs

    @property
    def data(self) -> Any:
        """The object."""
        return reduce(getitem, self.location, self.document.data)

    @property
    def kind(self) -> str:
        """The kind of the job; empty for another object."""
        data = self.data if isinstance(self.data, dict) else {}
        known = OPERATORS.get(data["kind"]) if isinstance(data.get("kind"), str) else None
        return str(data["kind"]) if known and data.get("apiVersion") in known.versions else ""

    @property
    def runtime(self) -> str:
        """The name of a runtime of TrainJobs; empty for another object."""
        is_runtime = isinstance(self.data, dict) and str(self.data.get("kind")).endswith("TrainingRuntime")
        return str((self.data.get("metadata") or {}).get("name")) if is_runtime else ""

    @property
    def described(self) -> str:
        """The kind and the version of the object for a message."""
        if not isinstance(self.data, dict) or "kind" not in self.data:
            return "a document without a kind"
        return f"{show(self.data['kind'])} of {show(self.data.get('apiVersion'))}"


def find(text: bytes, name: str, verb: str) -> list[Found]:
    """Return the jobs that a verb imports, in a file with several documents or lists of objects."""
    what, expected = _VERBS[verb]
    documents, problems = yamlio.load_all(text, name)
    if problems:
        hint = "render it first: helm template"
        is_template = b"{{" in text
        raise invalid(name, what, [replace(one, hint=hint) for one in problems] if is_template else problems)
    documents = [document for document in documents if document.data is not None]
    objects: list[Found] = []
    for document in documents:
        listed = document.data.get("items") if isinstance(document.data, dict) else None
        is_list = isinstance(listed, list) and str(document.data.get("kind")).endswith("List")
        locations: list[Location] = [("items", index) for index in range(len(listed or ()))] if is_list else [()]
        objects += [Found(document, location, name) for location in locations]
    chosen = [one for one in objects if one.kind and OPERATORS[one.kind].verb == verb]
    if not chosen:
        message = f"expected {expected}, found {', '.join([one.described for one in objects[:5]]) or 'an empty file'}"
        raise invalid(name, what, [documents[0].problem((), message) if documents else Problem(name, 1, 1, message)])
    others = tuple(one for one in objects if not any(one is other for other in chosen))
    return [replace(one, others=others) for one in chosen]


def read(found: Found, image: str | None = None) -> Draft:
    """Return the draft of a job; `image` replaces its image. Raises SpecError with all problems."""
    verb = OPERATORS[found.kind].verb
    draft = Draft(found.shown, _VERBS[verb][0], verb)
    name = found.shown.replace("\\", "/").rpartition("/")[2]
    reader = (MxImport if verb == "mxjob" else _JobImport)(
        draft, Source(found.document, draft, name, found.location).root, found, image
    )
    reader.put_all()
    draft.check()
    for source in (reader.root.source, *reader.used.values()):
        source.report_unread(jobs.FIELDS, jobs.UNREAD)
    for other in found.others:
        if id(other) not in reader.used:
            message = f"{other.described} is not carried over: a package makes its own objects"
            hint = "apply it apart, if the job needs it"
            draft.findings.append(other.document.problem(other.location, message, hint=hint))
    return draft


class _JobImport(JobImport):
    """The import of a job of Kubeflow, or of a JobSet."""

    def __init__(self, draft: Draft, root: ForeignValue, found: Found, image: str | None) -> None:
        super().__init__(draft, root, image, "multi-node")
        self.found = found
        self.operator = OPERATORS[found.kind]
        self.used: dict[int, Source] = {}  # other objects that the job refers to

    def put_all(self) -> None:
        """Fill in the draft; problems and findings are in it."""
        root = self.root
        if self.operator.refused:
            root.refuse(self.operator.refused)
            return
        roles = [job.string("name") for job in root.items("spec", "replicatedJobs")]
        longest = self.operator.longest - max((len(role) - len("evaluator") for role in roles), default=0)
        is_mx = self.operator.verb == "mxjob"
        framework = "an MxJob is for MXNet" if is_mx else f"what runs in {self.found.kind}s"
        longest = min(max(longest, 5), self.operator.longest)
        jobs.put_names(self.draft, root, longest, (self.operator.framework, framework))
        if spec := root.required("spec"):
            self.put_spec(spec)
        self.draft.put(
            ("variants", 0, "mode"), "training", f"what {'an MxJob' if is_mx else f'a {self.found.kind}'} does"
        )

    def put_spec(self, spec: ForeignValue) -> None:
        """Put the pods of a job, and its policies."""
        put = {
            "PyTorchJob": self._put_pytorch,
            "TFJob": self._put_tensorflow,
            "MPIJob": self._put_mpi,
            "TrainJob": self._put_train_job,
            "JobSet": self._put_job_set,
        }
        put[self.found.kind](spec)

    def read_roles(self, spec: ForeignValue) -> list[Role]:
        """Return the roles of a job of an operator that have pods, in the order of the operator."""
        # The operators take the names of roles in any case; those of the oldest one are in a list.
        names = {name.lower(): name for name in self.operator.roles}
        listed = spec.required(self.operator.key)
        is_list = isinstance(listed.value, list) if listed else False
        entries: dict[str, ForeignValue] = {}
        for entry in listed.items() if listed and is_list else listed.children() if listed else ():
            own = (entry.string("mxReplicaType") or "WORKER") if is_list else entry.key
            name = names.get(own.lower(), "")
            if not name:
                expected = f"the roles are: {', '.join(self.operator.roles)}"
                entry.refuse(f"unknown role {show(own)}", expected, at_key=True)
            elif name in entries:
                entry.refuse(f"the role {name!r} occurs twice")
            else:
                entries[name] = entry
        for name in [name for name in self.operator.roles if name in entries]:
            entry = entries[name]
            count = _count(entry.child("replicas"), "the operator's default")
            if role := self.read_role(name.lower(), entry, entry.at("template"), count):
                self.every.append(role)
        return self.every

    def read_role(
        self, name: str, entry: ForeignValue, template: ForeignValue | None, count: Given | None
    ) -> Role | None:
        """Return a role; None, with a problem, if it is not valid, and without one if it has no pods."""
        if template is None:
            entry.refuse("the key 'template' is missing", at_key=True)
            return None
        container, port, is_required = self.operator.container, self.operator.port, self.operator.verb == "mxjob"
        read = pods.read(template, container, self.draft, port, is_required=is_required)
        if read is None or count is None or count.value == 0:
            return None
        return Role(name, count, entry, template, read, read.port or Given(None, decided("the operator's default")))

    def _holders(self, spec: ForeignValue) -> list[ForeignValue]:
        return [holder for holder in (spec.at("runPolicy"), spec) if holder]

    def _put_single(self, role: Role, spec: ForeignValue, environment: dict[str, str]) -> None:
        """Put a Job for the only pod of a job, with what the operator sets in its environment."""
        self.place = ("overlays", "single-node")
        self.put(("kind",), "Job", "a job of one pod")
        self.put_job(role, self._holders(spec), environment=environment)

    def _put_several(self, way: str, roles: list[Role], spec: ForeignValue, port: int | None = None) -> None:
        """Put a JobSet for the pods of a job; `port` is the operator's default."""
        self.put(("kind",), "JobSet", "a job of several pods")
        default = Given(port or RENDEZVOUS[way].port, decided("the operator's default"))
        given = next((role.port for role in roles if role.port.value), default)
        if given.value != RENDEZVOUS[way].port:
            self.put(("port",), given.value, given.origin)
        self.put_set(way, roles, f"how a {self.found.kind} connects its pods", self._holders(spec))

    def _put_pytorch(self, spec: ForeignValue) -> None:
        roles = self.read_roles(spec)
        elastic, number = spec.child("elasticPolicy"), spec.child("nprocPerNode")
        if not self.draft.problems and roles:
            self._put_nodes(roles, spec, number, 23456)
            if elastic:
                self._put_elastic(elastic)

    def _put_nodes(self, roles: list[Role], spec: ForeignValue, number: ForeignValue | None, port: int) -> None:
        """Put the nodes that torch connects: a master, if there is one, and workers, which have to be the same."""
        main = roles[-1]
        if len(roles) > 1:
            self._check_same(roles[0], main)
            if self.draft.problems:
                return
        count = sum(role.count.value for role in roles)
        words = main.container.words
        processes: int | str = (number.text() or "auto") if number else "auto"
        launches = any(re.search(r"(^|/)(accelerate|deepspeed)$|torchrun|torch\.distributed", word) for word in words)
        if str(processes).isdigit():
            processes = int(processes)
        elif words and re.fullmatch(r"(.*/)?python[0-9.]*", words[0]) and not launches:
            processes = 1  # without a launcher, the operator starts one process on each node
        else:
            processes = "per-gpu" if processes == "gpu" else "auto"
        if count == 1:
            address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(main.port.value or port), "RANK": "0"}
            environment = {**address, "WORLD_SIZE": "1", "PET_NPROC_PER_NODE": str(processes)}
            self._put_single(main, spec, environment if processes != "per-gpu" else address)
            return
        self._put_several("torch", [replace(main, name="node", count=Given(count, main.count.origin))], spec, port)
        self.put(("processes_per_node",), processes, number.origin if number else "what the operator starts")

    def _check_same(self, master: Role, worker: Role) -> None:
        """Refuse a master that starts something else than the workers do; report its other differences."""
        one, other = master.container, worker.container
        image = one.image and other.image and one.image.value != other.image.value and self.image is None
        if image or one.words != other.words or (one.command is None) != (other.command is None):
            what = "another image" if image else "another program"
            hint = "start the same on all nodes: RANK is 0 on the first"
            hint += "; --image names one for all" if image else ""
            master.entry.refuse(f"the master has {what} than the workers", hint, at_key=True)
        own: dict[Any, Given] = {**one.environment, **one.resources}
        of_workers: dict[Any, Given] = {**other.environment, **other.resources}
        for key, given in own.items():
            if key not in of_workers or str(of_workers[key].value) != str(given.value):
                self.draft.lose(given, "the master is one of the nodes, which have that of the workers")
        for gpus in one.gpus if not other.gpus else ():
            gpus.entry.leave("of the master becomes that of the workers", "it is one of the nodes")

    def _put_elastic(self, elastic: ForeignValue) -> None:
        """Put the option elastic, where torchrun starts the nodes."""
        command = self.overlay.get("command") or self.overlay.get("roles", {}).get("node", {}).get("command") or [""]
        if command[0] != "torchrun":
            elastic.leave(hint="start the nodes by `torchrun`, and build with --with elastic")
            return
        keys = {"ELASTIC_MIN": "minReplicas", "ELASTIC_RESTARTS": "maxRestarts"}
        values = {key: text for key, name in keys.items() if (text := elastic.string(name))}
        hint = self.draft.option("elastic", **values)
        elastic.leave("is the option elastic of a site, for as many nodes as there are replicas", hint)

    def _put_tensorflow(self, spec: ForeignValue) -> None:
        roles = [replace(role, name=role.name.replace("master", "chief")) for role in self.read_roles(spec)]
        if self.draft.problems or not roles:
            return
        if sum(role.count.value for role in roles) == 1:
            self._put_single(roles[0], spec, {})
            return
        self._put_several("tensorflow", roles, spec)
        counts = {role.name: role.count.value for role in roles}
        leader = next((name for name in ("chief", "worker") if name in counts), roles[0].name)
        self.put(("success",), [leader], "the role that the operator waited for")
        if leader == "worker" and counts["worker"] > 1:
            worker = next(role for role in roles if role.name == "worker")
            message = "succeeds when all workers do; the operator waited for the first one"
            worker.entry.note(message, "let the other workers end as well")

    def _put_mpi(self, spec: ForeignValue) -> None:
        roles = {role.name: role for role in self.read_roles(spec)}
        version = self.root.child("apiVersion")
        if version and version.value != "kubeflow.org/v2beta1":
            hint = "the image needs sshd, which images for v1 often lack: mlpack build, then mlpack doctor"
            version.note("of mpi-operator v1 used kubectl exec; v2beta1 uses ssh", hint)
        launcher, worker = roles.get("launcher"), roles.get("worker")
        if not launcher or not worker:
            spec.refuse("expected a launcher and workers", "a launcher alone is a Job: write a spec for it")
            return
        self.put(("kind",), "MPIJob", self.root.origin)
        slots, form = spec.child("slotsPerWorker"), spec.child("mpiImplementation")
        computes = bool(spec.value.get("runLauncherAsWorker"))
        self.put(("workers",), worker.count.value + computes, worker.count.origin)
        number = slots.whole() if slots else 1
        self.put(("slots_per_worker",), number, slots.origin if slots else "the operator's default")
        if form and (text := form.text()) and text != "OpenMPI":
            self.put(("mpi",), text.lower(), form.origin)
        for given in filter(None, (worker.container.command, worker.container.args)):
            self.draft.lose(given, "the package starts sshd in the workers")
        if program := self._program_of_ranks(launcher):
            self._put_ranks(spec, launcher, worker, program)

    def _put_ranks(self, spec: ForeignValue, launcher: Role, worker: Role, program: list[str]) -> None:
        """Put the image, the variables and the resources of an MPIJob, and what each rank runs."""
        own, of_worker = launcher.container, worker.container
        self.put_images([worker])
        if own.image and of_worker.image and own.image.value != of_worker.image.value:
            own.image.leave("is replaced by the workers' image", "the launcher runs in it too")
        self.put_directory([launcher])
        if (folder := of_worker.directory) and folder != own.directory:
            self.draft.lose(folder, "ranks start in that of the launcher")
        self.put_gpus(None, [worker])
        variables = {**of_worker.environment, **own.environment}
        for name, given in of_worker.environment.items():
            if variables[name].value != given.value:
                self.draft.lose(given, "all ranks have the variables of the launcher")
        merged = replace(worker, container=replace(of_worker, environment=variables))
        self.put_environments([merged], lambda key: reserved_by(key, "mpi"))
        pods.put_resources(self.draft, self.place, of_worker.resources)
        for steps, quantity in own.resources.items():
            self.put(("launcher_resources", *steps), quantity.value, quantity.origin)
        for gpus in own.gpus:
            gpus.entry.leave("is not carried over: the launcher only waits")
        start = own.command or own.args
        words = [pods.escaped(word, self.variables) for word in program]
        self.put(("command",), words, start.origin if start else "what each rank runs")
        if own.args:
            self.draft.origins[*self.place, "command", 0] = own.args.origin
        self.put_policies(self._holders(spec), [launcher, worker])

    def _program_of_ranks(self, launcher: Role) -> list[str]:
        """Return the program of each rank: the launcher's without mpirun and its options."""
        words = launcher.container.words
        is_short = len(words) < 4
        if words and words[0].rpartition("/")[2] in ("sh", "bash") and len(words[-1].split()) > 1:
            lines = [_MPIRUN.sub("", line.strip()) for line in re.split(r"\n|;|&&", words[-1].replace("\\\n", " "))]
            lines = [line for line in lines if line and not line.startswith("#")]
            calls = [line for line in lines if line.strip() and _MPIRUN_WORD.fullmatch(line.split()[0])]
            words = shlex.split(calls[0]) if len(calls) == 1 and calls[0].count("'") % 2 == 0 else []
            if calls and len(lines) > 1:
                message = "of the launcher's script, only mpirun is carried over"
                launcher.entry.note(message, "the package waits for the workers, and starts one rank for each slot")
        words = words[1:] if words[:1] == ["exec"] else words
        if not words or not _MPIRUN_WORD.fullmatch(words[0]):
            hint = "write a spec: `command` of an MPIJob is what each rank runs, and the package starts mpirun"
            launcher.entry.refuse("the launcher does not start mpirun itself", hint, at_key=True)
            return []
        program = jobs.mpirun(self.draft, self.place, launcher.entry, words)
        if not program or (is_short and any(re.search(r"\$\{?[A-Za-z0-9_@]|`|\$\(", word) for word in program)):
            hint = "write a spec: `command` is what each rank runs, without a shell"
            launcher.entry.refuse("the program that mpirun starts needs a shell", hint, at_key=True)
        return program

    def _put_train_job(self, spec: ForeignValue) -> None:
        """Put a TrainJob over the runtime that it names, which has to be in the same file unless it is for torch."""
        name, trainer = spec.string("runtimeRef", "name"), spec.child("trainer")
        runtime = next((other for other in self.found.others if other.runtime == name), None)
        source = Source(runtime.document, self.draft, self.root.source.shown, runtime.location) if runtime else None
        role = self._role_of_runtime(source.root) if source else None
        policy = source.root.at("spec", "mlPolicy") if source else None
        if source:
            self.used[id(runtime)] = source
        if not (policy and policy.child("torch")) and (runtime or not name.startswith("torch")):
            hint = f"put it beside the job: kubectl get clustertrainingruntime {name} -o yaml"
            message = "is for another framework than torch" if runtime else "is not in the file"
            self.root.refuse(f"the runtime {show(name)} {message}", hint)
        own = [trainer.child(key) if trainer else None for key in ("numNodes", "numProcPerNode")]
        number = own[0] or (policy.child("numNodes") if policy else None)
        processes = own[1] or (policy.at("torch", "numProcPerNode") if policy else None)
        count = _count(number, "the default")
        container = self._trained(role.container if role else Container(), trainer)
        if not self.draft.problems and count:
            entry = trainer or spec
            port = Given(None, decided("no port"))
            node = Role("node", count, entry, role.template if role else entry, container, port)
            self._put_nodes([node], spec, processes, 29500)

    def _role_of_runtime(self, root: ForeignValue) -> Role | None:
        root.at("metadata", "name")
        role = None
        for job in root.items("spec", "template", "spec", "replicatedJobs"):
            labels = job.at("template", "metadata", "labels")
            if job.string("name") == "node" or (labels and labels.string(_TRAINER) == "trainer"):
                template = job.at("template", "spec", "template")
                role = self.read_role("node", job, template, Given(1, decided("the default")))
            else:
                hint = "sources of a spec fetch files"
                job.leave("is not carried over: the package has no step before the nodes", hint)
        return role

    def _trained(self, base: Container, trainer: ForeignValue | None) -> Container:
        """Return the container of a runtime with what a TrainJob sets in its place."""
        if trainer is None:
            return base
        words = {key: entry.given(entry.words()) for key in ("command", "args") if (entry := trainer.child(key))}
        resources, gpus = pods.quantities(trainer.child("resourcesPerNode"))
        return replace(
            base,
            image=trainer.child("image") or base.image,
            command=words.get("command", base.command),
            args=words.get("args", None if "command" in words else base.args),
            environment={**base.environment, **pods.variables(trainer.items("env"), self.draft)},
            resources=resources or base.resources,
            gpus=gpus or (() if resources else base.gpus),
        )

    def _put_job_set(self, spec: ForeignValue) -> None:
        read = []
        for job in spec.items("replicatedJobs"):
            of_job = job.at("template", "spec")
            template = of_job.at("template") if of_job else None
            read.append(self.read_role(job.string("name"), job, template, _pods_of(job, of_job)))
        roles = [role for role in read if role]
        if self.draft.problems or not roles:
            spec.refuse("expected replicatedJobs with pods")
            return
        name = str(self.root.value.get("metadata", {}).get("name"))
        is_torch = _has_torch(roles, name)
        if self.draft.problems:
            return
        if is_torch:
            self._put_nodes(roles, spec, None, 29500)
        elif sum(role.count.value for role in roles) == 1:
            self._put_single(roles[0], spec, {})
        else:
            self._put_several("none", roles, spec)
            targets = spec.at("successPolicy", "targetReplicatedJobs")
            success = (targets.words() if targets else None) or [role.name for role in roles]
            self.put(("success",), success, targets.origin if targets else "JobSet's default")
        self.draft.put_whole((*self.place, "retries"), spec.at("failurePolicy", "maxRestarts"))


def _has_torch(roles: list[Role], name: str) -> bool:
    """Refuse programs that need names or indices of pods as they are now; return whether torch has its own."""
    for role in roles if len(roles) > 1 else ():
        texts = [*role.container.words, *(str(one.value) for one in role.container.environment.values())]
        if any(f"{name}-{other.name}-" in text for other in roles for text in texts):
            hint = "pods are called $(JOBSET_NAME)-ROLE-0-INDEX.$(JOBSET_NAME) in a package"
            role.entry.refuse(f"its program names pods of {name}, which get another name", hint)
    containers = [role.template.items("spec", "containers")[0] for role in roles]
    entries = [item for one in containers for item in one.items("env") if isinstance(item.value, dict)]
    names = {item.string("name") for item in entries}
    indexed = [one.string("name") for one in entries if "job-completion-index" in str(one.value.get("valueFrom"))]
    is_torch = len(roles) == 1 and bool(names & {"RANK", "NODE_RANK", "MASTER_ADDR", "PET_MASTER_ADDR"})
    if indexed and not is_torch:
        hint = "the program finds the index in JOB_COMPLETION_INDEX"
        roles[0].entry.refuse(f"{', '.join(indexed)}: a package has no variables with the pod's index", hint)
    return is_torch


def _count(entry: ForeignValue | None, reason: str) -> Given | None:
    """Return a number of pods, 1 by default; None, with a problem, if it is not valid."""
    if entry is None:
        return Given(1, decided(reason))
    number = entry.whole()
    return None if number is None else entry.given(number)


def _pods_of(job: ForeignValue, of_job: ForeignValue | None) -> Given | None:
    """Return the number of pods of a role of a JobSet."""
    replicas, parallel = job.child("replicas"), of_job.child("parallelism") if of_job else None
    completions = of_job.child("completions") if of_job else None
    if completions and completions.value != (parallel.value if parallel else 1):
        completions.refuse("expected as many as parallelism", "all pods of a role run at once")
    jobs_of_role, pods_of_job = (_count(entry, "the default") for entry in (replicas, parallel))
    if jobs_of_role is None or pods_of_job is None:
        return None
    return Given(jobs_of_role.value * pods_of_job.value, (parallel or replicas or job).origin)


_MODES = {"": "", "local": "local", "dist": "dist", "MXTrain": "dist", "MXTune": "tune"}
_ROLES_OF = {
    "dist": ("scheduler", "server", "worker"),
    "tune": ("tunertracker", "tunerserver", "tuner"),
    "local": ("worker",),
}
_MX_PORT = 9091


class MxImport(_JobImport):
    """The import of a job of MXNet: a JobSet in which ps-lite's processes find each other, or a worker's Job."""

    def put_spec(self, spec: ForeignValue) -> None:
        """Put the pods of a job, and its policies."""
        is_old = self.root.value["apiVersion"] in OLD_MX
        self.operator = OPERATORS["MxJob" if is_old else "MXJob"]
        roles = [replace(role, port=self._port(role, is_old=is_old)) for role in self.read_roles(spec)]
        mode = self._mode_of(spec, roles, is_old=is_old)
        if self.draft.problems or mode is None:
            return
        self.place = ("overlays", mode)
        entry = spec.child("jobMode")
        origin = entry.origin if entry else decided("one worker alone" if mode == "local" else "the default")
        self.put(("kind",), "Job" if mode == "local" else "JobSet", origin)
        if mode == "local":
            self.put_job(roles[0], self._holders(spec), RENDEZVOUS["dmlc"].refused)
            return
        self.put_set("dmlc" if mode == "dist" else "none", roles, origin, self._holders(spec))
        if mode == "tune":
            self.put(("success",), ["tuner"], "what the operator waited for")
            self._put_tuning(roles)
            return
        if roles[0].port.value != _MX_PORT:
            self.put(("port",), roles[0].port.value, roles[0].port.origin)
        roles[0].entry.note("is not waited for: the job succeeds when all workers do")

    def _port(self, role: Role, *, is_old: bool) -> Given:
        """Return the port on which a role listens: the scheduler's `PsRootPort`, or the port named `mxjob-port`."""
        own = role.entry.child("PsRootPort") if is_old and role.name == "scheduler" else None
        if own:
            return own.given(own.whole() or _MX_PORT)
        return role.port if role.port.value and not is_old else Given(_MX_PORT, decided("the operator's default"))

    def _mode_of(self, spec: ForeignValue, roles: list[Role], *, is_old: bool) -> str | None:
        """Return the mode of the job: dist, local or tune; add a problem if it is invalid or the roles do not fit."""
        entry = spec.child("jobMode")
        text = (entry.text() or "") if entry else ""
        names = [role.name for role in roles]
        if entry and text not in _MODES:
            entry.refuse(f"expected {'local or dist' if is_old else 'MXTrain or MXTune'}, found {show(text)}")
            return None
        is_alone = names == ["worker"] and roles[0].count.value == 1
        mode = _MODES[text] or ("local" if is_old or names == ["worker"] else "dist")
        mode = "local" if mode == "dist" and is_alone and not is_old else mode
        needed = _ROLES_OF[mode]
        if not self.draft.problems and (set(names) != set(needed) or roles[0].count.value != 1):
            expected = f"1 {needed[0]}{''.join(f', {name}' for name in needed[1:])}"
            found = ", ".join(f"{role.count.value} {role.name}" for role in roles)
            (entry or spec).refuse(f"expected the roles {expected}, found {found or 'none'}")
        return mode

    def _put_tuning(self, roles: list[Role]) -> None:
        """Put MX_CONFIG in the operator's format (pkg/controller.v1/mxnet/mxnet.go, genMXConfig)."""
        cluster = {
            role.name: [
                {"url": f"$(JOBSET_NAME)-{role.name}-0-{index}.$(JOBSET_NAME)", "port": role.port.value}
                for index in range(role.count.value)
            ]
            for role in roles
        }
        keys = {role.name: role.template.string("metadata", "annotations", "tuner-server-key") for role in roles}
        labels = {role.name: keys[role.name] or role.entry.string("label") for role in roles}
        for role in roles:
            config = {"cluster": cluster, "labels": labels, "task": {"type": role.name, "index": 0}}
            text = json.dumps(config, separators=(",", ":"))
            self.put(("roles", role.name, "environment", "MX_CONFIG"), text, "what the operator wrote for this role")
            if role.count.value > 1:
                message = f"each of the {role.count.value} pods finds the index 0 in MX_CONFIG"
                self.draft.note(role.count.origin, message, "its own index is in JOB_COMPLETION_INDEX")
