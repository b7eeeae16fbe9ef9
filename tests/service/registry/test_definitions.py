from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.values import convert
from packager.service.registry import catalog, definitions, template_values
from packager.service.registry.bodies import DefinitionBody
from packager.service.registry.policy import Site
from tests.service import bodies

if TYPE_CHECKING:
    from packager.service.registry.definitions import Definition
    from packager.service.registry.rendering import Renderer

SITE = Site(storage_classes={"aws-efs": "shared"}, node_selectors={"kops.k8s.io/ml-instance=true": {}})


def read(**changes: Any) -> Definition:
    definition, complaints = definitions.read(convert(bodies.definition(**changes), DefinitionBody))
    assert complaints == []
    assert definition
    return definition


def details(**changes: Any) -> list[tuple[str, str]]:
    definition, complaints = definitions.read(convert(bodies.definition(**changes), DefinitionBody))
    assert definition is None
    return [(complaint.pointer, complaint.detail) for complaint in complaints]


def created(renderer: Renderer, filled: dict[str, Any], template: str = bodies.TEMPLATE) -> list[dict[str, Any]]:
    definition = read()
    assert definitions.value_complaints(definition, filled) == []
    request = definitions.Request(filled, "ada", "digits-demo-abc123")
    accepted = definitions.objects(definition, template, request, renderer, SITE)
    assert not accepted.complaints
    return list(accepted.objects)


def test_filled_values_become_the_objects_of_a_job(renderer: Renderer) -> None:
    claim, config, job = created(renderer, bodies.filled())
    assert {item["metadata"]["name"] for item in (config, claim, job)} == {"digits-demo-abc123"}
    assert json.loads(config["data"]["globalCfg"]) == {
        "release": "digits-demo-abc123",
        "taskDef": "digits",
        "application": "demo",
        "creator": "ada",
        "name": "demo",
        "description": "Trains on digits",
    }
    endpoints = [{"endpoint": "s3://bucket/digits/", "type": "dataset"}]
    assert json.loads(config["data"]["datasetCfg"]) == {"endpoints": endpoints}
    assert json.loads(config["data"]["processCfg"]) == bodies.filled()["process"]
    assert "secret-word" not in json.dumps([config, claim, job])
    labels = job["metadata"]["labels"]
    expected = {"taskDef": "digits", "release": "digits-demo-abc123", "application": "demo", "creator": "ada"}
    assert {key: labels[key] for key in expected} == expected
    assert claim["spec"]["storageClassName"] == "shared"
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/team/digits:cpu"


def test_countdown_number_is_never_a_part_of_a_command(renderer: Renderer) -> None:
    template = catalog.templates()[0]
    names = {"release": "demo-1", "taskDef": "t", "application": "a", "creator": "c"}
    context = {
        "global": names,
        "process": {"train": {"number": "5; reboot"}},
        "image": {"repository": "r/x", "tag": "1"},
    }
    rendered = renderer.render(template.template, context)
    container = rendered.objects[0]["spec"]["template"]["spec"]["containers"][0]
    assert "5" not in json.dumps(container["command"])
    assert container["env"] == [{"name": "NUMBER", "value": "0"}]


def test_read_reports_all_faults_of_a_definition() -> None:
    assert details(
        user_values_description="x: steps\n",
        user_values_example="a: [",
        system_values="global: {}\n",
        append_uuid="maybe",
        application="a b",
    ) == [
        (
            "/user_values_description",
            "line 1, column 4: expected a text that begins with (Required) or (Optional), found 'steps'",
        ),
        (
            "/user_values_example",
            "line 2, column 1: not valid YAML: did not find expected node content while parsing a flow node",
        ),
        ("/append_uuid", "expected 0, 1, true or false, found 'maybe'"),
        ("/application", "expected a name such as nightly, found 'a b'"),
        ("/system_values", "the key 'global' cannot be set here: it is made by the service"),
    ]


def test_example_must_satisfy_the_description() -> None:
    assert details(user_values_example="taskDef: digits\ncreator: a@b\n")[:2] == [
        ("/user_values_example", "description: is missing: What the job does"),
        ("/user_values_example", "name: is missing: Application"),
    ]


@pytest.mark.parametrize("key", ["image", "global"])
def test_users_cannot_fill_in_keys_of_the_definition_or_service(key: str) -> None:
    described = f"{bodies.DESCRIPTION}{key}: (Optional) Anything\n"
    assert details(user_values_description=described)[0][1].startswith(f"users cannot fill in {key!r}: it is ")
    complaints = definitions.value_complaints(read(), bodies.filled(**{key: {"tag": "evil"}}))
    assert [complaint.pointer for complaint in complaints] == [f"/{key}"]


