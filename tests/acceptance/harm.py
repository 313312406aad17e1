"""What goes wrong in tests/acceptance/prometheus.py, each caused from outside of the programs.

A way between clients and a relay that flips bits, a way between a relay and its origin that does, threads that get no
processor or stand still, and a kernel that refuses to send and receive. Python's standard library and a C compiler; loopback only.
"""

import ctypes
import os
import pathlib
import selectors
import socket
import subprocess
import sys
import threading

# A library that the loader puts before the C library's own. While the file named in HARM_SLOW is there, sending a batch
# takes 60 ms; while that of HARM_FULL is, every second call to send one and every second to receive one fails as without memory.
KERNEL = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static __thread unsigned sends, receives;
static int is_there(const char *name) { return access(getenv(name), F_OK) == 0; }
static int is_full(unsigned *calls) { return ++*calls % 2 && is_there("HARM_FULL"); }
int sendmmsg(int fd, struct mmsghdr *v, unsigned n, int flags) {
    int (*real)(int, struct mmsghdr *, unsigned, int) = dlsym(RTLD_NEXT, "sendmmsg");
    if (is_there("HARM_SLOW")) usleep(60000);
    if (is_full(&sends)) { errno = ENOBUFS; return -1; }
    return real(fd, v, n, flags);
}
int recvmmsg(int fd, struct mmsghdr *v, unsigned n, int flags, struct timespec *t) {
    int (*real)(int, struct mmsghdr *, unsigned, int, struct timespec *) = dlsym(RTLD_NEXT, "recvmmsg");
    if (is_full(&receives)) { errno = ENOBUFS; return -1; }
    return real(fd, v, n, flags, t);
}
"""


def free_port(kind):
    """A port of loopback that was free a moment ago."""
    with socket.socket(socket.AF_INET, kind) as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class HarmedKernel:
    """Calls of the system that are slow, or fail, in programs started with `environment`."""

    def __init__(self, directory):
        source, library = directory / "kernel.c", directory / "kernel.so"
        source.write_text(KERNEL)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self.slow, self.full = directory / "kernel.slow", directory / "kernel.full"
        self.environment = {"LD_PRELOAD": str(library), "HARM_SLOW": str(self.slow), "HARM_FULL": str(self.full)}


class Supervisor:
    """A service manager to a program started with `environment`: counts its signs of life, one each half second."""

    def __init__(self, directory):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(directory / "notify.socket"))
        self.environment = {"NOTIFY_SOCKET": str(directory / "notify.socket"), "WATCHDOG_USEC": "2000000"}
        self.heard, self.told = 0, 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            said = self.socket.recv(4096)
            self.heard += said.startswith(b"WATCHDOG=1")

    def signs(self):
        """How many came since this was asked last."""
        before, self.told = self.told, self.heard
        return self.told - before


class DamagedWay:
    """A way for UDP: clients reach `relay` through `address`; one in so many datagrams to a client has a bit flipped."""

    def __init__(self, relay, one_in):
        self.relay, self.one_in, self.passed = relay, one_in, 0
        self.inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.inside.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.inside.getsockname()[1]
        self.selector, self.outside = selectors.DefaultSelector(), {}
        self.selector.register(self.inside, selectors.EVENT_READ, None)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            for key, _ in self.selector.select():
                try:
                    if key.data is None:
                        self.up()
                    else:
                        self.down(key.fileobj, key.data)
                except OSError:
                    pass  # A relay or a client that is gone.

    def up(self):
        datagram, client = self.inside.recvfrom(2048)
        if client not in self.outside:
            way = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            way.connect(self.relay)
            self.outside[client] = way
            self.selector.register(way, selectors.EVENT_READ, client)
        self.outside[client].send(datagram)

    def down(self, way, client):
        datagram = bytearray(way.recv(2048))
        self.passed += 1
        if self.passed % self.one_in == 0:
            datagram[-1] ^= 1  # Of the seal.
        self.inside.sendto(datagram, client)


class DamagedUpstream:
    """A way for TCP from a relay to its origin. `damage` changes one message on it so that it cannot be read."""

    def __init__(self, origin):
        self.origin, self.wanted = origin, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def damage(self):
        self.wanted.set()

    def accept(self):
        while True:
            relay, _ = self.listener.accept()
            try:
                origin = socket.create_connection(self.origin)
            except OSError:
                relay.close()
                continue
            for way, of_origin in (((relay, origin), False), ((origin, relay), True)):
                threading.Thread(target=self.pass_on, args=(*way, of_origin), daemon=True).start()

    def pass_on(self, here, there, of_origin):
        try:
            while message := self.message(here):
                # The kind 0x7F is one that nobody knows and that must not be skipped (docs/UPSTREAM.md 3).
                if of_origin and message[4:5] == b"\x13" and self.wanted.is_set():
                    self.wanted.clear()
                    message = message[:4] + b"\x7f" + message[5:]
                there.sendall(message)
        except OSError:
            pass
        for side in (here, there):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @staticmethod
    def message(stream):
        """A length and that many bytes; nothing at the end."""
        def exactly(count):
            parts = b""
            while len(parts) < count:
                part = stream.recv(count - len(parts))
                if not part:
                    return b""
                parts += part
            return parts
        length = exactly(4)
        return length + exactly(int.from_bytes(length, "little")) if length else b""


def threads(process, name):
    """Ids of a process's threads of this name."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task")
    return [int(task.name) for task in tasks.iterdir() if (task / "comm").read_text().strip() == name]


class Starved:
    """Threads that get what is left of one core that something else keeps busy: next to nothing."""

    def __init__(self, threads):
        core = min(os.sched_getaffinity(0))
        busy = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile os.getppid() == {os.getpid()}: pass"
        self.hogs = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(2)]
        for thread in threads:
            os.sched_setaffinity(thread, [core])
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))

    def relieve(self):
        for hog in self.hogs:
            hog.kill()
            hog.wait()


class Halted:
    """One thread of a child process, stopped as a debugger stops it while the others go on."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x4000_0000

    def __init__(self, thread):
        self.thread, self.libc = thread, ctypes.CDLL(None, use_errno=True)
        self.trace(self.SEIZE)
        self.trace(self.INTERRUPT)
        os.waitpid(thread, self.WALL)

    def trace(self, request):
        if self.libc.ptrace(request, self.thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace({request:#x}) of thread {self.thread}")

    def relieve(self):
        self.trace(self.DETACH)
