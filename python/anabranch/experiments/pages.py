"""The templates of reports: pages without scripts, fonts or other hosts, light and dark."""

from collections.abc import Mapping
from typing import Any

import jinja2


def render(template: str, filters: Mapping[str, Any], **values: object) -> str:
    """A page; the same values give the same bytes. All text is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("anabranch.experiments"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= filters
    return environment.get_template(template).render(**values)
