"""DLIO's own `storage_type: s3`: the same run from a bucket, unmodified and under the preload.

    python -m tests.dlio.s3_dlio --dlio /path/to/tree [--python ...] [--preload LIB]

MLCommons' fork has other object stores: s3_fork.py runs those.

For trees that have it (argonne-lcf's main; PyPI's 2.0.0 has not) and an interpreter that has
s3torchconnector. The server is scripts/s3-server.sh's, behind a proxy that sees every request; the
objects are put there by boto3. Compared are, for each rank, the objects that all its processes
have asked for and how often, the steps, the lists; and how often the bucket was listed.
"""
import collections
import io
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse

import numpy

from tests.dlio.matrix import summary
from tests.dlio.matrix_rank import reported
from tests.harness import options, paths, processes, s3
from tests.harness.opens import opens_difference, read_opens
from tests.harness.processes import tail
from tests.harness.proxy import Proxy
from tests.harness.verdicts import Verdicts

# Of this test alone: /proc is searched for it while the runs last.
ACCESS, SECRET = "AKIDTESTTESTTEST0003", "testSecretOfS3NativeDLIO/+0123456789"
BUCKET = "dlio"

# Notes every object that a process asks for, workers of any kind included.
NOTE_OPENS = '''
import os
try:
    from s3torchconnector._s3client import S3Client
except ImportError:
    S3Client = None
if S3Client is not None:
    get_object = S3Client.get_object
    def noted(self, bucket, key, **more):
        if "OPENLOG" in os.environ:
            log = os.open(os.environ["OPENLOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(log, ("get %s/%s\\n" % (bucket, key)).encode())
            os.close(log)
        return get_object(self, bucket, key, **more)
    S3Client.get_object = noted
'''


def runs(ranks):
    """(name, dataset, options, lazy) of what is run; a dataset is (name, format, samples per file,
    train, valid). What would stop one rank before the other, and so the job, is for one rank."""
    zipped, arrays = ("zipped", "npz", 1, 32, 16), ("arrays", "npy", 4, 16, 8)
    no_workers, spawn = {"reader.read_threads": 0}, {"reader.multiprocessing_context": "spawn"}
    chosen = [
        ("npz", zipped, {}, True),
        ("npz-no-workers", zipped, no_workers, True),
        ("npz-spawn", zipped, spawn, True),
        ("npy-4", arrays, {}, True),
        ("npz-shuffled", zipped, {"reader.sample_shuffle": "seed", "reader.file_shuffle": "seed"}, True),
        ("npz-again", zipped, {"train.epochs": 1}, True),  # the bucket has got more objects
        ("npz-fewer", zipped, {"dataset.num_files_train": 20, "workflow.evaluation": False}, True),
        ("npz-too-many", zipped, {"dataset.num_files_train": 1000}, False),
        ("npz-trimmed", ("cut", "npz", 1, 27, 13), {}, True),
        ("npz-odd", ("odd", "npz", 1, 24, 8), {}, True),
        ("npz-hostile", ("hostile", "npz", 1, 8, 4), no_workers, False),
        ("npz-folder-below", ("below/two levels", "npz", 1, 8, 4), {}, True),
        ("npz-no-valid", ("alone", "npz", 1, 8, 0), {"workflow.evaluation": False}, True),
        ("npz-iterative", zipped, {"reader.data_loader_sampler": "iterative", "reader.read_threads": 1}, False),
        ("npz-sub-folders", zipped, {"dataset.num_subfolders_train": 4}, False),
        ("npz-no-bucket", ("s3://nobucket/x", "npz", 1, 8, 4), {}, False),
        ("npz-wrong-secret", zipped, {"storage.storage_options.secret_access_key": "wrongSecret/9"}, False),
    ]
    alone = ("npz-hostile", "npz-iterative")
    few = ("npz-no-workers", "npy-4", "npz-again", "npz-no-valid") + alone
    return [run for run in chosen if (run[0] in few if ranks == 1 else run[0] not in alone)]


