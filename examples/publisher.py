#!/usr/bin/env python3
"""A small game server that publishes its world to Ackline relays, in the standard library alone.

Written from docs/UPSTREAM.md; the section numbers below are that document's. A real server replaces `World` and
keeps the rest.

    publisher.py --entities 20 --hz 20 --seconds 10                            serve subscribers on 127.0.0.1:7700
    ackline relay --upstream 127.0.0.1:7700 --listen 127.0.0.1:7777            a relay that shows this world
    publisher.py --dump stream.bin --seconds 2                                 write one stream to a file

With --break, one thing goes wrong once, so that a relay's answer can be tried: out-of-range, dead-generation,
truncated (all at tick 8) or wrong-version (in the first hello).
"""

import argparse
import math
import os
import secrets
import selectors
import socket
import struct
import sys
import time

# Section 1 and 3: framing and kinds.
VERSION = 2
MAGIC = b"ACKU"
SUBSCRIBE, RESYNC = 0x01, 0x02
HELLO, REFUSE, TICK, END = 0x11, 0x12, 0x13, 0x14
REFUSED_VERSION, REFUSED_TOKEN, REFUSED_MALFORMED = 1, 2, 4
REQUEST_MAX = 16384
QUEUE_MAX = 16 << 20
RESYNC_GAP_S = 0.1
SUBSCRIBE_WITHIN_S = 5.0

# Section 6: the schema of this world.
POSITION = [(-100.0, 100.0, 0.01), (-100.0, 100.0, 0.01), (0.0, 50.0, 0.01)]
ROTATION_BITS = 10
VELOCITY = (64.0, 0.02)
ANGULAR = (16.0, 0.01)
CLASSES = [("stone", False), ("runner", True)]

BREAK_AT = 8
BREAKS = ["out-of-range", "dead-generation", "truncated", "wrong-version"]


def framed(payload):
    return struct.pack("<I", len(payload)) + payload


def text(value):
    raw = value.encode()
    return struct.pack("<B", len(raw)) + raw


def schema(period_us):
    """Section 6."""
    out = text("circles") + struct.pack("<HIB", 1, period_us, 2 | 4)  # velocity and angular velocity, not on change
    for low, high, step in POSITION:
        out += struct.pack("<ddd", low, high, step)
    out += struct.pack("<B", ROTATION_BITS)
    for bound, step in (VELOCITY, ANGULAR):
        out += struct.pack("<dd", bound, step)
    out += struct.pack("<B", 1) + text("health") + struct.pack("<BB", 10, 1)
    out += struct.pack("<B", len(CLASSES))
    for name, query_critical in CLASSES:
        out += text(name) + struct.pack("<B", query_critical)
    return out


def clock_id():
    """Section 3: the name of this host's monotonic clock, which `published_us` reads; 0 where it has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read().strip()
    except OSError:
        return 0
    try:
        namespace = os.readlink("/proc/self/ns/time").encode()
    except OSError:
        namespace = b""
    name = 0xCBF29CE484222325
    for byte in boot + b"/" + namespace:
        name = ((name ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return max(name, 1) if boot else 0


def published_us():
    """Section 4: now, on that clock."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def hello(version, epoch, boot, period_us):
    """Section 3."""
    declared = schema(period_us)
    head = struct.pack("<B4sHQQQH", HELLO, MAGIC, version, epoch, boot, clock_id(), 0)
    return framed(head + struct.pack("<H", len(declared)) + declared)


def refuse(code, reason):
    raw = reason.encode()
    return framed(struct.pack("<BHH", REFUSE, code, len(raw)) + raw)


# Section 7: metres become integers.


def round_away(value):
    """To the nearest integer, ties away from zero."""
    whole = math.floor(abs(value))
    whole += abs(value) - whole >= 0.5
    return whole if value >= 0 else -whole


def quantise_position(axis, metres):
    low, high, step = axis
    if not low <= metres <= high:  # not a number fails too
        raise ValueError(f"position {metres} is outside {low} to {high}")
    return min(round_away((metres - low) / step), round_away((high - low) / step))


def quantise_rate(rate, value):
    bound, step = rate
    if not -bound <= value <= bound:
        raise ValueError(f"rate {value} is outside {-bound} to {bound}")
    most = round_away(bound / step)
    return max(-most, min(most, round_away(value / step)))


