"""The manifest of a JobSet: as built, and the findings of `verify` in an edited one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.load import load
from packager.verify import names
from packager.verify.objects import check_kinds
from packager.workloads.structures import pods
from tests import demo, written

if TYPE_CHECKING:
    from pathlib import Path

JOB = "{name: NAME, template: {spec: {parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never}}}}}"
SCHEDULER, WORKER = JOB.replace("NAME", "scheduler").replace("2", "1"), JOB.replace("NAME", "worker")
JOB_SET = f"""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: a}}
spec:
  successPolicy: {{operator: All, targetReplicatedJobs: [worker]}}
  replicatedJobs:
    - {SCHEDULER}
    - {WORKER}
"""


DISRUPTION = {
    "name": "disruption",
    "action": "RestartJobSetAndIgnoreMaxRestarts",
    "onJobFailureReasons": ["PodFailurePolicy"],
    "onJobFailureMessagePatterns": ["has condition DisruptionTarget matching FailJob rule"],
}
DRAINED = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def built(folder: Path, values: str) -> dict[str, Any]:
    """Return the manifest that is written for the demo as a JobSet."""
    loaded = load(demo.write(folder, demo.changed(f"{{kind: MPIJob}} => {{kind: JobSet, {values}}}")))
    entries = {entry.path: entry.content for entry in render(plan(loaded, loaded.spec.variants[0], Options())).entries}
    content = entries["quickstart/k8s/mlops/multi-node/jobset.yaml"]
    assert isinstance(content, bytes)
    return dict(yaml.safe_load(content))


def test_jobset_has_limits_of_the_spec(tmp_path: Path) -> None:
    spec = built(tmp_path, "rendezvous: torch, roles: {node: {}}, retries: 2, deadline: 600, ttl: 60")["spec"]
    assert spec["failurePolicy"] == {
        "maxRestarts": 2,
        "restartStrategy": "BlockingRecreate",
        "rules": [DISRUPTION],
    }
    assert spec["ttlSecondsAfterFinished"] == 60
    assert spec["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] == 600


def test_permanent_exit_codes_become_failure_policies(tmp_path: Path) -> None:
    values = "rendezvous: dmlc, roles: {scheduler: {}, server: {}, worker: {}}, retries: 2, permanent_exit_codes: 1-127"
    manifest = built(tmp_path, values)
    assert manifest["spec"]["failurePolicy"]["rules"] == [
        DISRUPTION,
        {"name": "permanentExitCodes", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
    ]
    for job in manifest["spec"]["replicatedJobs"]:
        codes = {"containerName": job["name"], "operator": "In", "values": list(range(1, 128))}
        rules = [DRAINED, {"action": "FailJob", "onExitCodes": codes}]
        assert job["template"]["spec"]["podFailurePolicy"] == {"rules": rules}
    assert list(check_kinds(written.overlay(yaml.safe_dump(manifest)))) == []
    worker = manifest["spec"]["replicatedJobs"][2]["template"]["spec"]
    worker["podFailurePolicy"]["rules"][1]["onExitCodes"]["containerName"] = "wroker"
    [problem] = check_kinds(written.overlay(yaml.safe_dump(manifest)))
    assert problem.message.partition(".podFailurePolicy.")[2] == (
        "rules[1].onExitCodes.containerName: container 'wroker' not found"
    )
    assert problem.hint == "did you mean 'worker'?"


def test_pods_of_each_role_have_count_and_purpose(tmp_path: Path) -> None:
    manifest = built(tmp_path, "rendezvous: dmlc, roles: {scheduler: {}, server: {replicas: 2}, worker: {replicas: 3}}")
    groups = pods(written.overlay(yaml.safe_dump(manifest)).manifests[0])
    assert [(one.role, one.count, one.computes, one.stores, one.main) for one in groups] == [
        ("scheduler", 1, False, False, False),
        ("server", 2, False, True, False),
        ("worker", 3, True, True, True),
    ]
    assert groups[2].labels == (("jobset.sigs.k8s.io/replicatedjob-name", "worker"),)
    assert groups[2].workload_label == "jobset.sigs.k8s.io/jobset-name"


def test_built_jobset_has_no_problems(tmp_path: Path) -> None:
    manifest = built(tmp_path, "rendezvous: dmlc, roles: {scheduler: {}, server: {replicas: 2}, worker: {replicas: 3}}")
    assert list(check_kinds(written.overlay(yaml.safe_dump(manifest)))) == []
    assert list(check_kinds(written.overlay(JOB_SET))) == []


WRONG = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: a}
spec:
  successPolicy: {operator: all, targetReplicatedJobs: [wroker]}
  coordinator: {replicatedJob: wroker}
  failurePolicy:
    rules:
      - {name: a, action: FailJobSett}
      - {name: b, onJobFailureReasons: [PodFailurePolicy, Evicted]}
      - {name: c, targetReplicatedJobs: [wroker]}
      - {name: a}
      - {name: a-b}
  replicatedJobs:
    - name: scheduler
      dependsOn: [{name: worker, status: Ready}]
      template: {spec: {parallelism: 2, completions: 1, template: {spec: {restartPolicy: OnFailure}}}}
    - name: worker
      dependsOn: [{name: scheduler, status: ready}, {name: worker, status: Ready}]
      template: {spec: {parallelism: 2, template: {spec: {}}}}
    - name: scheduler
      replicas: 2000000000
      template:
        spec: {parallelism: 2, completions: 2, completionMode: NonIndexed, template: {spec: {restartPolicy: Never}}}
"""


