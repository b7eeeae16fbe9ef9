"""The command line of the test cluster."""

import argparse
import sys
from pathlib import Path

from tests.testbed import builds, lifecycle, pins
from tests.testbed.components import COMPONENTS
from tests.testbed.errors import ClusterError
from tests.testbed.progress import say


def main() -> int:
    """Run a command, and return its exit code."""
    options = _parser().parse_args()
    try:
        match options.verb:
            case "up":
                sys.stdout.write(f"{lifecycle.up()}\n")
            case "down":
                lifecycle.down()
            case "status":
                return _print_status()
            case "start":
                lifecycle.start(options.name)
            case "stop":
                lifecycle.stop(options.name)
            case "image":
                lifecycle.build_image(options.folder, options.name)
            case "pin":
                pins.write(builds.toolchain())
    except ClusterError as error:
        say(f"ERROR {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description="A Kubernetes cluster for the tests.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("up", help="bring the cluster up, or repair it, and print its kubeconfig's path")
    verbs.add_parser("down", help="take everything away but the cache, whatever state it is in")
    verbs.add_parser("status", help="list the components and their process ids; exit code 7 if one is down")
    names = [component.name for component in COMPONENTS]
    start = verbs.add_parser("start", help="start a component, and what has ended for want of it")
    stop = verbs.add_parser("stop", help="end a component as a crash would, and keep it down")
    for verb in (start, stop):
        verb.add_argument("name", metavar="NAME", choices=names, help=", ".join(names))
    image = verbs.add_parser("image", help="images for the cluster")
    build = image.add_subparsers(required=True, metavar="VERB").add_parser("build", help="build one and load it")
    build.add_argument("folder", metavar="DOCKERFILE_DIR", type=Path)
    build.add_argument("name", metavar="NAME", help="what pods call it, such as docker.io/foo/bar:1")
    verbs.add_parser("pin", help="after a change of versions.py: write the go.mod and go.sum files")
    return parser


def _print_status() -> int:
    pids = lifecycle.status()
    for name, pid in pids.items():
        sys.stdout.write(f"{name:24}{pid or 'down'}\n")
    return 0 if all(pids.values()) else ClusterError.exit_code


if __name__ == "__main__":
    sys.exit(main())
