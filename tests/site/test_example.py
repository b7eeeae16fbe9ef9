"""Tests of `packager.site.example`: the file that `mlpack site init` writes."""

from __future__ import annotations

import re
from pathlib import Path

from packager.site.example import QUESTIONS, text
from packager.site.read import parsed


def test_example_is_valid_with_every_line_uncommented() -> None:
    lines = [re.sub(r"^#(?! )|^#(?=  )", "", line) for line in text({}).splitlines()]
    config = parsed(Path("site.yaml"), "\n".join(lines).encode()).config
    assert config.registry == "registry.example.com/team"
    assert config.tolerations
    assert [override.queue for override in config.overrides] == ["vision", None]


def test_example_has_values_that_were_given() -> None:
    values = {"registry": "a.example", "root": "/x y\\1", "queue": "q", "pullSecret": "s"}
    assert values.keys() == QUESTIONS.keys()
    config = parsed(Path("site.yaml"), text(values).encode()).config
    assert (config.registry, config.root, config.queue, config.pull_secret) == tuple(values.values())