def test_verify_reports_errors_of_a_jobset() -> None:
    problems = [str(problem) for problem in check_kinds(written.overlay(WRONG))]
    found = {problem.removeprefix("file.yaml:").replace("JobSet a: ", "") for problem in problems}
    assert found == {
        "5:29: spec.successPolicy.operator: expected All or Any, found 'all' (did you mean 'All'?)",
        "5:57: spec.successPolicy.targetReplicatedJobs[0]: role 'wroker' not found (did you mean 'worker'?)",
        (
            "9:27: spec.failurePolicy.rules[0].action: expected FailJobSet, RestartJobSet or "
            "RestartJobSetAndIgnoreMaxRestarts, found 'FailJobSett' (did you mean 'FailJobSet'?)"
        ),
        (
            "10:59: spec.failurePolicy.rules[1].onJobFailureReasons[1]: expected BackoffLimitExceeded, "
            "DeadlineExceeded, FailedIndexes, MaxFailedIndexesExceeded or PodFailurePolicy, found 'Evicted'"
        ),
        "11:42: spec.failurePolicy.rules[2].targetReplicatedJobs[0]: role 'wroker' not found (did you mean 'worker'?)",
        "12:16: spec.failurePolicy.rules[3].name: duplicate rule 'a' (rename it)",
        (
            "13:16: spec.failurePolicy.rules[4].name: expected at most 128 letters, digits and _ , : that "
            "start with a letter and end with none of , :, found 'a-b'"
        ),
        (
            "19:45: spec.replicatedJobs[1].dependsOn[0].status: expected Ready or Complete, found 'ready' "
            "(did you mean 'Ready'?)"
        ),
        (
            "17:54: spec.replicatedJobs[0].template.spec.completions: expected as many as parallelism, 2, "
            "found 1 (all pods of a role run at once, and each once)"
        ),
        (
            "17:90: spec.replicatedJobs[0].template.spec.template.spec.restartPolicy: expected Never, found "
            "'OnFailure' (else a pod that has failed is deleted, and its log with it)"
        ),
        (
            "16:26: spec.replicatedJobs[0].dependsOn[0].name: 'worker' is not an earlier role (the first role "
            "depends on nothing)"
        ),
        (
            "20:24: spec.replicatedJobs[1].template.spec: expected as many as parallelism, 2, found nothing "
            "(all pods of a role run at once, and each once)"
        ),
        (
            "20:58: spec.replicatedJobs[1].template.spec.template.spec.restartPolicy: expected Never, found "
            "nothing, for which JobSet writes OnFailure (else a pod that has failed is deleted, and its log "
            "with it)"
        ),
        (
            "19:60: spec.replicatedJobs[1].dependsOn[1].name: 'worker' is not an earlier role (earlier roles "
            "are: scheduler)"
        ),
        "21:13: spec.replicatedJobs[2].name: duplicate role 'scheduler' (rename it)",
        "22:17: spec.replicatedJobs[2].replicas: replicas x parallelism is 4000000000, the limit is 2147483647",
        (
            "24:64: spec.replicatedJobs[2].template.spec.completionMode: expected Indexed, found 'NonIndexed' "
            "(only pods with an index have names by which others find them)"
        ),
        "6:32: spec.coordinator.replicatedJob: role 'wroker' not found (did you mean 'worker'?)",
    }


