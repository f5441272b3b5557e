"""The how-to of the gateway, followed to the letter on two hosts with two links between them."""

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from repository.printed import ROOT, Command, Workspace, blocks, commands
from repository.session import Session, masked

PAGE = ROOT / "docs/how-to/gateway.md"
PROGRAMS = ("anabranch-gateway", "curl", "dig", "ip", "openssl")

INTERNET = r"""
import http.server, socket, ssl, threading

def resolve():
    while True:
        query, client = server.recvfrom(600)
        question = query[12 : query.index(0, 12) + 5]
        answers = [b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("93.184.215.14")]
        answers = answers if question[-4:] == b"\0\1\0\1" else []
        head = query[:2] + b"\x81\x80\0\1" + bytes([0, len(answers), 0, 0, 0, 0])
        server.sendto(head + question + b"".join(answers), client)

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("9.9.9.9", 53))
threading.Thread(target=resolve).start()
pages = http.server.HTTPServer(("93.184.215.14", 443), http.server.SimpleHTTPRequestHandler)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("cert.pem", "key.pem")
pages.socket = tls.wrap_socket(pages.socket, server_side=True)
print("serves", flush=True)
pages.serve_forever()
"""
"""The resolver of `init far`, and https://example.org/."""

NETWORK = """
mkdir -p /run/netns near far && mount -t tmpfs tmpfs /run/netns
echo 10.3.0.2 gateway.example.org >hosts && mount --bind hosts /etc/hosts
sysctl -qw net.ipv4.ip_forward=1
ip address add 9.9.9.9/32 dev lo && ip address add 93.184.215.14/32 dev lo
ip netns add near && ip netns add far
link() {
    ip link add net$3 type veth peer name $2 netns $1
    ip address add 10.$3.0.1/24 dev net$3 && ip link set net$3 up
    ip -n $1 address add 10.$3.0.2/24 dev $2 && ip -n $1 link set $2 up && ip -n $1 link set lo up
    ip -n $1 route add default via 10.$3.0.1 metric $3
}
link near eth0 1 && link near wwan0 2 && link far eth0 3
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 \\
    -subj /CN=example.org -addext subjectAltName=DNS:example.org
export CURL_CA_BUNDLE=$PWD/cert.pem
"""
"""The hosts `near` and `far`, each with a folder, and the internet, which is this host."""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path)
    programs = Path(os.environ.get("ANABRANCH_GATEWAY", "")).absolute().parent
    workspace.environment["PATH"] = f"{programs}{os.pathsep}{workspace.environment['PATH']}"
    lacks = [it for it in PROGRAMS if not shutil.which(it, path=workspace.environment["PATH"])]
    lacks += ["root"] if os.geteuid() else []
    if lacks:
        message = f"two hosts can't be made here: no {', no '.join(lacks)}"
        assert "ANABRANCH_REQUIRE_KERNEL" not in os.environ, message
        pytest.skip(message)
    return workspace


def printed_command(output: list[str], as_on_the_page: str) -> str:
    """The command that `init` prints for the other host, as the page has it but for the key."""
    found = next(line.strip() for line in output if "anabranch-gateway init" in line)
    assert masked(found) == masked(as_on_the_page.removesuffix(" > next"))
    return found


@pytest.mark.slow
def test_the_commands_of_the_how_to_load_a_page_over_two_links(workspace: Workspace) -> None:
    known = [it for block in blocks(PAGE) if block.as_root for it in commands(block)]
    [first, for_far, for_near, check] = [it.text for it in known if "anabranch-gateway" in it.text]
    [both] = [block for block in blocks(PAGE) if block.lines[0].startswith("far$ ")]
    (workspace.directory / "internet.py").write_text(INTERNET)
    with Session(workspace) as session:

        def on(host: str, command: str, lines: str = "") -> list[str]:
            inside = shlex.quote(f"cd {host}; exec {command}")
            job = " &" if lines else ""
            return session.enter(Command(f"ip netns exec {host} sh -c {inside}{job}", [lines]))

        session.enter(Command(NETWORK, []))
        session.enter(Command("python internet.py &", ["serves"]))
        for_far = printed_command(on("near", first), for_far)
        for_near = printed_command(on("far", for_far), for_near)
        assert "    # " not in "\n".join(on("near", for_near)), "a link without an address"
        on("near", check)
        outputs = []
        for line in both.lines:
            host, command = re.split("[$#] ", line, maxsplit=1)
            if " status " in command:  # of the last second
                session.enter(Command("sleep 2", []))
            starts = command == f"anabranch-gateway {host} {host}.toml"
            outputs.append(on(host, command, f"{host} started with" if starts else ""))
    _, _, _, page, answer, status = ("\n".join(output) for output in outputs)
    assert "internet.py" in page
    assert "93.184.215.14" in answer
    paths = [line.split() for line in status.splitlines() if "10." in line]
    assert {("fibre", "up"), ("lte", "up")} == {(path[0], path[1]) for path in paths}, status
