"""DLIO's object stores: the same run from a bucket, unmodified and under the preload.

    python -m tests.dlio.s3_dlio --dlio /path/to/tree [--python ...] [--filter REGEX] [--ranks 1,2]

For trees that read buckets, and an interpreter that has what they read by: argonne-lcf's main has `storage_type: s3`
by s3torchconnector, MLCommons' fork the class ObjStoreLibStorage, by s3dlio, s3torchconnector or minio (PyPI's 2.0.0
has none). The server is scripts/s3-server.sh's; the objects are put there by boto3. Every rank has a proxy of its own
before it, and every run a folder of its own: so the server's side tells which rank has asked for which object,
whatever library asks. Compared are these requests, how a run ends, its steps and its lists. A last job has one
endpoint for all ranks: its LIST requests are counted.
"""
import collections
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import uuid

import numpy

from tests.dlio import running
from tests.dlio.matrix import summary
from tests.harness import confine, options, paths, processes, s3
from tests.harness.opens import opens_difference, read_opens
from tests.harness.processes import tail
from tests.harness.proxy import Proxy
from tests.harness.verdicts import Verdicts

# Of this run alone: /proc is searched for it while the runs last.
ACCESS, SECRET = "AKIDTESTTESTTEST0003", "testSecretOfS3NativeDLIO/+" + uuid.uuid4().hex
BUCKET = "dlio"
LIBRARIES = ("s3dlio", "s3torchconnector", "minio")
OTHERS = ("", "README.txt", "x/", "img.npz.tmp", "img.NPZ")
ODD = ["blank in it", "plus+", "percent%20", "quote'\"", "and&<>", "\u00e9 \u65e5\u672c", "\U0001f600", "sub/img",
       "sub//two", "./dot", "..", "hash#?", "~", "-", "IMG"]

# Not those that a library takes for something else when it reads: that ends the run in another place.
KEYS = [key for key in ODD if not key.startswith(".") and "//" not in key]


class Run:
    """A configuration, and the objects that it reads. library: MLCommons' fork reads by it; "": argonne-lcf's main."""

    def __init__(self, name, library="", fmt="npz", counts=(16, 8), folder="{name}", samples=1, keys=(), **settings):
        self.name, self.library, self.format = name, library, fmt
        self.counts, self.samples = counts, samples
        self.folder = folder.format(name=name)  # data_folder
        self.keys = keys  # stems of more objects of each dataset
        self.lazy = settings.pop("lazy", True)
        self.says = settings.pop("says", None)
        self.put = settings.pop("put", True)
        self.whole = settings.pop("whole", False)  # keys are whole URIs
        self.later = settings.pop("later", False)  # in a job of its own, before which its folder gets more objects
        self.counted = settings.pop("counted", False)  # LIST requests, too
        self.direct = settings.pop("direct", False)  # storage_type: direct_fs
        self.missing = settings.pop("missing", None)  # the number of a file that is not there
        self.options = {**({"storage.storage_options.storage_library": library} if library else {}),
                        **{key.replace("__", "."): value for key, value in settings.items()}}

    def plain(self):
        """The folder in its bucket."""
        return (self.folder.split("/", 3)[3] if self.folder.startswith("s3://") else self.folder).strip("/")

    def prefix(self):
        """The keys' common part."""
        return f"s3://{BUCKET}/{self.plain()}" if self.whole else self.plain()

    def stem(self, kind, number, count):
        """A file's name below its kind, without its suffix, as DLIO makes it."""
        folders = self.options.get("dataset.num_subfolders_" + kind.replace("valid", "eval"), 0)
        folder = f"{number % folders:0{len(str(folders - 1))}d}/" if folders and self.skips() else ""
        return f"{folder}img_{number:0{len(str(count))}d}_of_{count}"

    def skips(self):
        """Whether DLIO makes the names, and lists nothing."""
        return self.options.get("dataset.skip_listing", False)

    def sets(self):
        """(kind, number of files) of its folders that have any."""
        return [one for one in zip(("train", "valid"), self.counts) if one[1]]