def quantise_rotation(quaternion, bits):
    length = math.sqrt(sum(c * c for c in quaternion))
    if not (math.isfinite(length) and length > 1e-9):
        raise ValueError(f"rotation {quaternion} has no direction")
    largest = max(range(4), key=lambda i: abs(quaternion[i]))  # the first of equals
    sign = -1.0 if quaternion[largest] < 0 else 1.0
    half = (1 << (bits - 1)) - 1
    parts = [
        max(0, min(2 * half, round_away(c * sign / length * math.sqrt(2) * half) + half))
        for i, c in enumerate(quaternion)
        if i != largest
    ]
    return largest, parts


# Section 4: a tick.


def tick_message(number, server_us, keyframe=False, despawns=(), spawns=(), observations=(), extras=(), tags=(), events=()):
    out = bytearray(struct.pack("<BBQQQ", TICK, keyframe, number, server_us, published_us()))
    for items in (despawns, spawns, observations, extras, tags, events):
        out += struct.pack("<I", len(items))
        for item in items:
            out += item
    return framed(bytes(out))


def despawn(entity, at_us, reason):
    return struct.pack("<IIQB", *entity, at_us, reason)


def spawn(entity, at_us, class_index):
    return struct.pack("<IIQB", *entity, at_us, class_index)


def observation(entity, segment, segment_us, motion):
    observed_us, position, (largest, parts), velocity, angular, at_rest = motion
    flags = 1 | (2 if at_rest else 0)
    return struct.pack(
        "<IIIQBQ3IB3H3i3i",
        *entity, segment, segment_us, flags, observed_us, *position, largest, *parts, *velocity, *angular,
    )  # fmt: skip


def extra(entity, values):
    """`values`: the bit pattern of a field by its index."""
    mask = sum(1 << field for field in values)
    return struct.pack("<IIB", *entity, mask) + b"".join(struct.pack("<I", values[f]) for f in sorted(values))


def event(kind, critical, entity, at_us, payload):
    flags = (1 if critical else 0) | (0 if entity is None else 2)
    return struct.pack("<HBIIQH", kind, flags, *(entity or (0, 0)), at_us, len(payload)) + payload


class Body:
    """One id. Its generation rises each time it lives again, its segment each time it jumps."""

    def __init__(self, index):
        self.id, self.generation, self.alive = index, -1, False
        self.radius = 2.0 + (index * 7) % 90
        self.speed = (0.2 + (index % 5) * 0.05) * (1 if index % 2 else -1)

    @property
    def entity(self):
        return (self.id, self.generation)

    def live(self, now_us):
        self.generation, self.alive = self.generation + 1, True
        self.born_us, self.segment, self.segment_us = now_us, 0, now_us
        self.phase, self.health = self.id * 0.7, 100

    def observe(self, now_us):
        """The motion at this instant, in integers: position, rotation and velocity of one and the same time."""
        resting = self.id == 0
        angle = self.phase + (0.0 if resting else self.speed * now_us * 1e-6)
        around = 0.0 if resting else self.speed
        x, y = self.radius * math.cos(angle), self.radius * math.sin(angle)
        metres, velocity = (x, y, 1.0), (-y * around, x * around, 0.0)
        self.motion = (
            now_us,
            [quantise_position(axis, m) for axis, m in zip(POSITION, metres)],
            quantise_rotation((0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2)), ROTATION_BITS),
            [quantise_rate(VELOCITY, v) for v in velocity],
            [quantise_rate(ANGULAR, v) for v in (0.0, 0.0, around)],
            resting,
        )
        return observation(self.entity, self.segment, self.segment_us, self.motion)