ODD = ["blank in it", "plus+", "percent%20", "quote'\"", "and&<>", "\u00e9 \u65e5\u672c", "\U0001f600", "sub/img",
       "sub//two", "./dot", "..", "hash#?", "~", "-", "IMG"]


def content(fmt, samples):
    """A data file's bytes."""
    data = io.BytesIO()
    records = numpy.random.default_rng(1).integers(255, size=(8, 8, samples), dtype=numpy.uint8)
    if fmt == "npz":
        numpy.savez(data, x=records, y=[0] * samples)
    else:
        numpy.save(data, records)
    return data.getvalue()


def folder_of(name):
    """data_folder of a dataset."""
    return name if name.startswith("s3://") else f"s3://{BUCKET}/{name}"


class Server:
    """The bucket."""

    def __init__(self, endpoint):
        self.client = s3.client(endpoint, ACCESS, SECRET)
        self.client.create_bucket(Bucket=BUCKET)

    def put(self, name, body=b"?"):
        """An object."""
        self.client.put_object(Bucket=BUCKET, Key=name, Body=body)

    def fill(self, dataset):
        """A dataset; other things among it."""
        name, fmt, samples, *counts = dataset
        if folder_of(name) == name:
            return
        body = content(fmt, samples)
        for kind, count in zip(("train", "valid"), counts):
            stems = [f"img_{i:02d}_of_{count}" for i in range(count)]
            if name == "odd":
                stems[1:1 + min(len(ODD), count - 1)] = ODD[:count - 1]
            if name == "hostile":
                stems[3] = "/img_03"
            for stem in stems:
                self.put(f"{folder_of(name)}/{kind}/{stem}.{fmt}", body)
            if count:
                for other in ("", "README.txt", "x/", f"img.{fmt}.tmp", f"img.{fmt.upper()}"):
                    self.put(f"{folder_of(name)}/{kind}/{other}")
        self.put(f"{folder_of(name)}/train2/img.{fmt}")
        self.put(f"{name}/train/img.{fmt}")


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


def common(folder, fmt, samples, counts, output):
    """The options that all runs on S3 have; counts: of the files to train and to evaluate with."""
    return {
        "framework": "pytorch", "reader.data_loader": "pytorch",
        "workflow.generate_data": False, "workflow.train": True, "workflow.evaluation": True,
        "workflow.checkpoint": False, "workflow.profiling": False,
        "storage.storage_type": "s3", "storage.storage_root": BUCKET,
        "storage.storage_options.access_key_id": ACCESS,
        "storage.storage_options.secret_access_key": SECRET,
        "storage.storage_options.region": "us-east-1",
        "storage.storage_options.s3_force_path_style": "true",
        "dataset.data_folder": folder, "dataset.format": fmt,
        "dataset.num_files_train": counts[0], "dataset.num_files_eval": counts[1],
        "dataset.num_samples_per_file": samples, "dataset.num_subfolders_train": 0,
        "dataset.num_subfolders_eval": 0, "dataset.record_length_bytes": 64,
        "reader.batch_size": 2, "reader.batch_size_eval": 1, "reader.read_threads": 2,
        "train.epochs": 2, "train.computation_time": 0.0, "evaluation.eval_time": 0.0,
        "output.folder": output, "checkpoint.checkpoint_folder": output + "-checkpoints"}


