#!/usr/bin/env python3
"""Takes steps together with the other nodes, and writes a checkpoint after each, on node 0 alone."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found] # it is in the image
import torch.distributed as dist  # type: ignore[import-not-found]


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
checkpoint = Path(os.environ["OUTPUT_DIR"], "checkpoint.json")
state: dict[str, Any] = {"step": 0, "worlds": []}
if rank == 0 and checkpoint.exists():
    state = json.loads(checkpoint.read_text())
shared = [state]
dist.broadcast_object_list(shared, 0)
step, worlds = shared[0]["step"], [*shared[0]["worlds"], size]
if rank == 0:
    print_line(json.dumps({"from": step, "worlds": worlds}))
taken = 0
awaited = [int(word) for word in os.environ["WORLDS"].split()]
while worlds[-len(awaited) :] != awaited or taken < int(os.environ["STEPS"]):
    total = torch.ones(1)
    dist.all_reduce(total)
    if total.item() != size:
        raise RuntimeError(f"expected {size} nodes, found {total.item()}")
    step, taken = step + 1, taken + 1
    if rank == 0:
        new = checkpoint.with_suffix(".new")
        new.write_text(json.dumps({"step": step, "worlds": worlds}))
        new.replace(checkpoint)
    time.sleep(0.5)
if rank == 0:
    print_line(json.dumps({"step": step, "worlds": worlds}))
dist.destroy_process_group()