def connector(ranks):
    """Of argonne-lcf's main. What would stop one rank before the other, and so the job, is for one rank."""
    def run(name, fmt="npz", counts=(32, 16), at="{name}", **more):
        return Run(name, "", fmt, counts, at if "://" in at else f"s3://{BUCKET}/{at}", whole=True,
                   storage__storage_options__s3_max_attempts="2", **more)

    no_workers = {"reader__read_threads": 0}
    chosen = [
        run("npz"),
        run("npz-no-workers", **no_workers),
        run("npz-spawn", reader__multiprocessing_context="spawn"),
        run("npy-4", "npy", (16, 8), samples=4),
        run("npz-shuffled", reader__sample_shuffle="seed", reader__file_shuffle="seed"),
        run("npz-again", at="npz-no-workers", later=True, train__epochs=1),
        run("npz-fewer", dataset__num_files_train=20, workflow__evaluation=False),
        run("npz-too-many", dataset__num_files_train=1000, lazy=False),
        run("npz-trimmed", counts=(27, 13)),
        run("npz-odd", counts=(24, 8), keys=ODD),
        run("npz-hostile", counts=(8, 4), keys=("/img_03",), lazy=False, **no_workers),
        run("npz-folder-below", counts=(8, 4), at="below/two levels"),
        run("npz-no-valid", counts=(8, 0), workflow__evaluation=False, counted=True),
        run("npz-iterative", reader__data_loader_sampler="iterative", reader__read_threads=1, lazy=False),
        run("npz-sub-folders", dataset__num_subfolders_train=4, lazy=False),
        run("npz-no-bucket", counts=(8, 4), at="s3://nobucket/x", lazy=False, put=False),
        run("npz-wrong-secret", storage__storage_options__secret_access_key="wrongSecret/9", lazy=False),
    ]
    alone = ("npz-hostile", "npz-iterative")
    few = ("npz-no-workers", "npy-4", "npz-again", "npz-no-valid") + alone
    return [one for one in chosen if (one.name in few if ranks == 1 else one.name not in alone)]


