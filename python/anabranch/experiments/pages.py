"""The templates of reports: pages without scripts, fonts or other hosts, light and dark."""

import jinja2

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
    environment.filters |= {"number": number, "percent": percent}
    return environment.get_template(template).render(**values)