class Runs:
    """The folders and commands of one invocation."""

    def __init__(self, args, work, endpoint):
        self.args, self.work, self.endpoint = args, work, endpoint
        self.site = os.path.join(work, "site")
        os.makedirs(self.site)
        with open(os.path.join(self.site, "sitecustomize.py"), "w", encoding="utf-8") as stream:
            stream.write(NOTE_OPENS)
        self.environment = processes.environment(args.python, args.dlio)
        self.verdicts = Verdicts()

    def settings(self, run, endpoint, output):
        """The run's options."""
        _, (name, fmt, samples, train, valid), more, _ = run
        return {
            **common(folder_of(name), fmt, samples, (train, valid), output),
            "storage.storage_options.endpoint_url": endpoint,
            "storage.storage_options.s3_max_attempts": "2", **more}

    def job(self, side, ranks, part, chosen):
        """Run them in one MPI job. (requests, what it wrote, what its processes showed)"""
        out = os.path.join(self.work, side, f"n{ranks}")
        os.makedirs(out, exist_ok=True)
        log, plan = os.path.join(out, f"job{part}.log"), os.path.join(out, f"plan{part}.json")
        watch = Watch()
        with Proxy(self.endpoint) as proxy:
            with open(plan, "w", encoding="utf-8") as stream:
                json.dump({"out": out, "configs": [
                    {"name": run[0], "options": self.settings(run, proxy.endpoint, os.path.join(out, run[0], "output"))}
                    for run in chosen]}, stream)
            env = {"PYTHONPATH": os.pathsep.join([self.site, os.path.abspath(self.args.dlio)])}
            preload = []
            if side == "shim":
                env.update(SHARD_CACHE_DIR=os.path.join(self.work, "cache"), SHARD_LOG="debug")
                preload = [self.args.preload]
            command = processes.mpi_command(ranks, [self.args.python, paths.source("dlio", "matrix_rank.py"), plan],
                                         preload, env)
            environment = {k: v for k, v in self.environment.items() if not k.startswith("AWS_")}
            status, reason = processes.run_job(command, environment, self.work, log, watch.look, 600)
            if status != 0 or reason:
                self.verdicts.tell(f"{side} n{ranks} part {part}", [f"the job failed: {status} {reason}", tail(log, 40)])
            with open(log, "rb") as stream:
                return list(proxy.seen), stream.read(), watch.shown

    def result(self, side, ranks, name, rank):
        """What a rank reported."""
        folder = os.path.join(self.work, side, f"n{ranks}", name)
        result = reported(folder, rank)
        return result, (read_opens(os.path.join(folder, f"rank{rank}.log")) if result["result"] != "stopped"
                        else collections.Counter())

    def compare(self, ranks, run):
        """Differences as lines, and the sums of opens and steps."""
        lines, opens, steps = [], 0, 0
        for rank in range(ranks):
            bare, bare_opens = self.result("bare", ranks, run[0], rank)
            shim, shim_opens = self.result("shim", ranks, run[0], rank)
            opens, steps = opens + sum(bare_opens.values()), steps + sum(bare.get("steps", {}).values())
            if summary(bare) != summary(shim):
                lines.append(f"rank {rank}: {summary(bare)} unmodified, {summary(shim)} under the preload")
                lines += shim.get("traceback", "").splitlines()[-8:]
            for key in ("steps", "list", "samples"):
                if bare.get(key) != shim.get(key):
                    lines.append(f"rank {rank}: {key} {bare.get(key)} unmodified, {shim.get(key)} under the preload")
            lines += opens_difference(bare_opens, shim_opens)
            if shim["result"] == "ok" and (shim["list_type"] == "FileList") != run[3]:
                lines.append(f"rank {rank}: its list is a {shim['list_type']}")
            if run[3] and (bare["result"] != "ok" or not bare_opens):
                lines.append(f"rank {rank}: {summary(bare)} unmodified, {sum(bare_opens.values())} opens:"
                             " this comparison is worth nothing")
        return lines, f"{opens} opens, {steps} steps, {summary(self.result('bare', ranks, run[0], 0)[0])[:120]}"


def lists_and_gets(seen):
    """(LIST requests by prefix, GET requests by key) of a proxy's requests."""
    lists, gets = collections.Counter(), collections.Counter()
    for target, _ in seen:
        path, _, query = target.partition("?")
        fields = dict(urllib.parse.parse_qsl(query))
        if "list-type" in fields:
            lists[fields.get("prefix", "")] += 1
        else:
            gets[urllib.parse.unquote(path)] += 1
    return lists, gets


