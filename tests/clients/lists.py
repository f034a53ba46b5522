# SPDX-License-Identifier: MIT
"""The examples of shardctl(1), and the converters that shardctl index prints, run as they stand there.

    python3 -m tests.clients.lists

pyarrow and duckdb are .venv-clients' (scripts/setup.sh all), jq the system's. There is no package of
mpiFileUtils: dwalk is a writer of its light form (tests/harness/lists.py), and srun runs it once.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from tests.harness import confine, lists, paths
from tests.harness.processes import HANGS
from tests.harness.verdicts import Verdicts

PAGE = os.path.join(paths.REPO, "shim", "man", "shardctl.1")
PYTHON = os.path.join(paths.REPO, ".venv-clients", "bin", "python")
KEYS = [f"train/{k % 9}/img_{k:05}.jpeg" for k in range(4000)] + [f"train/{name}" for name in (
    "a b", "a+b", "p%20q", "\u56fe", 'q"uo"te', "comma,s", "x'y", "new\nline", "tab\tx")]
NAMES = sorted((key.removeprefix("train/") for key in KEYS), key=os.fsencode)
WRITE = """
import json, sys, pyarrow, pyarrow.parquet, pyarrow.orc
keys = json.load(open("keys.json"))
for k in range(2):
    table = pyarrow.table({"bucket": ["b"] * len(keys[k::2]), "key": keys[k::2], "size": list(range(len(keys[k::2])))})
    pyarrow.parquet.write_table(table, f"{k}.parquet", row_group_size=700)
    pyarrow.orc.write_table(table, f"{k}.orc", stripe_size=4096, compression="zlib")
"""
DWALK = """#!{python}
import os, sys
sys.path.insert(0, {repo!r})
from tests.harness import lists
assert sys.argv[1:3] == ["--lite", "-o"], sys.argv
with open(sys.argv[3], "w", errors="surrogateescape") as stream:
    stream.writelines(line + "\\n" for line in lists.lite(sys.argv[4]))
"""


def examples():
    """Each command of the page's examples, as a shell reads it."""
    with open(PAGE, encoding="utf-8") as stream:
        section = re.search(r"^\.SH EXAMPLES\n(.*?)^\.SH", stream.read(), re.S | re.M).group(1)
    for block in re.findall(r"^\.EX\n(.*?)^\.EE", section, re.S | re.M):
        text = re.sub(r"\\f[BIR]", "", block).replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\e", "\\")
        # What goes on: a line that begins with a blank.
        yield from (one for part in text.split("\n\n") for one in re.split(r"\n(?=\S)", part.strip("\n")))


