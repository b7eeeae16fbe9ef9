"""Runs a model while its code is changed: deploys it once, then copies the code and starts its programs again.

`packager.cluster.supervisor` changes its pods for that. Each change is copied into all pods, by a command in each, and
the programs start when all of the old ones have ended. A spec names no file outside of its folder.
"""

import hashlib
import tarfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from packager.base.errors import ClusterError, MlpackError, SpecError, UnreachableError
from packager.cluster import delete as deleting
from packager.cluster import deploy as deploying
from packager.cluster.delete import Deleted
from packager.cluster.deploy import Deployed
from packager.cluster.logreader import LogStreams, Prefixes
from packager.cluster.logs import Part
from packager.cluster.ownership import DEPLOYED_BY, DEV, key, look_up, refuse_taken
from packager.cluster.shell import BrokenOffError, ContainerShell, ScriptError
from packager.cluster.supervisor import STATE, code_folder, for_dev, mode_of
from packager.cluster.target import Target
from packager.cluster.workload_watch import follow_all
from packager.kubernetes.manifest import Manifest, at, mapping
from packager.kubernetes.objects import (
    Object,
    annotation,
    is_being_deleted,
    is_running,
    main_container,
    name,
    shown,
    uid,
)
from packager.modelspec.load import load
from packager.modelspec.settings import Setting, parse_setting
from packager.package.path_checks import shown as shown_path
from packager.workloads.structures import pods as groups_of

LOOK_SECONDS = 0.2
"""Seconds between two looks at the files."""

ASK_SECONDS = 5.0
"""Seconds between two requests that find out whether the pods still exist."""

STOP_SECONDS = 10
"""Seconds from SIGTERM until a program is killed."""

_AT_ONCE = 8
_SECONDS = 60.0
_MOST_NAMES = 5
_LAST_LINES = 10
_TRIES = 5
_PAUSE = 1.0
_REMOVAL_SECONDS = 300

# What a program has started, and left, is killed too: it may hold the port of the next one.
_PUT = f"""state={STATE} supervised=$1 folder=$2 size=$3
if [ -n "$supervised" ]; then
  rm -f "$state/go"
  if read -r program 2>/dev/null <"$state/program"; then
    : >"$state/stopping"
    kill -TERM "$program" 2>/dev/null
    read -r begun rest </proc/uptime
    while [ -e "$state/program" ]; do
      read -r now rest </proc/uptime
      [ "$((${{now%%.*}} - ${{begun%%.*}}))" -lt {STOP_SECONDS} ] || kill -KILL "-$program" "$program" 2>/dev/null
      sleep 0.05 2>/dev/null || sleep 1
    done
    kill -KILL "-$program" 2>/dev/null
  fi
fi
[ -n "$folder" ] || return 0
cd "$folder" || return 1
rm -rf ./* ./.[!.]* ./..?*
head -c "$size" | tar -xf - -C .
"""
_START = f'[ -z "$1" ] || {{ echo "$2" >{STATE}/code && : >{STATE}/go; }}\n'
_CODE_OF = f'read -r code 2>/dev/null <{STATE}/code && echo "$code"; return 0\n'


@dataclass(frozen=True, slots=True)
class Code:
    """The files of a model's code, by their paths below the folder of the code."""

    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """The digest of the names and contents."""
        parts = (f"{hashlib.sha256(content).hexdigest()} {path}\n" for path, content in sorted(self.files.items()))
        return hashlib.sha256("".join(parts).encode(errors="surrogateescape")).hexdigest()

    def changes(self, earlier: "Code") -> list[str]:
        """Return the paths that are new, changed or no longer exist."""
        paths = sorted({*self.files, *earlier.files})
        return [path for path in paths if self.files.get(path) != earlier.files.get(path)]

    def archive(self, moment: datetime) -> bytes:
        """Return the files as a tar; all have the time `moment`, by which Python finds compiled code to be old."""
        archive = bytearray()
        for path, content in sorted(self.files.items()):
            header = tarfile.TarInfo(path)
            header.size, header.mode, header.mtime = len(content), 0o755, int(moment.timestamp())
            archive += header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
        return bytes(archive + bytes(2 * tarfile.BLOCKSIZE))


class ModelCode:
    """The code of a variant of a model; `variant` are its precision and its mode."""

    def __init__(self, spec: Path, settings: Sequence[Setting], variant: tuple[str | None, str | None]) -> None:
        self._spec, self._settings, self._variant = spec, settings, variant
        self._paths: set[Path] = set()

    def state(self) -> frozenset[tuple[object, ...]]:
        """Return the times, sizes and inodes of the files of the last `read`, and of their folders."""
        entries: set[tuple[object, ...]] = set()
        for path in self._paths:
            try:
                status = path.lstat()
            except OSError as error:
                entries.add((path, error.errno))
            else:
                entries.add((path, status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode))
        return frozenset(entries)

    def read(self) -> Code:
        """Return the code. Raises MlpackError if some of it cannot be used."""
        self._watch([self._spec, *self._paths])
        loaded = load(self._spec, self._settings)
        variants = [(variant.precision, variant.mode) for variant in loaded.spec.variants]
        if self._variant not in variants:
            raise SpecError(f"{self._spec} has no longer the variant that runs")
        files = loaded.sources.code(loaded.spec.code_places(variants.index(self._variant)))
        self._watch([self._spec, *(file.path for file in files)])
        # A valid spec has no more code than is read.
        return Code({file.name: file.content or b"" for file in files})

    def _watch(self, files: Iterable[Path]) -> None:
        """Watch files, and the folders above them up to the model's: a new file changes the time of its folder."""
        files, top = set(files), self._spec.parent
        above = {folder for file in files for folder in file.parents if folder.is_relative_to(top)}
        self._paths = {top, *files, *above}


