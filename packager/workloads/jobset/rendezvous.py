"""Defines the variables by which the pods of a JobSet find each other, for each way to do so.

torch: torchrun reads PET_<FLAG> for each of its flags (torch/distributed/argparse_util.py); the names are those that
Kubeflow's trainer sets (kubeflow/trainer, pkg/constants/constants.go). The rendezvous is static: with `c10d` each agent
has to find out by its host's name whether it is the endpoint, which goes wrong in pods (pytorch/pytorch#73656). Where
the option elastic is on it is `c10d`, and a script says which node is the endpoint (templates/…/base/torchrun.sh).
A program that torchrun does not start finds the variables that torchrun would set for one process on each node.
torchrun of PyTorch 1 looks only every five seconds whether a process has failed: until then, the Job may have stopped
the node that failed first, because of another one that lost its connection to it.

dmlc: what ps-lite reads (dmlc/ps-lite, src/postoffice.cc and src/van.cc). DMLC_USE_KUBERNETES lets the scheduler, which
is given a name, listen on all addresses; without DMLC_NODE_HOST the others take the first interface that they find.

jax: what jax.distributed.initialize() takes. JAX 0.12 itself reads only the address (jax/_src/distributed.py); programs
pass the others on. xgboost: what its tracker's clients take.

tensorflow: TF_CONFIG of tf.distribute, with the hosts of all roles but the evaluator. training-operator 1.9.4 lists the
evaluator as well, although TensorFlow does not count it as a part of the cluster that trains.

Tests: workloads/jobset/test_values.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packager.base.values import Value
from packager.workloads.program import INDEX_ANNOTATION, INDEX_VARIABLE, PROCESSES, reserved_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

NAME = "JOBSET_NAME"
"""The variable in the other names: the name of the JobSet in the cluster, with any prefix that was added."""

NODES = "PET_NNODES"
"""The variable with the number of nodes that torchrun connects."""

_NAME_FIELD = "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
_INDEX_FIELD = f"metadata.annotations['{INDEX_ANNOTATION}']"
_ADDRESS_FIELD = "status.podIP"


class PodVariable(Value, frozen=True):
    """A variable of the environment."""

    name: str  # the name of the variable
    # the value, in which `{role}` is the role, `{port}` the port, and a role's name in braces the number of its pods;
    # a field of the pod where `is_field`
    value: str
    roles: tuple[str, ...] = ()  # the roles that have the variable; empty for all
    is_field: bool = False  # whether the value is a field of the pod


class Rendezvous(Value, frozen=True):
    """One way in which pods find each other."""

    roles: tuple[str, ...] = ()  # the only roles that it has, all of which it needs; empty for any roles
    # the port of the first pod of `leader`, unless the spec sets another; None if pods agree on none
    port: int | None = None
    leader: str | None = None  # the role whose first pod has the address that the others connect to
    single: bool = False  # whether the leader's role has one pod only
    computes: tuple[str, ...] = ()  # the roles that get what options give to pods that compute; empty for all
    stores: tuple[str, ...] = ()  # the other roles that get what options say of storage
    # the roles whose success is the success of the set; empty if the spec has to name them
    success: tuple[str, ...] = ()
    variables: tuple[PodVariable, ...] = ()  # the variables in the environment of the pods
    plain: tuple[PodVariable, ...] = ()  # the same, of a program that no launcher starts
    meets: str = "followers"  # the pods that have to connect to another one: `all`, or all but the first of each role
    setters: tuple[str, ...] = ("index",)  # what sets variables that no environment may set; see `reserved_by`

    def environment(
        self, role: str, port: int | None, counts: Mapping[str, int], *, is_plain: bool
    ) -> Iterator[PodVariable]:
        """Yield the variables of a role's pods, with their values; `is_plain` if no launcher starts the program."""
        yield PodVariable(NAME, _NAME_FIELD, is_field=True)
        values = {**counts, "tf_config": _tf_config(role, port, counts)}
        for variable in (*self.variables, *(self.plain if is_plain else ())):
            if not variable.roles or role in variable.roles:
                value = variable.value if variable.is_field else variable.value.format(role=role, port=port, **values)
                yield PodVariable(variable.name, value, is_field=variable.is_field)

    def meets_of(self, role: str) -> str:
        """Return the pods of a role that have to connect to another one: `all`, `followers` or `none`."""
        return "none" if role == "evaluator" else self.meets

    def names(self, role: str, *, is_plain: bool) -> Iterator[str]:
        """Yield the names of the variables that `environment` yields, and of those that Kubernetes adds."""
        yield from (NAME, INDEX_VARIABLE)
        yield from (variable.name for variable in (self.plain if is_plain else ()))
        yield from (variable.name for variable in self.variables if not variable.roles or role in variable.roles)

    def refused(self, key: str) -> str | None:
        """Return why no environment may set the variable `key`; None when it may."""
        if key == NAME:
            return "the overlay sets it, to the JobSet's name"
        return reserved_by(key, *self.setters)


