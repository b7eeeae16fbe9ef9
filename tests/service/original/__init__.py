"""Bodies and templates in the format of the original service, with descriptions in our words.

The bodies have all particularities of those in its public description (ChappiebotAI/chappiebotai.github.io at commit
46f22a7c82ce, `_posts/2018-7-31-kubernetes-tut.md`): the same keys, values, types and expressions; YAML as text in JSON,
with CRLF, and with a backslash before each slash; keys without a value; a document inside a condition.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent

DEFINITION = (FOLDER / "definition.json").read_bytes()
"""The request that registers a definition."""

FILLED = (FOLDER / "filled.json").read_bytes()
"""The request that creates a job."""

NAME = "mnist_softmax_cpu"
"""The name of the definition."""

IMAGE = "registry.example.com/ml/base:mnist-softmax-cpu"
"""The image in the definition."""

COUNTDOWN = (FOLDER / "countdown-task.yaml").read_text(encoding="utf-8")
NON_DISTRIBUTED = (FOLDER / "non-distributed-task.yaml").read_text(encoding="utf-8")

_LIMITS = """\
          {% if resources is defined %}
          resources:
            limits:
              cpu: "{{ resources.get('cpu') or '500m' }}"
              memory: "{{ resources.get('memory') or '512Mi' }}"
          {% endif %}
"""
_GPU = """\
          resources:
            limits:
              nvidia.com/gpu: 1
"""
_DIFFERENCES = {
    _LIMITS: _GPU,
    "kops.k8s.io/ml-instance": "kops.k8s.io/dl-instance",
    "{% if resources is defined %}": "{% if resources is defined and resources %}",
}


def single_gpu() -> str:
    """Return the template for one GPU, which differs from the template for CPUs in three places."""
    text = NON_DISTRIBUTED
    for before, after in _DIFFERENCES.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text
