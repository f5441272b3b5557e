"""Hints after the error of an unknown name or key: a feature that is not modelled, the way out."""

import json
import re

from anabranch.scenario import schema

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
    "abe": "a parameter of rules, such as reno:beta_ecn=0.8, with tcp.ecn "
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
    "buffer|buffer_packets|queue_packets|queue_limit|queue_size|limit|qlen|bdp|droptail|drop_tail|"
    "buffer_kb|buffer_bytes|queue_bytes": "the queue of a link is a table of its kind: "
    "queue.drop_tail = { packets = 100 } (docs/reference/queues.md)",
    "red|codel|fq_codel|pie|aqm": "the queue of a link is a table of its kind, such as "
    "queue.red = {} (docs/reference/queues.md)",
    "latency|latency_ms|delay|delay_s|prop_delay|propagation_ms|one_way_delay_ms|owd_ms": "the "
    "delay of a link, one way, is delay_ms",
    "rtt|rtt_ms|base_rtt_ms|ping|ping_ms": "an RTT comes of the delays of links: delay_ms is one "
    "way, half the RTT of a path over one link",
    "bandwidth|bandwidth_mbps|bw|bw_mbps|capacity|capacity_mbps|rate|rate_kbps|rate_gbps|rate_bps|"
    "speed|speed_mbps|throughput|throughput_mbps|mbps": "the rate of a link is rate_mbps",
    "plr|per|loss_rate|loss_ratio|loss_percent|loss_probability|packet_loss|ber|loss_pct": "random "
    "losses of a link are loss.bernoulli = { probability = 0.01 }",
    "cc|congestion|congestion_control|tcp_congestion_control|rule|cca": "the rule of a flow is "
    "algorithm",
    "users|n|number|connections|parallel": "how many users a flow has is count",
    "duration|time|time_s|run_s|length_s|seconds": "how long a run is: measure.duration_s",
    "seed|rng|random_seed": "the seeds of runs: seeds = [1, 2, 3], or --seeds",
    "pacing|pace|paced": "only rules by rate pace, such as bbr; the others send as "
    "acknowledgements come",
    "start|begin_s|start_time": "when a flow starts: start_s",
    "stop|end|end_s|stop_time": "when a flow stops: stop_s",
    "size|file_size|size_bytes|flow_size": "files are a table of their workload: bytes "
    "(docs/reference/workloads.md)",
    "py": "a rule in a file is FILE.py:CLASS, such as my_rule.py:MyRule",
    "mtu|mss|tso|gro|mac": "not modelled: a link serves packets of packet_bytes one by one",
}
"""Names and keys that other simulators have, separated by bars, and what is said of them."""

_ASKED = re.compile(
    r'unknown (?:algorithm|value) "([^"]+)"|([\w.-]+)(?:=\S*)?: unknown key|'
    r"--set ([\w. -]+)=\S*: unknown key"
)


_CUT = re.compile(r"expected one of (.*) and \d+ more")


def _whole(cut: re.Match[str]) -> str:
    """The whole of a list of keys that was cut, from the schema; else where it is."""
    document = json.loads(schema())
    for table in (document, *document.get("$defs", {}).values()):
        keys = ", ".join(table.get("properties", {}))
        if keys.startswith(f"{cut[1]}, "):
            return f"expected one of {keys}"
    return f"{cut[0]} (`anabranch schema` and `anabranch list` have all)"


def with_way(message: str) -> str:
    """The message of an error with a way out where it names what is known to be missing.

    >>> with_way('unknown algorithm "cdg": expected one of reno, lia').partition("; ")[2][:32]
    'not modelled; Linux hosts have i'
    >>> with_way('unknown algorithm "lai": expected one of reno, lia')
    'unknown algorithm "lai": expected one of reno, lia'
    """
    message = _CUT.sub(_whole, message)
    asked = _ASKED.search(message)
    if not asked:
        return message
    name = next(filter(None, asked.groups())).split(".")[-1].split(":")[0].strip().lower()
    for names, way in WAYS.items():
        if name.replace("-", "_") in names.split("|"):
            return f"{message}; {way}"
    return message
