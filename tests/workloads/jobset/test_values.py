"""The keys of a JobSet in a spec, and the environment of its pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import SpecError
from packager.modelspec.load import load
from packager.workloads.program import Run
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.workloads.jobset.values import JobSet
    from tests.conftest import Outcome

HOST = "$(JOBSET_NAME)-{}-0-0.$(JOBSET_NAME)"
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
MEETING = ("/etc/mlpack/runtime/meet.sh", "followers")
NAME = ("JOBSET_NAME", "metadata.labels['jobset.sigs.k8s.io/jobset-name']")
DMLC = "scheduler: {}, server: {replicas: 2}, worker: {replicas: 3}"


def loaded(folder: Path, values: str) -> JobSet:
    spec = demo.changed(
        f"{{kind: MPIJob}} => {{kind: JobSet, {values}}}", "files: [train.sh] => files: [train.sh, train.py]"
    )
    path = demo.write(folder, spec, {"train.py": "#!/usr/bin/env python3\n"})
    overlay = load(path).spec.overlays["multi-node"]
    assert overlay.kind == "JobSet"
    return overlay  # type: ignore[return-value]


def environment(overlay: JobSet, role: str) -> dict[str, str]:
    return {variable.name: variable.value for variable in overlay.environment_of(role, Run(("train.py",)))}


def test_torch_nodes_get_address_of_the_first(tmp_path: Path) -> None:
    overlay = loaded(tmp_path, "rendezvous: torch, roles: {node: {replicas: 4}}")
    assert environment(overlay, "node") == {
        **dict([NAME]),
        "PET_NNODES": "4",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": INDEX,
        "PET_MASTER_ADDR": HOST.format("node"),
        "PET_MASTER_PORT": "29500",
        "PET_MONITOR_INTERVAL": "1",
    }
    assert (overlay.successful, overlay.options_of("node")) == (("node",), None)


@pytest.mark.parametrize(
    ("values", "number"),
    [
        ("processes_per_node: auto", "auto"),
        ("processes_per_node: 4, resources: {limits: {nvidia.com/gpu: 8}}", "4"),
        ("processes_per_node: per-gpu", "1"),
        ("processes_per_node: per-gpu, resources: {limits: {nvidia.com/gpu: 8}}", "8"),
    ],
)
def test_variable_of_torchrun_agrees_with_processes_per_node(tmp_path: Path, values: str, number: str) -> None:
    overlay = loaded(tmp_path, f"rendezvous: torch, roles: {{node: {{}}}}, {values}")
    assert environment(overlay, "node")["PET_NPROC_PER_NODE"] == number


@pytest.mark.parametrize(
    ("values", "script", "command"),
    [
        ("", "train.py", ["torchrun", "train.py"]),
        ("", "train.sh", ["torchrun", "--no_python", "train.sh"]),
    ],
)
def test_torchrun_starts_the_script(tmp_path: Path, values: str, script: str, command: list[str]) -> None:
    overlay = loaded(tmp_path, f"rendezvous: torch, roles: {{node: {{}}}}, {values}")
    *start, program = command
    assert overlay.program_of("node", Run((script,))).command == (
        *MEETING,
        *start,
        f"$(MODEL_DIR)/quickstart/scripts/{program}",
    )


def test_dmlc_roles_get_address_of_the_scheduler(tmp_path: Path) -> None:
    overlay = loaded(tmp_path, f"rendezvous: dmlc, port: 9000, roles: {{{DMLC}}}")
    common = {
        **dict([NAME]),
        "DMLC_PS_ROOT_URI": HOST.format("scheduler"),
        "DMLC_PS_ROOT_PORT": "9000",
        "DMLC_NUM_SERVER": "2",
        "DMLC_NUM_WORKER": "3",
        "DMLC_USE_KUBERNETES": "1",
    }
    address = {"DMLC_NODE_HOST": "status.podIP"}
    assert environment(overlay, "scheduler") == {**common, "DMLC_ROLE": "scheduler"}
    assert environment(overlay, "server") == {**common, "DMLC_ROLE": "server", **address}
    assert environment(overlay, "worker") == {**common, "DMLC_ROLE": "worker", **address, "DMLC_WORKER_ID": INDEX}
    assert [overlay.options_of(role) for role in overlay.roles] == ["none", "storage", None]
    assert overlay.successful == ("worker",)


def test_gpu_key_decides_options_of_a_role(tmp_path: Path) -> None:
    roles = "scheduler: {gpu: true}, server: {gpu: true}, worker: {gpu: false}"
    overlay = loaded(tmp_path, f"rendezvous: dmlc, roles: {{{roles}}}")
    assert [overlay.options_of(role) for role in overlay.roles] == [None, None, "storage"]


@pytest.mark.parametrize(
    ("rendezvous", "role", "variables"),
    [
        (
            "xgboost",
            "worker",
            {
                "DMLC_TRACKER_URI": HOST.format("worker"),
                "DMLC_TRACKER_PORT": "9091",
                "DMLC_NUM_WORKER": "2",
                "DMLC_TASK_ID": INDEX,
            },
        ),
        ("none", "any", {}),
    ],
)
def test_other_rendezvous_set_expected_variables(
    tmp_path: Path, rendezvous: str, role: str, variables: dict[str, str]
) -> None:
    overlay = loaded(tmp_path, f"rendezvous: {rendezvous}, success: [{role}], roles: {{{role}: {{replicas: 2}}}}")
    assert environment(overlay, role) == {**dict([NAME]), **variables}


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        (
            "rendezvous: torch",
            [
                (
                    "8:15: the key 'roles' is missing (the pods, by what they do: `node` for torch and jax, "
                    "`scheduler`, `server` and `worker` for dmlc, `worker` for xgboost, any for none; "
                    "`chief`, `worker`, `ps`, `evaluator` for tensorflow)"
                )
            ],
        ),
        (
            "rendezvous: torch, roles: {nodes: {}}",
            [
                "8:49: the role 'node' is missing: rendezvous torch needs node",
                "8:57: unknown role 'nodes': rendezvous torch has node (did you mean 'node'?)",
            ],
        ),
        (
            "rendezvous: dmlc, roles: {scheduler: {replicas: 2}, worker: {}}",
            [
                "8:48: the role 'server' is missing: rendezvous dmlc needs scheduler, server and worker",
                "8:78: expected 1, found 2",
            ],
        ),
        (
            "rendezvous: none, roles: {a: {}, b: {}}",
            ["8:15: the key 'success' is missing: rendezvous none has no roles of its own (the roles are: a, b)"],
        ),
        (
            "rendezvous: none, roles: {train: {}}, success: [trian, train, train]",
            ["8:78: role 'trian' not found (did you mean 'train'?)"],
        ),
        (
            "rendezvous: none, roles: {a: {}}, success: [a], port: 80, processes_per_node: 2",
            [
                "8:78: rendezvous none uses no port (remove it: a program that listens chooses its port itself)",
                "8:88: torchrun starts processes, and the rendezvous is none (remove it)",
            ],
        ),
        (
            "rendezvous: torch, roles: {node: {}}, permanent_exit_codes: [1-127, 9-3]",
            [
                "8:68: without `retries`, the set has failed after any exit code (set retries, or remove it)",
                "8:98: expected a range of exit codes, the lower one first, such as 1-127 (at most 255)",
            ],
        ),
        (
            "rendezvous: torch, roles: {node: {}}, resources: {limits: {nvidia.com/gpu: 1.0, cpu: 1.0}}",
            [
                (
                    "8:105: expected a whole number from 1, found '1.0': each GPU gets a process "
                    "(write it as 1, 2, …, or set `processes_per_node`)"
                )
            ],
        ),
        (
            "rendezvous: torch, roles: {node: {script: absent.py, resources: {limits: {memory: 1x}}}}",
            [
                "8:72: 'absent.py' is not one of `files` (add it to `files`)",
                "8:112: expected a Kubernetes quantity such as 500m or 4Gi, found '1x'",
            ],
        ),
    ],
)
def test_conflicting_keys_are_refused(tmp_path: Path, values: str, problems: list[str]) -> None:
    with pytest.raises(SpecError) as error:
        loaded(tmp_path, values)
    assert [str(problem).partition("spec.yaml:")[2] for problem in error.value.problems] == problems


@pytest.mark.parametrize(
    ("codes", "permanent"),
    [
        ("3", (3,)),
        ("1-127", tuple(range(1, 128))),
        ("[64, 2-4, 3, 1, 4-5]", (1, 2, 3, 4, 5, 64)),
    ],
)
def test_exit_codes_are_sorted_and_unique(tmp_path: Path, codes: str, permanent: tuple[int, ...]) -> None:
    overlay = loaded(tmp_path, f"rendezvous: torch, roles: {{node: {{}}}}, retries: 1, permanent_exit_codes: {codes}")
    assert overlay.permanent == permanent


@pytest.mark.parametrize("codes", ["a-b", "5", "1-256", "01-9", "1-9\\n"])
def test_exit_codes_in_another_form_are_refused(tmp_path: Path, codes: str) -> None:
    """The range is the only problem of the overlay."""
    for values in (f'"{codes}"', f'[3, "{codes}"]'):
        with pytest.raises(SpecError) as error:
            loaded(tmp_path, f"rendezvous: torch, roles: {{node: {{}}}}, retries: 1, permanent_exit_codes: {values}")
        [problem] = error.value.problems
        expected = "expected a range of exit codes, the lower one first, such as 1-127 (at most 255)"
        assert (problem.message, problem.line) == (expected, 8)


def test_names_of_pods_above_63_characters_are_refused(tmp_path: Path) -> None:
    name = "demo-fp32-training-multi-node"
    roles = "r" * (63 - len(f"{name}--0-99-abcde"))
    assert loaded(tmp_path / "a", f"rendezvous: none, success: [{roles}], roles: {{{roles}: {{replicas: 100}}}}")
    with pytest.raises(SpecError) as error:
        loaded(tmp_path / "b", f"rendezvous: none, success: [{roles}], roles: {{{roles}: {{replicas: 101}}}}")
    longest = f"{name}-{roles}-0-100-abcde"
    assert [problem.message for problem in error.value.problems] == [
        f"the overlay 'multi-node' makes the name {longest!r}: 64 characters, the limit is 63"
    ]


def test_role_without_program_needs_script_of_the_variant(tmp_path: Path) -> None:
    spec = demo.changed(
        ", script: train.sh => , overlays: [multi-node]",
        "{kind: MPIJob} => {kind: JobSet, rendezvous: none, success: [a], roles: {a: {script: train.sh}, b: {}}}",
    )
    assert demo.problems(demo.write(tmp_path, spec)) == [
        (
            "spec.yaml:10:5: the key 'script' is missing, and the overlay 'multi-node' has no `command` and no `args` "
            "(to run the image's own entrypoint with `files` beside it, give the overlay `command: []`)"
        )
    ]


@pytest.mark.parametrize(
    "overlay",
    [
        (
            "{kind: JobSet, rendezvous: none, success: [a], roles: {a: {}, b: {args: ['$(JOBSET_NAME)']}}, "
            "command: [ring, '$(JOBSET_NAME)-a-0-0.$(JOBSET_NAME)', '$(JOB_COMPLETION_INDEX)']}"
        ),
    ],
)
def test_arguments_may_use_variables_of_the_pods(overlay: str, tmp_path: Path, mlpack: Callable[..., Outcome]) -> None:
    """The arguments that `lint` accepts must pass `verify`, which only sees the rendered manifest."""
    spec = demo.changed(", script: train.sh => , overlays: [multi-node]", f"{{kind: MPIJob}} => {overlay}")
    model = demo.write(tmp_path / "demo", spec)
    built = mlpack("build", model.parent, "--destination", tmp_path)
    assert (built.code, built.stdout) == (0, f"{tmp_path}/demo-fp32-training.tar.gz\n")
    verified = mlpack("verify", tmp_path / "demo-fp32-training.tar.gz")
    assert (verified.code, verified.stdout) == (0, "")


@pytest.mark.parametrize(
    ("rendezvous", "role", "key", "reason"),
    [
        ("torch", "node", "PET_NNODES", "torchrun takes it for one of its own options, which the package gives"),
        ("torch", "node", "RANK", "torchrun sets it for each process"),
        ("xgboost", "worker", "DMLC_TASK_ID", "the package sets such names, from the overlay's roles"),
        ("none", "any", "JOB_COMPLETION_INDEX", "Kubernetes sets it, to the pod's index"),
    ],
)
def test_rendezvous_variables_cannot_be_set(tmp_path: Path, rendezvous: str, role: str, key: str, reason: str) -> None:
    values = f"rendezvous: {rendezvous}, success: [{role}], roles: {{{role}: {{environment: {{{key}: 1}}}}}}"
    with pytest.raises(SpecError) as error:
        loaded(tmp_path, values)
    assert [(problem.message, problem.hint) for problem in error.value.problems] == [
        (f"{key} cannot be set for this role", reason)
    ]


def test_tensorflow_gets_the_hosts_of_all_roles_except_evaluator(tmp_path: Path) -> None:
    roles = "{chief: {}, worker: {replicas: 2}, evaluator: {}}"
    overlay = loaded(tmp_path, f"rendezvous: tensorflow, success: [chief], roles: {roles}")
    variables = environment(overlay, "worker")
    assert list(variables)[:2] == ["JOBSET_NAME", "TF_TASK_INDEX"]  # what Kubernetes replaces in the next one
    config = json.loads(variables["TF_CONFIG"].replace("$(TF_TASK_INDEX)", "1"))
    host = "$(JOBSET_NAME)-{}-0-{}.$(JOBSET_NAME):2222"
    hosts = {"chief": [host.format("chief", 0)], "worker": [host.format("worker", index) for index in range(2)]}
    assert config == {"cluster": hosts, "task": {"type": "worker", "index": 1}, "environment": "cloud"}
    assert overlay.count_key("worker") is None
    run = Run(("train.py",))
    assert [overlay.program_of(role, run).command[1] for role in overlay.roles] == ["all", "all", "none"]