def libraries():
    """Of MLCommons' fork: each library, and what differs from one to another."""
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
                whole=library != "s3dlio", storage__storage_options__use_full_object_uri="true", **quick),
            Run("fewer-" + library, library, counts=(16, 8), dataset__num_files_train=8,
                workflow__evaluation=False, **quick),
        ]
    quick = {"reader__read_threads": 0, "storage__storage_options__s3_max_attempts": "2"}
    made += [
        Run("shuffled", "s3dlio", reader__file_shuffle="seed", reader__sample_shuffle="seed", **quick),
        Run("slash", "s3dlio", folder="{name}/", **quick),
        Run("hostile", "s3dlio", keys=("/lead",), **quick),
        Run("other-uri", "s3dlio", keys=("a://b",), **quick),
        Run("skip-missing", "s3dlio", missing=5, dataset__skip_listing=True,
            dataset__listing_validation_interval=5, lazy=False, **quick),
        Run("skip-whole", "s3dlio", folder=f"s3://{BUCKET}/a/{{name}}", dataset__skip_listing=True, **quick),
        Run("direct", "s3dlio", keys=("sub/img", "sub-x"), direct=True, **quick),
        Run("direct-links", "s3dlio", keys=("linked",), direct=True, dataset__num_files_train=15,
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


def content(fmt, samples):
    """A data file's bytes."""
    data = io.BytesIO()
    records = numpy.random.default_rng(1).integers(255, size=(8, 8, samples), dtype=numpy.uint8)
    if fmt == "npz":
        numpy.savez(data, x=records, y=[0] * samples)
    else:
        numpy.save(data, records)
    return data.getvalue()


class Watch:
    """What processes show of themselves while a job runs."""

    def __init__(self):
        self.shown = b""

    def look(self):
        """For run_job: never stalled."""
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/cmdline", "rb") as stream:
                        line = stream.read()
                except OSError:
                    continue
                if SECRET.encode() in line:
                    self.shown += line
        return ""


def common(run, out):
    """The options that all runs on S3 have."""
    return running.settings(run.folder, out, run.format, "pytorch", {
        "storage.storage_type": "s3", "storage.storage_root": BUCKET,
        "storage.storage_options.access_key_id": ACCESS,
        "storage.storage_options.secret_access_key": SECRET,
        "storage.storage_options.region": "us-east-1",
        "storage.storage_options.s3_force_path_style": "true",
        "dataset.num_files_train": run.counts[0], "dataset.num_files_eval": run.counts[1],
        "dataset.num_samples_per_file": run.samples, "dataset.num_subfolders_train": 0,
        "dataset.num_subfolders_eval": 0, "dataset.record_length_bytes": 64,
        "reader.batch_size_eval": 1, "reader.read_threads": 2, **run.options})


class Tests:
    """One invocation."""

    def __init__(self, args, work, endpoint):
        self.args, self.work, self.endpoint = args, work, endpoint
        self.client = s3.client(endpoint, ACCESS, SECRET)
        self.client.create_bucket(Bucket=BUCKET)
        self.verdicts = Verdicts()
        self.bodies = {}

    def put(self, key, body=b"?"):
        """An object."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)

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
        body = self.body(run.format, run.samples)
        for kind, count in run.sets():
            stems = [run.stem(kind, i, count) for i in range(count) if i != run.missing]
            stems[1:1 + len(run.keys)] = run.keys[:count - 1]
            for stem in stems:
                self.put(f"{run.prefix()}/{kind}/{stem}.{run.format}", body)
            for other in OTHERS:
                self.put(f"{run.prefix()}/{kind}/{other}")
        self.put(f"{run.prefix()}/train2/x.{run.format}")
        if run.whole:
            self.put(f"{run.plain()}/train/img.{run.format}")

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

    def settings(self, run, out):
        """The run's options."""
        if run.direct:
            run.options.update({
                "storage.storage_type": "direct_fs", "storage.storage_root": os.path.join(self.work, "direct"),
                "storage.storage_options.uri_scheme": "direct"})
        return common(run, out)

    def job(self, side, name, ranks, chosen, proxies):
        """Run them in one MPI job, again where one has stopped it. Returns what it wrote."""
        out = os.path.join(self.work, side, name)
        os.makedirs(out, exist_ok=True)
        text, left, part = b"", list(chosen), 0
        while left:
            part += 1
            log, plan = (os.path.join(out, f"{chosen[0].name}-{part}.{kind}") for kind in ("log", "plan"))
            with open(plan, "w", encoding="utf-8") as stream:
                json.dump({"out": out, "own": [
                    {"storage.storage_options.endpoint_url": proxy.endpoint} for proxy in proxies], "configs": [
                    {"name": run.name, "options": self.settings(run, os.path.join(out, run.name))}
                    for run in left]}, stream)
            env = {"PYTHONPATH": os.path.abspath(self.args.dlio),
                   "OPENLOG_ROOT": os.path.join(self.work, "direct:")}
            preload = [self.args.openlog]
            if side == "shim":
                env.update(SHARD_CACHE_DIR=os.path.join(self.work, "cache"), SHARD_LOG="debug",
                           **self.args.env)
                preload = [self.args.preload, self.args.openlog]
            command = processes.mpi_command(
                ranks, [self.args.python, paths.source("dlio", "matrix_rank.py"), plan], preload, env)
            environment = {k: v for k, v in processes.environment(self.args.python).items()
                           if not k.startswith("AWS_")}
            watch = Watch()
            status, reason = processes.run_job(command, environment, self.work, log, watch.look, 3 * processes.HANGS, idle=10)
            self.verdicts.tell(f"{side} {name}: no secret on a command line",
                               [repr(watch.shown)[:300]] if watch.shown else [])
            with open(log, "rb") as stream:
                text += stream.read()
            done = [run for run in left if any(running.reported(os.path.join(out, run.name), rank)["result"] != "stopped"
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
            bare, shim = (running.reported(os.path.join(self.work, side, f"n{ranks}", run.name), rank)
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
            (_, mine), (_, theirs) = (self.requests(seen[side, run.later][rank], run) for side in ("bare", "shim"))
            gets, steps = gets + sum(mine.values()), steps + sum(bare.get("steps", {}).values())
            # What a library of the fork's reads ahead it does until it is stopped: the last requests are there or not.
            ahead = run.library and (run.library == "s3dlio" or "reader.read_threads" not in run.options) and all(
                abs(mine[key] - theirs[key]) <= 1 for key in set(mine) | set(theirs))
            if bare["result"] == "ok" or not run.library:  # else it ends when the first rank fails
                lines += opens_difference(mine, theirs, counts=not ahead)
            if not run.library and run.lazy and (bare["result"] != "ok" or not mine):
                lines.append(f"rank {rank}: {summary(bare)} unmodified, {sum(mine.values())} requests:"
                             " this comparison is worth nothing")
            if run.direct:
                opens = [read_opens(os.path.join(self.work, side, f"n{ranks}", run.name, f"rank{rank}.log"))
                         for side in ("bare", "shim")]
                gets += sum(opens[0].values())
                lines += opens_difference(*opens) or ["nothing was opened"] * (not opens[0])
            known = not run.library or run.skips()  # else DLIO lists, and what it has made is compressed
            if shim["result"] == "ok" and known and (shim["list_type"] != "list") != run.lazy:
                lines.append(f"rank {rank}: its list is a {shim['list_type']}")
        return lines, f"{gets} requests, {steps} steps, {' or '.join(self.ends('bare', run, ranks))[:150]}"

    def ends(self, side, run, ranks):
        """How those ranks ended that were not ended by another."""
        results = [running.reported(os.path.join(self.work, side, f"n{ranks}", run.name), rank) for rank in range(ranks)]
        return {self.plain(result) for result in results if result["result"] != "stopped"}

    def plain(self, result):
        """How it ended, without ports and times."""
        return re.sub(r"127\.0\.0\.1:[0-9]+|localhost:[0-9]+|tx[0-9a-f-]{20,}[^ ]*|after [0-9.]+s", "#",
                      summary(result).replace(self.work, "#"))

    def both(self, ranks, chosen):
        """Both sides; each rank with its own proxy."""
        for run in chosen:
            self.fill(run)
        seen, texts = {}, {}
        for side in ("bare", "shim"):
            begin, texts[side] = time.monotonic(), b""
            for later in (False, True):
                some = [run for run in chosen if run.later == later]
                more = [f"{run.prefix()}/{kind}/img_000_of_more.{run.format}" for run in some for kind, _ in run.sets()]
                for key in more if later else ():
                    self.put(key, self.body(some[0].format, some[0].samples))
                with contextlib.ExitStack() as stack:
                    proxies = seen[side, later] = [stack.enter_context(Proxy(self.endpoint)) for _ in range(ranks)]
                    texts[side] += self.job(side, f"n{ranks}", ranks, some, proxies)
                for key in more if later else ():
                    self.client.delete_object(Bucket=BUCKET, Key=key)
            print(f"      n{ranks} {side}: {time.monotonic() - begin:.0f} s", flush=True)
        for run in chosen:
            lines, note = self.compare(run, ranks, seen)
            if run.says and run.says.encode() not in texts["shim"]:
                lines.append(f"nothing is said of {run.says!r}")
            self.verdicts.tell(f"n{ranks} {run.name} ({note})", lines)
        # What the fork's libraries print of it they print unmodified, too.
        text = self.cached() + (b"" if chosen[0].library else texts["shim"])
        found = [word for word in (SECRET, "wrongSecret/9") if word.encode() in text]
        if not chosen[0].library and b"listing 's3://" not in texts["shim"]:
            found.append("the text that was looked for in vain is not the library's")
        self.verdicts.tell(f"n{ranks}: no secret in a file of the cache, or in the library's output", found)

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
                self.job(side, f"one{ranks}", ranks, chosen, [proxy])
            for run in chosen:
                result = running.reported(os.path.join(self.work, side, f"one{ranks}", run.name), 0)
                if result["result"] != "ok":
                    continue
                for kind, _ in run.sets():
                    agents = [headers.get("user-agent", "") for target, headers in proxy.seen
                              if dict(urllib.parse.parse_qsl(target.partition("?")[2])).get("prefix")
                              == f"{run.prefix()}/{kind}/"]
                    good = len(agents) == 1 and agents[0].startswith("libshard")
                    if side == "bare":
                        good = len(agents) == ranks
                    self.verdicts.tell(f"n{ranks} {run.name}: {len(agents)} LIST requests for {kind},"
                                       f" {side}", [] if good else [repr(agents)])


def has_direct(tree):
    """Whether `storage_type: direct_fs` is read by s3dlio there."""
    with open(os.path.join(tree, "dlio_benchmark", "storage", "storage_factory.py"), encoding="utf-8") as stream:
        return "LOCAL_FS or storage_type == StorageType.DIRECT_FS" not in stream.read()


def cannot(args):
    """Why there is nothing to run, or None."""
    done = subprocess.run([args.python, "-c", "import s3torchconnector"], env=processes.environment(args.python),
                          capture_output=True, check=False)
    return "this interpreter has no s3torchconnector (pip install s3torchconnector)" if done.returncode else None


def main():
    """Run all; the exit status is 1 if any differs."""
    confine.begin()
    processes.end_jobs_on_signals()
    parser = options.parser(__doc__, "preload", "openlog", "python", "dlio", "workdir", "filter", "env")
    parser.add_argument("--ranks", default="1,2")
    args = options.parse(parser)
    if not args.dlio:
        parser.error("--dlio is required")
    storage = os.path.join(args.dlio, "dlio_benchmark", "storage")
    fork = os.path.exists(os.path.join(storage, "obj_store_lib.py"))
    why = None if fork else cannot(args)
    if not fork and not os.path.exists(os.path.join(storage, "s3_torch_storage.py")):
        why = "this DLIO reads no buckets"
    if why:
        print(f"skip  storage_type s3: {why}")
        return 0
    if args.workdir:
        shutil.rmtree(args.workdir, ignore_errors=True)
    work = options.work_folder(args, "dlio-s3-")
    with s3.server(os.path.join(work, "server"), ACCESS, SECRET) as endpoint:
        tests = Tests(args, work, endpoint)
        for ranks in map(int, args.ranks.split(",")):
            chosen = [run for run in (libraries() if fork else connector(ranks)) if re.search(args.filter, run.name)
                      and (not run.direct or has_direct(args.dlio))]
            tests.both(ranks, chosen)
            tests.counted(ranks, [run for run in chosen if run.counted])
    return tests.verdicts.conclude(work, args.workdir)


if __name__ == "__main__":
    sys.exit(main())