class World:
    """Bodies on circles. Some end and live again, some jump, some are hit."""

    def __init__(self, entities, period_us):
        self.bodies = [Body(index) for index in range(entities)]
        self.period_us, self.number, self.server_us = period_us, 0, 0

    def step(self, broken):
        """The next tick's message: only what happened and was observed in it."""
        self.number += 1
        now_us = self.server_us = (self.number - 1) * self.period_us
        turn = self.number // 16 * 3 + 1
        subject = self.bodies[turn % len(self.bodies)]
        despawns, spawns, observations, extras, events = [], [], [], [], []
        if self.number % 16 == 4 and subject.alive:
            subject.alive = False
            despawns.append(despawn(subject.entity, now_us, 1))
        for body in self.bodies:
            if self.number == 1 or (body is subject and self.number % 16 == 6 and not body.alive):
                body.live(now_us)
                spawns.append(spawn(body.entity, now_us, 0 if body.id == 0 else 1))
                extras.append(extra(body.entity, {0: body.health}))
        jumper = self.bodies[(turn + 1) % len(self.bodies)]
        if self.number % 16 == 12 and jumper.alive:
            jumper.segment, jumper.segment_us, jumper.phase = jumper.segment + 1, now_us, jumper.phase + math.pi
        for body in self.bodies:
            # The body at rest is observed now and then, the others every tick.
            if body.alive and (body.id != 0 or self.number % 16 == 1 or body.born_us == now_us):
                observations.append(body.observe(now_us))
        if self.number % 16 == 14 and jumper.alive:
            jumper.health -= 150  # below zero in time: the field is signed
            jumper.health = max(jumper.health, -512)
            extras.append(extra(jumper.entity, {0: jumper.health & 0x3FF}))
            events.append(event(1, True, jumper.entity, now_us, b"hit"))
        if self.number == BREAK_AT and broken == "out-of-range":
            stamp, position, *rest = self.bodies[-1].motion
            position = [round_away((POSITION[0][1] - POSITION[0][0]) / POSITION[0][2]) + 1, *position[1:]]
            body = self.bodies[-1]
            observations[-1] = observation(body.entity, body.segment, body.segment_us, (stamp, position, *rest))
        if self.number == BREAK_AT and broken == "dead-generation":
            body = subject
            dead = (body.id, body.generation - 1)
            observations.append(observation(dead, body.segment, body.segment_us, body.motion))
        message = tick_message(self.number, now_us, False, despawns, spawns, observations, extras, (), events)
        if self.number == BREAK_AT and broken == "truncated":
            message = framed(message[4:-3])
        return message

    def keyframe(self):
        """The whole world after the last tick, under that tick's number (section 4)."""
        alive = [body for body in self.bodies if body.alive]
        return tick_message(
            self.number,
            self.server_us,
            True,
            spawns=[spawn(b.entity, b.born_us, 0 if b.id == 0 else 1) for b in alive],
            observations=[observation(b.entity, b.segment, b.segment_us, b.motion) for b in alive],
            extras=[extra(b.entity, {0: b.health & 0x3FF}) for b in alive],
        )


class Subscriber:
    """One connection: what came, what is still to be sent."""

    def __init__(self, connection):
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection, self.incoming, self.outgoing = connection, bytearray(), bytearray()
        self.opened, self.subscribed, self.closing = time.monotonic(), False, False
        self.keyframe_at, self.resync = 0.0, False

    def send(self, message):
        self.outgoing += message

    def refuse(self, code, reason):
        self.send(refuse(code, reason))
        self.closing = True


