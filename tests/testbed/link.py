"""Creates the network link between the machine and the node: a pair of interfaces, one on each side."""

import ipaddress
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.testbed.errors import ToolError
from tests.testbed.places import NAME
from tests.testbed.process import run

_RANGE = ipaddress.IPv4Network("198.18.0.0/15")
"""Addresses that are reserved for tests of networks (RFC 2544), which no office and no provider uses."""


def exists() -> bool:
    """Return whether the machine's end of the link exists."""
    return Path("/sys/class/net", NAME).exists()


def create(pid: int, enter: Callable[..., list[str]]) -> str:
    """Create the link, and return the node's address on it.

    Args:
        pid: A process in the node's network namespace.
        enter: Returns the command that runs a command on the node.
    """
    network = _free_network()
    machine, node = network.hosts()
    run(["ip", "link", "add", NAME, "type", "veth", "peer", "name", "eth0", "netns", str(pid)])
    run(["ip", "address", "add", f"{machine}/{network.prefixlen}", "dev", NAME])
    run(["ip", "link", "set", NAME, "up"])
    run(enter("ip", "address", "add", f"{node}/{network.prefixlen}", "dev", "eth0"))
    run(enter("ip", "link", "set", "eth0", "up"))
    return str(node)


def remove() -> None:
    """Remove the link, which the kernel would do only some time after the node's end."""
    while exists():
        with suppress(ToolError):
            run(["ip", "link", "delete", NAME])
        time.sleep(0.02)


def _free_network() -> ipaddress.IPv4Network:
    """Return the first small network that overlaps no route of the machine except the default route."""
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]))
    taken = [ipaddress.IPv4Network(route["dst"]) for route in routes if route["dst"] != "default"]
    for network in _RANGE.subnets(new_prefix=30):
        if not any(network.overlaps(other) for other in taken):
            return network
    raise ToolError(f"the machine has routes into every part of {_RANGE}")