@dataclass(frozen=True, slots=True)
class DevPod:
    """A running pod whose program can be started again."""

    pod: Object
    folder: str | None  # that the code is copied to; None if it has no code
    is_supervised: bool  # whether its program is started by the script; not where another pod starts it


@dataclass(frozen=True, slots=True)
class PreparedDev:
    """A session that may begin."""

    target: Target  # the overlay with changed pods, and the cluster
    source: Path  # the model, as the user names it
    code: ModelCode
    is_new: bool  # whether nothing is deployed yet

    @property
    def stop_command(self) -> str:
        """The command line that deletes what the session has deployed."""
        return self.target.command("dev", "--stop", source=self.source)


def code_of(spec: Path, target: Target, settings: Sequence[str]) -> ModelCode:
    """Return the code of the variant of a model from which the target's package was built."""
    values = target.package.inventory["spec"]
    return ModelCode(spec, tuple(map(parse_setting, settings)), (values["precision"], values["mode"]))


def prepare(target: Target, source: Path, code: ModelCode) -> PreparedDev:
    """Return the session of a target, after a look at the objects that exist; change nothing."""
    target = replace(target, manifests=for_dev(target.manifests))
    live = look_up(target.kubectl, target.manifests.objects)
    refuse_taken(live, target.identity)
    existing = [live.get(key(item)) for item in target.manifests.workloads]
    prepared = PreparedDev(target, source, code, not any(existing))
    hint = f"this deletes it: {prepared.stop_command}"
    for item, manifest in zip(existing, target.manifests.workloads, strict=True):
        if item is None:
            continue
        if is_being_deleted(item):
            raise ClusterError(f"{shown(item)} is being deleted", hint="run it again when it no longer exists")
        _require_session(target, item)
        if annotation(item, DEV) != annotation(manifest, DEV):
            message = f"{shown(item)} differs from what would be deployed now in more than its code"
            raise ClusterError(message, hint=hint)
    if any(existing) and not all(existing):
        raise ClusterError(f"only a part of {target.shown_all} exists", hint=hint)
    return prepared


def _require_session(target: Target, item: Object, *, is_deletion: bool = False) -> None:
    """Raise ClusterError for a workload that was not deployed by a session of this person."""
    by, nothing = annotation(item, DEPLOYED_BY), "nothing was deleted" if is_deletion else "nothing was changed"
    if not target.identity.owns(item) or annotation(item, DEV) is None:
        if is_deletion:
            message = f"{shown(item)} was not deployed by `mlpack dev`; {nothing}"
            raise ClusterError(message, hint=target.command("delete"))
        message = f"{shown(item)} already exists, and was not deployed by `mlpack dev`"
        raise ClusterError(message, hint=f"delete it first: {target.command('delete')}")
    if by != target.person:
        raise ClusterError(f"{shown(item)} belongs to a session of {shown_path(str(by))}; {nothing}")


def deploy(prepared: PreparedDev) -> Deployed:
    """Apply all objects. Raises the errors of `packager.cluster.deploy.apply`."""
    return deploying.apply(deploying.prepare(prepared.target))


def stop(target: Target) -> Deleted:
    """Delete everything that a session has deployed, except claims, whose data stays."""
    for item in look_up(target.kubectl, target.manifests.workloads).values():
        _require_session(target, item, is_deletion=True)
    return deleting.delete(deleting.prepare(target, keep_results=True), timeout=_REMOVAL_SECONDS)


