"""The object stores of MLCommons' fork: the same run from a bucket, unmodified and under the preload.

    python -m tests.dlio.s3_dlio --dlio /path/to/tree [--python ...] [--filter ...]

s3_dlio.py hands over to this where the tree has the class ObjStoreLibStorage, which reads by
s3dlio, s3torchconnector or minio. Every rank has a proxy of its own before the server, and every
run a folder of its own: so the server's side tells which rank has asked for which object, whatever
library asks. A second job has one endpoint for all ranks: its LIST requests are counted.
"""
import collections
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse

from tests.dlio.matrix import summary
from tests.dlio.matrix_rank import reported
from tests.dlio.s3_dlio import ACCESS, BUCKET, ODD, SECRET, Watch, common, content
from tests.harness import paths, processes, s3
from tests.harness.opens import opens_difference, read_opens
from tests.harness.processes import tail
from tests.harness.proxy import Proxy
from tests.harness.verdicts import Verdicts

LIBRARIES = ("s3dlio", "s3torchconnector", "minio")
# Not those that a library takes for something else when it reads: that ends the run in another place.
KEYS = [key for key in ODD if not key.startswith(".") and "//" not in key]
OTHERS = ("", "README.txt", "x/", "img.npz.tmp", "img.NPZ")


class Run:
    """A configuration, and the objects that it reads."""

    def __init__(self, name, library, fmt="npz", counts=(16, 8), folder="{name}", samples=1,
                 keys=(), **settings):
        self.name, self.library, self.format = name, library, fmt
        self.counts, self.samples = counts, samples
        self.folder = folder.format(name=name)  # data_folder
        self.keys = keys  # stems of more objects of each dataset
        self.lazy = settings.pop("lazy", True)
        self.says = settings.pop("says", None)
        self.put = settings.pop("put", True)
        self.direct = settings.pop("direct", False)  # storage_type: direct_fs
        self.missing = settings.pop("missing", None)  # the number of a file that is not there
        self.options = {"storage.storage_options.storage_library": library,
                        **{key.replace("__", "."): value for key, value in settings.items()}}

    def prefix(self):
        """The keys' common part."""
        key = self.folder.split("/", 3)[3] if self.folder.startswith("s3://") else self.folder
        if "storage.storage_options.use_full_object_uri" in self.options and self.library != "s3dlio":
            key = f"s3://{BUCKET}/{key}"
        return key.strip("/")

    def stem(self, kind, number, count):
        """A file's name below its kind, without its suffix, as DLIO makes it."""
        folders = self.options.get("dataset.num_subfolders_" + kind.replace("valid", "eval"), 0)
        folder = f"{number % folders:0{len(str(folders - 1))}d}/" if folders and self.skips() else ""
        return f"{folder}img_{number:0{len(str(count))}d}_of_{count}"

    def skips(self):
        """Whether DLIO makes the names, and lists nothing."""
        return self.options.get("dataset.skip_listing", False)


def runs():
    """What is run."""
    made = []
    for library in LIBRARIES:
        quick = {"reader__read_threads": 0}
        skip = {"dataset__skip_listing": True, "reader__file_shuffle": "seed", "reader__sample_shuffle": "seed", **quick}
        made += [
            Run("skip-" + library, library, **{**skip, "reader__read_threads": 2}),
            Run("skip-folders-" + library, library, dataset__num_subfolders_train=4, dataset__num_subfolders_eval=2,
                dataset__listing_validation_interval=5, **skip),
            Run("npz-" + library, library),
            Run("npz-alone-" + library, library, **quick),
            Run("hdf5-" + library, library, "hdf5", **quick),
            Run("npy-4-" + library, library, "npy", (8, 8), samples=4, **quick),
            Run("parquet-" + library, library, "parquet", (8, 8), samples=8, **quick),
            Run("odd-" + library, library, counts=(12, 4), keys=KEYS, **quick),
            Run("whole-" + library, library, folder=f"s3://{BUCKET}/a/{{name}}", **quick),
            Run("uri-" + library, library,
                storage__storage_options__use_full_object_uri="true", **quick),
            Run("fewer-" + library, library, counts=(16, 8), dataset__num_files_train=8,
                workflow__evaluation=False, **quick),
        ]
    quick = {"reader__read_threads": 0, "storage__storage_options__s3_max_attempts": "2"}
    made += [
        Run("shuffled", "s3dlio", reader__file_shuffle="seed", reader__sample_shuffle="seed", **quick),
        Run("slash", "s3dlio", folder="{name}/", **quick),
        Run("hostile", "s3dlio", keys=("/lead",), lazy=False, says="two slashes", **quick),
        Run("other-uri", "s3dlio", keys=("a://b",), lazy=False, says="for a URI", **quick),
        Run("skip-missing", "s3dlio", missing=5, dataset__skip_listing=True,
            dataset__listing_validation_interval=5, lazy=False, **quick),
        Run("skip-whole", "s3dlio", folder=f"s3://{BUCKET}/a/{{name}}", dataset__skip_listing=True, **quick),
        Run("direct", "s3dlio", keys=("sub/img", "sub-x"), direct=True, **quick),
        Run("direct-links", "s3dlio", keys=("linked",), direct=True, lazy=False,
            says="links to directories", dataset__num_files_train=15,
            dataset__num_files_eval=7, **quick),
        Run("too-many", "s3dlio", dataset__num_files_train=1000, lazy=False, **quick),
        Run("sub-folders", "s3dlio", dataset__num_subfolders_train=4, lazy=False, **quick),
        Run("iterative", "s3torchconnector", reader__data_loader_sampler="iterative", lazy=False,
            **quick),
        Run("no-bucket", "s3torchconnector", storage__storage_root="nobucket", lazy=False, put=False,
            **quick),
        Run("wrong-secret", "minio", storage__storage_options__secret_access_key="wrongSecret/9",
            lazy=False, **quick),
    ]
    return made


