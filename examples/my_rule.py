"""An idea tried in ten lines: what does LIA take that backs off by a third instead of a half?

Also: anabranch compare examples/two_links.toml -a lia,examples/my_rule.py:Gentle
"""

import anabranch


class Gentle(anabranch.Rule):
    """LIA's increase without its cap; a loss costs a third of the window."""

    def increase(self, r, paths):
        best = max(path.window / path.rtt**2 for path in paths)
        return best / sum(path.rate for path in paths) ** 2

    def decrease(self, r, paths):
        return paths[r].window / 3


if __name__ == "__main__":  # not where `anabranch judge` or `theory prove` reads this file
    result = anabranch.run("examples/two_links.toml", algorithm=["lia", Gentle()], seeds=3)
    print(result.summary().to_string())
