"""Builds the base images of Dockerfiles from Debian's packages, because no image registry is used."""

import hashlib
import json
import platform
import shutil
from pathlib import Path

from tests.testbed.images import write_archive
from tests.testbed.places import CACHE, cache_entry
from tests.testbed.process import bound, run
from tests.testbed.progress import step

_SUITES = ("bookworm", "trixie", "forky")

_TESTING = ("forky",)
"""The suites whose lists of packages expire after a week, and of which a mirror may have older lists."""

_SCRIPTS = Path("/usr/share/debootstrap/scripts")

_LEFT_OUT = ("usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man")
"""The files that Debian's `-slim` images omit, also from packages that are installed later."""

_APT = """\
APT::Keep-Downloaded-Packages "false";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
"""
"""Debian's own images keep nothing either of what apt-get fetches and works out; it would be a third of an image."""

_CONFIG = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["bash"]}

RECIPE = hashlib.sha256(json.dumps([_LEFT_OUT, _APT, _CONFIG, platform.machine()]).encode()).hexdigest()[:8]
"""A digest of the recipe and the architecture, which is part of an image's name in the cache."""


def used_by(dockerfile: str) -> list[str]:
    """Return the suites whose image `docker.io/library/debian:<suite>-slim` a Dockerfile mentions."""
    return [suite for suite in _SUITES if f"debian:{suite}-slim" in dockerfile]


def name_of(suite: str) -> str:
    """Return the name of a suite's image in Dockerfiles."""
    return f"docker.io/library/debian:{suite}-slim"


def archive_of(suite: str) -> Path:
    """Return the archive of a suite's image; build it if the cache lacks it."""
    entry = CACHE / "images" / "bases" / f"{suite}-{RECIPE}"
    if not entry.is_dir():
        with step(f"base image {name_of(suite)}", duration="a minute"), cache_entry(entry) as folder:
            _debootstrap(suite, folder)
    return entry / "image.tar"


def _debootstrap(suite: str, folder: Path) -> None:
    system, layer = folder / "system", folder / "layer.tar"
    if not (_SCRIPTS / suite).exists():  # this debootstrap is older than the suite
        (_SCRIPTS / suite).symlink_to("sid")
    run(bound("debootstrap", "--variant=minbase", suite, system, *mirror()))
    rules = [*(f"path-exclude=/{path}/*" for path in _LEFT_OUT), "path-include=/usr/share/doc/*/copyright"]
    (system / "etc/dpkg/dpkg.cfg.d/slim").write_text("\n".join(rules) + "\n")
    (system / "etc/apt/apt.conf.d/keep-nothing").write_text(_APT)
    if suite in _TESTING:
        (system / "etc/apt/apt.conf.d/expired").write_text('Acquire::Check-Valid-Until "false";\n')
    for path in _LEFT_OUT:
        for unneeded in (system / path).rglob("*"):
            if not unneeded.is_dir() and unneeded.name != "copyright":
                unneeded.unlink()
    for downloaded in (*system.glob("var/cache/apt/archives/*.deb"), *system.glob("var/lib/apt/lists/*_*")):
        downloaded.unlink()
    run(["tar", "--create", "--file", layer, "--directory", system, "--numeric-owner", "."])
    write_archive(folder / "image.tar", name_of(suite), layer, _CONFIG)
    layer.unlink()
    shutil.rmtree(system)


def mirror() -> list[str]:
    """Return the URL of this machine's Debian mirror in a list; an empty list lets debootstrap use its default."""
    lines = run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages"])
    return [line.split()[2] for line in lines.splitlines() if line.startswith("Debian Debian ")][:1]
