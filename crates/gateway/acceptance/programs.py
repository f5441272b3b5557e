"""Real programs, unmodified, through the gateway: curl, wrk with nginx, rsync over ssh, dig.

    sudo .venv/bin/python crates/gateway/acceptance/programs.py

Needs (Debian) curl, wrk, nginx-light, rsync, openssh-server, dnsutils, dnsmasq-base and nftables.
The servers run in host `server`, everything else in `near`. What was fetched is compared with the
original, and nginx's log says whether it came through the tunnel.
"""

import hashlib
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from gateways import DNS, SOCKS, Gateways, options, verdict
from hosts import SERVER, Lab, Link, load, start

HTTP, SSH, REDIRECT = 8080, 2222, 1081
"""Ports in `near`."""
NAME, ADDRESS = "files.example", "192.0.2.7"
FILE_MB = 20

NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 4096; }}
http {{
  access_log {folder}/access.log;
  server {{ listen 80 backlog=1024; root {folder}/files; keepalive_requests 1000000; }}
}}
"""
SSHD = """
Port 22
HostKey {folder}/ssh.key
AuthorizedKeysFile {folder}/ssh.key.pub
PidFile {folder}/sshd.pid
StrictModes no
UsePAM no
PermitRootLogin yes
"""
NFT = f"""
table ip tunnel {{
  chain output {{
    type nat hook output priority -100;
    ip daddr {SERVER} tcp dport 80 redirect to :{REDIRECT}
  }}
}}
"""


def serve(lab: Lab) -> Path:
    """Start the servers; the file that they offer."""
    folder = lab.folder
    folder.chmod(0o755)
    (folder / "files").mkdir()
    file = folder / "files" / "file"
    file.write_bytes(os.urandom(FILE_MB << 20))
    (folder / "files" / "small").write_bytes(bytes(1000))
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
    (folder / "sshd.conf").write_text(SSHD.format(folder=folder))
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "ssh.key"]
    subprocess.run(keygen, check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    lab.spawn("server", ["nginx", "-c", folder / "nginx.conf"], "nginx.out")
    lab.spawn("server", ["/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd.conf"], "sshd.log")
    resolver = ["dnsmasq", "-k", "-C", "/dev/null", "-R", "-h", "-u", "root", "-a", SERVER]
    lab.spawn("server", [*resolver, f"--address=/{NAME}/{ADDRESS}"], "dnsmasq.log")
    time.sleep(0.5)
    return file


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def curl(lab: Lab, file: Path, *arguments: str) -> str:
    """Fetch the file and compare it; the rate, and the client that nginx saw."""
    copy = lab.folder / "fetched"
    copy.unlink(missing_ok=True)
    log = lab.folder / "access.log"
    log.write_text("")
    begin = time.monotonic()
    lab.run("near", ["curl", "-sSf", "-m", "60", "-o", copy, *arguments])
    seconds = time.monotonic() - begin
    assert digest(copy) == digest(file), "the file is another"
    client = log.read_text().split()[0]
    assert client == SERVER, f"not through the tunnel: nginx saw {client}"
    return f"{FILE_MB} MB intact, {FILE_MB * 8.388608 / seconds:.1f} Mbit/s"


def wrk(lab: Lab) -> str:
    """Many small requests over 50 connections."""
    command = ["wrk", "-t1", "-c50", "-d5s", "--latency", f"http://127.0.0.1:{HTTP}/small"]
    text = lab.run("near", command)
    faults = re.findall(r"Socket errors.*|Non-2xx.*", text)
    assert not faults, faults
    found = [re.search(rf"{word}\s+(\S+)", text) for word in ("Requests/sec:", "50%", "99%")]
    rate, median, p99 = (match.group(1) if match else "?" for match in found)
    assert float(rate) > 0, text
    return f"{rate} requests/s, median {median}, 99th percentile {p99}"


def rsync(lab: Lab, file: Path) -> str:
    """A file to the server and back, over ssh."""
    ssh = f"ssh -p {SSH} -i {lab.folder}/ssh.key -o StrictHostKeyChecking=no"
    ssh += " -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    there, back = lab.folder / "there", lab.folder / "back"
    for copy in (there, back):
        copy.unlink(missing_ok=True)
    for words in ([file, f"root@127.0.0.1:{there}"], [f"root@127.0.0.1:{there}", back]):
        lab.run("near", ["rsync", "-e", ssh, *words])
    assert digest(file) == digest(there) == digest(back), "the copy is another"
    return f"{FILE_MB} MB there and back intact"


def dig(lab: Lab, *arguments: str) -> str:
    """A name, resolved by the server's resolver."""
    host, port = DNS.split(":")
    answer = lab.run("near", ["dig", f"@{host}", "-p", port, "+short", *arguments, NAME]).strip()
    assert answer == ADDRESS, f"{answer!r} instead of {ADDRESS}"
    return answer


def programs(lab: Lab, file: Path) -> dict[str, Callable[[], str]]:
    """Programs by name; the last one redirects from then on."""
    socks, url = ("-x", f"socks5h://{SOCKS}"), f"http://{SERVER}/file"

    def redirected() -> str:
        rules = lab.folder / "redirect.nft"
        rules.write_text(NFT)
        lab.run("near", ["nft", "-f", rules])
        return curl(lab, file, url)

    return {
        "curl, SOCKS5": lambda: curl(lab, file, *socks, url),
        "curl, forward": lambda: curl(lab, file, f"http://127.0.0.1:{HTTP}/file"),
        "wrk, forward": lambda: wrk(lab),
        "rsync over ssh": lambda: rsync(lab, file),
        "dig": lambda: dig(lab),
        "dig +tcp": lambda: dig(lab, "+tcp"),
        "curl, redirect": redirected,
    }


def main() -> None:
    """Print a line per program and carrier."""
    chosen = options(__doc__)
    forwards = [(HTTP, f"{SERVER}:80"), (SSH, f"{SERVER}:22")]
    redirect = f'[redirect]\nlisten = "127.0.0.1:{REDIRECT}"\n'
    resolver = f"{SERVER}:53"
    for carrier in chosen.carrier:
        with start([Link(40, 10), Link(20, 30)]) as lab:
            lab.serve()
            file = serve(lab)
            Gateways(lab, carrier, chosen.algorithm, (0, 1), forwards, redirect, resolver)
            for name, run in programs(lab, file).items():
                try:
                    line = f"{verdict(True)}  {run()}"
                except (AssertionError, RuntimeError, subprocess.TimeoutExpired) as error:
                    line = f"{verdict(False)}  {error}"
                print(f"{carrier:6} {name:15} {line}", flush=True)
            print(f"  {load()}")


if __name__ == "__main__":
    main()
