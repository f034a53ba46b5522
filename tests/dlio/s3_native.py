"""DLIO's lists from a bucket, by the hook for `storage_type: s3`, unmodified and under the preload.

    python -m tests.dlio.s3_native [--preload LIB]

PyPI's DLIO has no storage class for s3torchconnector. Its own initialize() is run here with a class of that shape
(s3_module.py), in two MPI ranks (s3_rank.py), against a real server (scripts/s3-server.sh) behind a proxy that sees
every request. s3_dlio.py runs whole benchmarks of a DLIO that has such a class.
Then shard_dataset_open_s3() by itself: when it lists anew, and what gets to whom.
"""
import collections
import glob
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid

from tests.harness import confine, options, paths, processes, s3, statlogs
from tests.harness.opens import opens_difference
from tests.harness.processes import tail
from tests.harness.proxy import Proxy
from tests.harness.verdicts import Verdicts

RANKS = 2

# A process that opens a listing: the library on the command line, the arguments on standard input.
OPENER = '''
import ctypes, json, os, sys
text, listing, before = ctypes.create_string_buffer(1000), ctypes.c_void_p(), dict(os.environ)
shard = ctypes.CDLL(sys.argv[1])
url, variables, turn, since = json.load(sys.stdin)
array = (ctypes.c_char_p * (len(variables) + 1))(*(v.encode() for v in variables))
rc = shard.shard_dataset_open_s3(url.encode(), b"include=*.npz", array, ctypes.c_uint64(turn), ctypes.c_int64(since),
                                 ctypes.byref(listing), text, ctypes.c_size_t(1000))
shard.shard_listing_count.restype = ctypes.c_uint64
print("%d entries" % shard.shard_listing_count(listing) if rc == 0 else text.value.decode(errors="replace"))
if dict(os.environ) != before:
    print("the environment was changed")
'''
# Of this run alone: /proc is searched for it.
ACCESS, SECRET = "AKIDTESTTESTTEST0002", "testSecretOfS3NativeHook/+" + uuid.uuid4().hex
WRONG = "wrongSecretOfS3NativeHook/9"
MANY = 2500  # more than two pages
ODD = ["blank in it", "plus+", "percent%20", "quote'\"", "and&<>", "\u00e9 \u65e5\u672c", "\U0001f600", "a/b", "a//b", "./c",
       "../d", "hash#?", "~", "-", "IMG", " first", "back\\slash", ""]


def keys_of(folder, names):
    """Keys of train and valid: whole URIs."""
    return [f"s3://bucket/{folder}/{kind}/{name}" for kind in ("train", "valid") for name in names]


def plain(count):
    """Names as DLIO gives them."""
    return [f"img_{i:02d}_of_{count}.npz" for i in range(count)]