def _index(name: str, *roles: str) -> PodVariable:
    return PodVariable(name, _INDEX_FIELD, roles, is_field=True)


def _host(role: str) -> str:
    """Return the name of a role's first pod: <jobset>-<role>-<job>-<pod>.<service>, which JobSet makes."""
    return f"$({NAME})-{role}-0-0.$({NAME})"


def _tf_config(role: str, port: int | None, counts: Mapping[str, int]) -> str:
    """Return TF_CONFIG of a role's pods; Kubernetes replaces the index, which is a variable above it."""
    cluster = {
        name: [f"$({NAME})-{name}-0-{index}.$({NAME}):{port}" for index in range(count)]
        for name, count in counts.items()
        if name != "evaluator"
    }
    task = f'{{"type":"{role}","index":$(TF_TASK_INDEX)}}'
    return f'{{"cluster":{json.dumps(cluster, separators=(",", ":"))},"task":{task},"environment":"cloud"}}'


RENDEZVOUS: dict[str, Rendezvous] = {
    "none": Rendezvous(),
    "torch": Rendezvous(
        roles=("node",),
        port=29500,
        leader="node",
        computes=("node",),
        success=("node",),
        variables=(
            PodVariable(NODES, "{node}"),
            PodVariable(PROCESSES, "1"),
            _index("PET_NODE_RANK"),
            PodVariable("PET_MASTER_ADDR", _host("node")),
            PodVariable("PET_MASTER_PORT", "{port}"),
            PodVariable("PET_MONITOR_INTERVAL", "1"),
        ),
        plain=(
            PodVariable("MASTER_ADDR", _host("node")),
            PodVariable("MASTER_PORT", "{port}"),
            _index("RANK"),
            PodVariable("WORLD_SIZE", "{node}"),
            PodVariable("LOCAL_RANK", "0"),
            PodVariable("LOCAL_WORLD_SIZE", "1"),
            _index("NODE_RANK"),
        ),
        setters=("index", "torchrun"),
    ),
    "dmlc": Rendezvous(
        roles=("scheduler", "server", "worker"),
        port=9091,
        leader="scheduler",
        single=True,
        computes=("worker",),
        stores=("server",),
        success=("worker",),
        variables=(
            PodVariable("DMLC_ROLE", "{role}"),
            PodVariable("DMLC_PS_ROOT_URI", _host("scheduler")),
            PodVariable("DMLC_PS_ROOT_PORT", "{port}"),
            PodVariable("DMLC_NUM_SERVER", "{server}"),
            PodVariable("DMLC_NUM_WORKER", "{worker}"),
            PodVariable("DMLC_USE_KUBERNETES", "1"),
            PodVariable("DMLC_NODE_HOST", _ADDRESS_FIELD, ("server", "worker"), is_field=True),
            _index("DMLC_WORKER_ID", "worker"),
        ),
        meets="all",
        setters=("index", "dmlc"),
    ),
    "jax": Rendezvous(
        roles=("node",),
        port=8476,
        leader="node",
        computes=("node",),
        success=("node",),
        variables=(
            PodVariable("JAX_COORDINATOR_ADDRESS", f"{_host('node')}:{{port}}"),
            PodVariable("JAX_NUM_PROCESSES", "{node}"),
            _index("JAX_PROCESS_ID"),
        ),
        setters=("index", "jax"),
    ),
    "tensorflow": Rendezvous(
        port=2222,
        variables=(_index("TF_TASK_INDEX"), PodVariable("TF_CONFIG", "{tf_config}")),
        meets="all",
        setters=("index", "tensorflow"),
    ),
    "xgboost": Rendezvous(
        roles=("worker",),
        port=9091,
        leader="worker",
        computes=("worker",),
        success=("worker",),
        variables=(
            PodVariable("DMLC_TRACKER_URI", _host("worker")),
            PodVariable("DMLC_TRACKER_PORT", "{port}"),
            PodVariable("DMLC_NUM_WORKER", "{worker}"),
            _index("DMLC_TASK_ID"),
        ),
        setters=("index", "dmlc"),
    ),
}


def named(keys: Collection[str]) -> Rendezvous:
    """Return the way by which pods find each other that have variables of these names."""
    ways = [way for way in RENDEZVOUS.values() if way.variables and way.variables[0].name in keys]
    return ways[0] if ways else RENDEZVOUS["none"]
