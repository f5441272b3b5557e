"""CoDel, FQ-CoDel, PIE and DualPI2 of the links beside an implementation of the RFCs' pseudocode.

    .venv/bin/python benches/queues/pseudocode.py

The same arrivals, drawn once, go through `cargo run -p anabranch-net --example queue` and through
the classes below, which share no code with the links: floating-point seconds, lists, and the
pseudocode of RFC 8289 (section 5), RFC 8290 (section 4), RFC 8033 (section 4, with the marks of
section 5.1; derandomized by section 5.4) and RFC 9332 (appendix A.2, with Linux' step and weights).
With ECN two of the three large flows are of low delay (ECT(1)), which DualPI2 alone sees. Printed
for each: the median and the 95th percentile of the time that packets wait, drops and marks, and the
deviation of the links from the pseudocode.

`linux.py` beside it compares the links with Linux' own queues.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from arrivals import MTU, RATE_MBPS, Fates, Packet, arrivals, by_link


class CodelQueue:
    """RFC 8289, section 5."""

    TARGET, INTERVAL = 0.005, 0.100

    def __init__(self, fates: Fates, limit: float = 1000) -> None:
        self.packets: deque[Packet] = deque()
        self.fates, self.limit = fates, limit
        self.first_above_time = self.drop_next = 0.0
        self.count = self.lastcount = 0
        self.dropping = False

    def bytes(self) -> int:
        return sum(packet.size for packet in self.packets)

    def __len__(self) -> int:
        return len(self.packets)

    def enque(self, packet: Packet) -> None:
        if len(self.packets) >= self.limit:
            self.fates.drops += 1
        else:
            self.packets.append(packet)

    def control_law(self, t: float) -> float:
        return t + self.INTERVAL / math.sqrt(self.count)

    def dodeque(self, now: float) -> tuple[Packet | None, bool]:
        if not self.packets:
            self.first_above_time = 0.0
            return None, False
        p = self.packets.popleft()
        if now - p.at < self.TARGET or self.bytes() <= MTU:
            self.first_above_time = 0.0
        elif self.first_above_time == 0.0:
            self.first_above_time = now + self.INTERVAL
        elif now >= self.first_above_time:
            return p, True
        return p, False

    def drop(self, packet: Packet | None) -> bool:
        """Drop a packet; false if it is marked instead."""
        if packet is not None and packet.capable:
            packet.marked = True
            return False
        self.fates.drops += 1
        return True

    def deque(self, now: float) -> Packet | None:
        p, ok_to_drop = self.dodeque(now)
        if self.dropping:
            if not ok_to_drop:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                self.count += 1
                if not self.drop(p):
                    self.drop_next = self.control_law(self.drop_next)
                    break
                p, ok_to_drop = self.dodeque(now)
                if not ok_to_drop:
                    self.dropping = False
                else:
                    self.drop_next = self.control_law(self.drop_next)
        elif ok_to_drop:
            if self.drop(p):
                p, ok_to_drop = self.dodeque(now)
            self.dropping = True
            delta = self.count - self.lastcount
            self.count = 1
            if delta > 1 and now - self.drop_next < 16 * self.INTERVAL:
                self.count = delta
            self.drop_next = self.control_law(now)
            self.lastcount = self.count
        return p


class FqCodelQueue:
    """RFC 8290, section 4, with a queue per flow: no two flows are hashed to the same."""

    QUANTUM, LIMIT = 1514, 10240

    def __init__(self, fates: Fates) -> None:
        self.fates = fates
        self.queues: dict[int, CodelQueue] = {}
        self.credits: dict[int, int] = {}
        self.new: list[int] = []
        self.old: list[int] = []

    def __len__(self) -> int:
        return sum(len(queue) for queue in self.queues.values())

    def enque(self, packet: Packet) -> None:
        flow = packet.flow
        queue = self.queues.setdefault(flow, CodelQueue(self.fates, math.inf))
        queue.enque(packet)
        if flow not in self.new and flow not in self.old:
            self.credits[flow] = self.QUANTUM
            self.new.append(flow)
        if len(self) > self.LIMIT:
            raise NotImplementedError("the arrivals must not exceed the limit")

    def deque(self, now: float) -> Packet | None:
        while self.new or self.old:
            source = self.new if self.new else self.old
            flow = source[0]
            if self.credits[flow] <= 0:
                self.credits[flow] += self.QUANTUM
                self.old.append(source.pop(0))
                continue
            packet = self.queues[flow].deque(now)
            if packet is not None:
                self.credits[flow] -= packet.size
                return packet
            source.pop(0)
            if source is self.new and self.old:
                self.old.append(flow)
        return None


class PieQueue:
    """RFC 8033, section 4; the departure rate is known."""

    QDELAY_REF = T_UPDATE = 0.015
    ALPHA, BETA, MAX_BURST, LIMIT = 0.125, 1.25, 0.150, 1000

    def __init__(self, fates: Fates, derandomize: bool = False) -> None:
        self.fates, self.derandomize, self.accu_prob = fates, derandomize, 0.0
        self.packets: deque[Packet] = deque()
        self.size = 0
        self.drop_prob = self.qdelay_old = 0.0
        self.burst_allowance = self.MAX_BURST
        self.random = random.Random(1)

    def __len__(self) -> int:
        return len(self.packets)

    def enque(self, packet: Packet) -> None:
        early = self.burst_allowance <= 0 and self.drop_early()
        if early and packet.capable and self.drop_prob <= 0.1:
            packet.marked = True
        elif early or len(self.packets) >= self.LIMIT:
            self.fates.drops += 1
            return
        self.packets.append(packet)
        self.size += packet.size

    def drop_early(self) -> bool:
        calm = self.qdelay_old < self.QDELAY_REF / 2 and self.drop_prob < 0.2
        if calm or self.size <= 2 * MTU:
            return False
        if self.derandomize:
            if self.drop_prob == 0:
                self.accu_prob = 0.0
            self.accu_prob += self.drop_prob
            if self.accu_prob < 0.85:
                return False
            if self.accu_prob >= 8.5:
                self.accu_prob = 0.0
                return True
        if self.random.random() >= self.drop_prob:
            return False
        self.accu_prob = 0.0
        return True

    def deque(self, now: float) -> Packet | None:
        if not self.packets:
            return None
        packet = self.packets.popleft()
        self.size -= packet.size
        return packet

    def current_qdelay(self) -> float:
        return self.size * 8 / (RATE_MBPS * 1e6)

    def update(self, now: float) -> None:
        """`calculate_drop_prob`."""
        qdelay = self.current_qdelay()
        p = self.ALPHA * (qdelay - self.QDELAY_REF) + self.BETA * (qdelay - self.qdelay_old)
        for below, divisor in ((1e-6, 2048), (1e-5, 512), (1e-4, 128), (1e-3, 32), (1e-2, 8)):
            if self.drop_prob < below:
                p /= divisor
                break
        else:
            if self.drop_prob < 0.1:
                p /= 2
            elif p > 0.02:
                p = 0.02
        self.drop_prob += p
        calm = qdelay < self.QDELAY_REF / 2 and self.qdelay_old < self.QDELAY_REF / 2
        if qdelay == 0 and self.qdelay_old == 0:
            self.drop_prob *= 0.98
        self.drop_prob = min(max(self.drop_prob, 0.0), 1.0)
        self.burst_allowance = max(0.0, self.burst_allowance - self.T_UPDATE)
        if calm and self.drop_prob == 0:
            self.burst_allowance = self.MAX_BURST
        self.qdelay_old = qdelay


class DualPi2Queue:
    """RFC 9332, appendix A.2: names are those of its figures. The scheduler is Linux' WRR."""

    TARGET, T_UPDATE, ALPHA, BETA, K = 0.015, 0.016, 0.16, 3.2, 2
    STEP, TH_LEN, LIMIT = 0.001, 1, 10_000
    MIN_BYTES = 0  # With less waiting Linux neither drops nor marks by p.
    WEIGHT_C, WEIGHT_L = 10, 90

    def __init__(self, fates: Fates) -> None:
        self.fates = fates
        self.lq: list[Packet] = []
        self.cq: list[Packet] = []
        self.count = {True: 0.0, False: 0.0}
        self.p = self.prevq = 0.0
        self.credit = 0

    def __len__(self) -> int:
        return len(self.lq) + len(self.cq)

    def enque(self, packet: Packet) -> None:
        if len(self) >= self.LIMIT:
            self.fates.drops += 1
            return
        if len(self) == 0:
            self.credit = MTU * (self.WEIGHT_C - self.WEIGHT_L)
        (self.lq if packet.low_delay else self.cq).append(packet)

    def recur(self, low: bool, likelihood: float) -> bool:
        self.count[low] += likelihood
        if self.count[low] > 1:
            self.count[low] -= 1
            return True
        return False

    def deque(self, now: float) -> Packet | None:
        while len(self):
            if self.lq and (not self.cq or self.credit <= 0):
                packet = self.lq.pop(0)
                p_c, p_cl = self.likelihoods()
                if p_cl < 1:
                    waited = now - packet.at
                    native = 1.0 if waited >= self.STEP and len(self.lq) > self.TH_LEN else 0.0
                    packet.marked = self.recur(True, max(native, p_cl))
                elif self.recur(True, p_c):
                    self.fates.drops += 1
                    continue
                else:
                    packet.marked = self.recur(True, 1.0)
                self.credit += self.WEIGHT_C * packet.size if self.cq else 0
                return packet
            packet = self.cq.pop(0)
            p_c, _ = self.likelihoods()
            if self.recur(False, p_c):
                if not packet.capable or p_c >= 1 / self.K**2:
                    self.fates.drops += 1
                    continue
                packet.marked = True
            self.credit -= self.WEIGHT_L * packet.size if self.lq else 0
            return packet
        return None

    def likelihoods(self) -> tuple[float, float]:
        if self.MIN_BYTES and sum(it.size for it in self.lq + self.cq) < self.MIN_BYTES:
            return 0.0, 0.0
        return self.p**2, self.K * self.p

    def update(self, now: float) -> None:
        curq = max((now - queue[0].at if queue else 0.0) for queue in (self.lq, self.cq))
        self.p += self.ALPHA * (curq - self.TARGET) + self.BETA * (curq - self.prevq)
        self.p = min(max(self.p, 0.0), 1.0)
        self.prevq = curq