def runs():
    """What is run, in this order: in one job, so that what has changed must be seen."""

    def run(name, folder, count, wanted=None, says="", **more):
        wanted = count if wanted is None else wanted
        return {"name": name, "folder": folder if "//" in folder else f"s3://bucket/{folder}", "train": wanted, "valid": wanted, "put": [],
                "remove": [], "options": {}, "storage": {}, "workers": False, "unknown": False,
                "lazy": not says, "says": says, **more}

    others = ["", "README.txt", "sub/", "sub/npz.txt", "img.NPZ", "img.npz.tmp"]
    added = keys_of("plain", ["img_000.npz", "sub/img.npz"])
    return [
        run("plain", "plain", 16, workers=True, put=keys_of("plain", plain(16) + others) + [
            "s3://bucket/plain/train2/img.npz", "plain/train/img.npz", "s3://bucket/plain/img.npz"]),
        run("added", "plain", 18, put=added),
        run("removed", "plain", 16, remove=added),
        run("fewer", "plain", 5),
        run("none-wanted", "plain", 16, options={"dataset.num_files_eval": 0}),
        run("one", "plain", 1, options={"dataset.num_files_eval": 1}),
        run("many", "many", MANY, workers=False),
        run("odd", "odd", len(ODD), put=keys_of("odd", [name + ".npz" for name in ODD]), workers=True),
        run("deep", "one/two three/4", 3, put=keys_of("one/two three/4", plain(3))),
        run("no-valid", "alone", 3, options={"dataset.num_files_eval": 0, "workflow.evaluation": False},
            put=[key for key in keys_of("alone", plain(3)) if "/train/" in key]),
        run("trailing-slash", "plain/", 16),
        # Those fail unmodified, or are left to the storage class.
        run("too-many", "plain", 17, lazy=False),
        run("empty", "empty", 1, lazy=False),
        run("only-others", "others", 1, lazy=False, put=keys_of("others", others)),
        run("sub-folders", "plain", 16, options={"dataset.num_subfolders_train": 2}, lazy=False),
        run("two-slashes", "hostile", 3, says="two slashes", put=keys_of("hostile", plain(3) + ["/x.npz"])),
        run("control-character", "control", 2, says="XML", put=keys_of("control", plain(2) + ["\x0b.npz"])),
        run("query", "plain?x=y", 1, says="s3://bucket/folder"),
        run("no-bucket", "s3://nobucket/x", 1, says="NoSuchBucket"),
        run("wrong-secret", "plain", 16, says="AWS_SECRET_ACCESS_KEY", storage={"secret_access_key": WRONG}),
        run("iterative", "plain", 16, says="index sampler", options={"reader.data_loader_sampler": "iterative"}),
        run("unknown-class", "plain", 16, says="is not a version known", unknown=True),
        run("no-endpoint-path", "plain", 16, storage={"s3_force_path_style": "false"}),
    ]


def is_list(target):
    """The prefix of a LIST request, else None."""
    fields = dict(urllib.parse.parse_qsl(target.partition("?")[2], keep_blank_values=True))
    return fields.get("prefix", "") if "list-type" in fields else None


class Watch:
    """Which processes show the secret, by command lines and environments, when one of them asks for a list: for a proxy."""

    def __init__(self):
        self.lines, self.holders = set(), set()

    def __call__(self, request):
        if is_list(request.target) is None:
            return
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as stream:
                    line = stream.read()
                with open(f"/proc/{pid}/environ", "rb") as stream:
                    environment = stream.read()
                with open(f"/proc/{pid}/comm", encoding="utf-8") as stream:
                    name = stream.read().strip()
            except OSError:
                continue
            if SECRET.encode() in line:
                self.lines.add(line)
            if SECRET.encode() in environment:
                self.holders.add(name)


