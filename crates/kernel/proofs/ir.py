"""Executes LLVM IR for every input at once: functions of integers without loops and memory.

https://llvm.org/docs/LangRef.html has the instructions. Of them those are known that rustc makes of
the operations of `Soft`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import z3

from terms import Path, divide, multiply

Value = z3.BitVecRef | tuple[z3.BitVecRef, z3.BitVecRef]
Values = dict[str, Value]

FLAGS = r"(?:(?:nuw|nsw|exact|disjoint|samesign|nneg|noundef|zeroext|fastcc|range\([^)]*\)) )*"
NAME = r'[%@](?:"[^"]*"|[\w.$-]+)'
OPERAND = rf"(?:{NAME}|-?\d+|true|false)"
CALL = rf"(?:({NAME}) = )?(?:tail )?call {FLAGS}\S+ ({NAME})\((.*?)\)( #\d+)?$"

BINARY: dict[str, Callable[[z3.BitVecRef, z3.BitVecRef], z3.BitVecRef]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lshr": z3.LShR,
    "ashr": lambda a, b: a >> b,
}
COMPARISONS: dict[str, Callable[[z3.BitVecRef, z3.BitVecRef], z3.BoolRef]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "ugt": z3.UGT,
    "uge": z3.UGE,
    "ult": z3.ULT,
    "ule": z3.ULE,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
}
OVERFLOWS: dict[str, Callable[[z3.BitVecRef, z3.BitVecRef], z3.BoolRef]] = {
    "sadd": lambda a, b: z3.Not(z3.And(z3.BVAddNoOverflow(a, b, True), z3.BVAddNoUnderflow(a, b))),
    "ssub": lambda a, b: z3.Not(z3.And(z3.BVSubNoOverflow(a, b), z3.BVSubNoUnderflow(a, b, True))),
    "uadd": lambda a, b: z3.Not(z3.BVAddNoOverflow(a, b, False)),
    "usub": lambda a, b: z3.Not(z3.BVSubNoUnderflow(a, b, False)),
}


class UnknownInstruction(Exception):
    """A line of IR that is not among those known here."""


@dataclass
class Function:
    """Names of parameters, and the lines of each block."""

    parameters: list[str]
    first: str
    blocks: dict[str, list[str]]


class Module:
    """The functions of a file of IR."""

    def __init__(self, text: str) -> None:
        self.functions: dict[str, Function] = {}
        definition = rf"^define [^\n]*?({NAME})\(([^\n]*) \{{\n(.*?)^\}}"
        for name, parameters, body in re.findall(definition, text, re.M | re.S):
            parameters = parameters.split(" unnamed_addr")[0]
            blocks: dict[str, list[str]] = {}
            for line in body.splitlines():
                if label := re.match(r'("[^"]*"|[\w.$-]+):', line):
                    block = blocks.setdefault("%" + label[1], [])
                elif line.strip() and not line.lstrip().startswith(";"):
                    block.append(line.strip())
            names = re.findall(rf"{NAME}(?=,|\))", parameters)
            self.functions[name] = Function(names, next(iter(blocks)), blocks)
        aliases = re.findall(rf"^({NAME}) = [^\n]*alias [^\n]*ptr ({NAME})", text, re.M)
        self.aliases = dict(aliases)

    def run(self, name: str, arguments: Sequence[z3.BitVecRef]) -> list[Path]:
        """Every path of a function. Raises `UnknownInstruction`."""
        return self._call(f"@{name}", arguments, Path())

    def _call(self, name: str, arguments: Sequence[z3.BitVecRef], path: Path) -> list[Path]:
        function = self.functions[self.aliases.get(name, name)]
        values: Values = dict(zip(function.parameters, arguments, strict=True))
        return self._block(function, "", function.first, values, path)

    def _block(
        self, function: Function, came_from: str, name: str, values: Values, path: Path
    ) -> list[Path]:
        """Execute a block and what follows it."""
        values = {**values, **_chosen(function.blocks[name], came_from, values)}
        return self._lines(function, name, 0, values, path)

    def _lines(
        self, function: Function, name: str, first: int, values: Values, path: Path
    ) -> list[Path]:
        """Execute a block from one of its lines on, and what follows it."""
        values = dict(values)
        for number, line in enumerate(function.blocks[name][first:], start=first):
            called = re.match(CALL, line)
            if called and called[2] in self.functions:
                arguments = [_operand(one, values) for one in _arguments(called[3])]
                ends: list[Path] = []
                for done in self._call(called[2], arguments, path):
                    if done.value is None:
                        ends.append(done)
                    else:
                        after = {**values, called[1]: done.value}
                        ends += self._lines(function, name, number + 1, after, done.copy())
                return ends
            if line.startswith(("br ", "ret ", "unreachable")) or "panicking" in line:
                return self._end(function, name, line, values, path)
            if " = phi " not in line:
                _execute(line, values, path)
        raise UnknownInstruction(f"a block without an end: {name}")

    def _end(
        self, function: Function, name: str, line: str, values: Values, path: Path
    ) -> list[Path]:
        if found := re.match(r"br label (\S+)$", line):
            return self._block(function, name, found[1], values, path)
        if found := re.match(rf"br i1 ({NAME}), label ({NAME}), label ({NAME})", line):
            condition = values[found[1]] == 1
            return [
                end
                for taken, branch in path.branches(condition)
                for end in self._block(
                    function, name, found[2] if taken else found[3], values, branch
                )
            ]
        if found := re.match(rf"ret (i\d+) ({OPERAND})", line):
            path.value = _operand((found[1], found[2]), values)
        else:
            path.must("Rust does not panic", z3.BoolVal(False))
        return [path]


def _chosen(lines: list[str], came_from: str, values: Values) -> Values:
    """The values of the phi instructions."""
    found: Values = {}
    for line in lines:
        if phi := re.match(rf"({NAME}) = phi (i\d+) (.*)", line):
            pairs = re.findall(rf"\[ ({OPERAND}), ({NAME}) \]", phi[3])
            (value,) = [value for value, block in pairs if block == came_from]
            found[phi[1]] = _operand((phi[2], value), values)
    return found


def _arguments(text: str) -> list[tuple[str, str]]:
    """Type and operand of each argument."""
    text = re.sub(r"range\([^)]*\) ", "", text)
    return [(words[0], words[-1]) for words in (one.split() for one in text.split(", ")) if words]


def _operand(typed: tuple[str, str], values: Values) -> z3.BitVecRef:
    kind, text = typed
    if text in values:
        return values[text]
    number = {"true": 1, "false": 0}.get(text)
    return z3.BitVecVal(int(text) if number is None else number, int(kind[1:]))


def _bit(condition: z3.BoolRef) -> z3.BitVecRef:
    return z3.If(condition, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))


def _execute(line: str, values: Values, path: Path) -> None:
    """One instruction that is neither a branch nor a call of a function of the module."""
    if re.match(r"(tail )?call void @llvm\.(lifetime|assume|experimental)", line):
        return
    target, _, text = line.partition(" = ")
    if found := re.match(rf"(\w+) {FLAGS}(i\d+) ({OPERAND}), ({OPERAND})$", text):
        a, b = (_operand((found[2], found[n]), values) for n in (3, 4))
        values[target] = z3.simplify(_binary(found[1], a, b, path))
    elif found := re.match(rf"icmp {FLAGS}(\w+) (i\d+) ({OPERAND}), ({OPERAND})$", text):
        a, b = (_operand((found[2], found[n]), values) for n in (3, 4))
        values[target] = z3.simplify(_bit(COMPARISONS[found[1]](a, b)))
    elif found := re.match(rf"select i1 ({OPERAND}), (i\d+) ({OPERAND}), i\d+ ({OPERAND})$", text):
        a, b = (_operand((found[2], found[n]), values) for n in (3, 4))
        values[target] = z3.simplify(z3.If(_operand(("i1", found[1]), values) == 1, a, b))
    elif found := re.match(rf"(zext|sext|trunc) {FLAGS}(i\d+) ({OPERAND}) to i(\d+)$", text):
        a, bits = _operand((found[2], found[3]), values), int(found[4])
        values[target] = z3.simplify(_converted(found[1], a, bits))
    elif found := re.match(rf"extractvalue \{{ i\d+, i1 \}} ({NAME}), ([01])$", text):
        values[target] = values[found[1]][int(found[2])]
    elif found := re.match(rf"(?:tail )?call {FLAGS}[^@]*@llvm\.([\w.]+)\((.*)\)( #\d+)?$", text):
        arguments = [_operand(one, values) for one in _arguments(found[2])]
        values[target] = _intrinsic(found[1], arguments)
    else:
        raise UnknownInstruction(line)


def _binary(name: str, a: z3.BitVecRef, b: z3.BitVecRef, path: Path) -> z3.BitVecRef:
    if name in ("mul", "udiv") and a.size() == 64:
        return (multiply if name == "mul" else divide)(path, a, b)
    if name not in BINARY:
        raise UnknownInstruction(name)
    if name in ("shl", "lshr", "ashr"):
        path.must(f"a shift is below {a.size()}", z3.ULT(b, a.size()))
    return BINARY[name](a, b)


def _converted(name: str, a: z3.BitVecRef, bits: int) -> z3.BitVecRef:
    if name == "trunc":
        return z3.Extract(bits - 1, 0, a)
    return (z3.ZeroExt if name == "zext" else z3.SignExt)(bits - a.size(), a)


def _intrinsic(name: str, arguments: list[z3.BitVecRef]) -> Value:
    a, b = arguments
    operation = name.split(".")[0]
    if operation == "ctlz":
        return _leading_zeros(a)
    if operation in ("smin", "smax", "umin", "umax"):
        less = a < b if operation[0] == "s" else z3.ULT(a, b)
        return z3.simplify(z3.If(less == operation.endswith("min"), a, b))
    if operation in OVERFLOWS and ".with.overflow" in name:
        found = a + b if operation.endswith("add") else a - b
        return z3.simplify(found), z3.simplify(_bit(OVERFLOWS[operation](a, b)))
    raise UnknownInstruction(name)


def _leading_zeros(a: z3.BitVecRef) -> z3.BitVecRef:
    count = z3.BitVecVal(a.size(), a.size())
    for bit in range(a.size()):
        count = z3.If(z3.Extract(bit, bit, a) == 1, a.size() - 1 - bit, count)
    return count
