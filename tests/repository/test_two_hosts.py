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
PROGRAMS = ("anabranch-gateway", "curl", "dig", "ip", "nft", "openssl")

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
mkdir -p /run/netns near far pc && mount -t tmpfs tmpfs /run/netns
echo 10.3.0.2 gateway.example.org >hosts && mount --bind hosts /etc/hosts
echo nameserver 192.168.1.1 >resolv.conf && mount --bind resolv.conf /etc/resolv.conf
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
ip netns add pc && ip -n pc link add eth0 type veth peer name lan0 netns near
ip -n near address add 192.168.1.1/24 dev lan0 && ip -n near link set lan0 up
ip -n pc address add 192.168.1.2/24 dev eth0 && ip -n pc link set eth0 up
ip -n pc route add default via 192.168.1.1
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 \\
    -subj /CN=example.org -addext subjectAltName=DNS:example.org
export CURL_CA_BUNDLE=$PWD/cert.pem
"""
"""The hosts `near`, `far` and `pc`, in near's LAN, and the internet, which is this host."""


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
    (tmp_path / "internet.py").write_text(INTERNET)
    return workspace


def printed_command(output: list[str], as_on_the_page: str) -> str:
    """The command that `init` prints for the other host, as the page has it but for the key."""
    found = next(line.strip() for line in output if "anabranch-gateway init" in line)
    assert masked(found) == masked(as_on_the_page.removesuffix(" > next"))
    return found


class Hosts:
    """The hosts, on which the page is followed until both gateways run."""

    def __init__(self, session: Session, options: str = "") -> None:
        self.session = session
        known = [it.text for block in blocks(PAGE) if block.as_root for it in commands(block)]
        first, for_far, for_near, check = (it for it in known if "anabranch-gateway" in it)
        session.enter(Command(NETWORK, []))
        session.enter(Command("python internet.py &", ["serves"]))
        for_far = printed_command(self.on("near", first), for_far)
        for_near = printed_command(self.on("far", for_far), for_near)
        self.printed = "\n".join(self.on("near", for_near + options))
        assert "    # " not in self.printed, "a link without an address"
        self.on("near", check)
        [both] = (block.lines for block in blocks(PAGE) if block.lines[0].startswith("far$ "))
        self.left = []
        for line in both:
            host, command = re.split("[$#] ", line, maxsplit=1)
            if command == f"anabranch-gateway {host} {host}.toml":
                self.on(host, command, f"{host} started with")
            elif command == "sh near.routes":
                self.on(host, command)
            else:
                self.left.append((host, command))

    def on(self, host: str, command: str, line: str = "") -> list[str]:
        """Output of a command in the host's folder, or the line that one in the background has."""
        inside = shlex.quote(f"cd {host}; exec {command}")
        job = " &" if line else ""
        return self.session.enter(Command(f"ip netns exec {host} sh -c {inside}{job}", [line]))


@pytest.mark.slow
def test_the_commands_of_the_how_to_load_a_page_over_two_links(workspace: Workspace) -> None:
    with Session(workspace) as session:
        hosts = Hosts(session)
        page, answer = ("\n".join(hosts.on(*command)) for command in hosts.left[:2])
        session.enter(Command("sleep 2", []))  # the status is of the last second
        [status] = (hosts.on(*command) for command in hosts.left[2:])
    assert "internet.py" in page
    assert "93.184.215.14" in answer
    paths = {tuple(line.split()[:2]) for line in status if "10." in line}
    assert paths == {("fibre", "up"), ("lte", "up")}, status


@pytest.mark.slow
def test_another_machine_of_a_network_that_init_has_prepared_loads_a_page(
    workspace: Workspace,
) -> None:
    with Session(workspace) as session:
        hosts = Hosts(session, " --lan 192.168.1.1/24")
        table = hosts.printed[hosts.printed.index("    table ") :]
        (workspace.directory / "near" / "table").write_text(table)
        hosts.on("near", "nft -f table")
        page = hosts.on("pc", "curl --silent --show-error https://example.org/")
    assert "internet.py" in "\n".join(page)