class Tests:
    """The server, the folders and the verdicts."""

    def __init__(self, args, work, endpoint):
        self.args, self.work, self.endpoint = args, work, endpoint
        self.verdicts = Verdicts()
        self.client = s3.client(endpoint, ACCESS, SECRET)
        self.client.create_bucket(Bucket="bucket")
        self.tree = os.path.join(work, "tree")

    def make_tree(self):
        """PyPI's DLIO with the storage classes."""
        where = importlib.util.find_spec("dlio_benchmark").submodule_search_locations[0]
        shutil.copytree(where, os.path.join(self.tree, "dlio_benchmark"), ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(paths.source("dlio", "s3_module.py"),
                    os.path.join(self.tree, "dlio_benchmark", "storage", "s3_torch_storage.py"))

    def fill(self):
        """Many keys."""
        for kind in ("train", "valid"):
            s3.fill(self.client, os.path.join(self.work, "server"), "bucket",
                    [f"s3://bucket/many/{kind}/img_{i}_of_{MANY}.npz" for i in range(MANY)])

    def job(self, side):
        """(requests, what it wrote) of one MPI job with all runs."""
        out = os.path.join(self.work, side)
        os.makedirs(out)
        log, watch = os.path.join(out, "job.log"), Watch()
        with Proxy(self.endpoint, fault=watch) as proxy:
            plan = {"out": out, "behind": self.endpoint, "runs": runs(), "storage": {
                "access_key_id": ACCESS, "secret_access_key": SECRET, "endpoint_url": proxy.endpoint,
                "region": "us-east-1", "s3_force_path_style": "true"}}
            with open(os.path.join(out, "plan.json"), "w", encoding="utf-8") as stream:
                json.dump(plan, stream)
            # The benchmark's own options count, whatever the environment says.
            env = {"PYTHONPATH": self.tree, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
                   "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true", "AWS_REGION": "mars-1", "AWS_DEFAULT_REGION": "mars-2",
                   "PYTHONUNBUFFERED": "1"}
            preload = []
            if side == "shim":
                env.update(SHARD_CACHE_DIR=os.path.join(out, "cache"), SHARD_LOG="debug",
                           SHARD_STATS=os.path.join(out, "stats"))
                preload = [self.args.preload]
            # mpirun may put what one rank says into another's line.
            command = processes.mpi_command(RANKS, ["sh", "-c", 'exec "$@" 2>"$0.$OMPI_COMM_WORLD_RANK"', log, sys.executable, paths.source("dlio", "s3_rank.py"),
                                                 os.path.join(out, "plan.json")], preload, env)
            environment = {k: v for k, v in processes.environment(sys.executable).items() if not k.startswith("AWS_")}
            status, reason = processes.run_job(command, environment, out, log, timeout=3 * processes.HANGS)
            self.verdicts.check(f"{side}: no key on a command line", not watch.lines, watch.lines)
            self.verdicts.check(f"{side}: the job ends", status == 0 and not reason, (status, reason, tail(log, 30)))
            text = b""
            for path in [log, *sorted(glob.glob(glob.escape(log) + ".*"))]:
                with open(path, "rb") as stream:
                    text += stream.read()
            return list(proxy.seen), text

    def result(self, side, name, rank):
        """What a rank has found."""
        try:
            with open(os.path.join(self.work, side, f"{name}-{rank}.json"), encoding="utf-8") as stream:
                return json.load(stream)
        except FileNotFoundError:
            return {"result": "nothing"}

    def compare(self, run):
        """Differences of one run."""
        lines = []
        for rank in range(RANKS):
            bare, shim = (self.result(side, run["name"], rank) for side in ("bare", "shim"))
            if bare["result"] == "nothing":
                lines.append("no result unmodified")
            types = [side.pop("type", None) for side in (bare, shim)]
            reads = [[part[1] for part in side.get("read", ())] for side in (bare, shim)]
            pickled = {part[0] for part in shim.get("read", ())}
            bare.pop("read", None), shim.pop("read", None)
            for key in sorted(set(bare) | set(shim)):
                if bare.get(key) != shim.get(key):
                    lines.append(f"rank {rank}: {key} {bare.get(key)} unmodified, {shim.get(key)} under the preload")
            if reads[0] != reads[1] or run["workers"] and sum(map(len, reads[0])) == 0:
                lines.append(f"rank {rank}: workers read {reads[0]} unmodified, {reads[1]} under the preload")
            if pickled - {"FileList"}:
                lines.append(f"rank {rank}: a worker's list is a {pickled}")
            if shim["result"] == "ok" and (types[1] == "FileList") != run["lazy"]:
                lines.append(f"rank {rank}: its list is a {types[1]}")
            if run["lazy"] and bare["result"] != "ok":
                lines.append(f"rank {rank}: {bare['result']} unmodified: this comparison is worth nothing")
            if shim.get("environment"):
                lines.append(f"rank {rank}: its environment was changed")
        return lines

    def hook(self):
        """initialize() on both sides."""
        self.make_tree()
        self.fill()
        (bare, _), (shim, text) = self.job("bare"), self.job("shim")
        for run in runs():
            lines = self.compare(run)
            how = self.result("bare", run["name"], 0)
            self.verdicts.check(f"{run['name']} ({how['result'][:60]}, {len(how.get('train', ()))} files)", not lines, "; ".join(lines))
        said = re.findall(r"^libshard: rank \d: warning: .*", text.decode(errors="replace"), re.MULTILINE)
        for run in runs():
            if run["says"]:
                mine = [line for line in said if run["says"] in line and "listed in the unmodified way" in line]
                self.verdicts.check(f"{run['name']}: one rank says why, once for each reason", 1 <= len(mine) <= 2 and
                           len(set(mine)) == len(mine) and all("rank 0" in line for line in mine), said)
        # SHARD_STATS is set, and tells nothing of the lists that DLIO makes itself.
        rest = [line for line in said if "SHARD_STATS has no effect on" not in line and not any(run["says"] and run["says"] in line for run in runs())]
        self.verdicts.check("nothing else is said", not rest, rest)
        gets = [collections.Counter(t for t, _ in seen if is_list(t) is None and "x-id" not in t) for seen in (bare, shim)]
        self.verdicts.check(f"the same requests for objects ({sum(gets[0].values())})", gets[0] == gets[1] and gets[0],
                   opens_difference(*gets))
        lists = [collections.Counter(is_list(t) for t, _ in seen) for seen in (bare, shim)]
        # The prefixes of a run that shares them with no other.
        for folder, asked in (("many", 3 * RANKS), ("odd", RANKS), ("one/two three/4", RANKS)):
            for kind in ("train", "valid"):
                prefix = f"s3://bucket/{folder}/{kind}/"
                one = [h.get("user-agent", "") for t, h in shim if is_list(t) == prefix]
                self.verdicts.check(f"{prefix}: {lists[0][prefix]} LIST requests unmodified, {len(one)} here, all by one shardctl",
                           lists[0][prefix] == asked and 1 <= len(one) <= (1 if asked == RANKS else 64 + 4) and
                           not any("oto" in agent for agent in one), one)
        files = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(self.work, "shim", "cache")) for name in names]
        for file in files:
            with open(file, "rb") as stream:
                text += stream.read()
        found = [word for word in (SECRET, ACCESS, WRONG) if word.encode() in text]
        self.verdicts.check("no key in any output, listing or file of the cache", not found and len(files) > 10 and b"listing 's3://" in text, found)

    def statistics(self):
        """What forked and spawned workers have read is counted, each file in one rank."""
        for name in ("plain", "odd"):
            read = [path for rank in range(RANKS) for part in self.result("shim", name, rank)["read"] for path, _ in part[1]]
            opened = [cell.distinct for one in statlogs.facts(os.path.join(self.work, "shim", "stats"))["datasets"]
                      for cell in one["cells"] if one["dataset"] == f"s3://bucket/s3://bucket/{name}/train/"]
            self.verdicts.check(f"{name}: statistics of {len(read)} objects", len(read) > 10 and sum(opened) == len(read), opened)

    # ---- shard_dataset_open_s3() ----------------------------------------------------------------

    def call(self, name, lists, variables, turn=0, since=0, url="s3://bucket/s3://bucket/plain/train", proxies=(), words=(), job="a", **more):
        """A process that opens a listing: how often that makes the proxies list."""
        before = [proxy.requests for proxy in proxies]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SHARD_"))}
        env.update(SHARD_CACHE_DIR=os.path.join(self.work, "api"), **more)
        if job:
            env.update(SHARD_JOB=job, SHARD_RANK="0", SHARD_SIZE="1")
        done = subprocess.run(["/usr/bin/python3", "-c", OPENER, self.args.preload],
                              input=json.dumps([url, variables, turn, since]), env=env, capture_output=True, text=True,
                              timeout=processes.HANGS, check=False)
        listed = [proxy.requests - number for proxy, number in zip(proxies, before)]
        # Processes one after the other: that is said of SHARD_JOB.
        said = [line for line in done.stderr.splitlines() if "no process of that job has it open" not in line]
        good = listed == lists and all(word in done.stdout for word in words) and not said and done.stdout.count("\n") == 1
        self.verdicts.check(name, good and not any(s in done.stdout + done.stderr for s in (SECRET, WRONG)), (listed, done))

    def api(self):
        """When it lists anew."""
        watch = Watch()
        with Proxy(self.endpoint, fault=watch) as one, Proxy(self.endpoint) as two:
            both = {"proxies": (one, two), "words": ("16 entries",)}
            keys = [f"AWS_ACCESS_KEY_ID={ACCESS}", f"AWS_SECRET_ACCESS_KEY={SECRET}", "AWS_REGION=us-east-1"]
            here, there = keys + [f"AWS_ENDPOINT_URL_S3={one.endpoint}"], keys + [f"AWS_ENDPOINT_URL_S3={two.endpoint}"]
            self.call("round 0 lists", [1, 0], here, **both)
            # The servers were started with it.
            self.verdicts.check("keys are in shardctl's environment alone", not watch.lines and
                       # It is run by a descriptor, whose number is its name until it gives itself one.
                       {name for name in watch.holders if not name.isdigit()} - {"ceph-mon", "ceph-osd", "radosgw"}
                       == {"shardctl"}, (watch.holders, watch.lines))
            self.call("round 0 lists anew", [1, 0], here, **both)
            begin = time.time_ns()
            self.call("a round lists, whatever there is", [1, 0], here, 1, 1, **both)
            self.call("once for the job", [0, 0], here, 1, 1, **both)
            self.call("and since then", [0, 0], here, 1, begin, **both)
            self.call("with other keys, too", [0, 0], here[:1] + ["AWS_SECRET_ACCESS_KEY=" + WRONG] + here[2:], 1, 1, **both)
            self.call("the next round", [1, 0], here, 2, 1, **both)
            self.call("another job", [1, 0], here, 1, 1, job="b", **both)
            self.call("no job", [1, 0], here, 1, 1, job=None, **both)
            self.call("too old", [1, 0], here, 1, time.time_ns(), **both)
            self.call("now it is not", [0, 0], here, 1, begin, **both)
            self.call("another endpoint", [0, 1], there, 1, 1, **both)
            self.call("another region", [1, 0], here[:2] + ["AWS_REGION=eu-west-1"] + here[3:], 1, 1, **both)
            self.call("the environment's endpoint", [0, 1], here[:3], 3, 1, AWS_ENDPOINT_URL=two.endpoint, **both)
            self.call("a variable is removed", [0, 1], keys + ["AWS_ENDPOINT_URL_S3", f"AWS_ENDPOINT_URL={two.endpoint}"], 4, 1,
                      AWS_ENDPOINT_URL_S3=one.endpoint, **both)
            # DLIO calls MPI_Init: without mpirun each process then has a namespace of its own.
            elastic = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
            self.call("torchrun", [1, 0], here, 7, 1, job=None, RANK="0", LOCAL_RANK="0", PMIX_NAMESPACE="7", **elastic, **both)
            self.call("torchrun's other rank", [0, 0], here, 7, 1, job=None, RANK="1", LOCAL_RANK="1", PMIX_NAMESPACE="8", **elastic, **both)
            both["words"] = ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch")
            self.call("wrong secret", [1, 0], here[:1] + ["AWS_SECRET_ACCESS_KEY=" + WRONG] + here[2:], **both)
            both["words"] = ("not of the form http",)
            self.call("endpoint with a password", [0, 0], keys + [f"AWS_ENDPOINT_URL_S3=http://user:{SECRET}@127.0.0.1"], **both)
            # SHARD_LISTING may be of one of them.
            listing = os.path.join(self.work, "given.listing")
            subprocess.run([os.path.join(os.path.dirname(self.args.preload), "shardctl"), "index", "s3://bucket/s3://bucket/plain/train/",
                            "--options", "include=*.npz", "-o", listing], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env={**os.environ, **dict(pair.split("=", 1) for pair in there)})
            both["words"] = ("16 entries",)
            self.call("SHARD_LISTING", [0, 0], here, SHARD_LISTING=listing, **both)
            both["words"] = ("16 entries",)
            self.call("SHARD_LISTING of train, valid asked", [1, 0], here, SHARD_LISTING=listing, url="s3://bucket/s3://bucket/plain/valid", **both)


def main():
    """Run all; the exit status is 1 if anything fails."""
    confine.begin()
    processes.end_jobs_on_signals()
    args = options.parse(options.parser(__doc__, "preload"))
    work = tempfile.mkdtemp(prefix="dlio-s3-native-")
    with s3.server(os.path.join(work, "server"), ACCESS, SECRET) as endpoint:
        tests = Tests(args, work, endpoint)
        tests.hook()
        tests.statistics()
        tests.api()
    return tests.verdicts.conclude(work)


if __name__ == "__main__":
    sys.exit(main())
