#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A wheel with what is built: `pip install libshard-*.whl`, then `libshard run -- torchrun ...`.

    python3 scripts/package/wheel.py [FOLDER]     into FOLDER, or build/packages

`python -m libshard` prints the path that LD_PRELOAD is to name. Nothing is imported into a program that
runs under the library. shardctl needs the machine's libcurl, OpenSSL, json-c and jemalloc, as the
one of `make install` does. What was built alike is packed alike, byte for byte.
"""
import base64
import hashlib
import os
import re
import sys
import sysconfig
import zipfile

REPO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SUMMARY = "Each rank's shard of a dataset, for unmodified programs, by LD_PRELOAD"

MAIN = '''"""libshard: prints the path of libshard.so, for LD_PRELOAD; with arguments it is shardctl."""
import os
import sys


FOLDER = os.path.dirname(os.path.abspath(__file__))


def shardctl():
    """The command shardctl."""
    os.execv(os.path.join(FOLDER, "shardctl"), ["shardctl"] + sys.argv[1:])


def main():
    """python -m libshard, or the command libshard."""
    if len(sys.argv) > 1:
        shardctl()
    print(os.path.join(FOLDER, "libshard.so"))


if __name__ == "__main__":
    main()
'''


def read(path):
    """A file's bytes."""
    with open(os.path.join(REPO, path), "rb") as stream:
        return stream.read()


def files(version, tag):
    """{name in the wheel: (bytes, mode)}"""
    info = f"libshard-{version}.dist-info/"
    build = os.environ.get("BUILD", "build")
    return {
        "libshard/__init__.py": (b'"""See libshard.__main__."""\n', 0o644),
        "libshard/__main__.py": (MAIN.encode(), 0o644),
        "libshard/libshard.so": (read(build + "/libshard.so"), 0o755),
        "libshard/shardctl": (read(build + "/shardctl"), 0o755),
        info + "METADATA": (f"Metadata-Version: 2.1\nName: libshard\nVersion: {version}\nSummary: {SUMMARY}\n"
                            "License: MIT\nRequires-Python: >=3.8\n".encode(), 0o644),
        info + "WHEEL": (f"Wheel-Version: 1.0\nGenerator: libshard\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644),
        info + "entry_points.txt": (b"[console_scripts]\nlibshard = libshard.__main__:main\n"
                                    b"shardctl = libshard.__main__:shardctl\n", 0o644),
        info + "LICENSE": (read("LICENSE"), 0o644),
    }


def main():
    """Write the wheel, and print its path."""
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(REPO, "build", "packages")
    version = re.search(r"^VERSION := (\S+)", read("Makefile").decode(), re.MULTILINE).group(1)
    tag = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
    made = files(version, tag)
    record = f"libshard-{version}.dist-info/RECORD"
    lines = ["%s,sha256=%s,%d\n" % (name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(),
                                    len(data)) for name, (data, _) in made.items()]
    made[record] = ("".join(lines + [record + ",,\n"]).encode(), 0o644)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"libshard-{version}-{tag}.whl")
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, (data, mode) in made.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    os.replace(path + ".new", path)
    print(os.path.normpath(path))


if __name__ == "__main__":
    main()