def both(tests, server, ranks, chosen):
    """Both sides, in two jobs each: between them the bucket gets more objects."""
    more = [f"{folder_of('zipped')}/{kind}/img_000_of_more.npz" for kind in ("train", "valid")]
    requests = {}
    for side in ("bare", "shim"):
        halt = [run[0] for run in chosen].index("npz-again")
        seen, text, shown = [], b"", b""
        for part, some in enumerate((chosen[:halt], chosen[halt:])):
            if part:
                for key in more:
                    server.put(key, content("npz", 1))
            one = tests.job(side, ranks, part, some)
            seen, text, shown = seen + one[0], text + one[1], shown + one[2]
        for key in more:
            server.client.delete_object(Bucket=BUCKET, Key=key)
        requests[side] = lists_and_gets(seen)
        tests.verdicts.tell(f"n{ranks} {side}: no secret on a command line", [repr(shown)[:300]] if shown else [])
        if side == "shim":
            cache = os.path.join(tests.work, "cache")
            for name in os.listdir(cache):
                with open(os.path.join(cache, name), "rb") as stream:
                    text += stream.read()
            found = [word for word in (SECRET, "wrongSecret/9") if word.encode() in text]
            if b"listing 's3://" not in text:
                found.append("the text that was looked for in vain is not the library's")
            tests.verdicts.tell(f"n{ranks}: no secret in any output or file", found)
    for run in chosen:
        lines, note = tests.compare(ranks, run)
        tests.verdicts.tell(f"n{ranks} {run[0]} ({note})", lines)
    (bare, bare_gets), (shim, shim_gets) = requests["bare"], requests["shim"]
    tests.verdicts.tell(f"n{ranks}: the server was asked for the same objects, {sum(bare_gets.values())} requests",
                opens_difference(bare_gets, shim_gets))
    print(f"      n{ranks}: {sum(bare.values())} LIST requests unmodified, {sum(shim.values())} under the preload")
    # Only of "alone": its prefixes are listed in one run, train by shardctl alone.
    alone = f"{folder_of('alone')}/train/"
    tests.verdicts.tell(f"n{ranks}: one listing for all ranks", [] if (bare[alone], shim[alone]) == (ranks, 1) else
                [f"LIST requests for {alone}: {bare[alone]} unmodified, {shim[alone]} under the preload"])


def parse_arguments():
    """The command line."""
    parser = options.parser(__doc__, "preload", "openlog", "python", "dlio", "workdir",
                            "filter", "env")
    parser.add_argument("--ranks", default="1,2")
    args = options.parse(parser)
    if not args.dlio:
        parser.error("--dlio is required")
    return args


def cannot(args):
    """Why there is nothing to run, or None."""
    if not os.path.exists(os.path.join(args.dlio, "dlio_benchmark", "storage", "s3_torch_storage.py")):
        return "this DLIO has no storage by s3torchconnector"
    done = subprocess.run([args.python, "-c", "import s3torchconnector"], env=processes.environment(args.python),
                          capture_output=True, check=False)
    return "this interpreter has no s3torchconnector (pip install s3torchconnector)" if done.returncode else None


def main():
    """Run all; the exit status is 1 if any differs."""
    processes.end_jobs_on_signals()
    args = parse_arguments()
    if os.path.exists(os.path.join(args.dlio, "dlio_benchmark", "storage", "obj_store_lib.py")):
        from tests.dlio import s3_fork  # pylint: disable=import-outside-toplevel,cyclic-import

        if args.workdir:
            shutil.rmtree(args.workdir, ignore_errors=True)
        return s3_fork.main(args, options.work_folder(args, "dlio-s3-"))
    why = cannot(args)
    if why:
        print(f"skip  storage_type s3: {why}")
        return 0
    if args.workdir:
        shutil.rmtree(args.workdir, ignore_errors=True)
    work = options.work_folder(args, "dlio-s3-")
    with s3.server(os.path.join(work, "server"), ACCESS, SECRET) as endpoint:
        server = Server(endpoint)
        for dataset in {run[1][0]: run[1] for run in runs(1) + runs(2)}.values():
            server.fill(dataset)
        tests = Runs(args, work, endpoint)
        for ranks in map(int, args.ranks.split(",")):
            begin = time.monotonic()
            both(tests, server, ranks, runs(ranks))
            print(f"      n{ranks}: {time.monotonic() - begin:.0f} s", flush=True)
    return tests.verdicts.conclude(work, args.workdir)


if __name__ == "__main__":
    sys.exit(main())