def test_trial_reports_undefined_values_of_the_template(renderer: Renderer) -> None:
    tried = definitions.trial(read(system_values=""), bodies.TEMPLATE, renderer, SITE)
    assert [complaint.detail for complaint in tried.complaints] == [
        "with the example filled in: template, line 16: 'image' is undefined"
    ]


SMALL = """\
apiVersion: v1
kind: Pod
metadata: {name: "{{ global.release }}"}
spec:
  containers:
  - {name: main, image: "example.com/image:1", args: ["LINE"]}
"""


@pytest.mark.parametrize(
    ("argument", "details"),
    [
        (
            "{{ process.train.maxStep }}",
            ["with only the required values filled in: template, line 6: maxStep is not defined"],
        ),
        (
            "{{ endpoints[1].endpoint }}",
            ["with only the required values filled in: template, line 6: list object has no element 1"],
        ),
        ("{{ process.train.saveStep }} {{ process.train.maxStep or 1000 }} {{ (resources or {}).cpu or 1 }}", []),
    ],
)
def test_trial_leaves_out_optional_values(renderer: Renderer, argument: str, details: list[str]) -> None:
    tried = definitions.trial(read(), SMALL.replace("LINE", argument), renderer, SITE)
    assert [complaint.detail for complaint in tried.complaints] == details
    assert all("(Required)" in str(complaint.hint) for complaint in tried.complaints)


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: "{{ global.release }}"}
spec:
  containers:
  - name: main
    image: "example.com/image:1"
    env: [{name: STEPS, value: "{{ process.train.saveStep }}"}, {name: ALL, value: "--steps=$(STEPS)"}]
    COMMAND
"""


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ('command: [bash, -c, "seq {{ process.train.saveStep }}"]', "command[2]"),
        ('command: [/bin/bash]\n    args: [-lc, "{{ process.train.saveStep }}"]', "args[1]"),
        ('command: [node, --eval, "{{ process.train.saveStep }}"]', "command[2]"),
        ('command: [bash, -c, "echo \\"a $(seq {{ process.train.saveStep | sh }})\\" \\\\\\" x"]', None),
        ('command: [bash, -c, "seq {{ process.train.saveStep | sh }}"]', None),
        ('command: [bash, -c, "seq $1", sh, "{{ process.train.saveStep }}"]', None),
    ],
)
def test_trial_warns_about_values_in_code_of_a_command(renderer: Renderer, command: str, place: str | None) -> None:
    template = POD.replace("COMMAND", command)
    accepted = definitions.trial(read(), template, renderer, SITE)
    assert not accepted.complaints
    assert [remark.partition(":")[0] for remark in accepted.remarks] == (
        [f"process.train.saveStep becomes a part of the code in Pod.spec.containers[0].{place}"] if place else []
    )


def test_trial_warns_about_values_in_a_script_of_a_configmap(renderer: Renderer) -> None:
    data = """---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ global.release }}-x"}
data:
  run.sh: "echo {{ endpoints[0].endpoint }}"
  start: "#!/bin/sh\\n{{ process.train.saveStep | sh }}"
  values: "{{ process }}"
"""
    accepted = definitions.trial(read(), POD.replace("    COMMAND\n", "") + data, renderer, SITE)
    assert not accepted.complaints
    assert [remark.partition(":")[0] for remark in accepted.remarks] == [
        "endpoints.0.endpoint becomes a part of the code in ConfigMap.data.run.sh",
    ]


@pytest.mark.parametrize(("flag", "appended"), [(0, False), ("true", True)])
def test_final_name_has_a_unique_part_on_request(flag: Any, *, appended: bool) -> None:
    name = definitions.final_name(convert(bodies.definition(append_uuid=flag), DefinitionBody))
    assert re.fullmatch(r"digits-[0-9a-f]{8}" if appended else "digits", name)


@pytest.mark.parametrize(
    ("definition", "application", "pattern"),
    [
        ("mnist_softmax_cpu", "demo", "mnist-softmax-cpu-demo-[0-9a-f]{6}"),
        ("1", "2", "job-1-2-[0-9a-f]{6}"),
        ("x" * 60, "y", "x{43}-[0-9a-f]{6}"),
    ],
)
def test_release_name_is_valid_for_every_kind(definition: str, application: str, pattern: str) -> None:
    name = template_values.release_name(definition, application)
    assert re.fullmatch(pattern, name)
    assert len(name) <= 50


def test_system_values_replace_filled_values_by_key() -> None:
    names = template_values.template_values(
        {"resources": {"cpu": "1", "gpu": "9"}, "empty": None, "process": {"a": 1}},
        {"resources": {"gpu": "0"}, "process": {"a": 2}, "image": {"tag": "x"}},
        template_values.Names("r", "d", "", "c"),
    )
    assert names["resources"] == {"cpu": "1", "gpu": "0"}
    assert names["process"] == {"a": 1}
    assert names["global"] == {"release": "r", "taskDef": "d", "application": "d", "creator": "c"}
    assert "empty" not in names
