"""What is not modelled, and the way out: a sentence behind the error of an unknown name or key."""

import re

WRITE_IT = (
    "write it as a rule in Python if it acts on acknowledged and lost packets "
    "(docs/reference/rules.md)"
)
LINUX = "not modelled; Linux hosts have it: --on kernel, as root (docs/reference/lab.md)"

WAYS = {
    "bbr2": "not modelled; bbr and bbr3 are",
    "illinois|htcp|westwood|hybla|highspeed|scalable|bic|nv|yeah|veno|cdg": LINUX,
    "prague|l4s": 'not modelled; dctcp with tcp.ecn = "accurate" and queue.dualpi2 are '
    "(docs/reference/queues.md)",
    "copa|ledbat|vivace|pcc|scream|sprout|remy": f"not modelled; {WRITE_IT}",
    "jitter|delay_jitter|jitter_us": "delays of links vary at random with jitter_ms, or by a trace "
    "with a column delay_ms; those of hosts with tcp.host_jitter_us (docs/reference/traces.md)",
    "ack_loss|ack_links|reverse|reverse_mbps|up|up_mbps|upload_mbps|uplink": "acknowledgements are "
    "queued and lost where a path names links for its way back: back = [...] "
    "(docs/reference/two-way.md)",
    "ecn": "ECN is a key of hosts: tcp.ecn; queues of AQM then mark (docs/reference/queues.md)",
    "reordering|gap|displace": "packets overtake one another on a link with reorder = { ... } "
    "(docs/reference/traces.md)",
    "duplicate|duplication|corrupt": "links lose packets and do not duplicate or change them: "
    "loss.bernoulli",
    "cake|sfq|fq|tbf|htb|choke|wfq|drr": "not modelled; queue.fq_codel shares by flow, "
    "queue.policer limits a rate (docs/reference/queues.md)",
    "py": "a rule in a file is FILE.py:CLASS, such as my_rule.py:MyRule",
    "mtu|mss|tso|gro|mac": "not modelled: a link serves packets of packet_bytes one by one",
}
"""Names and keys that other simulators have, separated by bars, and what is said of them."""

_ASKED = re.compile(
    r'unknown (?:algorithm|value) "([^"]+)"|([\w.-]+)(?:=\S*)?: unknown key|'
    r"--set ([\w. -]+)=\S*: unknown key"
)


def with_way(message: str) -> str:
    """The message of an error with a way out where it names what is known to be missing.

    >>> with_way('unknown algorithm "cdg": expected one of reno, lia').partition("; ")[2][:32]
    'not modelled; Linux hosts have i'
    >>> with_way('unknown algorithm "lai": expected one of reno, lia')
    'unknown algorithm "lai": expected one of reno, lia'
    """
    asked = _ASKED.search(message)
    if not asked:
        return message
    name = next(filter(None, asked.groups())).split(".")[-1].split(":")[0].strip().lower()
    for names, way in WAYS.items():
        if name.replace("-", "_") in names.split("|"):
            return f"{message}; {way}"
    return message
