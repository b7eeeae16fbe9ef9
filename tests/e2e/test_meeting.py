"""Test that no JobSet succeeds whose pods did not meet: each fault of a rendezvous, for each way to have one."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import CHECKOUT
from tests.testbed import node

if TYPE_CHECKING:
    from tests.e2e.site import Images, Site

SPEC = CHECKOUT / "tests/e2e/specs/meeting"
MEETING = ("none", "late", "child", "short")
"""The pods are connected: at once, after a while, by a child of the program, or for a moment."""

ALONE = ("ignores", "no-client", "no-server", "server-elsewhere", "wrong-port", "wrong-name", "itself", "datagrams")
"""Some pod works alone, and ends as if it had done its part."""

RULE = ("FORWARD", "-p", "tcp", "-m", "multiport", "--dports", "29500,8476,9091,2222", "-j", "DROP")
"""What a network policy becomes on a node; the network of the tests' cluster has none."""


@pytest.mark.thorough
@pytest.mark.trains
@pytest.mark.parametrize("way", ["torch", "jax", "xgboost", "tensorflow", "dmlc"])
def test_jobset_whose_pods_do_not_meet_fails(site: Site, images: Images, way: str) -> None:
    images.build(CHECKOUT / "model_specs/resnet50-pytorch", "localhost/pytorch:2.14.1")
    for fault in (*MEETING, *ALONE):
        package = Faulty(site, site.build(str(SPEC), f"--force --set environment.FAULT={fault}"), way)
        done = package.run("deploy", "--timeout", "3m")
        if fault in MEETING:
            assert done.code == 0, f"{fault}: {done.err}"
        else:
            assert (done.code, "it has worked alone" in done.err) == (7, True), f"{fault}: {done.err}"
        package.delete()
    pid = found.pid if (found := node.find()) else 0
    iptables = ("nsenter", f"--target={pid}", "--net", "iptables")
    package = Faulty(site, site.build(str(SPEC), "--force"), way)
    subprocess.run([*iptables, "-I", *RULE], check=True)
    try:
        done = package.run("deploy", "--timeout", "3m")
    finally:
        subprocess.run([*iptables, "-D", *RULE], check=True)
    assert (done.code, "it has worked alone" in done.err) == (7, True), done.err
    package.delete()
