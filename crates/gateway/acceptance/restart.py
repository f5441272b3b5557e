"""`far` is killed under load and started again.

    sudo .venv/bin/python crates/gateway/acceptance/restart.py

Passes if every old connection ends with an error, none with an end as if complete, and a new
connection is served at most 2 s after the restart. `--graceful 1` sends SIGTERM instead of SIGKILL.
"""

import sys
import time

from gateways import SOCKS, Gateways, options, verdict
from hosts import HERE, Link, load, start

LIMIT_S = 2


def main() -> None:
    """Print a line per carrier."""
    chosen = options(__doc__, connections=20, graceful=0)
    for carrier in chosen.carrier:
        with start([Link(40, 10), Link(20, 30)]) as lab:
            lab.serve()
            gateways = Gateways(lab, carrier, chosen.algorithm)
            arguments = ["--way", f"socks={SOCKS}", "--connections", chosen.connections]
            old = lab.script("hashed", "run", *arguments, "--seconds", 60, "--kbps", 100)
            time.sleep(4)
            killed_at = time.monotonic()
            if chosen.graceful:
                gateways.far.popen.terminate()
            else:
                gateways.far.kill()
            time.sleep(0.5)
            gateways.far = gateways.start("far")
            started_at = time.monotonic()
            probe = [sys.executable, HERE / "ways.py", f"socks={SOCKS}", lab.server, "7000"]
            lab.run("near", probe, 60)
            served_s = time.monotonic() - started_at
            report = old.report(120)
            ended_s = time.monotonic() - killed_at
            failed = sum(count for _, count in report["errors"])
            holds = served_s <= LIMIT_S and report["intact"] == 0 and failed >= chosen.connections
            print(
                f"{carrier}: new connection {served_s:.2f} s after the restart; the last old one "
                f"ended after {ended_s:.1f} s, {report['intact']} as if nothing had happened; "
                f"{verdict(holds)}; {load()}"
            )
            for error, count in report["errors"]:
                print(f"  {count} x {error}")


if __name__ == "__main__":
    main()
