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
    from packager.verify.original import Original
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
    account = None if ACCOUNT in allowed else _sealed_account(overlay, original)
    of_options = _sealed_secrets(overlay, original)
    for pods in overlay.pods:
        if SECRET not in allowed:
            own = _own_secret(overlay)
            for noun, name, location in taken.fields(pods):
                if noun != SECRET:
                    continue
                if own is not None and _is_own(overlay, pods, location, own):
                    continue
                if location[-2:] == ("secretRef", "name") and name in of_options:
                    continue
                message = f"reads the Secret {name!r} of the namespace, which no build does"
                hint = permits_hint(SECRET)
                yield overlay.problem(pods.manifest, location, message, hint).about(SECRET, SECRET)
        if ACCOUNT not in allowed:
            yield from _account(overlay, pods, account)


def _own_secret(overlay: RenderedOverlay) -> str | None:
    """Return the Secret that SECRET in `site.env` names, if the component `secrets` is on; else None."""
    if SECRETS.name not in options.switched_on(overlay.sources):
        return None
    return options.site_values(overlay.sources).get(SECRETS.keys[0].name)


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


def _account(overlay: RenderedOverlay, pods: Pods, own: str | None) -> Iterator[Problem]:
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


def _own_account(overlay: RenderedOverlay) -> str | None:
    """Return the service account that SERVICE_ACCOUNT in `site.env` names, if its option is on; else None."""
    if _OPTION.name not in options.switched_on(overlay.sources):
        return None
    return options.site_values(overlay.sources).get(_OPTION.keys[0].name)


def _option_secrets(overlay: RenderedOverlay) -> set[str]:
    """Return the Secrets that options of the package make variables of."""
    values = options.site_values(overlay.sources)
    return {name for option in options.switched_on(overlay.sources) if (name := secret(option, values))}


def _sealed_secrets(overlay: RenderedOverlay, original: Original | None) -> set[str]:
    """Return those of `_option_secrets` with which the package was sealed."""
    own = _option_secrets(overlay)
    if not own or original is None or not original.edits.paths:
        return own
    return own & _option_secrets(original.sealed) if original.sealed is not None else set()


def _sealed_account(overlay: RenderedOverlay, original: Original | None) -> str | None:
    """Return the service account that the option sets, if the package was sealed with it; else None."""
    own = _own_account(overlay)
    if own is None or original is None or not original.edits.paths:
        return own
    return own if original.sealed is not None and _own_account(original.sealed) == own else None


def _unmade(overlay: RenderedOverlay, pods: Pods, location: Location, message: str, instead: str = "") -> Problem:
    hint = f"{instead}{permits_hint(ACCOUNT)}"
    return overlay.problem(pods.manifest, location, message, hint).about(ACCOUNT, ACCOUNT)