class Server:
    """Serves any number of subscribers from one thread. A slow one is dropped, never waited for (section 8)."""

    def __init__(self, args, world, greeting):
        self.args, self.world, self.greeting = args, world, greeting
        self.selector = selectors.DefaultSelector()
        host, port = args.listen.rsplit(":", 1)
        self.listener = socket.create_server((host.strip("[]"), int(port)), family=family_of(host))
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.subscribers = {}
        print(f"listening on {host}:{self.listener.getsockname()[1]}", flush=True)

    def run(self):
        period = self.world.period_us * 1e-6
        start = time.monotonic()
        ticks = max(1, round(self.args.seconds / period))
        for number in range(ticks):
            self.wait_until(start + number * period)
            message = self.world.step(self.args.broken)
            for subscriber in list(self.subscribers.values()):
                self.serve(subscriber, message)
        self.wait_until(start + ticks * period)
        for subscriber in list(self.subscribers.values()):
            subscriber.send(framed(bytes([END])))
            subscriber.closing = True
            self.write(subscriber)
        deadline = time.monotonic() + 1.0
        while self.subscribers and time.monotonic() < deadline:
            self.wait_until(time.monotonic() + 0.01)

    def serve(self, subscriber, message):
        now = time.monotonic()
        if not subscriber.subscribed:
            if now - subscriber.opened > SUBSCRIBE_WITHIN_S:
                self.drop(subscriber)
            return
        if subscriber.closing:
            return
        subscriber.send(message)
        if subscriber.resync and now - subscriber.keyframe_at >= RESYNC_GAP_S:
            self.keyframe(subscriber)
        if len(subscriber.outgoing) > QUEUE_MAX:
            self.drop(subscriber)
        else:
            self.write(subscriber)

    def keyframe(self, subscriber):
        subscriber.resync, subscriber.keyframe_at = False, time.monotonic()
        subscriber.send(self.world.keyframe())

    def wait_until(self, deadline):
        """Moves bytes until then."""
        while True:
            left = deadline - time.monotonic()
            for key, mask in self.selector.select(max(0.0, left)):
                if key.fileobj is self.listener:
                    self.accept()
                    continue
                if mask & selectors.EVENT_READ:
                    self.read(key.data)
                if key.data.connection in self.subscribers:
                    self.write(key.data)
            if left <= 0:
                return

    def accept(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        subscriber = Subscriber(connection)
        self.subscribers[connection] = subscriber
        self.selector.register(connection, selectors.EVENT_READ, subscriber)

    def read(self, subscriber):
        try:
            came = subscriber.connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            came = b""
        if not came:
            return self.drop(subscriber)
        if not subscriber.closing:
            subscriber.incoming += came
        while len(subscriber.incoming) >= 4 and not subscriber.closing:
            (length,) = struct.unpack_from("<I", subscriber.incoming)
            if length > REQUEST_MAX:
                subscriber.refuse(REFUSED_MALFORMED, f"a message of {length} bytes is above the bound of {REQUEST_MAX}")
            elif len(subscriber.incoming) < 4 + length:
                return None
            else:
                payload = bytes(subscriber.incoming[4 : 4 + length])
                del subscriber.incoming[: 4 + length]
                self.take(subscriber, payload)
        return None

    def take(self, subscriber, payload):
        kind = payload[0] if payload else 0
        if kind >= 0x80:
            return  # section 9: skipped by whoever does not know it
        if payload == bytes([RESYNC]) and subscriber.subscribed:
            subscriber.resync = True  # answered with the next tick
        elif kind == SUBSCRIBE and not subscriber.subscribed and payload[1:5] == MAGIC and len(payload) >= 7:
            self.subscribe(subscriber, payload)
        else:
            subscriber.refuse(REFUSED_MALFORMED, f"a message of kind {kind} cannot be taken here")

    def subscribe(self, subscriber, payload):
        (version,) = struct.unpack_from("<H", payload, 5)
        if version != VERSION:
            return subscriber.refuse(REFUSED_VERSION, f"version {version} is asked for, but this origin speaks {VERSION}")
        if len(payload) < 11 or len(payload) != 11 + struct.unpack_from("<H", payload, 9)[0]:
            return subscriber.refuse(REFUSED_MALFORMED, "the subscribe message has a wrong length")
        if self.args.token and not secrets.compare_digest(payload[11:], self.args.token.encode()):
            return subscriber.refuse(REFUSED_TOKEN, "the token is not the one this origin expects")
        subscriber.subscribed = True
        subscriber.send(self.greeting())
        self.keyframe(subscriber)
        return None

    def write(self, subscriber):
        try:
            while subscriber.outgoing:
                sent = subscriber.connection.send(subscriber.outgoing)
                del subscriber.outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            return self.drop(subscriber)
        if subscriber.closing and not subscriber.outgoing:
            return self.drop(subscriber)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if subscriber.outgoing else 0)
        self.selector.modify(subscriber.connection, wanted, subscriber)
        return None

    def drop(self, subscriber):
        if self.subscribers.pop(subscriber.connection, None):
            self.selector.unregister(subscriber.connection)
            subscriber.connection.close()


def family_of(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def dump(args, world, greeting):
    """One subscriber's stream, as fast as it can be made."""
    with sys.stdout.buffer if args.dump == "-" else open(args.dump, "wb") as out:
        out.write(greeting())
        out.write(world.keyframe())
        for _ in range(max(1, round(args.seconds * args.hz))):
            out.write(world.step(args.broken))
        out.write(framed(bytes([END])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:7700",
        help="serve subscribers here; port 0 takes a free one (default 127.0.0.1:7700)",
    )
    where.add_argument("--dump", metavar="FILE", help="write one stream to a file (- for stdout) and end")
    parser.add_argument("--entities", type=int, default=20, help="how many bodies, 2 to 20000 (default 20)")
    parser.add_argument("--hz", type=float, default=20.0, help="ticks a second, 0.1 to 1000 (default 20)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to publish (default 10)")
    parser.add_argument("--token", default="", help="what subscribers must show; empty admits everybody")
    parser.add_argument("--break", dest="broken", choices=BREAKS, help="break one thing once, for tests")
    args = parser.parse_args()
    if not (2 <= args.entities <= 20000 and 0.1 <= args.hz <= 1000 and args.seconds > 0):
        parser.error("--entities is 2 to 20000, --hz 0.1 to 1000, --seconds above 0")
    period_us = round(1e6 / args.hz)
    world = World(args.entities, period_us)
    # Section 3: the epoch rises with every start, the boot nonce is random at every start.
    epoch, boot = time.time_ns() // 1000, secrets.randbits(64)
    versions = iter([VERSION + 1] if args.broken == "wrong-version" else [])

    def greeting():
        return hello(next(versions, VERSION), epoch, boot, period_us)

    if args.dump:
        dump(args, world, greeting)
    else:
        Server(args, world, greeting).run()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        sys.exit(f"publisher.py: {error}")
