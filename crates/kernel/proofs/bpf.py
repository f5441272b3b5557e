"""Executes BPF instructions for every input at once: functions without loops, memory and maps.

RFC 9669 has the instructions. Of them those are known that clang makes of soft.h.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path as File

import z3
from elftools.elf.elffile import ELFFile

from terms import Path, divide, multiply

IMMEDIATE_64, CALL, EXIT = 0x18, 0x85, 0x95
ALU32, JUMP, JUMP32, ALU64 = 4, 5, 6, 7

MOST_STEPS = 100_000
"""Most instructions on all paths of a function."""

Word = z3.BitVecRef
Comparison = Callable[[Word, Word], z3.BoolRef]

COMPARISONS: dict[int, Comparison] = {
    0x10: lambda a, b: a == b,
    0x20: z3.UGT,
    0x30: z3.UGE,
    0x40: lambda a, b: a & b != 0,
    0x50: lambda a, b: a != b,
    0x60: lambda a, b: a > b,
    0x70: lambda a, b: a >= b,
    0xA0: z3.ULT,
    0xB0: z3.ULE,
    0xC0: lambda a, b: a < b,
    0xD0: lambda a, b: a <= b,
}
ALWAYS = 0x00

ADD, SUB, MUL, DIV, OR, AND, LSH, RSH, NEG = (code << 4 for code in range(9))
XOR, MOV, ARSH = 0xA0, 0xB0, 0xC0
SIMPLE: dict[int, Callable[[Word, Word], Word]] = {
    ADD: lambda a, b: a + b,
    SUB: lambda a, b: a - b,
    OR: lambda a, b: a | b,
    AND: lambda a, b: a & b,
    XOR: lambda a, b: a ^ b,
    MOV: lambda a, b: b,
    NEG: lambda a, b: -a,
}
SHIFTS: dict[int, Callable[[Word, Word], Word]] = {
    LSH: lambda a, b: a << b,
    RSH: z3.LShR,
    ARSH: lambda a, b: a >> b,
}


class UnknownInstruction(Exception):
    """An instruction that is not among those known here."""


@dataclass(frozen=True)
class Instruction:
    """The fields of an instruction of 8 bytes."""

    code: int
    to: int
    source: int
    offset: int
    immediate: int


@dataclass
class _State:
    at: int
    registers: list[Word | None]
    path: Path
    returns: list[tuple[int, list[Word | None]]]


class Program:
    """The functions of an object file's section .text."""

    def __init__(self, file: File) -> None:
        with file.open("rb") as stream:
            elf = ELFFile(stream)
            section = elf.get_section_by_name(".text")
            index = elf.get_section_index(".text")
            symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
            fields = struct.iter_unpack("<BBhi", section.data())
            self.instructions = [
                Instruction(code, registers & 15, registers >> 4, offset, immediate)
                for code, registers, offset, immediate in fields
            ]
            self.starts = {
                symbol.name: symbol["st_value"] // 8
                for symbol in symbols
                if symbol["st_shndx"] == index and symbol["st_info"]["type"] == "STT_FUNC"
            }
            relocations = elf.get_section_by_name(".rel.text")
            self.calls = {
                one["r_offset"] // 8: symbols[one["r_info_sym"]].name
                for one in (relocations.iter_relocations() if relocations else [])
            }

    def run(self, name: str, arguments: Sequence[Word]) -> list[Path]:
        """Every path of a function. Raises `UnknownInstruction`."""
        registers: list[Word | None] = [None, *arguments]
        registers += [None] * (11 - len(registers))
        waiting = [_State(self.starts[name], registers, Path(), [])]
        done: list[Path] = []
        for _ in range(MOST_STEPS):
            if not waiting:
                return done
            waiting += self._step(waiting.pop(), done)
        raise UnknownInstruction(f"{name} executes more than {MOST_STEPS} instructions: a loop?")

    def _step(self, state: _State, done: list[Path]) -> list[_State]:
        """Execute one instruction; the states after it, none at the end of a path."""
        one = self.instructions[state.at]
        kind = one.code & 7
        if one.code == EXIT:
            if not state.returns:
                state.path.value = _defined(state.registers[0])
                done.append(state.path)
                return []
            state.at, saved = state.returns.pop()
            state.registers[1:] = [None] * 5 + saved
        elif one.code == CALL:
            callee = self.calls.get(state.at)
            if callee not in self.starts:
                raise UnknownInstruction(f"a call of {callee} at {state.at}")
            state.returns.append((state.at + 1, state.registers[6:]))
            state.registers[6:10] = [None] * 4
            state.at = self.starts[callee]
        elif one.code == IMMEDIATE_64 and one.source == 0:
            low, high = one.immediate, self.instructions[state.at + 1].immediate
            word = (high & 0xFFFFFFFF) << 32 | low & 0xFFFFFFFF
            state.registers[one.to] = z3.BitVecVal(word, 64)
            state.at += 2
        elif kind in (JUMP, JUMP32):
            return _jump(state, one)
        elif kind in (ALU32, ALU64):
            _compute(state, one)
            state.at += 1
        else:
            raise UnknownInstruction(f"code {one.code:#x} at {state.at}")
        return [state]


def _defined(register: Word | None) -> Word:
    if register is None:
        raise UnknownInstruction("a register is read that was not written")
    return register


def _operands(state: _State, one: Instruction, bits: int) -> tuple[Word, Word]:
    """Destination and source, of 32 bits or 64."""
    from_register = one.code & 8
    source = _defined(state.registers[one.source]) if from_register else None
    right = z3.BitVecVal(one.immediate, 64) if source is None else source
    moves = one.code & 7 in (ALU32, ALU64) and one.code & 0xF0 == MOV
    left = right if moves else _defined(state.registers[one.to])
    return z3.Extract(bits - 1, 0, left), z3.Extract(bits - 1, 0, right)


def _jump(state: _State, one: Instruction) -> list[_State]:
    operation, target = one.code & 0xF0, state.at + 1 + one.offset
    if operation == ALWAYS:
        state.at = target
        return [state]
    if operation not in COMPARISONS:
        raise UnknownInstruction(f"code {one.code:#x} at {state.at}")
    left, right = _operands(state, one, 32 if one.code & 7 == JUMP32 else 64)
    condition = COMPARISONS[operation](left, right)
    return [
        _State(target if taken else state.at + 1, list(state.registers), path, list(state.returns))
        for taken, path in state.path.branches(condition)
    ]


def _compute(state: _State, one: Instruction) -> None:
    operation, bits = one.code & 0xF0, 32 if one.code & 7 == ALU32 else 64
    if one.offset:
        raise UnknownInstruction(f"a signed operation at {state.at}")
    a, b = _operands(state, one, bits)
    if operation in SIMPLE:
        found = SIMPLE[operation](a, b)
    elif operation in SHIFTS:
        state.path.must(f"a shift is below {bits}", z3.ULT(b, bits))
        found = SHIFTS[operation](a, b)
    elif operation in (MUL, DIV) and bits == 64:
        found = (multiply if operation == MUL else divide)(state.path, a, b)
    else:
        raise UnknownInstruction(f"code {one.code:#x} at {state.at}")
    # A result of 32 bits clears the upper half of its register.
    state.registers[one.to] = z3.simplify(z3.ZeroExt(64 - bits, found))
