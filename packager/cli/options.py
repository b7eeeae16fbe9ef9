"""`mlpack options`: lists the options of a package. Tests: configure/test_options.py."""

from __future__ import annotations

from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.cluster_arguments import PackagePath  # noqa: TC001
from packager.cli.console import emit_output, emit_table, say


def options(package: PackagePath, output: Output = None) -> None:
    """List the options that fit a package: where each is on, what it reads, and the Pod Security level with it."""
    from packager.base.values import as_plain
    from packager.configure.additions import options as find

    found = find(package)
    if output is not None:
        emit_output(as_plain(found), [option.name for option in found.options], output, is_bounded=False)
        return
    rows = [("OPTION", "IN THE PACKAGE", "READS IN site.env", "POD SECURITY", "WHAT IT DOES")]
    for option in found.options:
        state = ", ".join(option.on) and f"on: {', '.join(option.on)}"
        state = state or ("off" if option.in_package else "-")
        rows.append((option.name, state, ", ".join(option.keys) or "-", option.pod_security, option.summary))
    emit_table(rows)
    if any(not option.in_package for option in found.options):
        say("`mlpack configure PACKAGE --with OPTION` adds an option to the package and switches it on")
