"""The errors of the test cluster, whose messages are printed."""


class ClusterError(Exception):
    """A command failed; `exit_code` is the exit code of the process."""

    exit_code = 7


class ToolError(ClusterError):
    """A program is missing or failed, or this machine cannot run a cluster at all."""

    exit_code = 6
