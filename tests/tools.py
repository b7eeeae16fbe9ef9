"""The list of programs that tests need beside Python and the base system of Debian.

    python -m tests.tools             lists the programs
    python -m tests.tools install     as root on Debian, installs the packages of missing programs (`make tools`)

A test calls `require`. Without the program, the test is skipped, and the run reports it at its end
(`tests/conftest.py`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.testbed import packages
from tests.testbed.errors import ToolError
from tests.testbed.places import CACHE, only_one

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Tool:
    """A program.

    Attributes:
        name: The name of the program on PATH.
        packages: The Debian packages of the program and of its dependencies.
        purpose: The purpose of the program in tests.
        other_names: The names of the program on other systems.
        folders: A pattern below `/` for the folders of a program whose versions Debian installs outside of PATH.
    """

    name: str
    packages: tuple[str, ...]
    purpose: str
    other_names: tuple[str, ...] = ()
    folders: str | None = None

    def find(self) -> str | None:
        """Return the path of the program, in its newest version; None if it is missing."""
        if self.folders is not None:
            versions = sorted(Path("/").glob(f"{self.folders}/{self.name}"), key=lambda path: (len(str(path)), path))
            if versions:
                return str(versions[-1])
        return next(filter(None, map(shutil.which, (self.name, *self.other_names))), None)


TOOLS = (
    Tool("bsdtar", ("libarchive-tools",), "comparison of archive readers"),
    Tool("busybox", ("busybox",), "comparison of archive readers, and scripts in pods"),
    Tool(
        "chromium",
        ("chromium", "fonts-dejavu-core", "libatomic1"),
        "page of the task service",
        ("chromium-browser", "google-chrome"),
    ),
    Tool("curl", ("curl",), "commands of the documentation"),
    Tool("docker-registry", ("docker-registry",), "registry of packages", ("registry",)),
    Tool("git", ("git",), "check of the titles of commits, and patches of edits"),
    Tool("openssl", ("openssl",), "keys, and signatures by the commands of the documentation"),
    Tool("patch", ("patch",), "patches of edits"),
    Tool("skopeo", ("skopeo",), "recipe of the documentation for sites without mlpack"),
    Tool("initdb", ("postgresql",), "task service on PostgreSQL", folders="usr/lib/postgresql/*/bin"),
)


class MissingToolError(Exception):
    """A program is missing on this machine."""

    def __init__(self, tool: Tool) -> None:
        super().__init__(f"{tool.name} not found: {install_command([tool])}")
        self.tool = tool


def require(program: str) -> str:
    """Return the path of a program in the list; for another program, return its name unchanged.

    Raises:
        MissingToolError: The program is missing.
    """
    tool = next((tool for tool in TOOLS if tool.name == program), None)
    if tool is None:
        return program
    if (path := tool.find()) is None:
        raise MissingToolError(tool)
    return path


def command(words: str) -> list[str]:
    """Return the arguments of a command line, whose program is required.

    Raises:
        MissingToolError: The program is missing.
    """
    program, *arguments = words.split()
    return [require(program), *arguments]


def install_command(tools: list[Tool]) -> str:
    """Return the command that installs programs on Debian."""
    return f"apt-get install {' '.join(_packages(tools))}"


def _packages(tools: list[Tool]) -> list[str]:
    return [package for tool in tools for package in tool.packages]


def missing() -> list[Tool]:
    """Return the programs that are missing."""
    return [tool for tool in TOOLS if tool.find() is None]


def left_out(names: Iterable[str]) -> list[str]:
    """Return the lines that report the number of skipped tests, and the command that installs their programs.

    Args:
        names: The missing program of each skipped test.
    """
    counts = Counter(names)
    if not counts:
        return []
    absent = [tool for tool in TOOLS if tool.name in counts]
    return [
        f"{_tests(counts.total())} left out, because programs are missing:",
        *(f"  {tool.name}: {_tests(counts[tool.name])} ({tool.purpose})" for tool in absent),
        f"to install them, run as root: {install_command(absent)}",
    ]


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"


def install() -> None:
    """Install the Debian packages of missing programs.

    Raises:
        ToolError: This is not root on Debian, or apt-get has failed.
    """
    tools = missing()
    if tools and (os.geteuid() != 0 or not shutil.which("apt-get")):
        raise ToolError(f"programs are missing; on Debian, run as root: {install_command(tools)}")
    if tools:
        with only_one(CACHE):  # apt-get does not wait for another apt-get
            packages.install_missing(_packages(tools))


def main() -> int:
    """List the programs or install them, and return 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools", description="List the programs that tests need.")
    parser.add_argument("verb", nargs="?", choices=["list", "install"], default="list")
    if parser.parse_args().verb == "install":
        try:
            install()
        except ToolError as error:
            sys.stderr.write(f"ERROR {error}\n")
            return 6
        return 0
    for tool in TOOLS:
        sys.stdout.write(f"{tool.name:10} {' '.join(tool.packages):28} {tool.purpose:50} {tool.find() or 'missing'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
