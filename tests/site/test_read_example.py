"""Tests of `packager.site.read.create`: the file that `mlpack site init` writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from packager.base.errors import UsageError
from packager.site.config import QUESTIONS
from packager.site.read import create, parsed, text


def test_example_is_valid_with_every_line_uncommented() -> None:
    lines = [re.sub(r"^#(?! )|^#(?=  )", "", line) for line in text({}).splitlines()]
    config = parsed(Path("site.yaml"), "\n".join(lines).encode()).config
    assert config.registry == "registry.example.com/team"
    assert config.tolerations


def test_example_has_values_that_were_given() -> None:
    values = {"registry": "a.example", "root": "/x y\\1", "queue": "q", "pullSecret": "s"}
    assert values.keys() == QUESTIONS.keys()
    config = parsed(Path("site.yaml"), text(values).encode()).config
    assert (config.registry, config.root, config.queue, config.pull_secret) == tuple(values.values())


def test_create_refuses_invalid_answer(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    with pytest.raises(UsageError, match="is not valid"):
        create(path, {"registry": "a b"}, force=False)
    assert not path.exists()