class Tests:
    """One invocation."""

    def __init__(self, args, work, endpoint):
        self.args, self.work, self.endpoint = args, work, endpoint
        self.client = s3.client(endpoint, ACCESS, SECRET)
        self.client.create_bucket(Bucket=BUCKET)
        self.verdicts = Verdicts()
        self.bodies = {}

    def body(self, fmt, samples):
        """A data file's bytes."""
        if (fmt, samples) not in self.bodies:
            if fmt == "hdf5":
                made = ("import h5py, io, numpy, sys; b = io.BytesIO(); f = h5py.File(b, 'w');"
                        "f.create_dataset('records', data=numpy.zeros((%d, 8, 8), 'u1'));"
                        "f.create_dataset('labels', data=numpy.zeros(%d, 'i8')); f.close();"
                        "sys.stdout.buffer.write(b.getvalue())" % (samples, samples))
                self.bodies[fmt, samples] = subprocess.run(
                    [self.args.python, "-c", made], stdout=subprocess.PIPE, check=True).stdout
            elif fmt == "parquet":
                made = ("import pyarrow, pyarrow.parquet, io, sys; b = io.BytesIO();"
                        "t = pyarrow.table({'data': [bytes(64)] * %d});"
                        "pyarrow.parquet.write_table(t, b, row_group_size=4);"
                        "sys.stdout.buffer.write(b.getvalue())" % samples)
                self.bodies[fmt, samples] = subprocess.run(
                    [self.args.python, "-c", made], stdout=subprocess.PIPE, check=True).stdout
            else:
                self.bodies[fmt, samples] = content(fmt, samples)
        return self.bodies[fmt, samples]

    def fill(self, run):
        """Its objects, and others among them."""
        if not run.put:
            return
        if run.direct:
            self.fill_folder(run)
            return
        for kind, count in zip(("train", "valid"), run.counts):
            stems = [run.stem(kind, i, count) for i in range(count) if i != run.missing]
            stems[1:1 + len(run.keys)] = run.keys[:count - 1]
            for stem in stems:
                self.client.put_object(Bucket=BUCKET, Key=f"{run.prefix()}/{kind}/{stem}.{run.format}",
                                       Body=self.body(run.format, run.samples))
            for other in OTHERS:
                self.client.put_object(Bucket=BUCKET, Key=f"{run.prefix()}/{kind}/{other}", Body=b"?")
        self.client.put_object(Bucket=BUCKET, Key=f"{run.prefix()}/train2/x.{run.format}", Body=b"?")

    def fill_folder(self, run):
        """The same on disk. DLIO takes a URI there for a path in the working directory, where it
        then finds no file; a link lets it."""
        for kind, count in zip(("train", "valid"), run.counts):
            folder = os.path.join(self.work, "direct", run.folder, kind)
            os.makedirs(os.path.join(folder, "sub"))
            stems = [f"img_{i:02d}_of_{count}" for i in range(count)]
            stems[1:1 + len(run.keys)] = run.keys
            for stem in stems:
                if stem == "linked":
                    os.symlink("sub", os.path.join(folder, stem))
                    continue
                with open(os.path.join(folder, f"{stem}.{run.format}"), "wb") as stream:
                    stream.write(self.body(run.format, run.samples))
        if not os.path.islink(os.path.join(self.work, "direct:")):
            os.symlink("/", os.path.join(self.work, "direct:"))

    def settings(self, run, output):
        """The run's options."""
        if run.direct:
            run.options.update({
                "storage.storage_type": "direct_fs", "storage.storage_root": os.path.join(self.work, "direct"),
                "storage.storage_options.uri_scheme": "direct"})
        return {**common(run.folder, run.format, run.samples, run.counts, output), **run.options}

    def job(self, side, name, ranks, chosen, proxies):
        """Run them in one MPI job, again where one has stopped it. Returns what it wrote."""
        out = os.path.join(self.work, side, name)
        os.makedirs(out, exist_ok=True)
        text, left, part = b"", list(chosen), 0
        while left:
            part += 1
            log, plan = os.path.join(out, f"job{part}.log"), os.path.join(out, f"plan{part}.json")
            with open(plan, "w", encoding="utf-8") as stream:
                json.dump({"out": out, "own": [
                    {"storage.storage_options.endpoint_url": proxy.endpoint} for proxy in proxies], "configs": [
                    {"name": run.name, "options": self.settings(run, os.path.join(out, run.name, "output"))}
                    for run in left]}, stream)
            env = {"PYTHONPATH": os.path.abspath(self.args.dlio),
                   "OPENLOG_ROOT": os.path.join(self.work, "direct:")}
            preload = [self.args.openlog]
            if side == "shim":
                env.update(SHARD_CACHE_DIR=os.path.join(self.work, "cache"), SHARD_LOG="info",
                           **self.args.env)
                preload = [self.args.preload, self.args.openlog]
            command = processes.mpi_command(
                ranks, [self.args.python, paths.source("dlio", "matrix_rank.py"), plan], preload, env)
            environment = {k: v for k, v in processes.environment(self.args.python).items()
                           if not k.startswith("AWS_")}
            watch = Watch()
            status, reason = processes.run_job(command, environment, self.work, log, watch.look, 900)
            self.verdicts.tell(f"{side} {name}: no secret on a command line",
                               [repr(watch.shown)[:300]] if watch.shown else [])
            with open(log, "rb") as stream:
                text += stream.read()
            done = [run for run in left if any(reported(os.path.join(out, run.name), rank)["result"] != "stopped"
                                               for rank in range(ranks))]
            if status == 0 and not reason:
                break
            if reason or not done:
                self.verdicts.tell(f"{side} {name}", [f"the job failed: {status} {reason}", tail(log, 40)])
                break
            left = left[left.index(done[-1]) + 1:]
        return text

    def requests(self, proxy, run):
        """(LIST requests by prefix, requests for objects by key) of a run at a proxy."""
        lists, gets = collections.Counter(), collections.Counter()
        for target, headers in proxy.seen:
            path, _, query = target.partition("?")
            fields = dict(urllib.parse.parse_qsl(query))
            key = urllib.parse.unquote(path).partition(f"/{BUCKET}/")[2]
            if "list-type" in fields:
                if fields.get("prefix", "").startswith(run.prefix() + "/"):
                    lists[fields["prefix"]] += 1
            elif key.startswith(run.prefix() + "/"):
                gets[key] += 1
        return lists, gets

    def compare(self, run, ranks, seen):
        """Differences of one run as lines, and what is told of it."""
        lines, gets, steps = [], 0, 0
        for rank in range(ranks):
            bare, shim = (reported(os.path.join(self.work, side, "own", run.name), rank)
                          for side in ("bare", "shim"))
            # Which rank fails first, and ends the job for the others, is left to chance.
            chance = "stopped" in (bare["result"], shim["result"])
            if chance and len(self.ends("bare", run, ranks) | self.ends("shim", run, ranks)) != 1:
                lines.append(f"{self.ends('bare', run, ranks)} unmodified,"
                             f" {self.ends('shim', run, ranks)} under the preload")
            if not chance and self.plain(bare) != self.plain(shim):
                lines.append(f"rank {rank}: {self.plain(bare)} unmodified, {self.plain(shim)} under the preload")
                lines += shim.get("traceback", "").splitlines()[-8:]
            for key in ("steps", "list", "samples"):
                if bare.get(key) != shim.get(key):
                    lines.append(f"rank {rank}: {key} {bare.get(key)} unmodified, {shim.get(key)} under the preload")
            (_, mine), (_, theirs) = (self.requests(seen[side][rank], run) for side in ("bare", "shim"))
            gets, steps = gets + sum(mine.values()), steps + sum(bare.get("steps", {}).values())
            # What reads ahead does so until it is stopped: the last requests are there or not.
            ahead = ((run.library == "s3dlio" or "reader.read_threads" not in run.options) and all(
                abs(mine[key] - theirs[key]) <= 1 for key in set(mine) | set(theirs)))
            if bare["result"] == "ok":  # else it ends when the first rank fails
                lines += opens_difference(mine, theirs, counts=not ahead)
            if run.direct:
                opens = [read_opens(os.path.join(self.work, side, "own", run.name, f"rank{rank}.log"))
                         for side in ("bare", "shim")]
                gets += sum(opens[0].values())
                lines += opens_difference(*opens) or ["nothing was opened"] * (not opens[0])
            if shim["result"] == "ok" and (shim["list_type"] != "list") != run.lazy:
                lines.append(f"rank {rank}: its list is a {shim['list_type']}")
        return lines, f"{gets} requests, {steps} steps, {' or '.join(self.ends('bare', run, ranks))[:150]}"

    def ends(self, side, run, ranks):
        """How those ranks ended that were not ended by another."""
        results = [reported(os.path.join(self.work, side, "own", run.name), rank) for rank in range(ranks)]
        return {self.plain(result) for result in results if result["result"] != "stopped"}

    def plain(self, result):
        """How it ended, without ports and times."""
        return re.sub(r"127\.0\.0\.1:[0-9]+|localhost:[0-9]+|tx[0-9a-f-]{20,}[^ ]*|after [0-9.]+s", "#",
                      summary(result).replace(self.work, "#"))

    def both(self, ranks, chosen):
        """Both sides; each rank with its own proxy."""
        for run in chosen:
            self.fill(run)
        seen = {}
        for side in ("bare", "shim"):
            proxies = [Proxy(self.endpoint) for _ in range(ranks)]
            begin = time.monotonic()
            for proxy in proxies:
                proxy.__enter__()
            text = self.job(side, "own", ranks, chosen, proxies)
            for proxy in proxies:
                proxy.__exit__()
            seen[side] = proxies
            print(f"      {side}: {time.monotonic() - begin:.0f} s", flush=True)
        for run in chosen:
            lines, note = self.compare(run, ranks, seen)
            if run.says and run.says.encode() not in text:
                lines.append(f"nothing is said of {run.says!r}")
            self.verdicts.tell(f"n{ranks} {run.name} ({note})", lines)
        # Known by unmodified runs: F's minio cannot start, which is what must be seen above.
        found = [word for word in (SECRET, "wrongSecret/9") if word.encode() in self.cached()]
        self.verdicts.tell("no secret in a file of the cache", found)

    def cached(self):
        """All bytes of the cache."""
        text, cache = b"", os.path.join(self.work, "cache")
        for name in os.listdir(cache) if os.path.isdir(cache) else ():
            with open(os.path.join(cache, name), "rb") as stream:
                text += stream.read()
        return text

    def counted(self, ranks, chosen):
        """One endpoint for all: how often the bucket is listed."""
        for side in ("bare", "shim"):
            with Proxy(self.endpoint) as proxy:
                self.job(side, "one", ranks, chosen, [proxy])
            for run in chosen:
                result = reported(os.path.join(self.work, side, "one", run.name), 0)
                if result["result"] != "ok":
                    continue
                for kind in ("train", "valid"):
                    agents = [headers.get("user-agent", "") for target, headers in proxy.seen
                              if dict(urllib.parse.parse_qsl(target.partition("?")[2])).get("prefix")
                              == f"{run.prefix()}/{kind}/"]
                    good = side == "bare" or len(agents) == 1 and agents[0].startswith("libshard")
                    self.verdicts.tell(f"n{ranks} {run.name}: {len(agents)} LIST requests for {kind},"
                                       f" {side}", [] if good else [repr(agents)])


def has_direct(tree):
    """Whether `storage_type: direct_fs` is read by s3dlio there."""
    with open(os.path.join(tree, "dlio_benchmark", "storage", "storage_factory.py"), encoding="utf-8") as stream:
        return "LOCAL_FS or storage_type == StorageType.DIRECT_FS" not in stream.read()


def main(args, work):
    """Run all; returns the exit status."""
    with s3.server(os.path.join(work, "server"), ACCESS, SECRET) as endpoint:
        tests = Tests(args, work, endpoint)
        for ranks in map(int, args.ranks.split(",")):
            chosen = [run for run in runs() if re.search(args.filter, run.name)
                      and (has_direct(args.dlio) or not run.direct)]
            tests.both(ranks, chosen)
            tests.counted(ranks, [run for run in chosen if run.name.startswith(("npz-alone", "whole"))])
    return tests.verdicts.conclude(work, args.workdir)


if __name__ == "__main__":
    sys.exit("see tests/dlio/s3_dlio.py")
