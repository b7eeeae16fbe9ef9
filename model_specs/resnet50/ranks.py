"""The processes of one job: any number of them under an MPI launcher, a single one without."""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

# Set for each rank by Open MPI, and by MPICH and its descendants (Intel MPI is one).
_SIZE_KEYS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


class JobError(Exception):
    """The job cannot go on, and this rank may be the only one that knows."""


class AgreedError(JobError):
    """The job cannot go on, and every rank raises this error at the same place."""


def print_line(text: str) -> None:
    """Write a text and its line end at once: print() may write them apart, and two ranks' lines then mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_error(error: Exception | str, who: str = "") -> None:
    """Write each line of an error so that it is found among the lines of progress."""
    sys.stderr.write("".join(f"ERROR: {who}{line}\n" for line in str(error).splitlines()))
    sys.stderr.flush()


@dataclass(frozen=True)
class Ranks:
    """This process's place among all of them; `comm` is None when it is the only one."""

    rank: int = 0
    size: int = 1
    comm: Any = None

    @classmethod
    def join(cls, environ: Mapping[str, str]) -> Ranks:
        """Join the launcher's job. A single pod has no launcher, and then MPI is not even imported.

        Raises:
            JobError: this process cannot reach the others that the launcher started.
        """
        expected = next((int(environ[key]) for key in _SIZE_KEYS if key in environ), None)
        if expected is None:
            return cls()
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise JobError(f"an MPI launcher started {expected} ranks, but mpi4py does not load: {error}") from error
        comm = MPI.COMM_WORLD
        # Under the launcher of another MPI every process believes to be alone: all of them would train for
        # themselves and write the same checkpoint, and nobody would notice.
        if comm.Get_size() != expected:
            library = MPI.Get_library_version().split(",")[0]
            raise JobError(
                f"an MPI launcher started {expected} ranks, but mpi4py ({library}) sees {comm.Get_size()}: "
                "the launcher has to be of the same MPI"
            )
        return cls(comm.Get_rank(), comm.Get_size(), comm)

    def say(self, text: str) -> None:
        """Print a line once, not once a rank."""
        if self.rank == 0:
            print_line(text)

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value on every rank, in the order of the ranks."""
        return self.comm.allgather(value) if self.comm else [value]

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value on every rank."""
        return self.comm.bcast(value) if self.comm else value

    def agree(self, problem: str | None) -> None:
        """Stop all ranks at the same place when any of them has a problem.

        A rank that stopped alone would leave the others waiting for its next message.

        Raises:
            AgreedError: with every problem, and whose it is where it is not everybody's.
        """
        problems = self.gather(problem)
        if not any(problems):
            return
        if len(set(problems)) == 1:
            raise AgreedError(problems[0])
        raise AgreedError("\n".join(f"rank {rank}: {text}" for rank, text in enumerate(problems) if text))

    def copy_from_first(self, arrays: Sequence[np.ndarray]) -> None:
        """Overwrite the arrays with rank 0's, in place."""
        if self.comm:
            for array in arrays:
                self.comm.Bcast(array)

    def average(self, array: np.ndarray) -> None:
        """Replace an array by its mean over the ranks, in place.

        The MPI standard (All-Reduce) has every process receive identical results: weights that are computed
        from them can be compared bit by bit.
        """
        if self.comm:
            from mpi4py import MPI

            self.comm.Allreduce(MPI.IN_PLACE, array)
            array /= self.size

    def leave(self, error: JobError) -> int:
        """Report an error as the last thing that this process does, and return its exit status."""
        if not isinstance(error, AgreedError):
            print_error(error, f"rank {self.rank} on {socket.gethostname()}: " if self.comm else "")
            if self.comm:
                self.comm.Abort(1)  # the others are waiting, and do not know
            return 1
        if self.rank == 0:
            print_error(error)
        if self.comm:
            # The launcher ends the job at the first exit status other than 0: not before rank 0 has spoken.
            self.comm.Barrier()
        return 1
