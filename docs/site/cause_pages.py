"""A page per cause that `anabranch diagnose` names, under the words that people search for."""

import re
from pathlib import Path

from anabranch.diagnose.answer import words

TITLES = {
    "plain-tcp": "MPTCP uses only one interface: the program uses plain TCP",
    "peer-without-mptcp": "MPTCP falls back to TCP: the server does not use it",
    "options-stripped": "MPTCP falls back to TCP: the provider strips its options",
    "path-dead": "MPTCP second path does not answer, or died",
    "limits-forbid": "MPTCP second subflow not created: the limits forbid it",
    "add-addr-not-accepted": "MPTCP second subflow not created: announced addresses are not taken",
    "no-endpoint": "MPTCP only one subflow: no endpoint",
    "endpoint-without-device": "MPTCP only one subflow: no device has the endpoint's address",
    "backup-flag": "MPTCP subflow established but no traffic: it is a backup",
    "mtu-black-hole": "MPTCP subflow established but no traffic: the MTU is too large",
    "wrong-route": "Two WANs, the speed of one: packets take the wrong route",
    "pacing": "A program limits its own rate",
    "application": "iperf3 or a program sends less than expected: it has no data at times",
    "own-shaper": "A queueing discipline of this host limits a path",
    "held-back": "A path carries nothing: the kernel program holds it back",
    "bufferbloat": "High ping when both links are used: a queue stands on a path",
    "slow-path-blocks": "MPTCP slower than a single path: LTE makes DSL slower",
    "receive-buffer": "MPTCP slower than expected: the receive buffer is too small",
    "send-buffer": "MPTCP slower than expected: the send buffer is too small",
    "loss": "LTE or Starlink carries nearly nothing: random loss",
    "policer": "LTE carries nearly nothing: a policer",
    "shared-bottleneck": "100 + 100 = 100: both paths share one bottleneck",
}


def write(folder: Path) -> None:
    """Write `causes/ID.md` for every cause, and the list of them, `cause-pages.md`."""
    (folder / "causes").mkdir()
    for name, title in TITLES.items():
        said = words()[name]
        (folder / "causes" / f"{name}.md").write_text(
            f"# {title}\n\n`anabranch diagnose` prints `{name}`: {_marked(said['sentence'])}.\n\n"
            f"## Remedy\n\n{_marked(said['remedy'])}\n\n"
            "Words in capitals are filled in from your files. [How to collect "
            "them](../../how-to/diagnose.md), [all causes](../cause-pages.md).\n"
        )
    links = "\n".join(f"- [{title}](causes/{name}.md)" for name, title in TITLES.items())
    names = "\n".join(f"causes/{name}.md" for name in TITLES)
    (folder / "cause-pages.md").write_text(
        "# Why two links are slower than one\n\nEach page has one cause, as `anabranch diagnose` "
        "names it, with its remedy. [How to ask it](../how-to/diagnose.md).\n\n"
        f"{links}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )


def _marked(text: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), text)
