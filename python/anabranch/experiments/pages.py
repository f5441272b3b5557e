"""The templates of reports: pages without scripts, fonts or other hosts, light and dark."""

import re

import jinja2
from markupsafe import Markup, escape

from anabranch.formats import number, percent


def render(template: str, **values: object) -> str:
    """A page; the same values give the same bytes. All text is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("anabranch.experiments"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"number": number, "percent": percent, "code": _code}
    return environment.get_template(template).render(**values)


def _code(text: str) -> Markup:
    """The text as HTML; what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))
