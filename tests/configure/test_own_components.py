"""Tests of an upgrade of kustomizations in which somebody has listed a component of their own."""

from __future__ import annotations

from itertools import permutations

import pytest

from packager.configure.merge import Versions, merged
from packager.package import kustomization

FILE = "overlay/kustomization.yaml"
OPTIONS = ("first", "second", "third", "last")
BASE = "resources: [pod.yaml]\ncomponents:\n" + "".join(f"  # - ../common/{name} # {name}\n" for name in OPTIONS)


@pytest.mark.parametrize("order", list(permutations(["own", "first", "third"])), ids="-".join)
@pytest.mark.parametrize("before", OPTIONS)
def test_upgrade_to_one_option_more_keeps_the_list_of_components(order: tuple[str, ...], before: str) -> None:
    yours = BASE.encode()
    for name in order:
        if name == "own":
            yours = kustomization.add(yours, "../site/own", FILE)
        else:
            yours = kustomization.switch(yours, name, FILE, on=True)
    new = BASE.replace(f"  # - ../common/{before} ", f"  # - ../common/newer # newer\n  # - ../common/{before} ")
    versions = Versions(BASE.encode(), yours, new.encode())
    result = merged(FILE, versions)
    assert result.conflicts == ()
    assert listed(result.content) == listed(yours)


def listed(text: bytes) -> list[str]:
    return [component.path for component in kustomization.components(text, FILE) if component.on]
