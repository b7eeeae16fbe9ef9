"""Trials side by side, with faults among them."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests.e2e.site import CHECKOUT, MPI_IMAGE, Site
from tests.faults.answers import Answer
from tests.faults.injector import COMPONENTS, Fault, inject, repair
from tests.faults.table import Run, transcript
from tests.faults.trials import SCENARIOS, run
from tests.testbed import lifecycle
from tests.testbed.kubectl import kubectl

_PARALLEL = 6


def run_trials(faults: int, trials: int, seed: str) -> Run:
    """Run trials on the cluster of `tests/testbed`, with faults among them until there were so many of both."""
    lifecycle.up()
    view = kubectl("config", "view", "--minify", "--flatten", "--output=json")
    lifecycle.build_image(CHECKOUT / "model_specs/hello-mpi", MPI_IMAGE)
    over = threading.Event()
    made: list[Fault] = []
    done: dict[int, list[Answer]] = {}
    numbers = itertools.count()
    sites: list[Site] = []

    def injecting() -> None:
        for together in inject(Random(f"faults {seed}"), over):
            made.extend(together)
            first = together[0]
            shown = ", ".join(fault.component for fault in together)
            sys.stderr.write(f"fault {len(made)}: {shown} {first.how}, {first.end - first.begin:.0f} s\n")
            if len(made) >= faults and len(sites) >= trials:
                over.set()

    with tempfile.TemporaryDirectory(prefix="mlpack-faults-") as work, ThreadPoolExecutor(_PARALLEL + 1) as pool:
        kubeconfig = Path(work) / "kubeconfig"
        kubeconfig.write_text(view, encoding="utf-8")

        def trying() -> None:
            while ((number := next(numbers)) < trials or len(made) < faults) and not breaking.done():
                site = _site(f"faults-{os.getpid()}-{number}", kubeconfig, Path(work))
                sites.append(site)
                done[number] = _trial(site, number)

        breaking = pool.submit(injecting)
        try:
            for worker in [pool.submit(trying) for _ in range(min(_PARALLEL, trials))]:
                worker.result()
        finally:
            over.set()
            breaking.result()
            for component in COMPONENTS:
                repair(component)
    judged = [[answer.judged_by(made) for answer in answers] for _, answers in sorted(done.items())]
    return Run(seed, made, judged)


def _trial(site: Site, number: int) -> list[Answer]:
    try:
        answers = run(site, SCENARIOS[number % len(SCENARIOS)])
    except AssertionError as error:  # the cluster did not become whole, which no verb can mend
        answers = [Answer("all", wrong=f"the trial came to no end: {error}")]
    sys.stderr.write(f"trial {number}: {', '.join(f'{answer.verb} {answer.code}' for answer in answers)}\n")
    if any(answer.wrong for answer in answers):
        sys.stderr.write(f"{transcript(answers)}{site.state()}")
    site.shell(f"kubectl delete namespace {site.namespace} --wait=false")
    return answers


def _site(namespace: str, kubeconfig: Path, folder: Path) -> Site:
    """Make a namespace, however often the cluster refuses."""
    for attempt in range(150):
        own = folder / f"{namespace}-{attempt}"
        own.mkdir()
        try:
            return Site.create(namespace, "restricted", kubeconfig, own)
        except AssertionError:
            time.sleep(2)
    raise AssertionError(f"the cluster takes no namespace {namespace}")
