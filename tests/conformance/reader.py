#!/usr/bin/env python3
"""A second reader of the Ackline protocol.

Written from docs/PROTOCOL.md ("P") and docs/PROTOCOL-delta.md ("D") alone, so that a mistake shared by the
shipped encoder and decoder, or a rule that stands only in their code, shows as a disagreement. It is the client's
half behind the seal: Down payloads in, tables, display, messages and reports out. The standard library suffices.

    python3 reader.py CORPUS [CORPUS...]     replay a corpus and compare
    python3 reader.py --examples DOC...      read the worked examples of the documents

A corpus is a file of JSON lines, by "op":

    session   a new client, nothing known
    down      an opened payload, and "ok" or the word of P 10 it is refused with; after "ok" perhaps the "tables"
              [id, mask, members, digest] of all snapshots kept, the "display" [live, digest] and the "owner"
              [tick, processed, slot, digest] or null
    input     the player pushed an input
    report    the client reports now: what it must say
    messages  what was delivered since the last such line, and the number expected next

Each disagreement is one line; after 20 the reader stops. The last line is the sum; the exit code is 0 when all
agreed, else 1. Comments marked "Choice" stand where the documents leave a decision to the reader.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import sys
from operator import mul
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, NoReturn, Optional, Sequence, Set, Tuple

Digest = Tuple[int, int]
Vector = Tuple[int, int, int]

U32 = 0xFFFFFFFF
SLOTS = 32768
WINDOW = 32  # snapshots kept
ASK_FROM = 8  # reported snapshots from which the client asks for an advance
MESSAGES_AHEAD = 64
MESSAGE_BYTES = 320
SCHEMA_BYTES = 1000
LONG_TICKS = 1060
TIER_MAX = 2
OWNER_RECORD_BYTES = 160
INPUTS_KEPT = 64
INPUT_BYTES = 64
EVENT_BYTES = 256
VIEW_RANGE = 100_000_000  # centimetres
MASK: List[int] = [(1 << n) - 1 for n in range(129)]
NOTHING: Vector = (0, 0, 0)
NO_EXTRAS: Tuple[int, ...] = (0,) * 8


class Refused(Exception):
    """Something is not what the protocol allows; `reason` is the word of P 10."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def refuse(reason: str) -> NoReturn:
    raise Refused(reason)


def after(a: int, b: int) -> bool:
    """Serial arithmetic (P 1): is tick a after tick b?"""
    return 1 <= (a - b) & U32 <= 0x7FFFFFFF


# ---------------------------------------------------------------- bytes


class Bytes:
    """Reads fields of whole bytes; anything illegal is refused with one word."""

    __slots__ = ("data", "at", "word")

    def __init__(self, data: bytes, word: str) -> None:
        self.data = data
        self.at = 0
        self.word = word

    def fail(self) -> NoReturn:
        raise Refused(self.word)

    def take(self, n: int) -> bytes:
        end = self.at + n
        if end > len(self.data):
            self.fail()
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def uint(self, n: int) -> int:
        return int.from_bytes(self.take(n), "little")

    def ranged(self, n: int, low: int, high: int) -> int:
        value = self.uint(n)
        if not low <= value <= high:
            self.fail()
        return value

    def varint(self, low: int = 0, high: int = U32) -> int:
        """LEB128 of at most 32 bits in the fewest bytes (P 1)."""
        value = shift = 0
        while True:
            byte = self.uint(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                self.fail()
        if (byte == 0 and shift > 0) or not low <= value <= high:
            self.fail()
        return value

    def text(self, low: int, high: int) -> str:
        raw = self.take(self.ranged(1, low, high))
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            self.fail()
        if any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in text):
            self.fail()
        return text

    def number(self) -> float:
        """A double that is zero or normal; minus zero is refused (D, Schema)."""
        raw = self.uint(8)
        exponent = raw >> 52 & 0x7FF
        if exponent == 0x7FF or (exponent == 0 and raw != 0):
            self.fail()
        return float(struct.unpack("<d", raw.to_bytes(8, "little"))[0])

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def end(self) -> None:
        if self.at != len(self.data):
            self.fail()


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# ---------------------------------------------------------------- schema


class Axis(NamedTuple):
    low: float
    high: float
    step: float
    highest: int
    bits: int
    scale: int


class Rate(NamedTuple):
    bound: float
    step: float
    highest: int
    bits: int  # two's complement


class Extra(NamedTuple):
    name: str
    bits: int
    signed: bool


class Class(NamedTuple):
    name: str
    query_critical: bool


Codes = Tuple[Tuple[Tuple[int, int], ...], ...]
"""Of each code, for each eight bits that may come next: the symbol and how many of them it takes."""


def make_codes(lengths: Sequence[int]) -> Optional[Codes]:
    """D, Tuned codes: the 68 codes of a table set, or None if a code is not complete."""
    codes = []
    for symbols in (16, 36) + 66 * (16,):
        own, lengths = lengths[:symbols], lengths[symbols:]
        if any(not 1 <= length <= 8 for length in own) or sum(1 << 8 - length for length in own) != 256:
            return None
        found: List[Tuple[int, int]] = [(0, 0)] * 256
        code = 0
        for length in range(1, 9):
            code <<= 1
            for symbol in (symbol for symbol, of in enumerate(own) if of == length):
                reversed_ = int(f"{code:0{length}b}"[::-1], 2)
                for above in range(1 << 8 - length):
                    found[reversed_ | above << length] = symbol, length
                code += 1
        codes.append(tuple(found))
    return tuple(codes)


def standard_codes() -> Codes:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/PROTOCOL-tables.txt")
    with open(path, encoding="ascii") as file:
        codes = make_codes([int(digit) for digit in file.read() if digit.isdigit()])
    assert codes is not None
    return codes


STANDARD = standard_codes()


class Schema(NamedTuple):
    """D, Schema: as it travels, and what follows from it."""

    name: str
    version: int
    tick: int
    on_change_only: bool
    axes: Tuple[Axis, Axis, Axis]
    rotation_bits: int
    rotation_highest: int
    velocity: Optional[Rate]
    angular: Optional[Rate]
    extras: Tuple[Extra, ...]
    classes: Tuple[Class, ...]
    hash: int
    codes: Optional[Codes]


def steps(value: float, highest: int) -> Optional[int]:
    """`value` rounded, ties away from zero, if that is 1 to `highest`."""
    if not math.isfinite(value) or not 0 <= value <= highest + 1.0:
        return None
    whole = math.floor(value)
    if value - whole >= 0.5:
        whole += 1
    return whole if 1 <= whole <= highest else None


