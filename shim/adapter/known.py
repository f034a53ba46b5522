# SPDX-License-Identifier: MIT
"""known: the file of DLIO versions that `shardctl prove` has proven on this machine.

{"libshard known": 1, "proofs": [{"family", "libshard", "adapter", "functions", "package", "helpers",
"date", ...}]}

A proof is of one tree: "functions" has the fingerprint of each function of the family's table, and
"package" is a digest of all modules. "helpers" are the functions that those call which are of no known
version: {"listing": {file: [function]}, of initialize(), "others": of all the others}. A proof
holds for the libshard that made it only, told by its version and a digest of this package. The file
is trusted if it belongs to root or to the user of this process, and nobody else may write to it.
"""
import errno
import hashlib
import os

from . import SOURCES
from .native import native

FORMAT = 1
MOST = 1 << 24  # bytes of the file


class Distrust(Exception):
    """Why the file is not trusted, and what to do."""


def where():
    """The file's path: SHARD_KNOWN, or the user's own."""
    asked = os.environ.get("SHARD_KNOWN")
    if asked:
        return asked
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "libshard", "known.json")


def this_libshard():
    """(version, digest of this package)."""
    digest = hashlib.sha256()
    for file in sorted(SOURCES):
        digest.update(b"%s\0%s\0" % (file.encode(), SOURCES[file].encode()))
    return native().version(), digest.hexdigest()[:16]


def _text(path):
    """What the file holds, None if there is none."""
    try:
        with os.fdopen(native().file_open(path), "rb") as stream:
            return stream.read(MOST + 1)
    except FileNotFoundError:
        if os.environ.get("SHARD_KNOWN"):
            raise Distrust("it is not there (SHARD_KNOWN)") from None
        return None
    except OSError as error:
        remedy = ("make it readable" if error.errno == errno.EACCES
                  else "'shardctl prove' makes one of your own")
        raise Distrust("%s; %s, or set SHARD_KNOWN" % (error.strerror, remedy)) from None


def _are_helpers(helpers):
    return isinstance(helpers, dict) and set(helpers) == {"listing", "others"} and all(
        isinstance(table, dict) and all(isinstance(names, list) and all(
            isinstance(name, str) for name in names) for names in table.values())
        for table in helpers.values())


def read(path):
    """The proofs of the file, [] if there is no file; Distrust."""
    import json

    text = _text(path)
    if text is None:
        return []
    try:
        held = json.loads(text.decode("utf-8")) if len(text) <= MOST else None
    except (ValueError, RecursionError):
        held = None
    proofs = held.get("proofs") if isinstance(held, dict) else None
    if not isinstance(proofs, list) or held.get("libshard known") != FORMAT or not all(
            isinstance(proof, dict) and isinstance(proof.get("functions"), dict)
            and all(isinstance(proof.get(word), str)
                    for word in ("family", "libshard", "adapter", "date")) for proof in proofs):
        raise Distrust("it is damaged; remove it, and run 'shardctl prove' again")
    return proofs


def functions_of(tree, family):
    """{file: {function: fingerprint}} of the functions of a family's table; OSError, ValueError."""
    return {file: {function: tree.fingerprint(file, function) for function in functions}
            for file, functions in family.known.items()}


def recognise(tree, families):
    """(family, proof, None) if the tree was proven, (None, None, why a proof of it is not trusted),
    or (None, None, None)."""
    path = where()
    try:
        proofs = read(path)
    except Distrust as error:
        return None, None, "%r is not trusted: %s" % (path, error)
    if not proofs:
        return None, None, None
    here, reason = this_libshard(), None
    for proof in reversed(proofs):
        family = next((one for one in families if one.name == proof["family"]), None)
        try:
            if family is None or functions_of(tree, family) != proof["functions"]:
                continue
            if (proof["libshard"], proof["adapter"]) == here:
                if tree.digest() == proof.get("package") and _are_helpers(proof.get("helpers")):
                    return family, dict(proof, file=path), None
                continue
        except (OSError, ValueError):
            continue
        reason = ("%r is not trusted: its proof of this DLIO was made with another libshard "
                  "(version %s); run 'shardctl prove' again" % (path, proof["libshard"]))
    return None, None, reason
