#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes shim/adapter/prove/table.py: the shapes of the functions that the families' tables know.

    scripts/shapes.py SOURCE...      each a tree of DLIO, or a git repository: all of its history

What the table has already stays, as long as a family still knows the function.
"""
import importlib
import os
import re
import subprocess
import sys
import types

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "shim", "adapter", "prove", "table.py")


def load(name):
    """A module of the adapter that needs none but the standard library's."""
    for package in ("adapter", "adapter.prove"):
        module = sys.modules.setdefault(package, types.ModuleType(package))
        module.__path__ = [os.path.join(ROOT, "shim", *package.split("."))]
    return importlib.import_module(name)


def wanted():
    """(the fingerprints in the adapter's sources, the files that have such functions)."""
    prints, files = set(), set()
    for folder in ("dlio", "parts"):
        for name in os.listdir(os.path.join(ROOT, "shim", "adapter", folder)):
            if name.endswith(".py"):
                with open(os.path.join(ROOT, "shim", "adapter", folder, name),
                          encoding="utf-8") as stream:
                    text = stream.read()
                prints.update(re.findall(r'"([0-9a-f]{10})"', text))
                files.update(re.findall(r'"([a-z_/0-9]+\.py)"', text))
    return prints, files


def texts(source, files):
    """The texts of the files in a tree, or in all commits of a repository."""
    if os.path.isdir(os.path.join(source, "dlio_benchmark")):
        source = os.path.join(source, "dlio_benchmark")
    for file in sorted(files):
        if os.path.isfile(os.path.join(source, file)):
            with open(os.path.join(source, file), encoding="utf-8") as stream:
                yield stream.read()
            continue
        path = "dlio_benchmark/" + file
        log = subprocess.run(["git", "-C", source, "log", "--all", "--format=", "--raw",
                              "--no-abbrev", "-m", "--", path], capture_output=True, text=True,
                             check=False)
        blobs = {line.split()[3] for line in log.stdout.splitlines() if line.startswith(":")}
        for blob in sorted(blobs - {"0" * 40}):
            text = subprocess.run(["git", "-C", source, "cat-file", "blob", blob],
                                  capture_output=True, check=False).stdout
            yield text.decode("utf-8", "replace").replace("\r\n", "\n")


def main():
    """Write the table."""
    recognise = load("adapter.recognise")
    shapes = load("adapter.prove.shapes")
    known = dict(load("adapter.prove.table").SHAPES) if os.path.exists(TABLE) else {}
    prints, files = wanted()
    for source in sys.argv[1:]:
        for text in texts(source, files):
            try:
                found = recognise.fingerprints(text)
                if not prints.intersection(found.values()):
                    continue
                shaped = shapes.shapes(text)
            except SyntaxError:
                continue
            known.update({found[name]: shaped[name] for name in found
                          if found[name] in prints and name in shaped})
    with open(TABLE, "w", encoding="utf-8") as stream:
        stream.write('# SPDX-License-Identifier: MIT\n"""table: {fingerprint: shape} of the '
                     'functions that the families\' tables know. scripts/shapes.py\nwrites it."""\n'
                     "SHAPES = {\n")
        rows = ['"%s": "%s",' % item for item in sorted(known.items()) if item[0] in prints]
        for i in range(0, len(rows), 2):
            stream.write("    %s\n" % " ".join(rows[i:i + 2]))
        stream.write("}\n")
    missing = sorted(prints - set(known))
    print("%d shapes; %d fingerprints without one: %s" % (len(rows), len(missing), missing))


if __name__ == "__main__":
    main()