class DevLoop:
    """One call of `mlpack dev`, from the first pod to Ctrl-C."""

    def __init__(self, prepared: PreparedDev, patience: float) -> None:
        self._prepared = prepared
        self._target = prepared.target
        self._patience = patience
        self._pods: tuple[DevPod, ...] = ()
        self._has_begun = False
        self._code = Code({})
        self._copied = ""

    def parts(self) -> Iterator[Part]:
        """Yield the logs of all pods, and remarks, without end; the code is copied whenever it changes."""
        folder, runner = self._prepared.code, self._target.kubectl.runner
        self._code, state = folder.read(), folder.state()
        asked, failures, prefixes = runner.clock(), 0, Prefixes()
        with LogStreams(self._target.kubectl) as logs:
            while True:
                try:
                    if not self._pods or runner.clock() >= asked + ASK_SECONDS:
                        yield from self._find_pods(logs)
                        asked = runner.clock()
                    if self._copied != self._code.digest:
                        yield from self._copy()
                    failures = 0
                except (BrokenOffError, UnreachableError) as error:
                    failures += 1
                    if failures >= _TRIES:
                        raise (error.reason if isinstance(error, BrokenOffError) else error) from None
                    yield f"{error}; connecting again"
                    self._pods = ()
                    runner.sleep(_PAUSE)
                for part in logs.parts(LOOK_SECONDS):
                    text = part.content
                    if isinstance(text, bytes):
                        text = prefixes.put(name(part.log.pod), text, has_name=len(self._pods) > 1)
                    yield text
                if folder.state() != state:
                    yield from self._read_code()
                    state = folder.state()

    def _read_code(self) -> Iterator[Part]:
        """Read the code, or report why it is not copied."""
        try:
            code = self._prepared.code.read()
        except MlpackError as error:
            yield from map(str, error.problems[:_MOST_NAMES])
            yield f"not copied: {error}"
            return
        if changes := code.changes(self._code):
            listed = ", ".join(map(shown_path, changes[:_MOST_NAMES]))
            yield f"changed: {listed}{' and more' if len(changes) > _MOST_NAMES else ''}"
        self._code = code

    def _copy(self) -> Iterator[Part]:
        """Copy the code into all pods, and start all programs when all of the old ones have ended."""
        runner = self._target.kubectl.runner
        begin = runner.clock()
        archive, digest = self._code.archive(runner.now()), self._code.digest

        def put(pod: DevPod) -> bytes:
            content = archive if pod.folder else b""
            words = ("yes" if pod.is_supervised else "", pod.folder or "", str(len(content)))
            return self._ask(pod, _PUT, *words, given=content)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(put, self._pods))
            list(pool.map(lambda pod: self._ask(pod, _START, "yes" if pod.is_supervised else "", digest), self._pods))
        self._copied = digest
        count = f"{len(self._pods)} pod{'' if len(self._pods) == 1 else 's'}"
        yield f"copied to {count}, and started in {runner.clock() - begin:.1f} s"

    def _ask(self, pod: DevPod, script: str, *words: str, given: bytes = b"") -> bytes:
        pod_name, container = name(pod.pod), main_container(pod.pod)
        shell = ContainerShell(self._target.kubectl, pod_name, container, _SECONDS, lambda _text: None)
        try:
            return shell.ask(script, *words, given=[given] if given else ())
        except ScriptError as error:
            raise ClusterError(f"pod/{pod_name}: its code cannot be replaced: {error}") from None

    def _find_pods(self, logs: LogStreams) -> Iterator[Part]:
        """Find the running pods, wait for all of them, and follow their logs."""
        pods = self._running()
        if pods is None:
            yield f"waiting for the pods of {self._target.shown_all}"
            pods = yield from self._awaited()
        last = _LAST_LINES if not self._has_begun and not self._prepared.is_new else None
        for pod in pods:
            logs.follow(pod.pod, None, last)
        if {uid(pod.pod) for pod in pods} != {uid(pod.pod) for pod in self._pods}:
            codes = {self._ask(pod, _CODE_OF).decode().strip() for pod in pods if pod.is_supervised}
            self._copied = codes.pop() if len(codes) == 1 else ""
        self._pods, self._has_begun = pods, True

    def _running(self) -> tuple[DevPod, ...] | None:
        """Return all pods of the workloads if all of them run; else None."""
        pods: list[DevPod] = []
        for one in self._target.per_workload:
            snapshot = one.observe(events=False)
            if snapshot is None or annotation(snapshot.workload, DEV) is None:
                raise ClusterError(f"{one.shown} no longer exists", hint="run it again to deploy it")
            kind = one.manifests.kind
            if verdict := kind.ending(snapshot):
                hint = f"this deletes it: {self._prepared.stop_command}"
                raise ClusterError(f"{one.shown} has ended: {verdict.summary}", hint=hint)
            missing = sum(group.count for group in groups_of(Manifest(one.manifests.workload)))
            for pod in kind.listed(snapshot.pods):
                container = mapping(at(pod, ("spec", "containers", 0)))
                folder, is_supervised = code_folder(container), mode_of(container)[:1] == ("dev",)
                if is_running(pod) and not is_being_deleted(pod) and (folder or is_supervised):
                    pods.append(DevPod(pod, folder, is_supervised))
                    missing -= 1
            if missing > 0:
                return None
        return tuple(pods)

    def _awaited(self) -> Generator[Part, None, tuple[DevPod, ...]]:
        """Wait until all pods run, and return them; yield how the workloads are when that changes."""
        summary = ""
        while True:
            for update in follow_all(self._target, patience=self._patience):
                if (pods := self._running()) is not None:
                    return pods
                if update.verdict.summary != summary:
                    summary = update.verdict.summary
                    yield summary
                if update.is_last:
                    hint = self._target.command("status")
                    raise ClusterError(f"{self._target.shown_all} cannot run: {summary}", hint=hint)
