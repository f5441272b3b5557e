"""An idea tried in ten lines: how much does a flow lose that backs off by a third of its window?"""

import anabranch


class Gentle(anabranch.Rule):
    """LIA's increase without its cap, on a decrease of a third instead of a half."""

    def increase(self, r, paths):
        best = max(path.window / path.rtt**2 for path in paths)
        return best / sum(path.rate for path in paths) ** 2

    def decrease(self, r, paths):
        return paths[r].window / 3


result = anabranch.run("examples/two_links.toml", algorithm=["lia", Gentle()], seeds=3)
print(result.summary().to_string())
