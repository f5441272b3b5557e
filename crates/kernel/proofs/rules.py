"""Bounds what the rules give in the soft floats of the kernel, for all states of a connection.

    python crates/kernel/proofs/rules.py                      # every rule, 1 to 8 paths
    python crates/kernel/proofs/rules.py lia --paths 1,2      # one of them
    python crates/kernel/proofs/rules.py examples/my_rule.py:Gentle

A rule's code is evaluated in numbers that hold every value that soft floats may give: windows of 1
to 2^32 packets, RTTs of 1/8 us to 537 s, any losses. No divisor may be 0 and no result beyond the
format; a loss must leave a part of the window. Rounding errors, of 1e-8 at most, are in --json
only. The last column lists what is not shown; `generalized` may take more than the window.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from anabranch.scenario import ScenarioError
from bounds import survey
from bounds.rule_bounds import TIMEOUT_S
from bounds.states import MOST_PATHS


def main(given: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rules", nargs="*", metavar="RULE", help="of the table, or FILE.py:CLASS")
    parser.add_argument("--paths", metavar="N,...", help=f"default: 1 to {MOST_PATHS}")
    parser.add_argument(
        "--timeout-s", type=float, default=TIMEOUT_S, help="for one rule and number"
    )
    parser.add_argument("--record", type=Path, metavar="FILE.csv", help="a row per rule")
    parser.add_argument("--json", action="store_true", help="a JSON document")
    arguments = parser.parse_args(given)
    try:
        numbers = survey.PATHS if arguments.paths is None else _numbers(arguments.paths)
        rules = arguments.rules or survey.every_rule()
        found = survey.bounds_of(rules, numbers, arguments.timeout_s)
    except ScenarioError as error:
        print(error, file=sys.stderr)
        return 2
    table = survey.record(found)
    if arguments.record:
        arguments.record.write_text(table, encoding="utf-8")
    print(json.dumps(found.as_dict()) if arguments.json else table, end="")
    return 0


def _numbers(paths: str) -> list[int]:
    known = {str(number): number for number in survey.PATHS}
    given = paths.split(",")
    if unknown := [text for text in given if text not in known]:
        raise ScenarioError(f"--paths {unknown[0]}: expected numbers from 1 to {MOST_PATHS}")
    return [known[text] for text in given]


if __name__ == "__main__":
    sys.exit(main())
