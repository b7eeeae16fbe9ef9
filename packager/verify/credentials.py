"""Finds Secrets and service accounts of the namespace that a package's pods use. Tests: verify/test_objects.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.manifest import at, listing, mapping
from packager.package.options import BY_NAME, SECRETS, secret
from packager.verify import options, taken
from packager.verify.objects import permits_hint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.changes import Original
    from packager.workloads.pods import Pods

_TOKEN = "a token of the namespace's service account is mounted, with its rights"  # noqa: S105 - a message
_OPTION = BY_NAME["service-account"]

SECRET = taken.SECRET
ACCOUNT = "ServiceAccount"
"""The kinds of these problems, which are also the words of `--allow` that permit them."""


def check(overlay: RenderedOverlay, allowed: frozenset[str], original: Original | None = None) -> Iterator[Problem]:
    """Yield a finding for every Secret and service account that a pod uses and no option of the package provides.

    An option does not provide the account, or a Secret, if an edit has switched the option on or changed the name.
    """
    account, of_options = _provided(overlay)
    if (account or of_options) and original is not None and original.edits.paths:
        sealed_account, sealed_secrets = _provided(original.sealed)
        account, of_options = account if account == sealed_account else None, of_options & sealed_secrets
    own = _values(overlay, SECRETS.name).get(SECRETS.keys[0].name)  # the Secret of the package's own variables
    for pods in overlay.pods:
        for noun, name, location in taken.fields(pods) if SECRET not in allowed else ():
            is_provided = location[-2:] == ("secretRef", "name") and name in of_options
            if noun != SECRET or is_provided or (own is not None and _is_own(overlay, pods, location, own)):
                continue
            message = f"reads the Secret {name!r} of the namespace, which no build does"
            yield overlay.problem(pods.manifest, location, message, permits_hint(SECRET)).about(SECRET, SECRET)
        if ACCOUNT not in allowed:
            yield from accounts(overlay, pods, account)


def _provided(overlay: RenderedOverlay | None) -> tuple[str | None, set[str]]:
    """Return the service account that an option sets, and the Secrets that options make variables of."""
    if overlay is None:
        return None, set()
    values = options.site_values(overlay.sources)
    secrets = {name for option in options.switched_on(overlay.sources) if (name := secret(option, values))}
    return _values(overlay, _OPTION.name).get(_OPTION.keys[0].name), secrets


def _values(overlay: RenderedOverlay, option: str) -> dict[str, str]:
    """Return the values in `site.env` if an option is on; else none."""
    return options.site_values(overlay.sources) if option in options.switched_on(overlay.sources) else {}


def _is_own(overlay: RenderedOverlay, pods: Pods, location: Location, own: str) -> bool:
    """Whether `location` names the Secret `own` for a variable of the package's secrets, and a key of the same name."""
    variable = mapping(at(pods.manifest.data, location[:-3]))
    reference = mapping(mapping(variable.get("valueFrom")).get("secretKeyRef"))
    name = variable.get("name")
    return (
        location[-3:] == ("valueFrom", "secretKeyRef", "name")
        and reference.get("name") == own
        and name in overlay.sources.declared.secrets
        and reference.get("key") == name
    )


def accounts(overlay: RenderedOverlay, pods: Pods, own: str | None = None) -> Iterator[Problem]:
    """Yield a finding for each service account other than `own`, and for a mounted token of another account."""
    here = (*pods.location, "spec")
    for field in ("serviceAccountName", "serviceAccount"):
        name = pods.spec.get(field)
        if name not in (None, "", "default", own):
            message = f"runs as the service account {name!r} of the namespace"
            yield _unmade(overlay, pods, (*here, field), message)
    if own is None and pods.spec.get("automountServiceAccountToken") is not False:
        yield _unmade(overlay, pods, (*here, "automountServiceAccountToken"), _TOKEN, "set it to false; or ")
    for location, volume in pods.volumes():
        for index, source in enumerate(listing(at(volume, ("projected", "sources")))):
            if "serviceAccountToken" in mapping(source):
                place = (*location, "projected", "sources", index, "serviceAccountToken")
                yield _unmade(overlay, pods, place, _TOKEN)


def _unmade(overlay: RenderedOverlay, pods: Pods, location: Location, message: str, instead: str = "") -> Problem:
    hint = f"{instead}{permits_hint(ACCOUNT)}"
    return overlay.problem(pods.manifest, location, message, hint).about(ACCOUNT, ACCOUNT)