def parse_schema(data: bytes) -> Schema:
    """Reads a schema whole or refuses it as malformed_schema."""
    read = Bytes(data, "malformed_schema")
    if len(data) > SCHEMA_BYTES:
        read.fail()
    name = read.text(1, 32)
    version = read.uint(2)
    tick = read.ranged(4, 1_000, 10_000_000)
    flags = read.ranged(1, 0, 15)

    spans: List[Tuple[float, float, float, int]] = []
    for _ in range(3):
        low, high, step = read.number(), read.number(), read.number()
        if not low < high or not step > 0:
            read.fail()
        highest = steps((high - low) / step, U32)
        if highest is None:
            read.fail()
        spans.append((low, high, step, highest))
    finest = min(step for _, _, step, _ in spans)
    rotation_bits = read.ranged(1, 2, 15)

    def rate(limit: Optional[float]) -> Rate:
        bound, step = read.number(), read.number()
        if not bound > 0 or not step > 0:
            read.fail()
        highest = steps(bound / step, 131_071)
        if highest is None or (limit is not None and not step / finest <= limit):
            read.fail()
        return Rate(bound, step, highest, 1 + highest.bit_length())

    velocity = rate(244.0) if flags & 2 else None
    angular = rate(None) if flags & 4 else None

    def axis(low: float, high: float, step: float, highest: int) -> Axis:
        scale = 0
        if velocity is not None:
            exact = velocity.step / step * 0.000064 * 2.0**28
            scale = math.floor(exact)
            if exact - scale >= 0.5:
                scale += 1
        return Axis(low, high, step, highest, highest.bit_length(), scale)

    axes = (axis(*spans[0]), axis(*spans[1]), axis(*spans[2]))
    extras = tuple(
        Extra(read.text(1, 32), read.ranged(1, 1, 32), read.ranged(1, 0, 1) == 1)
        for _ in range(read.ranged(1, 0, 8))
    )
    classes = tuple(
        Class(read.text(1, 32), read.ranged(1, 0, 1) == 1) for _ in range(read.ranged(1, 1, 255))
    )
    codes = None
    if flags & 8:
        which = read.uint(1)
        if which == 1:
            codes = STANDARD
        elif which == 255:
            packed = read.take(554)
            codes = make_codes([length for byte in packed for length in (byte & 15, byte >> 4)])
        if codes is None:
            read.fail()
    read.end()
    fnv = 0xCBF29CE484222325
    for byte in data:
        fnv = (fnv ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return Schema(
        name, version, tick, flags & 1 == 1, axes, rotation_bits, 2**rotation_bits - 2, velocity, angular, extras,
        classes, fnv, codes,
    )  # fmt: skip


# ---------------------------------------------------------------- records and their digests


class Motion(NamedTuple):
    observed: int
    rest: bool
    position: Vector
    largest: int
    parts: Vector
    velocity: Vector  # zeros where the schema has none
    angular: Vector


class Record:
    """What is known of one slot. Never changed once made; the digest is computed when it is first asked for."""

    __slots__ = ("id", "generation", "class_", "tier", "born", "segment", "began", "motion", "extras", "digest")

    def __init__(
        self,
        id: int,
        generation: int,
        class_: int,
        tier: int,
        born: int,
        segment: int,
        began: int,
        motion: Optional[Motion],
        extras: Tuple[int, ...],
    ) -> None:
        self.id = id
        self.generation = generation
        self.class_ = class_
        self.tier = tier
        self.born = born
        self.segment = segment
        self.began = began
        self.motion = motion
        # Always eight, zeros behind those of the schema; each is the bits of its field, signed or not.
        self.extras = extras
        self.digest = -1  # both words: the first, and the second times 2^64

    def updated(self, motion: Optional[Motion], extras: Tuple[int, ...]) -> "Record":
        return Record(
            self.id, self.generation, self.class_, self.tier, self.born, self.segment, self.began, motion, extras
        )  # fmt: skip

    def words(self) -> List[int]:
        """The 30 words of P 9, each modulo 2^32."""
        head = [
            self.id, self.generation, self.class_ | self.tier << 8, self.born & U32, self.born >> 32, self.segment,
            self.began & U32, self.began >> 32,
        ]  # fmt: skip
        motion = self.motion
        if motion is None:
            head += (0,) * 14
        else:
            a, b, c = motion.parts
            head += (2 if motion.rest else 1, motion.observed & U32, motion.observed >> 32)
            head += motion.position
            head += (motion.largest | a << 16, b | c << 16)
            head += [v & U32 for v in motion.velocity + motion.angular]
        head += self.extras
        return head

    def known(self) -> Tuple[Any, ...]:
        """Everything, for comparison."""
        return (
            self.id, self.generation, self.class_, self.tier, self.born, self.segment, self.began, self.motion,
            self.extras,
        )  # fmt: skip


Records = Dict[int, Record]


def powers(factor: int) -> List[int]:
    return [pow(factor, i + 1, 1 << 32) for i in range(30)]


FIRST = powers(0x9E3779B1)
SECOND = powers(0x85EBCA77)


def finish(h: int) -> int:
    h &= U32
    h ^= h >> 16
    h = h * 0x85EBCA6B & U32
    h ^= h >> 13
    h = h * 0xC2B2AE35 & U32
    return h ^ h >> 16


def fill_digests(records: Iterable[Record]) -> None:
    """Gives every record its digest (P 9)."""
    for record in records:
        if record.digest < 0:
            mixed = [w ^ w >> 15 for w in record.words()]
            record.digest = finish(sum(map(mul, mixed, FIRST))) | finish(sum(map(mul, mixed, SECOND))) << 64


def split_digest(total: int) -> Digest:
    return total & U32, total >> 64 & U32


def table_digest(records: Records) -> Digest:
    fill_digests(record for record in records.values() if record.digest < 0)
    return split_digest(sum(record.digest for record in records.values()))


# ---------------------------------------------------------------- the body


class Code(NamedTuple):
    """A class code: widths of the raw bits, and where each class begins."""

    widths: Tuple[int, int, int, int]
    starts: Tuple[int, int, int, int]


def class_code(w0: int, w1: int, w2: int, w3: int) -> Code:
    return Code((w0, w1, w2, w3), (0, 1 << w0, (1 << w0) + (1 << w1), (1 << w0) + (1 << w1) + (1 << w2)))


GROUPS = (0, 1, 2, 3, 4, 4, 5, 5, 6, 6) + 23 * (7,)
"""Of a width, 0 to 32."""

GAP = class_code(0, 3, 6, 15)
ID = class_code(7, 12, 20, 32)
LIFE = class_code(2, 6, 16, 32)
TICKS = class_code(2, 5, 10, 0)


class Bits:
    """A body as one number. An entry has at most 831 bits, gap included, so each works on a short window of it."""

    __slots__ = ("body", "limit", "used", "window")

    def __init__(self, data: bytes) -> None:
        self.body = int.from_bytes(data, "little")
        self.limit = 8 * len(data)
        self.used = 0
        self.window = 0

    def next_entry(self) -> None:
        self.window = self.body >> self.used & (1 << 1024) - 1

    def take(self, width: int) -> int:
        used = self.used + width
        if used > self.limit:
            raise Refused("short")
        window = self.window
        self.window = window >> width
        self.used = used
        return window & MASK[width]

    # The three below take prefix and value at once. The window reads as zeros beyond the end, so a prefix that is
    # cut off may be misread, but it is short whatever it was.

    def code(self, code: Code) -> int:
        window = self.window
        if not window & 1:
            which, prefix = 0, 1
        elif not window & 2:
            which, prefix = 1, 2
        else:
            which, prefix = 2 + (window >> 2 & 1), 3
        width = code.widths[which]
        used = self.used + prefix + width
        if used > self.limit:
            raise Refused("short")
        window >>= prefix
        self.window = window >> width
        self.used = used
        value = code.starts[which] + (window & MASK[width])
        if value > U32:
            raise Refused("out_of_range")
        return value

    def sized(self, k: int, widest: int = 64) -> int:
        window = self.window
        width = window & MASK[k]
        used = self.used + k
        if width > widest and used <= self.limit:
            raise Refused("out_of_range")
        below = width - 1 if width else 0
        used += below
        if used > self.limit:
            raise Refused("short")
        window >>= k
        self.window = window >> below
        self.used = used
        return 1 << below | window & MASK[below] if width else 0

    def time(self, frame: int) -> int:
        back = self.sized(6, 48)
        if back > frame:
            raise Refused("time_range")
        return frame - back

    def triple(self, k: int) -> Vector:
        """Three zigzagged numbers."""
        window = self.window
        top = MASK[k]
        code = window & top
        width = code if code < top else top + 1
        used = self.used + k + 3 * width
        if used > self.limit:
            raise Refused("short")
        window >>= k
        self.window = window >> 3 * width
        self.used = used
        mask = MASK[width]
        raw = window & MASK[3 * width]
        x, y, z = raw & mask, raw >> width & mask, raw >> 2 * width
        needed = (x | y | z).bit_length()
        if needed != code if code < top else needed < top:
            raise Refused("not_canonical")
        return x >> 1 ^ -(x & 1), y >> 1 ^ -(y & 1), z >> 1 ^ -(z & 1)

    def symbol(self, code: Tuple[Tuple[int, int], ...]) -> int:
        symbol, length = code[self.window & 255]
        self.take(length)
        return symbol

    def number(self, code: Tuple[Tuple[int, int], ...]) -> int:
        """D, Tuned codes, a number."""
        width = self.symbol(code)
        if width == 15:
            width += self.take(5)
        if width > 32:
            raise Refused("out_of_range")
        return self.take(width - 1) | 1 << width - 1 if width else 0

    def tuned(self, codes: Codes, first: int, rest: int) -> Tuple[Vector, int]:
        """Three zigzagged numbers, the first of code `first`, the others of the groups at `rest`; the width of the widest."""
        x = self.number(codes[first])
        y = self.number(codes[rest + GROUPS[x.bit_length()]])
        z = self.number(codes[rest + 8 + GROUPS[(x | y).bit_length()]])
        return (x >> 1 ^ -(x & 1), y >> 1 ^ -(y & 1), z >> 1 ^ -(z & 1)), (x | y | z).bit_length()

    def end(self) -> None:
        if self.limit - self.used >= 8 or self.body >> self.used:
            raise Refused("trailing")


class Entry(NamedTuple):
    slot: int
    kind: str  # motion, general, complete, remove or awake
    record: Optional[Record]  # what the slot holds now; None when removed
    old: Optional[Record]  # what the base has there
    departure: int = 0
    at: int = 0
    reason: int = 0


def read_observed(bits: Bits, schema: Schema, frame: int) -> int:
    """An age, as the time of the observation."""
    return read_aged(bits, schema, frame) if bits.take(1) else frame


def read_aged(bits: Bits, schema: Schema, frame: int) -> int:
    """An age that is not 0."""
    tick = schema.tick
    ticks = bits.code(TICKS)
    if ticks < LONG_TICKS:
        r = bits.sized(5)
        age = ticks * tick + (r >> 1 ^ -(r & 1))
        if age <= 0 or (age + tick // 2) // tick != ticks:
            raise Refused("not_canonical")
    else:
        age = bits.sized(6, 48)
        if (age + tick // 2) // tick < LONG_TICKS:
            raise Refused("not_canonical")
    if age > frame:
        raise Refused("time_range")
    return frame - age


def read_parts(bits: Bits, schema: Schema) -> Vector:
    parts = []
    for _ in range(3):
        part = bits.take(schema.rotation_bits)
        if part > schema.rotation_highest:
            raise Refused("out_of_range")
        parts.append(part)
    return parts[0], parts[1], parts[2]


def read_rate(bits: Bits, rate: Optional[Rate]) -> Vector:
    if rate is None:
        return NOTHING
    values = []
    for _ in range(3):
        raw = bits.take(rate.bits)
        value = raw - (raw >> rate.bits - 1 << rate.bits)
        if not -rate.highest <= value <= rate.highest:
            raise Refused("out_of_range")
        values.append(value)
    return values[0], values[1], values[2]


def complete_motion(bits: Bits, schema: Schema, frame: int) -> Motion:
    observed = read_observed(bits, schema, frame)
    position = []
    for axis in schema.axes:
        value = bits.take(axis.bits)
        if value > axis.highest:
            raise Refused("out_of_range")
        position.append(value)
    largest = bits.take(2)
    parts = read_parts(bits, schema)
    velocity = read_rate(bits, schema.velocity)
    angular = read_rate(bits, schema.angular)
    rest = bits.take(1) == 1
    return Motion(observed, rest, (position[0], position[1], position[2]), largest, parts, velocity, angular)


def update_position(residuals: Vector, schema: Schema, observed: int, old: Motion) -> Vector:
    ahead = 0
    if not old.rest and schema.velocity is not None:
        ahead = min((observed - old.observed + 32) // 64, 16383)
    position = []
    for q, v, residual, axis in zip(old.position, old.velocity, residuals, schema.axes):
        if ahead:
            q += v * ahead * axis.scale + (1 << 27) >> 28
            q = 0 if q < 0 else axis.highest if q > axis.highest else q
        q = q + residual & U32
        if q > axis.highest:
            raise Refused("out_of_range")
        position.append(q)
    return position[0], position[1], position[2]


def update_rotation(bits: Bits, schema: Schema, old: Motion) -> Tuple[int, Vector]:
    if not bits.take(1):
        largest, parts = bits.take(2), read_parts(bits, schema)
        if largest == old.largest:
            raise Refused("not_canonical")
        return largest, parts
    return old.largest, turned(old.parts, bits.triple(4), schema)


def turned(parts: Vector, differences: Vector, schema: Schema) -> Vector:
    a, b, c = (part + difference for part, difference in zip(parts, differences))
    highest = schema.rotation_highest
    if not (0 <= a <= highest and 0 <= b <= highest and 0 <= c <= highest):
        raise Refused("out_of_range")
    return a, b, c


def seen_from(old: Motion, largest: int, schema: Schema) -> Vector:
    """D, Tuned codes: the old parts where another component is left out."""
    half = schema.rotation_highest // 2
    steps = [part - half for part in old.parts]
    rest = math.isqrt(max(0, 2 * half * half - sum(step * step for step in steps)))
    steps.insert(old.largest, rest)
    sign = -1 if steps[largest] < 0 else 1
    del steps[largest]
    a, b, c = (max(-half, min(half, sign * step)) + half for step in steps)
    return a, b, c


def update_rate(differences: Vector, rate: Rate, old: Vector) -> Vector:
    dx, dy, dz = differences
    x, y, z = old[0] + dx, old[1] + dy, old[2] + dz
    highest = rate.highest
    if not (-highest <= x <= highest and -highest <= y <= highest and -highest <= z <= highest):
        raise Refused("out_of_range")
    if dx == dy == dz == 0:
        raise Refused("not_canonical")
    return x, y, z


def read_motion(bits: Bits, schema: Schema, frame: int, old: Optional[Motion]) -> Motion:
    """A motion against a record with motion `old`, or without any."""
    if old is None:
        return complete_motion(bits, schema, frame)
    observed = read_observed(bits, schema, frame)
    if observed < old.observed:
        raise Refused("time_range")
    velocity, angular = schema.velocity, schema.angular
    mask = bits.take(2 + (velocity is not None) + (angular is not None))
    if mask == 0 and observed == old.observed:
        raise Refused("not_canonical")
    new_position, new_velocity, new_angular = old.position, old.velocity, old.angular
    largest, parts = old.largest, old.parts
    if mask & 1:
        new_position = update_position(bits.triple(5), schema, observed, old)
        if new_position == old.position:
            raise Refused("not_canonical")
    if mask & 2:
        largest, parts = update_rotation(bits, schema, old)
        if largest == old.largest and parts == old.parts:
            raise Refused("not_canonical")
    mask >>= 2
    if velocity is not None:
        if mask & 1:
            new_velocity = update_rate(bits.triple(5), velocity, old.velocity)
        mask >>= 1
    if angular is not None and mask & 1:
        new_angular = update_rate(bits.triple(5), angular, old.angular)
    return Motion(observed, old.rest, new_position, largest, parts, new_velocity, new_angular)


def tuned_motion(bits: Bits, schema: Schema, codes: Codes, frame: int, old: Optional[Motion], head: int) -> Motion:
    """D, Tuned codes, a motion behind its head."""
    if old is None:
        if head:
            raise Refused("not_canonical")
        return complete_motion(bits, schema, frame)
    velocity, angular = schema.velocity, schema.angular
    if head >= 32 or head & 4 and velocity is None or head & 8 and angular is None:
        raise Refused("not_canonical")
    observed = read_aged(bits, schema, frame) if head & 16 else frame
    if observed < old.observed:
        raise Refused("time_range")
    position, largest, parts = old.position, old.largest, old.parts
    new_velocity, new_angular = old.velocity, old.angular
    width = 0
    if head & 1:
        residuals, width = bits.tuned(codes, 2 + old.rest, 4)
        position = update_position(residuals, schema, observed, old)
        if position == old.position:
            raise Refused("not_canonical")
    if head & 2:
        if not bits.take(1):
            largest = bits.take(2)
            if largest == old.largest:
                raise Refused("not_canonical")
        seen = old.parts if largest == old.largest else seen_from(old, largest, schema)
        differences, width = bits.tuned(codes, 20 + GROUPS[width], 28)
        parts = turned(seen, differences, schema)
        if largest == old.largest and parts == old.parts:
            raise Refused("not_canonical")
    if head & 4 and velocity is not None:
        differences, width = bits.tuned(codes, 44 + GROUPS[width], 52)
        new_velocity = update_rate(differences, velocity, old.velocity)
    if head & 8 and angular is not None:
        differences, width = bits.tuned(codes, 44 + GROUPS[width], 52)
        new_angular = update_rate(differences, angular, old.angular)
    if not head & 15 and observed == old.observed:
        raise Refused("not_canonical")
    return Motion(observed, old.rest, position, largest, parts, new_velocity, new_angular)


def read_extras(bits: Bits, schema: Schema, old: Tuple[int, ...], some: bool) -> Tuple[int, ...]:
    fields = schema.extras
    mask = bits.take(len(fields))
    if mask == 0:
        if some:
            raise Refused("not_canonical")
        return old
    values = list(old)
    for i, field in enumerate(fields):
        if mask >> i & 1:
            change = bits.take(field.bits)
            if change == 0:
                raise Refused("not_canonical")
            values[i] = old[i] + change & MASK[field.bits]
    return tuple(values)


def read_general(bits: Bits, schema: Schema, frame: int, old: Record) -> Record:
    flags = bits.take(3)
    if flags < 2:
        raise Refused("not_canonical")
    motion = old.motion
    if flags & 2 and motion is None:
        raise Refused("not_canonical" if flags & 1 else "no_motion")
    if flags & 1 and schema.codes is not None:
        motion = tuned_motion(bits, schema, schema.codes, frame, motion, bits.symbol(schema.codes[1]))
    elif flags & 1:
        motion = read_motion(bits, schema, frame, motion)
    if flags & 2 and motion is not None:
        motion = motion._replace(rest=not motion.rest)
    return old.updated(motion, read_extras(bits, schema, old.extras, True) if flags & 4 else old.extras)


def read_complete(bits: Bits, schema: Schema, frame: int, old: Optional[Record]) -> Record:
    id = bits.code(ID)
    generation = bits.code(LIFE)
    class_ = bits.take(8)
    if class_ >= len(schema.classes):
        raise Refused("bad_class")
    tier = bits.take(2)
    if tier > TIER_MAX:
        raise Refused("out_of_range")
    born = bits.time(frame)
    segment = bits.code(LIFE)
    if old is not None and old.id == id and (generation, segment) < (old.generation, old.segment):
        raise Refused("stale")
    began = born
    if not bits.take(1):
        began = bits.time(frame)
        if began == born:
            raise Refused("not_canonical")
    motion = complete_motion(bits, schema, frame) if bits.take(1) else None
    return Record(
        id, generation, class_, tier, born, segment, began, motion, read_extras(bits, schema, NO_EXTRAS, False)
    )  # fmt: skip


def read_kind(bits: Bits, codes: Optional[Codes]) -> Tuple[str, int]:
    """The kind of an entry, and the head of a tuned one."""
    if codes is not None:
        head = bits.symbol(codes[1])
        return "motion" if head < 32 else ("general", "complete", "remove", "awake")[head - 32], head
    window = bits.window
    if window & 3 == 3 and not window & 4:
        bits.take(3)
        return "complete", 0
    kind = "motion" if not window & 1 else "general" if not window & 2 else "awake" if window & 8 else "remove"
    bits.take(1 if not window & 1 else 2 if not window & 2 else 4)
    return kind, 0


def read_body(schema: Schema, base: Records, frame: int, count: int, data: bytes) -> List[Entry]:
    """D, Entries: the whole body of a part against the table of its base, or one refusal."""
    bits = Bits(data)
    codes = schema.codes
    if (5 if codes is None else 2) * count > bits.limit:
        raise Refused("count_range")
    entries = []
    slot = -1
    for _ in range(count):
        bits.next_entry()
        slot += 1 + (bits.code(GAP) if codes is None else bits.number(codes[0]))
        if slot >= SLOTS:
            raise Refused("slot_range")
        old = base.get(slot)
        kind, head = read_kind(bits, codes)
        if kind == "complete":
            entries.append(Entry(slot, kind, read_complete(bits, schema, frame, old), old))
        elif kind == "remove":
            departure = bits.take(2)
            if departure == 3:
                raise Refused("unknown_departure")
            at, reason = frame, 0
            if departure == 0:
                at = bits.time(frame)
                reason = bits.take(8)
            entries.append(Entry(slot, kind, None, old, departure, at, reason))
        elif old is None:
            raise Refused("no_such_member")
        elif kind == "motion":
            if codes is None:
                motion = read_motion(bits, schema, frame, old.motion)
            else:
                motion = tuned_motion(bits, schema, codes, frame, old.motion, head)
            record = old.updated(motion, old.extras)
            entries.append(Entry(slot, kind, record, old))
        elif kind == "general":
            entries.append(Entry(slot, kind, read_general(bits, schema, frame, old), old))
        else:
            entries.append(Entry(slot, kind, old, old))
    bits.end()
    return entries


# ---------------------------------------------------------------- payloads


class Commit(NamedTuple):
    members: Tuple[Tuple[int, int], ...]  # id and part mask, newest first
    digest: Digest


class Header(NamedTuple):
    """P 5, the header of a part."""

    candidate: bool
    view_complete: bool
    stale: bool
    exhaustive: bool
    stream_epoch: int
    session_epoch: int
    generation: int
    id: int
    part: int
    last: bool
    base: Optional[int]
    sent: int
    commit: Optional[Commit]
    base_digest: Optional[Digest]
    entries: int


class Welcome(NamedTuple):
    stream_epoch: int
    lease: int
    idle: int
    schema: bytes


class Messages(NamedTuple):
    first: int
    items: Tuple[bytes, ...]


class Owner(NamedTuple):
    """P 11: the state of the client's own entity; the record is a body of one complete entry."""

    stream_epoch: int
    tick: int
    sent: int
    processed: int
    record: bytes


class Down(NamedTuple):
    clock: int
    close: Optional[int]
    welcome: Optional[Welcome]
    inputs_ack: Optional[int]
    owner: Optional[Owner]
    messages: Optional[Messages]
    header: Optional[Header]
    body: bytes


def read_digest(read: Bytes) -> Digest:
    return read.uint(4), read.uint(4)


def read_listed(read: Bytes, id: int, count: int) -> Tuple[Tuple[int, int], ...]:
    """`count` snapshots newest first, each as distance from the one before (at first from `id`) and part mask."""
    listed = []
    for _ in range(count):
        id = id - read.varint(1, 0x7FFFFFFF) & U32
        listed.append((id, read.varint(1)))
    return tuple(listed)


def parse_header(read: Bytes) -> Header:
    flags = read.ranged(1, 0, 127)
    if flags & 40 == 32:
        read.fail()  # a base digest without a base
    stream_epoch, session_epoch, generation, id = read.varint(), read.varint(), read.varint(), read.varint()
    part = read.uint(1)
    if part & 0x60:
        read.fail()
    base = id - read.varint(1, 0x7FFFFFFF) & U32 if flags & 8 else None
    sent = read.uint(6)
    commit = Commit(read_listed(read, id, read.ranged(1, 1, 8)), read_digest(read)) if flags & 16 else None
    base_digest = read_digest(read) if flags & 32 else None
    entries = read.varint()
    return Header(
        flags & 1 != 0, flags & 2 != 0, flags & 4 != 0, flags & 64 != 0, stream_epoch, session_epoch, generation, id,
        part & 31, part & 0x80 != 0, base, sent, commit, base_digest, entries,
    )  # fmt: skip


def parse_welcome(read: Bytes) -> Welcome:
    # Choice: a schema that is too long is the payload's fault, not the schema's.
    return Welcome(read.varint(), read.uint(4), read.uint(4), read.take(read.ranged(2, 0, SCHEMA_BYTES)))


def parse_messages(read: Bytes) -> Messages:
    first = read.varint()
    items = tuple(read.take(read.varint(0, MESSAGE_BYTES)) for _ in range(read.ranged(1, 1, 64)))
    return Messages(first, items)


def parse_owner(read: Bytes) -> Owner:
    stream_epoch, tick, sent, processed = read.varint(), read.varint(), read.uint(6), read.varint()
    return Owner(stream_epoch, tick, sent, processed, read.take(read.ranged(1, 1, OWNER_RECORD_BYTES)))


def parse_inputs(read: Bytes) -> Tuple[int, Tuple[bytes, ...]]:
    """P 11: the number of the first input, and the inputs."""
    first, count = read.varint(1), read.ranged(1, 1, INPUTS_KEPT)
    if first + count > U32:
        read.fail()
    return first, tuple(read.take(read.ranged(1, 0, INPUT_BYTES)) for _ in range(count))


def parse_message(data: bytes) -> Tuple[Any, ...]:
    """P 8: one message, its name first."""
    read = Bytes(data, "malformed_message")
    tag = read.ranged(1, 1, 5)
    value: Tuple[Any, ...]
    if tag == 1:
        kind, flags = read.varint(0, 0xFFFF), read.ranged(1, 0, 3)
        entity = (read.varint(), read.varint()) if flags & 2 else None
        value = ("event", kind, flags & 1 != 0, entity, read.uint(6), read.rest())
        if len(value[-1]) > EVENT_BYTES:
            read.fail()
    elif tag == 2:
        value = ("stream", read.varint())
    elif tag == 3:
        entity = (read.varint(), read.varint()) if read.ranged(1, 0, 1) else None
        scope = read.ranged(1, 0, 2)
        reach = None
        if scope:
            reach = (read.ranged(4, 1, VIEW_RANGE), read.ranged(4, 1, VIEW_RANGE))
            if reach[0] > reach[1]:
                read.fail()
        value = ("assigned", entity, scope, reach, read.uint(4))
    elif tag == 4:
        value = ("directed", read.varint(0, 0xFFFF), read.rest())
        if len(value[-1]) > EVENT_BYTES:
            read.fail()
    else:
        value = ("tier", read.ranged(1, 0, TIER_MAX))
    read.end()
    return value


def parse_down(payload: bytes) -> Down:
    """P 4: the blocks of a Down payload."""
    read = Bytes(payload, "malformed_payload")
    flags = read.ranged(1, 0, 127)
    clock = read.uint(2)
    close = read.ranged(1, 1, 6) if flags & 8 else None
    if flags & 64:
        read.uint(8)
    welcome = parse_welcome(read) if flags & 4 else None
    inputs_ack = read.varint(1) if flags & 32 else None
    owner = parse_owner(read) if flags & 16 else None
    messages = parse_messages(read) if flags & 2 else None
    header = parse_header(read) if flags & 1 else None
    body = read.rest() if header is not None else b""
    read.end()
    return Down(clock, close, welcome, inputs_ack, owner, messages, header, body)


class Report(NamedTuple):
    """P 7, the report."""

    ask: bool
    session_epoch: int
    generation: int
    stream_epoch: int
    newest: int
    received: int
    echo: int
    delay: int
    next_message: int
    refusal: Optional[int]
    held: Tuple[Tuple[int, int], ...]
    requests: Tuple[Tuple[int, int], ...]
    rejected: Tuple[Tuple[int, int], ...]

    def encode(self) -> bytes:
        flags = self.ask | 2 * (self.refusal is not None) | 4 * bool(self.requests) | 8 * bool(self.rejected)
        out = bytes([flags]) + b"".join(map(write_varint, (self.session_epoch, self.generation, self.stream_epoch)))
        out += struct.pack("<I", self.newest) + write_varint(self.received)
        out += struct.pack("<HH", self.echo, self.delay) + write_varint(self.next_message)
        if self.refusal is not None:
            out += bytes([self.refusal])
        out += bytes([len(self.held)])
        before: Optional[int] = None
        for id, mask in self.held:
            out += write_varint(id if before is None else before - id & U32) + write_varint(mask)
            before = id
        if self.requests:
            out += bytes([len(self.requests)])
            out += b"".join(write_varint(id) + write_varint(generation) for id, generation in self.requests)
        if self.rejected:
            out += bytes([len(self.rejected)])
            out += b"".join(bytes([code]) + write_varint(times) for code, times in self.rejected)
        return out


def parse_report(data: bytes) -> Report:
    read = Bytes(data, "malformed_payload")
    flags = read.ranged(1, 0, 15)
    session_epoch, generation, stream_epoch = read.varint(), read.varint(), read.varint()
    newest, received, echo, delay, next_message = read.uint(4), read.varint(), read.uint(2), read.uint(2), read.varint()
    refusal = read.ranged(1, 1, 5) if flags & 2 else None
    count = read.ranged(1, 0, WINDOW)
    held: Tuple[Tuple[int, int], ...] = ()
    if count:
        held = ((read.varint(), read.varint(1)),)
        held += read_listed(read, held[0][0], count - 1)
    requests: Tuple[Tuple[int, int], ...] = ()
    if flags & 4:
        requests = tuple((read.varint(), read.varint()) for _ in range(read.ranged(1, 1, 4)))
    rejected: Tuple[Tuple[int, int], ...] = ()
    if flags & 8:
        rejected = tuple((read.uint(1), read.varint()) for _ in range(read.ranged(1, 1, 32)))
    read.end()
    return Report(
        flags & 1 != 0, session_epoch, generation, stream_epoch, newest, received, echo, delay, next_message,
        refusal, held, requests, rejected,
    )  # fmt: skip


# ---------------------------------------------------------------- the client


class Snapshot:
    """A snapshot the client keeps: the table of its base changed by the parts taken."""

    __slots__ = ("id", "base", "mask", "reported", "records", "_digest")

    def __init__(self, id: int, base: Optional[int], records: Records) -> None:
        self.id = id
        self.base = base
        self.mask = 0
        self.reported = False
        self.records = records
        self._digest: Optional[Digest] = None

    def add(self, part: int, entries: Sequence[Entry]) -> None:
        self.mask |= 1 << part
        self._digest = None
        for entry in entries:
            if entry.record is None:
                self.records.pop(entry.slot, None)
            else:
                self.records[entry.slot] = entry.record

    def digest(self) -> Digest:
        if self._digest is None:
            self._digest = table_digest(self.records)
        return self._digest


class Place:
    """What the display knows of a slot."""

    __slots__ = ("newest", "named", "last")

    def __init__(self, newest: int, named: int, last: Optional[Tuple[int, int]]) -> None:
        self.newest = newest  # the snapshot of the record shown
        self.named = named  # the newest snapshot that said anything of the slot
        self.last = last  # id and generation of whom it showed last


class Display:
    """P 5: of each slot the newest entry by snapshot id."""

    def __init__(self) -> None:
        self.places: Dict[int, Place] = {}
        self.shown: Records = {}
        self.destroyed: Set[Tuple[int, int]] = set()
        self.newest: Optional[int] = None  # snapshot; of it, the parts that came and how many it has
        self.parts = 0
        self.all_parts = 0
        self.asserted = False  # a part of it brought its base's digest
        self.exhaustive = False  # no part of it leaves anything out
        self._changed: Set[int] = set()
        self._counted: Records = {}
        self._sum: Digest = (0, 0)

    def take(self, header: Header, base: Records, entries: Sequence[Entry]) -> None:
        """A part that was accepted."""
        id = header.id
        completes = self._completes(header)
        for entry in entries:
            self._entry(id, entry, header.base)
        if not header.view_complete:
            return
        until = header.base if header.base is not None else id - 1 & U32
        if completes and self.asserted and self.exhaustive:
            for slot, record in base.items():
                place, shown = self.places.get(slot), self.shown.get(slot)
                if shown is None:
                    # Named by this snapshot and not shown: removed by it.
                    if place is None or after(id, place.named):
                        self._show(slot, record, id, id)
                elif shown != record and not after(place.named, until):
                    self._show(slot, record, id, id)
        for slot in [slot for slot in self.shown if slot not in base]:
            place = self.places[slot]
            if not after(place.named, until):
                place.newest = place.named = id
                self._set(slot, None)

    def _completes(self, header: Header) -> bool:
        """Whether this is the last missing part of the newest snapshot."""
        if self.newest is None or after(header.id, self.newest):
            self.newest, self.parts, self.all_parts, self.asserted, self.exhaustive = header.id, 0, 0, False, True
        if header.id != self.newest:
            return False
        self.asserted = self.asserted or header.base_digest is not None
        self.exhaustive = self.exhaustive and header.exhaustive
        whole = self.all_parts and self.parts & self.all_parts == self.all_parts
        self.parts |= 1 << header.part
        if header.last:
            self.all_parts = MASK[header.part + 1]
        return not whole and self.all_parts != 0 and self.parts & self.all_parts == self.all_parts

    def _entry(self, id: int, entry: Entry, base: Optional[int]) -> None:
        slot, record = entry.slot, entry.record
        place, shown = self.places.get(slot), self.shown.get(slot)
        if record is None:
            if place is not None and not after(id, place.named):
                return
            # Choice: a removal that is too old destroys nobody.
            gone = entry.old
            if gone is None and place is not None and base is not None and after(place.named, base):
                gone = shown
            if gone is not None and entry.departure == 0:
                self.destroyed.add((gone.id, gone.generation))
            if place is None:
                self.places[slot] = Place(id, id, None if gone is None else (gone.id, gone.generation))
            else:
                place.newest = place.named = id
            self._set(slot, None)
        elif place is not None and shown is not None and (shown.id, shown.generation) == (record.id, record.generation):
            if entry.kind == "awake":
                if after(id, place.named):
                    place.named = id
            elif after(id, place.newest):
                self._show(slot, record, id, id if after(id, place.named) else place.named)
        elif place is None or after(id, place.named):
            self._show(slot, record, id, id)

    def _show(self, slot: int, record: Record, newest: int, named: int) -> None:
        """Shows a record, unless it may not come back."""
        who = (record.id, record.generation)
        place = self.places.get(slot)
        last = None if place is None else place.last
        if who in self.destroyed or (last is not None and last[0] == who[0] and last[1] > who[1]):
            return
        if place is None:
            self.places[slot] = Place(newest, named, who)
        else:
            place.newest, place.named, place.last = newest, named, who
        self._set(slot, record)

    def _set(self, slot: int, record: Optional[Record]) -> None:
        self._changed.add(slot)
        if record is None:
            self.shown.pop(slot, None)
        else:
            self.shown[slot] = record

    def digest(self) -> Digest:
        """The sum over all records shown; only what changed since is computed."""
        shown, counted = self.shown, self._counted
        fill_digests(shown[slot] for slot in self._changed if slot in shown)
        a, b = self._sum
        for slot in self._changed:
            old = counted.pop(slot, None)
            if old is not None:
                x, y = split_digest(old.digest)
                a, b = a - x, b - y
            new = shown.get(slot)
            if new is not None:
                x, y = split_digest(new.digest)
                a, b = a + x, b + y
                counted[slot] = new
        self._changed.clear()
        self._sum = a & U32, b & U32
        return self._sum


class Admitted(NamedTuple):
    """What a header passed with: nothing of it has happened yet."""

    new_epoch: bool
    kept: Dict[int, Snapshot]  # what is kept once the part is taken
    base: Records


class Client:
    """One client of a relay, behind the seal."""

    def __init__(self) -> None:
        self.over = False
        self.stream_epoch = 0
        self.schema: Optional[Schema] = None
        self.session_epoch = 0
        self.generation = 0
        self.kept: Dict[int, Snapshot] = {}
        self.refusal: Optional[int] = None
        self.distrusted = False
        self.display = Display()
        self.next_message = 0
        self.early: Dict[int, bytes] = {}
        self.delivered: List[bytes] = []
        self.pushed = 0  # inputs of the player
        self.owner: Optional[Tuple[Owner, int, Record]] = None  # with slot and record

    def down(self, payload: bytes) -> None:
        """Takes a payload or refuses it; a snapshot refused for its header goes alone."""
        if self.over:
            raise Refused("session_over")
        down = parse_down(payload)
        if down.inputs_ack is not None and down.inputs_ack > self.pushed + 1:
            raise Refused("malformed_payload")
        stream_epoch, schema = self.stream_epoch, self.schema
        welcome = down.welcome
        if welcome is not None and welcome.stream_epoch > stream_epoch:
            stream_epoch, schema = welcome.stream_epoch, parse_schema(welcome.schema)
        owner = None if schema is None else self._owner(down.owner, stream_epoch, schema)
        if down.close is not None:
            self.over = True  # nothing beside a close is taken
            return
        header, refused, admitted = down.header, None, None
        entries: List[Entry] = []
        if header is not None:
            try:
                if schema is None or header.stream_epoch != stream_epoch:
                    raise Refused("unknown_stream")
                admitted = self._admit(header)
            except Refused as error:
                refused = error
            else:
                entries = read_body(schema, admitted.base, header.sent, header.entries, down.body)
        # Nothing more can refuse the other blocks.
        if stream_epoch != self.stream_epoch:
            self.stream_epoch, self.schema = stream_epoch, schema
            self.display = Display()
            self.owner = None
        if owner is not None and (self.owner is None or after(owner[0].tick, self.owner[0].tick)):
            self.owner = owner
        if down.messages is not None:
            self._messages(down.messages)
        if header is not None and admitted is not None:
            self._take(header, admitted, entries)
        if refused is not None:
            raise refused

    @staticmethod
    def _owner(owner: Optional[Owner], stream_epoch: int, schema: Schema) -> Optional[Tuple[Owner, int, Record]]:
        if owner is None or owner.stream_epoch != stream_epoch:
            return None
        try:
            entry = read_body(schema, {}, owner.sent, 1, owner.record)[0]
        except Refused:
            raise Refused("malformed_payload") from None
        if entry.kind != "complete" or entry.record is None:
            raise Refused("malformed_payload")
        return owner, entry.slot, entry.record

    def _messages(self, block: Messages) -> None:
        for number, message in enumerate(block.items, block.first):
            number &= U32
            if number - self.next_message & U32 < MESSAGES_AHEAD:
                self.early.setdefault(number, message)
        while self.next_message in self.early:
            self.delivered.append(self.early.pop(self.next_message))
            self.next_message = self.next_message + 1 & U32

    def _take(self, header: Header, admitted: Admitted, entries: Sequence[Entry]) -> None:
        if admitted.new_epoch:
            self.session_epoch = header.session_epoch
            self.refusal = None
            self.distrusted = False
        self.generation = header.generation
        self.kept = admitted.kept
        if header.candidate:
            snapshot = self.kept.get(header.id)
            if snapshot is None and len(self.kept) < WINDOW:
                snapshot = self.kept[header.id] = Snapshot(header.id, header.base, dict(admitted.base))
            if snapshot is not None and not snapshot.reported:
                snapshot.add(header.part, entries)
        self.display.take(header, admitted.base, entries)

    def _refuse(self, reason: str, code: int) -> NoReturn:
        """A refusal that every report says until the session epoch rises; the first is the one said."""
        if self.refusal is None:
            self.refusal = code
        if code in (2, 4):
            self.distrusted = True
        raise Refused(reason)

    def _admit(self, header: Header) -> Admitted:
        """P 6, the order of checks from the session epoch to the siblings."""
        new_epoch = header.session_epoch > self.session_epoch
        # Session epoch 0 is that before any.
        if header.session_epoch < self.session_epoch or header.session_epoch == 0:
            raise Refused("old_epoch")
        kept = self.kept
        if new_epoch:
            # Choice: whatever its generation.
            if header.base is not None or header.commit is not None:
                raise Refused("uncommitted_generation")
            kept = {}
        elif self.distrusted and header.base is not None:
            raise Refused("distrusted_base")
        elif header.generation < self.generation:
            raise Refused("old_generation")
        elif header.generation > self.generation:
            # Two or more above: whatever it carries.
            if header.commit is None or header.generation != self.generation + 1:
                raise Refused("uncommitted_generation")
            kept = self._committed(header.commit)
        base: Records = {}
        if header.base is not None:
            snapshot = kept.get(header.base)
            if snapshot is None or not snapshot.reported:
                self._refuse("base_missing", 3)
            if header.base_digest is not None and header.base_digest != snapshot.digest():
                self._refuse("base_digest", 4)
            base = snapshot.records
        sibling = kept.get(header.id)
        if sibling is not None:
            if sibling.base != header.base:
                raise Refused("sibling_base")
            if sibling.mask >> header.part & 1:
                raise Refused("duplicate_part")
        return Admitted(new_epoch, kept, base)

    def _committed(self, commit: Commit) -> Dict[int, Snapshot]:
        """What is kept once the commit is taken."""
        kept: Dict[int, Snapshot] = {}
        a = b = 0
        for id, mask in commit.members:
            snapshot = self.kept.get(id)
            if snapshot is None or not snapshot.reported or snapshot.mask != mask:
                self._refuse("commit_not_held", 1)
            kept[id] = snapshot
        for snapshot in kept.values():
            x, y = snapshot.digest()
            a, b = a + x, b + y
        if (a & U32, b & U32) != commit.digest:
            self._refuse("commit_digest", 2)
        return kept

    def report(self, hold_back: Sequence[int]) -> Report:
        """Makes a report; what it lists is fixed from now on. What belongs to the datagrams stays 0."""
        listed = [snapshot for snapshot in self.kept.values() if snapshot.reported or snapshot.id not in hold_back]
        for snapshot in listed:
            snapshot.reported = True
        newest = 0
        for i, snapshot in enumerate(listed):
            if i == 0 or after(snapshot.id, newest):
                newest = snapshot.id
        listed.sort(key=lambda snapshot: newest - snapshot.id & U32)
        return Report(
            len(listed) >= ASK_FROM, self.session_epoch, self.generation, self.stream_epoch, 0, 0, 0, 0,
            self.next_message, self.refusal, tuple((snapshot.id, snapshot.mask) for snapshot in listed), (), (),
        )  # fmt: skip


# ---------------------------------------------------------------- the corpus


class TooMany(Exception):
    """Enough disagreements."""


class Tally:
    def __init__(self) -> None:
        self.packets = self.refusals = self.tables = self.reports = self.disagreements = 0

    def disagree(self, where: str, what: str, expected: Any, got: Any) -> None:
        print(f"{where}: {what}: expected {expected}, got {got}")
        self.disagreements += 1
        if self.disagreements >= 20:
            raise TooMany

    def compare(self, where: str, what: str, expected: Any, got: Any) -> None:
        if expected != got:
            self.disagree(where, what, expected, got)


class Replay:
    """One corpus file."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.client: Optional[Client] = None

    def line(self, where: str, line: str) -> None:
        op = json.loads(line)
        kind = op["op"]
        if kind == "session":
            self.client = Client()
            return
        client = self.client
        if client is None:
            raise ValueError("no session yet")
        if kind == "down":
            self._down(where, client, op)
        elif kind == "input":
            client.pushed += 1
        elif kind == "report":
            self._report(where, client, op)
        elif kind == "messages":
            self.tally.compare(where, "next message", op["next"], client.next_message)
            self.tally.compare(where, "messages", op["received"], [message.hex() for message in client.delivered])
            for message in client.delivered:
                parse_message(message)  # nobody put in one that cannot be read
            client.delivered.clear()
        else:
            raise ValueError(f"unknown op {kind!r}")

    def _down(self, where: str, client: Client, op: Dict[str, Any]) -> None:
        tally = self.tally
        tally.packets += 1
        try:
            client.down(bytes.fromhex(op["payload"]))
            got = "ok"
        except Refused as refused:
            got = refused.reason
            tally.refusals += 1
        tally.compare(where, "payload", op["expect"], got)
        if "tables" in op:
            expected = {table[0]: table for table in op["tables"]}
            tables = {s.id: [s.id, s.mask, len(s.records), list(s.digest())] for s in client.kept.values()}
            tally.tables += len(expected)
            if len(expected) != len(op["tables"]):
                tally.disagree(where, "tables", "each id once", op["tables"])
            for id in sorted(expected.keys() | tables.keys()):
                tally.compare(where, f"table {id}", expected.get(id), tables.get(id))
        if "display" in op:
            display = [len(client.display.shown), list(client.display.digest())]
            tally.compare(where, "display", op["display"], display)
        if "owner" in op:
            owner = None
            if client.owner is not None:
                block, slot, record = client.owner
                owner = [block.tick, block.processed, slot, list(table_digest({slot: record}))]
            tally.compare(where, "owner", op["owner"], owner)

    def _report(self, where: str, client: Client, op: Dict[str, Any]) -> None:
        tally = self.tally
        tally.reports += 1
        if op["refuse"] == 5 and client.refusal is None:
            client.refusal = 5  # the game asked for a full state, which no payload shows
        report = client.report(op["hold_back"])
        said = {
            "session_epoch": report.session_epoch,
            "generation": report.generation,
            "stream_epoch": report.stream_epoch,
            "ask": report.ask,
            "refuse": report.refusal,
            "held": [list(pair) for pair in report.held],
        }
        for key, value in said.items():
            tally.compare(where, f"report's {key}", op[key], value)
        tally.compare(where, "report's bytes", report, parse_report(report.encode()))


def replay(paths: Sequence[str]) -> int:
    tally = Tally()
    try:
        for path in paths:
            name = os.path.basename(path)
            one = Replay(tally)
            try:
                with open(path, encoding="utf-8") as file:
                    for number, line in enumerate(file, 1):
                        if not line.strip():
                            continue
                        where = f"{name}:{number}"
                        try:
                            one.line(where, line)
                        except TooMany:
                            raise
                        except Exception as error:  # a reader that breaks disagrees
                            tally.disagree(where, "line", "to be read", repr(error))
            except (OSError, UnicodeDecodeError) as error:
                tally.disagree(name, "corpus", "to be read", repr(error))
        if tally.packets == 0:
            tally.disagree("corpus", "packets", "some", 0)
    except TooMany:
        pass
    verdict = "DISAGREED" if tally.disagreements else "agreed"
    print(
        f"{tally.packets} packets, {tally.refusals} refusals, {tally.tables} tables, {tally.reports} reports: {verdict}"
    )
    return 1 if tally.disagreements else 0


# ---------------------------------------------------------------- the worked examples

# Examples of whole datagrams: the seal is not this reader's affair.
DATAGRAMS = ("request", "challenge", "response", "denied", "welcome", "leave")

EXAMPLES: Dict[str, Any] = {
    "welcome-payload": Down(0x7F49, None, Welcome(0, 4_000_000, 30_000_000, b""), None, None, None, None, b""),
    "messages": Messages(0, (b"one", b"two")),
    "snapshot-header": Header(
        True, True, False, True, 1, 1, 3, 300, 0, True, 294, 5_000_000, None, None, 0
    ),  # fmt: skip
    "snapshot-header-commit": Header(
        True, True, False, True, 1, 1, 4, 300, 1, False, 294, 5_000_000,
        Commit(((294, 1),), (0x11223344, 0x55667788)), (1, 2), 200,
    ),  # fmt: skip
    "report": Report(
        True, 1, 3, 1, 700, 690, 0x1234, 15, 4, 4, ((294, 1), (291, 5)), ((12, 1),), ((2, 5),)
    ),  # fmt: skip
    "inputs": (7, (b"left", b"")),
    "owner": Owner(
        1, 300, 1_100_000, 57,
        bytes.fromhex("16 2b 28 a0 09 24 f4 02 11 a8 61 00 00 10 27 e2 ec 1f 4b ff 3c 16 00 10 a7 91 01"),
    ),  # fmt: skip
    "quote": (True, 77, 2, 1_464_928, (12, 1, 3, 0)),
    "message-assigned": ("assigned", (12, 1), 1, (5_000, 6_000), 6),
    "message-directed": ("directed", 44, b"hi"),
    "message-tier": ("tier", 1),
}


def blocks(text: str) -> Iterator[Tuple[str, List[str]]]:
    """The fenced blocks that say what they are."""
    for match in re.finditer(r"^```(\w[^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield match.group(1).strip(), [line for line in match.group(2).split("\n") if line.strip()]


def hex_lines(lines: Sequence[str]) -> bytes:
    """Bytes in hex, `00*9` for nine equal ones; two spaces or more begin a comment."""
    out = b""
    for line in lines:
        for token in re.split(r" {2,}", line.strip())[0].split():
            byte, _, times = token.partition("*")
            out += bytes.fromhex(byte) * int(times or 1)
    return out


def parse_quote(read: Bytes) -> Tuple[bool, int, int, int, Optional[Tuple[int, int, int, int]]]:
    """What a shot quotes: it stands in an input, and in no datagram of this reader's."""
    flags = read.ranged(1, 0, 3)
    stream, generation, r_us = read.uint(4), read.varint(), read.uint(6)
    target = None
    if flags & 2:
        target = (read.varint(), read.varint(), read.varint(), read.ranged(1, 0, 3))
    return flags & 1 != 0, stream, generation, r_us, target


def read_example(name: str, data: bytes) -> Any:
    if name == "welcome-payload":
        return parse_down(data)
    if name == "report":
        report = parse_report(data)
        return report if report.encode() == data else report.encode().hex()
    if name.startswith("message-"):
        return parse_message(data)
    read = Bytes(data, "malformed_payload")
    blocks_of = {"messages": parse_messages, "inputs": parse_inputs, "owner": parse_owner, "quote": parse_quote}
    value: Any = blocks_of.get(name, parse_header)(read)
    read.end()
    return value


def example_record(schema: Schema, said: Dict[str, str]) -> Record:
    def three(text: str) -> Vector:
        x, y, z = (int(value) for value in text.split(","))
        return x, y, z

    segment, began = said["segment"].split("@")
    motion = None
    if "observed" in said:
        largest, parts = said["rotation"].split(":")
        motion = Motion(
            int(said["observed"]), said["rest"] == "1", three(said["position"]), int(largest), three(parts),
            three(said["velocity"]) if "velocity" in said else NOTHING,
            three(said["angular"]) if "angular" in said else NOTHING,
        )  # fmt: skip
    extras = [
        int(value) & MASK[field.bits] for value, field in zip(said.get("extras", "").split(","), schema.extras)
    ]  # fmt: skip
    return Record(
        int(said["id"]), int(said["generation"]), int(said["class"]), int(said.get("tier", "0")), int(said["born"]),
        int(segment), int(began), motion, tuple((extras + [0] * 8)[:8]),
    )  # fmt: skip


def check_delta(tally: Tally, where: str, schema: Schema, lines: Sequence[str]) -> None:
    """Reads the body, compares what it decodes to, and puts the fields together again."""
    frame = 0
    base: Records = {}
    expected: List[Tuple[Any, ...]] = []
    body = b""
    fields = width = 0
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        said = dict(pair.partition("=")[::2] for pair in rest.split() if "=" in pair)
        if line.startswith(" "):
            value = int(rest.split()[0])
            fields |= value << width
            width += int(word)
            if value >> int(word):
                tally.disagree(where, "field", f"{word} bits", line.strip())
        elif word == "frame":
            frame = int(rest)
        elif word == "base":
            base[int(said["slot"])] = example_record(schema, said)
        elif word in ("update", "complete"):
            expected.append((int(said["slot"]), word, example_record(schema, said).known(), 0, 0, 0))
        elif word == "awake":
            expected.append((int(said["slot"]), word, base[int(said["slot"])].known(), 0, 0, 0))
        elif word == "removed":
            gone = (int(said["departure"]), int(said["at"]), int(said["reason"]))
            expected.append((int(said["slot"]), word, None) + gone)
        elif word == "body":
            body = bytes.fromhex(rest)
        else:
            tally.disagree(where, "line", "a known word", line)
    got = []
    names = {"motion": "update", "general": "update", "remove": "removed"}
    for entry in read_body(schema, base, frame, len(expected), body):
        record = None if entry.record is None else entry.record.known()
        got.append(
            (entry.slot, names.get(entry.kind, entry.kind), record, entry.departure, entry.at, entry.reason)
        )  # fmt: skip
    for one, other in zip(expected, got):
        tally.compare(where, "entry", one, other)
    tally.compare(where, "entries", len(expected), len(got))
    tally.compare(where, "fields", body.hex(), fields.to_bytes((width + 7) // 8, "little").hex())


def examples(paths: Sequence[str]) -> int:
    tally = Tally()
    read = {"examples": 0, "schemas": 0, "deltas": 0}
    skipped = []
    try:
        for path in paths:
            name = os.path.basename(path)
            schema: Optional[Schema] = None
            try:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError) as error:
                tally.disagree(name, "document", "to be read", repr(error))
                continue
            for number, (title, lines) in enumerate(blocks(text), 1):
                where = f"{name}: block {number} ({title})"
                kind, _, which = title.partition(" ")
                try:
                    if kind == "schema":
                        read["schemas"] += 1
                        schema = parse_schema(hex_lines([line for line in lines if not line.startswith("hash")]))
                        said = [line.split()[1] for line in lines if line.startswith("hash")]
                        tally.compare(where, "hash", said, [f"{schema.hash:016x}"])
                    elif kind == "delta":
                        read["deltas"] += 1
                        if schema is None:
                            raise ValueError("no schema above")
                        check_delta(tally, where, schema, lines)
                    elif kind == "example" and which in EXAMPLES:
                        read["examples"] += 1
                        tally.compare(where, "value", EXAMPLES[which], read_example(which, hex_lines(lines)))
                    elif kind == "example" and which in DATAGRAMS:
                        skipped.append(which)
                    elif kind == "example":
                        tally.disagree(where, "example", "a known name", which)
                except TooMany:
                    raise
                except Exception as error:
                    tally.disagree(where, "block", "to be read", repr(error))
        if not any(read.values()):
            tally.disagree("documents", "examples", "some", 0)
    except TooMany:
        pass
    if skipped:
        print(f"sealed or before the session, not read: {', '.join(skipped)}")
    verdict = "DISAGREED" if tally.disagreements else "agreed"
    print(f"{read['examples']} examples, {read['schemas']} schemas, {read['deltas']} deltas: {verdict}")
    return 1 if tally.disagreements else 0


def main(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == "--examples" and len(arguments) > 1:
        return examples(arguments[1:])
    if arguments and not arguments[0].startswith("-"):
        return replay(arguments)
    print("usage: reader.py CORPUS [CORPUS...]\n       reader.py --examples DOC...", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