PSEUDOCODE: dict[str, Callable[[Fates], Any]] = {
    "codel": CodelQueue,
    "fq_codel": FqCodelQueue,
    "pie": PieQueue,
    "pie_derandomized": lambda fates: PieQueue(fates, derandomize=True),
    "dualpi2": DualPi2Queue,
}


def by_pseudocode(name: str, offered: list[Packet]) -> Fates:
    fates = Fates()
    queue = PSEUDOCODE[name](fates)
    free = 0.0
    period: float = getattr(queue, "T_UPDATE", math.inf)
    update = period

    def serve(until: float) -> None:
        nonlocal free
        while len(queue) and free <= until:
            packet = queue.deque(free)
            if packet is not None:
                fates.waits_ms.append(1e3 * (free - packet.at))
                fates.marks += packet.marked
                free += packet.size * 8 / (RATE_MBPS * 1e6)

    for packet in offered:
        while update <= packet.at:
            serve(update)
            queue.update(update)
            update += period
        serve(packet.at)
        if not len(queue) and free < packet.at:
            free = packet.at
        queue.enque(packet)
    serve(math.inf)
    return fates


COLUMNS = ("median ms", "95 % ms", "drops", "marks")


def line(label: str, who: str, cells: Sequence[str]) -> str:
    return f"{label:22} {who:11}" + "".join(f"{cell:>11}" for cell in cells)


def main() -> None:
    print(line("queue, ECN", "", COLUMNS))
    for name in PSEUDOCODE:
        for capable in (False, True):
            label = f"{name}, {'on' if capable else 'off'}"
            theirs = by_pseudocode(name, arrivals(capable)).row()
            ours = by_link(name, arrivals(capable)).row()
            for who, row in (("pseudocode", theirs), ("link", ours)):
                print(line(label, who, [f"{value:.6g}" for value in row]))
            both = zip(ours, theirs, strict=True)
            apart = [
                f"{100 * (our / their - 1):+.1f} %" if their else f"{our:+g}" for our, their in both
            ]
            print(line(label, "deviation", apart))


if __name__ == "__main__":
    main()
