#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What shardctl tells of its progress: one line on a terminal, that goes away, and nothing elsewhere.

The terminal is a pseudo terminal. shardctl takes long as its input comes slowly, or as it naps (preloads/failing.c).

    python3 -m tests.behaviour.progress
"""
import contextlib
import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

from tests.harness import confine, paths, processes
from tests.harness.verdicts import Verdicts

confine.begin()
WORK = tempfile.mkdtemp(prefix="shard-progress.")
CTL, DATA, LISTING = paths.SHARDCTL, os.path.join(WORK, "data"), os.path.join(WORK, "listing")
NAPS = {"LD_PRELOAD": paths.preload("failing"), "FAILING_NAP": "40000"}
CLEAR = "\r\x1b[K"
READING = r"reading: \d+ names, \d+/s"
WRITING = r"writing: \d+ of 9000 names, \d+/s, \d+ s left"
told = Verdicts()


def feed(stream, names, last):
    """Give names, a part after each nap, in which the one before is read; so the second comes when the reader has been
    at it for more than a second, however late it has begun. last: what comes in the end."""
    def read():
        return struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, b"    "))[0] == 0
    with contextlib.suppress(BrokenPipeError):
        for part in range(5):
            stream.write("".join(f"{part}/{i:05d}\n" for i in range(names // 5)).encode())
            stream.flush()
            processes.until(read, 300)
            time.sleep(0.25 if part else 1.1)
        stream.write(last)
        stream.close()


def run(command, env, fed=0, columns=80, pipe=False, term="xterm", last=b""):
    """(status, stdout, what came on stderr: a terminal, or a pipe)."""
    reader, writer = os.pipe() if pipe else pty.openpty()
    if not pipe:
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(command, env={**os.environ, "TERM": term, "SHARD_CACHE_DIR": WORK + "/cache", **env},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writer) as child:
        os.close(writer)
        said = []

        def drain():
            try:
                while more := os.read(reader, 65536):
                    said.append(more)
            except OSError:
                pass  # a terminal that nobody has open any more
        threads = [threading.Thread(target=drain), threading.Thread(target=feed, args=(child.stdin, fed, last)) if fed else None]
        for thread in filter(None, threads):
            thread.start()
        if not fed:
            child.stdin.close()
        output = child.stdout.read().decode()
        for thread in filter(None, threads):
            thread.join()
    os.close(reader)
    return child.returncode, output, b"".join(said).decode()


def left(text, columns=80):
    """What a terminal shows in the end, and the lines that it has shown meanwhile."""
    shown, line = [], ""
    for part in re.split(r"(\r\n|\r\x1b\[K|\r|\x1b\[K)", text):
        if part in ("\r\n", CLEAR, "\r"):
            shown += [line] if line else []
            line = "" if part != "\r\n" else line + "\n"
        elif part != "\x1b[K":
            line += part
    return line, [one for one in shown if len(one) < columns]


def shows(name, wanted, command, env, **how):
    """There were lines of the kind that is wanted, at most one in a fifth of a second, and none is left."""
    begin = time.monotonic()
    status, output, said = run(command, env, **how)
    took = time.monotonic() - begin
    last, lines = left(said, how.get("columns", 80))
    good = [line for line in lines if re.fullmatch(wanted, line)]
    told.check(name, status == 0 and good and not last and len(lines) == said.count("\x1b[K") - said.count(CLEAR)
               and len(lines) <= (took - 1) / 0.2 + 2 and "\x1b" not in output, f"{took:.1f} s, {status}: {said!r} {output[:300]}")


def silent(name, command, env, wanted="", **how):
    """Nothing was said but this."""
    status, _, said = run(command, env, **how)
    told.check(name, status == 0 and re.fullmatch(wanted, said), f"{status}: {said!r}")


def background(command):
    """A job in the background of its terminal, which stops a job that writes: (status, what the terminal got)."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execvp("bash", ["bash", "-c", 'set -m; stty tostop; (for part in 0 1 2 3 4; do seq -f $part/%05.0f 2000; '
                           'sleep 0.35; done) | "$@" >/dev/null & while [ "$(jobs -r)" ]; do sleep 0.1; done; jobs -s; '
                           'kill -9 %1 2>/dev/null; wait $!', "-", *command])
    timer = threading.Timer(300, os.kill, (child, signal.SIGKILL))
    timer.start()
    said = b""
    try:
        while more := os.read(terminal, 65536):
            said += more
    except OSError:
        pass
    status = os.waitpid(child, 0)[1]
    timer.cancel()
    os.close(terminal)
    return status, said.decode()


def main():
    """Run all; the exit status is 1 if anything is wrong."""
    os.mkdir(DATA)
    for i in range(3000):
        os.mknod(f"{DATA}/{i:020d}")
    text = [CTL, "index", "-", "-o", LISTING]
    shows("a text on standard input", READING, text, {}, fed=9000)
    shows("a text that keeps its order", READING, [*text, "--keep-order"], {}, fed=9000)
    shows("a narrow terminal", r"reading: \d{4} name", text, {}, fed=9000, columns=19)
    shows("index of a directory", READING, [CTL, "index", DATA, "-o", WORK + "/of-data"], NAPS)
    shows("ls of a directory", READING, [CTL, "ls", DATA], NAPS)
    shows("manifest", WRITING, [CTL, "manifest", LISTING, "--size", "40", "-o", WORK + "/m%r"], NAPS)
    silent("a pipe", text, {"SHARD_LOG": "info"}, fed=9000, pipe=True)
    silent("--quiet", [*text, "--quiet"], {}, fed=9000)
    silent("a terminal that cannot", text, {}, fed=9000, term="dumb")
    silent("less than a second", [CTL, "index", DATA, "-o", WORK + "/quick"], {"LD_PRELOAD": paths.preload("clock"), "TEST_STILL": "1"})
    status, said = background(text)
    told.check("in the background", status == 0 and "names" not in said and "Stopped" not in said, f"{status}: {said!r}")
    # In a host process: its shardctl naps.
    with open(WORK + "/shardctl", "w", encoding="utf-8") as script:
        script.write(f"#!/bin/sh\nFAILING_NAP=40000 LD_PRELOAD={NAPS['LD_PRELOAD']} exec {CTL} \"$@\"\n")
    os.chmod(WORK + "/shardctl", 0o755)
    shutil.copy(paths.LIBRARY, WORK)  # which runs the shardctl beside it
    begin = time.monotonic()
    silent("a rank", ["ls", DATA], {"LD_PRELOAD": WORK + "/libshard.so", "SHARD_DATASET": DATA, "SHARD_RANK": "0", "SHARD_SIZE": "2"})
    told.check("... though it took long", time.monotonic() - begin > 1.2, f"{time.monotonic() - begin:.1f} s")
    # A message takes the line's place.
    status, _, said = run(text, {}, fed=9000, last=b"0/00001\n")
    last, lines = left(said)
    told.check("a message meanwhile", status == 1 and last.startswith("shardctl: '0/00001' comes twice") and last.endswith("\n")
               and any(re.fullmatch(READING, line) for line in lines), f"{status}: {said!r}")
    return told.conclude(WORK)


if __name__ == "__main__":
    sys.exit(main())
