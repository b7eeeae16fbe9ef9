"""Options + Defaults -> Options: adds a site's defaults to the options of a build, which count more."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base.values import replace
from packager.configure.site.defaults import Labels, defaults
from packager.package.options import BY_NAME, OPTIONS, PLACEMENT, offered

if TYPE_CHECKING:
    from packager.builder.plan import Options, Plan
    from packager.builder.selection import Selection
    from packager.configure.site.defaults import Defaults
    from packager.configure.site.read import SiteSettings


def with_site(options: Options, planned: Plan, site: SiteSettings) -> Options:
    """Return the options of a build with the defaults of a site."""
    variant = planned.variant
    labels = Labels(planned.name, planned.spec.name, planned.spec.framework, variant.precision, variant.mode)
    values = defaults(site, labels)
    ids = values.ids
    return replace(
        options,
        root=values.root if options.root is None else options.root,
        registry=values.registry if options.registry is None else options.registry,
        site=_selection(options.site, values, {option.name for option in offered(planned.traits)}),
        user=ids.get("uid"),
        group=ids.get("gid"),
        fs_group=ids.get("fs_group"),
    )


def _selection(given: Selection, values: Defaults, available: set[str]) -> Selection:
    """Return the components of the command line with those of a site that the package has."""
    has_storage = any(BY_NAME[name].places for name in given.options)
    storage = {name for name in values.storage or () if name in available and not has_storage}
    chosen = {*given.options, *storage}
    for name in values.options:
        needed = BY_NAME[name].needs
        if name in available and (not needed or set(needed) & storage):
            chosen.add(name)
    keys = {key.name for name in chosen for key in BY_NAME[name].keys}
    site_values = {key: value for key, value in values.values.items() if key in keys}
    return replace(
        given,
        options=tuple(option.name for option in OPTIONS if option.name in chosen),
        values=MappingProxyType({**site_values, **given.values}),
        placement=MappingProxyType({**values.placement, **given.placement}) if PLACEMENT in chosen else given.placement,
        annotations=values.annotations if PLACEMENT in chosen else given.annotations,
    )