class Examples:
    """A folder with the data that they are about."""

    def __init__(self, work):
        self.work, self.verdicts = work, Verdicts()
        for name in "train", "shared/parts", "bin", "cwd":
            os.makedirs(f"{work}/{name}")
        self.files = [f"d{k % 70:02}/{k:04} %.jpeg" for k in range(1500)] + ["top", "a|F"]
        for name in self.files:
            os.makedirs(os.path.dirname(f"{work}/train/{name}"), exist_ok=True)
            self.write(f"train/{name}", "")
        os.mkdir(f"{work}/train/empty")
        os.symlink(paths.SHARDCTL, f"{work}/bin/shardctl")
        self.program("python3", f'#!/bin/sh\nexec {PYTHON} "$@"\n')
        self.program("srun", '#!/bin/sh\n[ "$1" = -n ] || exit 9\nshift 2\nexec "$@"\n')
        self.program("dwalk", DWALK.format(python=sys.executable, repo=paths.REPO))
        self.write("cwd/keys.json", json.dumps(KEYS))
        self.write("cwd/a.jsonl", "".join(json.dumps({"key": k, "size": 1}) + "\n" for k in KEYS[::2]))
        self.write("cwd/b.jsonl", "\n".join(json.dumps({"key": "other", "physical_path": k}) for k in KEYS[1::2]))
        self.write("cwd/a.csv", "".join('b,"%s",1\n' % k.replace('"', '""') for k in KEYS))
        self.write("cwd/names.txt", "".join(f"az://container/{k}\n" for k in KEYS if "\n" not in k))
        lists.inventory(f"{work}/cwd", "bucket", [{"Key": k} for k in [*KEYS, "valid/x"]], prefix="x")
        for name in os.listdir(f"{work}/cwd/x/2025-11-28T01-00Z"):
            os.symlink(f"x/2025-11-28T01-00Z/{name}", f"{work}/cwd/{name}")
        for name in os.listdir(f"{work}/cwd/x/data"):
            os.symlink(f"x/data/{name}", f"{work}/cwd/{name}")
        subprocess.run([PYTHON, "-c", WRITE], cwd=f"{work}/cwd", check=True)

    def write(self, name, text):
        """A file below the folder."""
        with open(f"{self.work}/{name}", "w", encoding="utf-8") as stream:
            stream.write(text)

    def program(self, name, text):
        """A program of the examples' PATH."""
        self.write(f"bin/{name}", text)
        os.chmod(f"{self.work}/bin/{name}", 0o755)

    def run(self, command, **more):
        """A command, by bash."""
        command = command.replace("/data/train", f"{self.work}/train").replace("/shared", f"{self.work}/shared")
        return subprocess.run(["bash", "-c", command], cwd=f"{self.work}/cwd", capture_output=True, timeout=HANGS, check=False,
                              env={**os.environ, "PATH": f"{self.work}/bin:{os.environ['PATH']}", **more})

    def made(self, listing="train.listing"):
        """The names of a listing, which is then removed."""
        got = self.run(f"shardctl ls -0 {listing} && rm {listing}").stdout
        return [os.fsdecode(name) for name in got.split(b"\0")[:-1]]

    def check(self, name, done, got, wanted):
        """That it has worked, and what came of it."""
        self.verdicts.check(name, done.returncode == 0 and got == wanted, (done, len(got), set(got) ^ set(wanted)))

    def example(self, command):
        """One of the page's."""
        files, azure = sorted(self.files), [name for name in NAMES if "\n" not in name]
        name = command.split("\n")[0][:100]
        if "$SLURM_ARRAY_TASK_ID" in command:
            for task in range(64):
                done = self.run(command, SLURM_ARRAY_TASK_ID=str(task))
                if done.returncode != 0:
                    break
            self.verdicts.check(name, done.returncode == 0 and len(os.listdir(f"{self.work}/shared/parts")) == 64, done)
        elif "| tee dwalk.log" in command:
            done = self.run(command)
            self.verdicts.check(name, done.returncode == 0 and os.path.exists(f"{self.work}/shared/train.list"), done)
        elif "ls --uri" in command:
            done = self.run(command)
            self.check(name, done, done.stdout.decode().split("\n")[:-1], [f"az://container/train/{one}" for one in azure[3::8]])
        else:
            done = self.run(command)
            listing = re.search(r"\S+\.listing", command).group()
            kept = "az://" in command
            got = self.made(listing) if not kept else [os.fsdecode(n) for n in self.run(f"shardctl ls -0 {listing}").stdout.split(b"\0")[:-1]]
            self.check(name, done, got, azure if kept else files if "/data/train" in command else NAMES)

    def converter(self, name, source, wanted):
        """What the error says about such a file, run as it stands there."""
        said = self.run(f"shardctl index {source} -o none").stderr.decode()
        command = re.search(r"((?:python3|jq) .*?shardctl index .*?)(?:\n|\. If|$)", said)
        if not command:
            self.verdicts.check(f"the converter for {name}", False, said)
            return
        text = command.group(1).replace("FILE...", source).replace("FILE", source)
        text = text.replace("BUCKET/PREFIX", "bucket/train").replace("BUCKET", "bucket").replace("LISTING", "train.listing")
        text += "" if "-o " in text else " --root s3://bucket/ -o train.listing"
        self.check(f"the converter for {name}", self.run(text), self.made(), wanted)


def main():
    """Run all; the exit status is 1 if anything fails."""
    confine.begin()
    work = os.path.realpath(tempfile.mkdtemp(prefix="shard-examples."))
    e = Examples(work)
    commands = list(examples())
    e.verdicts.check("the page has them", len(commands) > 10, commands)
    for command in commands:
        e.example(command)
    e.converter("Parquet", "0.parquet", sorted((k.removeprefix("train/") for k in KEYS[::2]), key=os.fsencode))
    e.converter("ORC", "1.orc", sorted((k.removeprefix("train/") for k in KEYS[1::2]), key=os.fsencode))
    e.converter("JSON", "a.jsonl", sorted(KEYS[::2], key=os.fsencode))
    return e.verdicts.conclude(work)


if __name__ == "__main__":
    sys.exit(main())
