"""Which files a process has opened, as independent logs tell, and how two logs differ."""
import codecs
import collections
import glob
import os
import re

from tests.harness.verdicts import printable

OPEN_CALL = re.compile(r'^(?:open|openat|openat2|creat)\((?:[A-Z_0-9]+, )?"((?:[^"\\]|\\.)*)"(.*)\) += \d+')


def read_opens(path):
    """The paths of a log that openlog.so wrote, each with its number of opens."""
    opens = collections.Counter()
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
            for line in stream:
                opens[line.rstrip("\n").partition(" ")[2]] += 1
    return opens


def read_strace(prefix):
    """The same of the traces of one rank, which strace -ff has written, one file a thread."""
    opens = collections.Counter()
    for path in glob.glob(glob.escape(prefix) + ".*"):
        with open(path, "rb") as stream:
            for line in stream:
                match = OPEN_CALL.match(line.decode("latin-1"))
                if match and "O_DIRECTORY" not in match.group(2):
                    name = codecs.escape_decode(match.group(1).encode("latin-1"))[0]
                    opens[os.fsdecode(name)] += 1
    return opens


def opens_outside(runs, shim, limit=6):
    """Lines that say which files were not opened although all unmodified runs open them, or opened
    although none does. A run that opened nothing, as it was not made, does not count."""
    runs = [set(run) for run in runs if run] or [set()]
    missing = set.intersection(*runs) - set(shim)
    more = set(shim) - set.union(*runs)
    lines = [f"opened in each unmodified run, but not under the preload: {name}"
             for name in sorted(missing)[:limit]]
    lines += [f"opened under the preload, but in no unmodified run: {name}"
              for name in sorted(more)[:limit]]
    if len(missing) + len(more) > len(lines):
        lines.append(f"... and {len(missing) + len(more) - len(lines)} more files")
    return [printable(line) for line in lines]


def opens_difference(bare, shim, counts=True, limit=6):
    """Lines that say how two logs differ; none if they are the same."""
    if not counts:
        bare, shim = collections.Counter(set(bare)), collections.Counter(set(shim))
    names = sorted(name for name in set(bare) | set(shim) if bare[name] != shim[name])
    lines = [f"opened {bare[name]} times unmodified, {shim[name]} times under the preload: {name}"
             for name in names[:limit]]
    if len(names) > limit:
        lines.append(f"... and {len(names) - limit} more files")
    return [printable(line) for line in lines]
