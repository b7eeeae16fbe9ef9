"""What can go wrong in the words that a person sees."""


class ClusterError(Exception):
    """Something kept the cluster from doing as it was told; `exit_code` is what the command ends with."""

    exit_code = 7


class ToolError(ClusterError):
    """A program is missing or failed, or this machine cannot run a cluster at all."""

    exit_code = 6
