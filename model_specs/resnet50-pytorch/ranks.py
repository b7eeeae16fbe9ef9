"""The processes of one job: any number of them under torchrun, a single one without."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Iterable


class AgreedError(Exception):
    """The job cannot go on, and every rank raises this error at the same place."""


def print_line(text: str) -> None:
    """Write a text and its line end at once: print() may write them apart, and two ranks' lines then mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Ranks:
    """This process's place among all of them."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"

    @classmethod
    def join(cls) -> Ranks:
        """Join the others that torchrun has started: over NCCL between GPUs, else over gloo."""
        has_gpu = torch.cuda.is_available()
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if has_gpu:
            torch.cuda.set_device(local)
        device = f"cuda:{local}" if has_gpu else "cpu"
        if "RANK" not in os.environ:
            return cls(device=device)
        dist.init_process_group("nccl" if has_gpu else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), device)

    def leave(self) -> None:
        """Disconnect from the others."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def say(self, text: str) -> None:
        """Print a line once, not once a rank."""
        if self.rank == 0:
            print_line(text)

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value on every rank, in the order of the ranks."""
        values = [value] * self.size
        if dist.is_initialized():
            dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value on every rank."""
        values = [value]
        if dist.is_initialized():
            dist.broadcast_object_list(values, 0)
        return values[0]

    def average(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace tensors by their mean over the ranks, in place."""
        if dist.is_initialized():
            for tensor in tensors:
                dist.all_reduce(tensor)
                tensor.div_(self.size)

    def agree(self, problem: str | None) -> None:
        """Stop all ranks at the same place when any of them has a problem, with every problem.

        Raises:
            AgreedError: One of them has.
        """
        problems = self.gather(problem)
        if not any(problems):
            return
        if len(set(problems)) == 1:
            raise AgreedError(problems[0])
        raise AgreedError("\n".join(f"rank {rank}: {text}" for rank, text in enumerate(problems) if text))
