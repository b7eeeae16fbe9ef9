"""Train ResNet-50 v1.5: synchronously on all ranks of an MPI job, or on a single process."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import traceback

import checkpoint
from loop import Job, Outcome, fit, load, synchronise
from ranks import AgreedError, JobError, Ranks, print_line
from runtime import count_threads, start_tensorflow
from settings import SettingsError, describe_keys, read_settings
from shards import Source, find_shards, share_of
from stopping import EXIT_STATUS, Stop


def main() -> int:
    """Run the program; return 0 when done, 1 when refused or failed, 143 when stopped by SIGTERM."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=describe_keys(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    precision = parser.parse_args().precision
    stop = Stop()
    ranks = Ranks()
    try:
        ranks = Ranks.join(os.environ)
        job, source = prepare(precision, ranks)
        return run(job, source, stop)
    except JobError as error:
        return ranks.leave(error)
    except Exception as error:  # noqa: BLE001 - a bug: the other ranks must not wait for this one for ever
        traceback.print_exc()
        return ranks.leave(JobError(f"{type(error).__name__}: {error}"))


def prepare(precision: str, ranks: Ranks) -> tuple[Job, Source]:
    """Check all that can be checked within a second, so that nobody waits a minute for a refusal.

    Raises:
        AgreedError: a key is wrong, a folder is unusable, or the ranks do not see the same data.
    """
    try:
        settings = read_settings(os.environ)
        source = find_shards(settings.dataset_dir, "train")
        if ranks.rank == 0:  # no other rank writes, and none needs to be able to
            checkpoint.require_writable(settings.output_dir)
        problem = None
    except SettingsError as error:
        problem = str(error)
    ranks.agree(problem)
    counts = ranks.gather(len(source.files))
    if len(set(counts)) > 1:
        raise AgreedError(
            f"DATASET_DIR: expected the same files on every rank, found {counts} files on ranks 0, 1, ..."
        )
    return Job(precision, settings, ranks), source


def run(job: Job, source: Source, stop: Stop) -> int:
    """Train what is left to train, and print what came of it as one line of JSON."""
    settings, ranks = job.settings, job.ranks
    host, uid, gid = socket.gethostname(), os.getuid(), os.getgid()
    hosts = ranks.gather(host)
    threads = count_threads(ranks_here=hosts.count(host))
    print_line(f"rank {ranks.rank} of {ranks.size} on {host}: uid {uid}, gid {gid}, {threads} threads")

    saved = load(job)
    first = ranks.broadcast(saved.step if saved else 0)
    if first < settings.steps:
        ranks.say(str(source))
        size = f"{settings.image_size}x{settings.image_size}"
        ranks.say(
            f"training steps {first + 1} to {settings.steps} in {job.precision}, "
            f"with {settings.batch_size} images of {size} a step on each of {ranks.size} ranks"
        )
        start_tensorflow(threads, job.precision, settings.seed)
        outcome = train(job, source, saved, first, stop)
    else:
        ranks.say(f"nothing left to train: STEPS is {settings.steps}")
        outcome = Outcome(first, checkpoint.digest(saved.weights) if saved else "")
    if outcome.step < settings.steps:
        ranks.say(f"stopped by SIGTERM: step {outcome.step} is saved, the same job goes on from there")
        return EXIT_STATUS
    result = {
        "model": "resnet50v1-5",
        "precision": job.precision,
        "mode": "training",
        "ranks": ranks.size,
        "hosts": sorted(set(hosts)),
        "steps": outcome.step,
        "resumed_from": first,
        "images_per_second": outcome.images_per_second,
        "loss": outcome.loss,
        "weights_digest": outcome.digest,
        "checkpoint": str(settings.output_dir / checkpoint.FILE_NAME),
        "data": source.kind,
        "uid": uid,
        "gid": gid,
    }
    ranks.say(json.dumps(result))
    return 0


def train(job: Job, source: Source, saved: checkpoint.Checkpoint | None, first: int, stop: Stop) -> Outcome:
    """Build the model and its data, both of which need TensorFlow, and go through the steps."""
    from images import synthetic_batches, training_batches
    from replica import Replica

    settings, ranks = job.settings, job.ranks
    replica = Replica(settings.image_size)
    synchronise(job, replica, saved)
    if source.files:
        share = share_of(source.files, ranks.rank, ranks.size)
        seed = settings.seed + first  # so that a run that goes on does not begin with the same images again
        batches = training_batches(share, settings.batch_size, settings.image_size, seed)
    else:
        batches = synthetic_batches(settings.batch_size, settings.image_size, settings.seed, ranks.rank)
    return fit(job, replica, batches, first, stop)


if __name__ == "__main__":
    sys.exit(main())
