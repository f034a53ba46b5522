#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The examples of libshard-shares(7), as they stand there: right; and the wrong way of each, of which verify tells.

    python3 -m tests.behaviour.shares
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tests.harness import confine, paths
from tests.harness.processes import HANGS
from tests.harness.verdicts import Verdicts

confine.begin()
WORK = tempfile.mkdtemp(prefix="shard-shares.")
DATA = WORK + "/data"
NAMES = sorted(f"{folder}/{k:02}" for folder in "abc" for k in range(15))
RANKS = 4
PROGRAMS = {
    # Which files there are; each is opened.
    "list.py": """
import json, os, sys
found = sorted(os.path.relpath(os.path.join(d, f), sys.argv[1]) for d, _, files in os.walk(sys.argv[1]) for f in files)
for name in found:
    open(os.path.join(sys.argv[1], name)).close()
print(json.dumps(found))
""",
    # datasets keeps what the generator has given, by the generator's text.
    "generate.py": """
import json, os, sys
import datasets
def rows():
    for folder, _, files in sorted(os.walk(sys.argv[1])):
        for name in sorted(files):
            yield {"name": os.path.join(os.path.basename(folder), name)}
print(json.dumps(sorted(datasets.Dataset.from_generator(rows)["name"])))
""",
    # A program that divides.
    "deal.py": """
import json, os, sys
found = sorted(os.path.relpath(os.path.join(d, f), sys.argv[1]) for d, _, files in os.walk(sys.argv[1]) for f in files)
own = found[int(os.environ["RANK"])::int(os.environ["WORLD_SIZE"])]
for name in own:
    open(os.path.join(sys.argv[1], name)).close()
print(json.dumps(own))
"""}


def recipe(name):
    """An example of the page, as a program."""
    with open(os.path.join(paths.REPO, "shim", "man", "libshard-shares.7"), encoding="utf-8") as stream:
        found = re.search(rf'^\.\\" recipe: {name}\n\.EX\n(.*?)^\.EE', stream.read(), re.MULTILINE | re.DOTALL)
    return found.group(1).replace("\\-", "-")


def run(text, python, program="bash"):
    """The ranks' answers, side by side, as torchrun starts them."""
    shutil.rmtree(WORK + "/made", ignore_errors=True)
    for folder in "made", "made/cache", "made/local", "made/store", "made/stats":
        os.mkdir(os.path.join(WORK, folder), 0o700)
    command = ["bash", "-e", "-c", text] if program == "bash" else [python, "-c", text, DATA]
    ranks = []
    for rank in range(RANKS):
        environment = {**os.environ, "TORCHELASTIC_RUN_ID": "none", "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                       "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "SHARD_DATASET": DATA,
                       "SHARD_CACHE_DIR": WORK + "/made/cache", "LD_PRELOAD": paths.LIBRARY, "PATH": f"{WORK}/bin:{os.environ['PATH']}",
                       "SHARD_STATS": WORK + "/made/stats", "DATA": DATA, "LOCAL": WORK + "/made/local",
                       "CACHE": WORK + "/made/store", "HF_HOME": WORK + "/made/store/one", "HF_HUB_OFFLINE": "1"}
        ranks.append(subprocess.Popen(command, env=environment, cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    answers, said = [], ""
    for one in ranks:
        out, err = one.communicate(timeout=HANGS)
        last = out.decode().strip().replace("'", '"').split("\n")[-1]
        answers.append(json.loads(last) if one.returncode == 0 and last else None)
        said += err.decode()[-400:]
    return answers, said


def verify():
    """What verify says of the last run: its status, and its text."""
    done = subprocess.run([paths.SHARDCTL, "verify", WORK + "/made/stats"], capture_output=True, timeout=HANGS, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def parted(answers):
    """Whether each name is in one share."""
    return None not in answers and sorted(sum(answers, [])) == NAMES and all(answers)


def main():
    """Each example, and the wrong way."""
    verdicts, python = Verdicts(), shutil.which("python3")
    for name in NAMES:
        os.makedirs(os.path.dirname(os.path.join(DATA, name)), exist_ok=True)
        with open(os.path.join(DATA, name), "wb"):
            pass
    for name, text in PROGRAMS.items():
        with open(os.path.join(WORK, name), "w", encoding="utf-8") as stream:
            stream.write(text)
    os.mkdir(WORK + "/bin")

    answers, said = run(recipe("staged"), python)
    verdicts.check("staged", parted(answers), (answers, said))
    answers, said = run(recipe("staged").replace("SHARD_VIEW=off env -u SHARD_STATS ", ""), python)
    status, told = verify()
    verdicts.check("staged, without SHARD_VIEW=off: a share of a share", None not in answers and len(sum(answers, [])) < len(NAMES), (answers, said))
    verdicts.check("staged, without SHARD_VIEW=off: verify", status == 1 and "rank 1 has not listed it" in told, told)

    answers, said = run(recipe("groups"), python, "python")
    verdicts.check("groups", None not in answers and answers[0] == answers[1] and answers[2] == answers[3], (answers, said))
    text = recipe("groups").replace("os.listdir(sys.argv[1])", "os.listdir(sys.argv[1] + '/a')")
    answers, said = run(text, python, "python")
    verdicts.check("groups: the groups divide", answers[0] == answers[1] and answers[2] == answers[3] and
                   sorted(answers[0] + answers[2]) == sorted(os.listdir(DATA + "/a")), (answers, said))

    answers, said = run(recipe("divided"), python)
    verdicts.check("divided", parted(answers), (answers, said))
    answers, said = run(recipe("divided").replace("SHARD_VIEW=off ", ""), python)
    status, told = verify()
    verdicts.check("divided, without SHARD_VIEW=off: parts of parts", None not in answers and len(sum(answers, [])) < len(NAMES), (answers, said))
    verdicts.check("divided, without SHARD_VIEW=off: verify", "divided twice" in told, (status, told))

    clients = os.path.join(paths.REPO, ".venv-clients", "bin", "python")
    if os.path.exists(clients):
        with open(WORK + "/bin/python3", "w", encoding="utf-8") as stream:
            stream.write(f'#!/bin/sh\nexec "{clients}" "$@"\n')
        os.chmod(WORK + "/bin/python3", 0o755)
        answers, said = run(recipe("cached"), python)
        verdicts.check("cached", parted(answers), (answers, said))
        answers, said = run(re.sub(r"HF_HOME=\S* ", "", recipe("cached")), python)
        verdicts.check("cached, in one folder: not all of it", not parted(answers), (answers, said))
    else:
        print("skip: cached: there is no .venv-clients; scripts/setup.sh all makes it")
    shutil.rmtree(WORK, ignore_errors=True)
    return verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
