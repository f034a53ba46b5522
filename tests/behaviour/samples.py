#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SHARD_SAMPLE: files that are one sample are in one share, by every strategy, remainder, shuffle and order.

Random trees are counted plainly here: what shardctl ls and programs under the shard view have must be whole samples,
and the ranks' shares together the dataset. The seeds are fixed: a tree is the same in each run.

    python3 -m tests.behaviour.samples [--rounds N] [--seed N]
"""
import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

from tests.harness import confine, paths
from tests.harness.processes import HANGS
from tests.harness.verdicts import Verdicts

confine.begin()
WORK = tempfile.mkdtemp(prefix="shard-samples.")
RULES, STRATEGIES = ("file", "stem", "directory"), ("range", "stride", "hash")
WALK = r"""
import os, sys
root = os.fsencode(sys.argv[1])
def walk(path):
    with os.scandir(path) as entries:
        entries = list(entries)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            walk(entry.path)
        else:
            sys.stdout.buffer.write(os.path.relpath(entry.path, root) + b"\0")
walk(root)
"""
# From each position that telldir() has told, in any order, what follows is what followed; so does an entry at a time.
SEEK = r"""
opendir(D, $ARGV[0]) or die "$!"; my (@names, @at); $at[0] = telldir D;
while (defined(my $name = readdir D)) { push @names, $name; push @at, telldir D }
for my $k (map { $_ * 7 % 101 } 0 .. 100) {
  next if $k >= @at; seekdir D, $at[$k]; my $name = readdir D;
  die "at $k\n" if ($name // "end") ne ($names[$k] // "end");
}
print scalar(@names), " ", join("/", @names), "\n"
"""


def control(*words, **more):
    """shardctl; the completed process."""
    return subprocess.run([paths.SHARDCTL, *words], capture_output=True, timeout=HANGS, check=False, **more)


def names_of(output):
    """The names of a listing that was printed with -0."""
    return [os.fsdecode(name) for name in output.split(b"\0")[:-1]]


def rank(number, size, dataset, command, **variables):
    """A program under the shard view."""
    environment = {**os.environ, "SHARD_DATASET": dataset, "SHARD_RANK": str(number), "SHARD_SIZE": str(size), "SHARD_JOB": "samples",
                   "SHARD_CACHE_DIR": WORK + "/cache", "SHARD_LOG": "error", "LD_PRELOAD": paths.LIBRARY, **variables}
    return subprocess.run(command, env=environment, capture_output=True, timeout=HANGS, check=False)


def listed(number, size, dataset, **variables):
    """What os.scandir() shows a rank of all directories, or None; and what was said."""
    done = rank(number, size, dataset, [sys.executable, "-c", WALK, dataset.split(":")[0]], **variables)
    return (None if done.returncode else names_of(done.stdout)), done.stderr.decode()


def empty_cache():
    """Another job."""
    shutil.rmtree(WORK + "/cache", ignore_errors=True)
    os.mkdir(WORK + "/cache", 0o700)


def fresh(name, files=()):
    """A new folder with these files, and an empty cache."""
    folder = os.path.join(WORK, name)
    empty_cache()
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    for file in files:
        os.makedirs(os.path.dirname(os.path.join(folder, file)), exist_ok=True)
        with open(os.path.join(folder, file), "wb"):
            pass
    return folder


def random_names(chance):
    """Names of a tree, with few stems, so that many are alike."""
    names = set()

    def fill(path, depth):
        stems = ["".join(chance.choice("ab-.~0+ A\xe9") for _ in range(chance.randint(1, 3))) for _ in range(3)]
        for _ in range(chance.randint(0, 9)):
            name = path + chance.choice(stems) + chance.choice(["", ".jpg", ".txt", ".a.b", ".masks", "-1.jpg", "."])
            if os.path.basename(name) in (".", "..") or name in names or any(one.startswith(name + "/") for one in names):
                continue
            if depth < 4 and chance.random() < 0.3:
                fill(name + "/", depth + 1)
            else:
                names.add(name)
    fill("", 0)
    if chance.random() < 0.3:
        endings = chance.choice([[".jpg"], [".jpg", ".txt"], [""]])
        names.update(f"run/img_{k:04}{ending}" for k in range(chance.choice([3, 400])) for ending in endings)
    return sorted(names)


def sample_of(rule, name):
    """The sample of a file, counted plainly."""
    folder, base = os.path.split(name)
    dot = base.find(".", 1)
    return folder if rule == "directory" else (folder, base[:dot], 1) if rule == "stem" and dot >= 0 else (folder, base)


def judge(shares, samples, rule, strategy, remainder):
    """What is wrong with the ranks' shares, each a list of names in its order."""
    wrong, size, n, owners = [], len(shares), len(samples), collections.Counter()
    for number, share in enumerate(shares):
        own = collections.Counter(sample_of(rule, name) for name in share)
        wrong += [f"rank {number} has {count} of {len(samples[one])} files of {one}" for one, count in own.items()
                  if count != len(samples[one])]
        wanted = {"keep": (n // size, -(-n // size)), "drop": (n // size,), "repeat": (-(-n // size),)}[remainder]
        if strategy != "hash" and len(own) not in wanted:
            wrong.append(f"rank {number} has {len(own)} samples of {n}, not {wanted}")
        order = [sample_of(rule, name) for name in share]
        if sum(k == 0 or order[k - 1] != one for k, one in enumerate(order)) != len(own) and strategy != "hash":
            wrong.append(f"rank {number}: a sample's files do not follow each other")
        owners.update(own.keys())
    if remainder != "repeat" and any(count > 1 for count in owners.values()):
        wrong.append("a sample is in two shares")
    if remainder != "drop" and set(owners) != set(samples):
        wrong.append("samples are nobody's")
    return wrong


def trees(verdicts, rounds, seed):
    """Random trees x rules x strategies x sizes x remainders x epochs, by ls and by a program."""
    wrong = collections.defaultdict(list)
    for number in range(rounds):
        chance = random.Random(seed + number)
        names = random_names(chance)
        root = fresh("tree", names)
        os.makedirs(root + "/empty/inside")
        for rule, strategy in ((rule, strategy) for rule in RULES for strategy in STRATEGIES if chance.random() < 0.3):
            size, remainder = chance.choice((1, 2, 3, 5, 8)), chance.choice(("keep", "drop", "repeat") if strategy != "hash" else ("keep",))
            shuffle = chance.choice(({}, {"seed": "7", "epoch": chance.choice("03")}))
            samples = collections.defaultdict(list)
            for name in names:
                samples[sample_of(rule, name)].append(name)
            options = {"sample": rule, "strategy": strategy, **({"remainder": remainder} if remainder != "keep" else {}), **shuffle}
            shares, label = [], f"tree {seed + number}, {options}, {size} ranks: "
            for one in range(size):
                done = control("ls", root, "--rank", str(one), "--size", str(size), "-0", *(f"--{k}={v}" for k, v in options.items()))
                shares.append(names_of(done.stdout))
                seen, said = listed(one, size, root, **{"SHARD_" + k.upper(): v for k, v in options.items()})
                if remainder == "drop" and len(samples) < size:
                    if done.returncode != 1 or seen is not None:
                        wrong[rule, strategy].append(label + "drop of too few samples")
                elif size == 1 and not shuffle:
                    wrong[rule, strategy] += [] if sorted(seen or []) == names else [label + "a rank that is alone: " + said]
                elif done.returncode or seen is None or sorted(seen) != sorted(shares[-1]):
                    wrong[rule, strategy].append(f"{label}rank {one}: ls has {shares[-1]}, the view {seen} {done.stderr} {said}")
            if remainder != "drop" or len(samples) >= size:
                wrong[rule, strategy] += [label + line for line in judge(shares, samples, rule, strategy, remainder)]
    for rule in RULES:
        for strategy in STRATEGIES:
            verdicts.tell(f"random trees, {rule}, {strategy}", wrong[rule, strategy][:3])


def listings(verdicts):
    """What a listing says of its samples; and who may use it."""
    names = [f"{c}/{k:05}.{e}" for c in "ab" for k in range(2500) for e in ("jpg", "json", "txt")]
    root = fresh("pairs", names)
    said = {}
    for rule in RULES:
        made = control("index", root, "--sample", rule, "-o", f"{WORK}/{rule}.listing")
        said[rule] = json.loads(control("stat", "--json", f"{WORK}/{rule}.listing").stdout or "{}")
        verdicts.check(f"index --sample {rule}", made.returncode == 0 and said[rule]["samples"] == {"file": 15000, "stem": 5000, "directory": 2}[rule]
                       and said[rule]["sample"] == rule, (made, said[rule]))
    more = said["stem"]["bytes"] - said["file"]["bytes"]  # the names are in one order
    verdicts.check("a sample costs less than 0.2 bytes a file", 0 < more < 0.2 * 15000, more)
    for rule in RULES:
        for asked in (None, *RULES):
            seen, err = listed(0, 2, root, SHARD_LISTING=f"{WORK}/{rule}.listing", **({"SHARD_SAMPLE": asked} if asked else {}))
            good = seen is not None if asked == rule else seen is None and "SHARD_" in err
            verdicts.check(f"a listing by {rule}, SHARD_SAMPLE {asked}", good, (seen and len(seen), err))
    wrong = control("ls", f"{WORK}/stem.listing", "--sample", "file")
    verdicts.check("ls by another rule", wrong.returncode == 1 and b"--sample" in wrong.stderr, wrong)
    bad = control("index", fresh("one", ["a\1b"]), "--sample", "stem", "-o", WORK + "/l")
    verdicts.check("a name that cannot be ordered", bad.returncode == 1 and b"SHARD_SAMPLE" in bad.stderr, bad)
    for pattern in "%r.txt", "all.txt":
        ranks = "2" if "%" in pattern else "1"
        done = control("manifest", f"{WORK}/stem.listing", "--size", ranks, "--seed", "3", "-o", f"{WORK}/{pattern}")
        shares = [open(f"{WORK}/{pattern.replace('%r', str(k))}", encoding="utf-8").read().split() for k in range(int(ranks))]
        samples = collections.defaultdict(list)
        for name in names:
            samples[sample_of("stem", name)].append(name)
        verdicts.tell(f"manifest {pattern}", judge(shares, samples, "stem", "stride", "keep") + [done.stderr] * (done.returncode != 0))
        seen, err = listed(0, 2, root, SHARD_LISTING=f"{WORK}/{pattern}", SHARD_SAMPLE="stem")
        verdicts.check(f"a program reads manifest {pattern}", seen is not None and sorted(seen) == sorted(shares[0]) if "%" in pattern
                       else seen is None and "unset SHARD_SAMPLE" in err, (seen and len(seen), err))


def seeks(verdicts):
    """telldir() and seekdir() within a sample."""
    root = fresh("seek", [f"{k}.{e}" for k in range(12) for e in ("a", "b", "c")] + [f"sub/{k}.{e}" for k in range(12) for e in "ab"])
    for folder in root, root + "/sub", fresh("leaf", [f"{k}.{e}" for k in range(12) for e in ("a", "b", "c")]):
        dataset = folder.removesuffix("/sub")
        for rule in RULES:
            for strategy in STRATEGIES:
                for shuffle in ({}, {"SHARD_SEED": "5"}):
                    if strategy == "hash" and shuffle:
                        continue  # a window: telldir() is of what was taken out
                    done = rank(1, 2, dataset, ["perl", "-e", SEEK, folder], SHARD_SAMPLE=rule, SHARD_STRATEGY=strategy, **shuffle)
                    verdicts.check(f"seekdir, {os.path.relpath(folder, WORK)}, {rule}, {strategy}{', shuffled' if shuffle else ''}",
                                   done.returncode == 0 and done.stdout, done)


def sets(verdicts):
    """Without SHARD_SAMPLE, files that come in sets are refused; others are not."""
    for label, refused, names in (
            ("captions", True, [f"{c}/{k:03}.{e}" for c in "ab" for k in range(30) for e in ("jpg", "txt")] + ["README.md", "LICENSE"]),
            ("tar and idx", True, [f"{k:03}.{e}" for k in range(4) for e in ("tar", "idx")] + ["README.md"]),
            ("three of a kind, with some missing", True, [f"{k:03}.{e}" for k in range(40) for e in ("png", "json", "cls") if k % 9 or e != "cls"]),
            ("one ending", False, [f"{k:03}.jpg" for k in range(30)]),
            ("few of many", False, [f"{k:03}.jpg" for k in range(60)] + [f"{k:03}.txt" for k in range(5)]),
            ("tfrecord", False, [f"{x}.tfrecord-{k:05}-of-01024" for x in "ab" for k in range(30)]),
            ("c4", False, [f"c4-{x}.{k:05}-of-01024.json.gz" for x in ("train", "validation") for k in range(30)]),
            ("no endings", False, [f"img{k}" for k in range(30)])):
        root = fresh("sets", names)
        for strategy in ("range", "stride"):
            seen, err = listed(0, 2, root, SHARD_STRATEGY=strategy)
            good = seen is None and "SHARD_SAMPLE=stem" in err and "SHARD_SAMPLE=file" in err and "SHARD_INCLUDE" in err and \
                "Invalid argument" in err if refused else seen
            verdicts.check(f"{label}, {strategy}", good, (seen and len(seen), err))
        for command in (["ls", root, "--rank", "1"], ["manifest", root, "-o", WORK + "/%r.txt"]):
            for sample, status in ([], int(refused)), (["--sample", "stem"], 0), (["--sample", "file"], 0):
                done = control(*command, "--size", "2", *sample)
                verdicts.check(f"{label}, {command[0]} {sample}", done.returncode == status and (b"--sample" in done.stderr) == (status == 1), done)
        for variables in ({"SHARD_SAMPLE": "file"}, {"SHARD_SAMPLE": "stem"}, {"SHARD_INCLUDE": "*.jpg:*.tar:*.png"}, {"SHARD_SIZE": "1", "SHARD_SEED": "1"}):
            seen, err = listed(0, 2, root, **variables)
            verdicts.check(f"{label}, {variables}", seen, err)


def lines(verdicts):
    """Lines about samples: one that is too large; datasets that cannot be pairs. Pairs are right, if they can be."""
    root = fresh("large", [f"a/{k}.dcm" for k in range(50)] + [f"b{k}/1.dcm" for k in range(30)])
    for size, said in (2, True), (4, True), (1, False):
        empty_cache()
        _, err = listed(0, size, root, SHARD_SAMPLE="directory", SHARD_LOG="warn", SHARD_SEED="1")
        verdicts.check(f"a sample of 50 of 80 files, {size} ranks", ("50 of all 80 files" in err) == said, err)
    names = [f"{k:03}.png" for k in range(20)]
    images = fresh("two", [f"{folder}/{name}" for folder in ("images", "masks") for name in names]) + "/images"
    masks, command = images.replace("images", "masks"), "import os, sys; print([sorted(os.listdir(f)) for f in sys.argv[1:]])"
    for strategy in STRATEGIES:
        shares = [rank(k, 3, f"{images}:{masks}", [sys.executable, "-c", command, images, masks], SHARD_STRATEGY=strategy, SHARD_LOG="warn") for k in range(3)]
        got = [json.loads(done.stdout.decode().replace("'", '"') or "[0, 1]") for done in shares]
        verdicts.check(f"pairs of two datasets, {strategy}", all(a == b for a, b in got) and sorted(sum((a for a, _ in got), [])) == names
                       and not any(b"samples, and" in done.stderr for done in shares), (got, [done.stderr for done in shares]))
    empty_cache()
    os.unlink(masks + "/000.png")
    done = rank(0, 3, f"{images}:{masks}", [sys.executable, "-c", command, images, masks], SHARD_LOG="info")
    verdicts.check("two datasets that do not pair up", b"has 20 samples, but" in done.stderr and b" has 19: " in done.stderr, done.stderr)


def proofs(verdicts):
    """verify proves what ranks had, by names and with the listing."""
    root = fresh("proof", [f"{c}/{k:02}.{e}" for c in "ab" for k in range(11) for e in ("jpg", "txt")])
    control("index", root, "--sample", "stem", "-o", WORK + "/proof.listing")
    control("index", root, "--sample", "file", "-o", WORK + "/other.listing")
    script = "import os, sys\nfor d, _, fs in os.walk(sys.argv[1]):\n  for f in fs: open(os.path.join(d, f)).close()"
    for strategy, remainder in (("stride", "keep"), ("range", "keep"), ("hash", "keep"), ("stride", "drop"), ("range", "repeat")):
        folder = fresh("stats")
        for number in range(3):
            rank(number, 3, root, [sys.executable, "-c", script, root], SHARD_SAMPLE="stem", SHARD_STRATEGY=strategy, SHARD_SEED="2",
                 SHARD_STATS=folder, **({"SHARD_REMAINDER": remainder} if remainder != "keep" else {}))
        for given in ([], ["--listing", WORK + "/proof.listing"]):
            done = control("verify", folder, *given)
            lines = {line.split(":")[0].split()[0]: line for line in done.stdout.decode().splitlines()}
            proven = {name: ": proven: " in line for name, line in lines.items()}
            alone = not given and strategy == "hash"  # where the listing is needed
            verdicts.check(f"verify, {strategy}, {remainder}{', with the listing' if given else ''}",
                           proven == {"complete": True, "shares": not alone, "read": True} and done.returncode == alone
                           and (remainder == "keep" or f"(remainder {remainder})" in lines["shares"]), (done.stdout, done.stderr))
        if strategy != "hash":
            empty_cache()
            done = control("verify", folder, "--listing", WORK + "/other.listing")
            verdicts.check(f"verify, {strategy}, {remainder}, with a listing by another rule", done.returncode == 1 and
                           b"that of --listing is another one" in done.stdout, done)


def main():
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    verdicts = Verdicts()
    fresh("none")
    trees(verdicts, options.rounds, options.seed)
    for part in listings, seeks, sets, lines, proofs:
        part(verdicts)
    shutil.rmtree(WORK, ignore_errors=True)
    return verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
