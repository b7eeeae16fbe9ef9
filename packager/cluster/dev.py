"""Runs a package while its code is changed: deploys it once, then copies the code and starts its programs again.

`packager.cluster.supervisor` changes its pods for that. Each change is copied into all pods, by a command in each, and
the programs start when all of the old ones have ended.
"""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from packager.base.errors import ClusterError, MlpackError, UnreachableError, UsageError, VerificationError
from packager.cluster import delete as deleting
from packager.cluster import deploy as deploying
from packager.cluster.delete import Deleted
from packager.cluster.deploy import Deployed
from packager.cluster.devcode import Code, CodeFolder, ModelCode, PackageCode
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
from packager.kubernetes.podsecurity import Level
from packager.modelspec.settings import parse_setting
from packager.package import layout
from packager.package.path_checks import shown as shown_path
from packager.workloads.structures import pods as groups_of

LOOK_SECONDS = 0.2
"""Seconds between two looks at the files."""

ASK_SECONDS = 5.0
"""Seconds between two requests that find out whether the pods still exist."""

MOST_PODS = 64
"""The largest number of pods of a session: a kubectl is started for each change in each."""

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
class DevPod:
    """A running pod whose program can be started again."""

    pod: Object
    folder: str | None  # that the code is copied to; None if it has no code
    is_supervised: bool  # whether its program is started by the script; not where another pod starts it


@dataclass(frozen=True, slots=True)
class PreparedDev:
    """A session that may begin."""

    target: Target  # the overlay with changed pods, and the cluster
    source: Path  # the model or the package, as the user names it
    code: CodeFolder
    is_new: bool  # whether nothing is deployed yet

    @property
    def stop_command(self) -> str:
        """The command line that deletes what the session has deployed."""
        return self.target.command("dev", "--stop", source=self.source)


def code_of(source: Path, spec: Path | None, target: Target, settings: Sequence[str]) -> CodeFolder:
    """Return the folder of the code.

    `spec` is the spec file of a model, which `settings` change; None for a package.
    """
    if spec is not None:
        values = target.package.inventory["spec"]
        return ModelCode(spec, tuple(map(parse_setting, settings)), (values["precision"], values["mode"]))
    if overlay := target.package.outside:
        message = f"{source} is an overlay outside of its package, and has no code"
        raise UsageError(message, hint=f"name the package: {overlay.package}")
    if target.package.folder != target.package.source:
        raise UsageError(f"{source} is an archive, and its code cannot change", hint="name a model, or a folder")
    return PackageCode(target.package.folder)


def check(target: Target, allowed: frozenset[str], level: Level | None) -> None:
    """Check that the overlay may be applied, as `deploy` does; the code of a package's folder may have changed."""
    try:
        deploying.check(target, allowed, level)
    except VerificationError as error:
        code = target.package.shown(layout.SCRIPTS)
        kustomizations = {f"{code}/{name}" for name in layout.KUSTOMIZATIONS}
        error.problems = tuple(
            one for one in error.problems if not one.file.startswith(f"{code}/") or one.file in kustomizations
        )
        if error.problems or target.package.folder != target.package.source:
            raise


def prepare(target: Target, source: Path, code: CodeFolder) -> PreparedDev:
    """Return the session of a target, after a look at the objects that exist; change nothing."""
    target = replace(target, manifests=for_dev(target.manifests))
    count = sum(group.count for item in target.manifests.workloads for group in groups_of(Manifest(item)))
    if count > MOST_PODS:
        raise UsageError(f"{target.shown} has {count:,} pods: expected at most {MOST_PODS}")
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


def counted(pods: Sequence[object]) -> str:
    """Return the number of pods in words."""
    return f"{len(pods)} pod{'' if len(pods) == 1 else 's'}"


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
            more = len(changes) - _MOST_NAMES
            listed = ", ".join(map(shown_path, changes[:_MOST_NAMES]))
            yield f"changed: {listed}{f' and {more} more' if more > 0 else ''}"
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
        yield f"copied to {counted(self._pods)}, and started in {runner.clock() - begin:.1f} s"

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
        skipped = [pod for pod in pods if not logs.follow(pod.pod, None, last)]
        if skipped and not self._has_begun:
            yield f"the logs of {counted(skipped)} are not shown: too many at the same time"
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