def test_verify_refuses_depends_on_with_startup_order() -> None:
    text = JOB_SET.replace("{name: worker,", "{name: worker, dependsOn: [{name: scheduler, status: Ready}],")
    assert list(check_kinds(written.overlay(text))) == []
    text = text.replace("spec:\n", "spec:\n  startupPolicy: {startupPolicyOrder: InOrder}\n", 1)
    assert [problem.message for problem in check_kinds(written.overlay(text))] == [
        "JobSet a: spec.replicatedJobs[1].dependsOn: dependsOn and startupPolicy InOrder cannot be combined"
    ]


def test_verify_compares_number_of_pods_with_environment(tmp_path: Path) -> None:
    manifest = built(tmp_path, "rendezvous: torch, roles: {node: {replicas: 2}}")
    manifest["spec"]["replicatedJobs"][0]["template"]["spec"].update(parallelism=4, completions=4)
    [problem] = check_kinds(written.overlay(yaml.safe_dump(manifest)))
    where = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].env[3].value"
    assert (
        problem.message.partition(f"{where}: ")[2] == "PET_NNODES: expected '4', the number of pods of node, found '2'"
    )


def test_verify_refuses_replicas_of_a_job_in_a_rendezvous(tmp_path: Path) -> None:
    manifest = built(tmp_path, "rendezvous: torch, roles: {node: {replicas: 2}}")
    manifest["spec"]["replicatedJobs"][0]["replicas"] = 2
    [problem] = check_kinds(written.overlay(yaml.safe_dump(manifest)))
    assert (problem.message.partition("spec.replicatedJobs[0].")[2], problem.hint) == (
        "replicas: expected 1, found 2",
        "edit parallelism and completions instead: each Job counts its pods from 0 on",
    )


@pytest.mark.parametrize(
    ("network", "message", "hint"),
    [
        (
            {"enableDNSHostnames": False},
            "enableDNSHostnames: expected true, found false",
            "without it, the pods have no names, by which they look for each other",
        ),
        (
            {"subdomain": "training"},
            "subdomain: expected the JobSet's name or nothing, found 'training'",
            "the pods look for each other below the JobSet's name",
        ),
    ],
)
def test_verify_requires_network_names_for_a_rendezvous(
    tmp_path: Path, network: dict[str, Any], message: str, hint: str
) -> None:
    manifest = built(tmp_path, "rendezvous: torch, roles: {node: {replicas: 2}}")
    manifest["spec"]["network"].update(network)
    [problem] = check_kinds(written.overlay(yaml.safe_dump(manifest)))
    assert (problem.message.partition("spec.network.")[2], problem.hint) == (message, hint)


def test_verify_counts_label_of_a_coordinator() -> None:
    text = JOB_SET.replace("{name: a}", f"{{name: {'a' * 30}}}").replace(
        "spec:\n", "spec:\n  coordinator: {replicatedJob: worker}\n", 1
    )
    [problem] = check_kinds(written.overlay(text))
    assert problem.message.endswith("becomes a label's value: 72 characters, the limit is 63")
    assert problem.hint == "remove it: the pods find each other without"


def test_names_of_pods_have_at_most_63_characters() -> None:
    for length, expected in [(63 - len("-scheduler-0-0-abcde"), 0), (64 - len("-scheduler-0-0-abcde"), 1)]:
        assert (
            len(list(names.check(written.overlay(JOB_SET.replace("{name: a}", f"{{name: {'a' * length}}}")))))
            == expected
        )


def test_names_must_begin_with_a_letter() -> None:
    [problem] = names.check(written.overlay(JOB_SET.replace("{name: a}", "{name: 1a}")))
    longest = "makes the name '1a-scheduler-0-0-abcde': 22 characters, at most 63 and starting with a letter"
    assert problem.message == f"JobSet 1a: metadata.name: {longest}"


def test_verify_refuses_objects_that_jobset_creates() -> None:
    service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
    job = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: a-worker-0}\n"
    messages = [problem.message for problem in names.check(written.overlay(JOB_SET + service + job))]
    assert messages == [
        "Service a: metadata.name: JobSet creates a Service of this name for the JobSet",
        "Job a-worker-0: metadata.name: JobSet creates a Job of this name for the JobSet",
    ]
