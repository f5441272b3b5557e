"""The name of a case, the only place that knows its grammar.

A case is one row of a table: `n1_10.lia` is setting `n1_10` with algorithm `lia`. Settings may have
several parts, `s4.mbps10.lia`. Theory adds its kind, `n1_10.lia.fixed_point`, and a printed number
`.published`.
"""

from collections.abc import Collection, Mapping

PUBLISHED = "published"
"""The last part of the name of a printed number."""


class Case(str):
    """The name of a case: parts joined by dots, the last one its algorithm.

    >>> case = Case("s4.mbps10.lia")
    >>> case.setting, case.algorithm, case.printed
    ('s4.mbps10', 'lia', 's4.mbps10.lia.published')
    """

    __slots__ = ()

    @classmethod
    def of(cls, *parts: str) -> "Case":
        """The parts that are not empty, joined.

        >>> Case.of("", "lia"), Case.of("n1_10", "lia")
        ('lia', 'n1_10.lia')
        """
        return cls(".".join(filter(None, parts)))

    @property
    def parts(self) -> list[str]:
        """The parts of the name."""
        return self.split(".")

    @property
    def algorithm(self) -> str:
        """The last part: the label of the algorithm."""
        return self.rpartition(".")[2]

    @property
    def setting(self) -> str:
        """The parts before the algorithm, joined; empty if there are none."""
        return self.rpartition(".")[0]

    @property
    def printed(self) -> "Case":
        """The name of the case's printed number in claims."""
        return Case.of(self, PUBLISHED)

    @property
    def is_printed(self) -> bool:
        """Whether the name is that of a printed number."""
        return self.algorithm == PUBLISHED

    def renamed(self, pattern: str) -> "Case":
        """The case under a measure's `case`, in which {case} and {algorithm} are replaced.

        >>> Case("n1_10.lia").renamed("two.{case}"), Case("n1_10.lia").renamed("mean.{algorithm}")
        ('two.n1_10.lia', 'mean.lia')
        """
        return Case(pattern.format(case=self, algorithm=self.algorithm))

    def is_of(self, key: str) -> bool:
        """Whether `key` is the case itself or the first parts of its name.

        >>> Case("n1_10.lia").is_of("n1_10"), Case("n1_10.lia").is_of("n1_1")
        (True, False)
        """
        return self == key or self.startswith(f"{key}.")

    def labelled(self, labels: Mapping[str, str]) -> str:
        """The texts for the parts of the name.

        >>> Case("n1_10.lia").labelled({"n1_10": "N1 = 10", "lia": "LIA"})
        'N1 = 10, LIA'
        """
        return ", ".join(labels.get(part, part) for part in self.parts)

    def swept(self, over: Collection[str]) -> str | None:
        """The one part of the setting that is in `over`; None if none or several are.

        >>> Case("s4.mbps10.lia").swept({"mbps10": 10, "mbps20": 20})
        'mbps10'
        """
        found = [part for part in self.parts[:-1] if part in over]
        return found[0] if len(found) == 1 else None

    def without(self, part: str) -> "Case":
        """The name without one part of its setting.

        >>> Case("s4.mbps10.lia").without("mbps10")
        's4.lia'
        """
        return Case.of(*(one for one in self.parts if one != part))
