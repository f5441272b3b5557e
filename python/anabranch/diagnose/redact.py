"""Copies of files without addresses, tokens and names, replaced alike in all of them."""

import pathlib
import re
from collections.abc import Callable, Iterable

from anabranch._core import ScenarioError

IPV4 = re.compile(r"(?<![\d.:])(\d{1,3}\.\d{1,3}\.\d{1,3})\.(\d{1,3})(?![\d.])")
MAPPED = re.compile(r"(?<=::ffff:)(\d{1,3}\.\d{1,3}\.\d{1,3})\.(\d{1,3})")
IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9a-f:]*:[0-9a-f:]*:)[0-9a-f]{1,4}:[0-9a-f:]*[0-9a-f](?![\w:.])"
)
MAC = re.compile(r"(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])")
TOKEN = re.compile(r"(?<=[:/])[0-9a-f]{6,8}(?=\(id:)|(?<=token:)[0-9a-f]{6,8}\b")
NAMES = re.compile(r'(users:\(\(.*?\)\))|(?<="system_info":)\s*".*?"|(?<="cookie":)\s*".*?"')
KEPT = re.compile(r"(0\.0\.0|127\.|255\.|224\.|::1$|fe80:|ff)")


class Redaction:
    """Replacements, which hold for all texts that it is given."""

    def __init__(self) -> None:
        self._networks: dict[str, str] = {}
        self._others: dict[str, dict[str, str]] = {}

    def text(self, text: str) -> str:
        """The text with what it tells of people and places replaced."""
        text = NAMES.sub(lambda m: "" if m[1] else ' "redacted"', text)
        text = MAC.sub(lambda m: self._number("mac", m[0], "02:00:00:00:00:{:02x}"), text)
        text = TOKEN.sub(lambda m: self._number("token", m[0], "{:08x}"), text)
        text = MAPPED.sub(self._ipv4, text)
        text = IPV6.sub(self._ipv6, text)
        return IPV4.sub(self._ipv4, text)

    def _ipv4(self, found: re.Match[str]) -> str:
        if KEPT.match(found[0]) or max(map(int, found[0].split("."))) > 255:
            return found[0]
        network = self._networks.setdefault(found[1], f"10.{len(self._networks)}.0")
        return f"{network}.{found[2]}"

    def _ipv6(self, found: re.Match[str]) -> str:
        if KEPT.match(found[0]):
            return found[0]
        return self._number("ipv6", found[0], "2001:db8::{:x}")

    def _number(self, kind: str, old: str, form: str) -> str:
        known = self._others.setdefault(kind, {})
        return known.setdefault(old, form.format(len(known) + 1))


def redact(
    files: Iterable[pathlib.Path], target: pathlib.Path, is_text: Callable[[bytes], bool]
) -> list[str]:
    """Write copies into a new folder; the names of those that were left out, as captures are.

    Raises `ScenarioError` where the folder exists, and OSError.
    """
    if target.exists():
        raise ScenarioError(f"{target}: exists already: name a new folder")
    redaction, left, copies = Redaction(), [], {}
    for file in files:
        for one in sorted(file.iterdir()) if file.is_dir() else [file]:
            if one.is_dir():
                continue
            data = one.read_bytes()
            if not is_text(data):
                left.append(one.name)
                continue
            copies[one.name] = redaction.text(data.decode("utf-8", errors="replace"))
    target.mkdir(parents=True)
    for name, text in copies.items():
        (target / name).write_text(text, encoding="utf-8")
    return left
