"""The server, clients in processes of their own, and the one comparison that all parts make."""
import collections
import json
import os
import select
import subprocess
import tempfile

from tests.harness import paths, processes, s3
from tests.harness.verdicts import Verdicts

ACCESS, SECRET = "AKIDTESTTESTTEST0001", "testSecretKeyOfNoValue/+0123456789ABCDEFG"
VENV = os.path.join(paths.REPO, ".venv-buckets")
PYTHON = os.path.join(VENV, "bin", "python")
OLDEST = os.path.join(VENV, "oldest")
PAGE = 1000  # keys in a reply
LIMIT = 3600  # seconds for a call, of many ways of listing
LIVE = ("SHARD_JOB", "SHARD_RANK", "SHARD_SIZE")  # libshard reads these whenever it is asked, others as it is loaded
KEPT = 8  # processes of other environments than these


def site(venv):
    """A venv's packages."""
    (found,) = [os.path.join(path, "site-packages") for path in
                [os.path.join(venv, "lib", name) for name in os.listdir(os.path.join(venv, "lib"))]]
    return found


class Child:
    """A process of child.py, which calls functions of the tests."""

    def __init__(self, env, python=PYTHON):
        self._said, self._read = tempfile.TemporaryFile(), 0  # by the process itself, as it imports clients
        self._process = subprocess.Popen([python, "-m", "tests.buckets.child"], env=env, cwd=env["HOME"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        self._forks = []

    def ask(self, function, arguments, forks=({},)):
        """Call MODULE:NAME, of tests.buckets, in forks that have these variables; the Child."""
        self._forks = list(forks)
        self._process.stdin.write(json.dumps({"function": "tests.buckets." + function, "arguments": arguments,
                                              "forks": self._forks}).encode() + b"\n")
        self._process.stdin.flush()
        return self

    def answers(self):
        """[(what a fork has returned, what it and the process have written to stderr)]; None of one that died."""
        line = b""
        if select.select([self._process.stdout], [], [], LIMIT)[0]:
            line = self._process.stdout.readline()  # it is written at once
        else:
            processes.kill_tree(self._process.pid)
        self._said.seek(self._read)
        said = self._said.read().decode(errors="replace")
        self._read = self._said.tell()
        if not line:
            return [(None, f"exit status {self._process.wait()}: {said}")] * len(self._forks)
        return [(returned, said + words) for returned, words in json.loads(line)]

    def end(self):
        """Nothing more is asked."""
        self._process.stdin.close()
        self._process.wait(LIMIT)
        self._process.stdout.close()

    def has_ended(self):
        """Whether it can be asked no more."""
        return self._process.poll() is not None


class Buckets:
    """See above. made: what buckets have, {NAME: [[KEY, SIZE, ETAG]]}."""

    def __init__(self, folder, state, endpoint):
        self.folder, self.state, self.endpoint = folder, state, endpoint
        self.client = s3.client(endpoint, ACCESS, SECRET)
        self.verdicts = Verdicts()
        self.check, self.tell = self.verdicts.check, self.verdicts.tell
        self.made, self.known, self.jobs = {}, {}, 0
        self._children = {}  # environment -> Child, the latest last
        self.plain = os.path.join(folder, "plain")  # a directory, for a dataset
        os.mkdir(self.plain)

    def environment(self, endpoint=None, **more):
        """A program's. A value None removes a variable."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SHARD_", "LD_PRELOAD")) and
               not k.lower().endswith("_proxy")}
        env.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1",
                   AWS_DEFAULT_REGION="us-east-1", AWS_ENDPOINT_URL=endpoint or self.endpoint, HOME=self.folder,
                   TMPDIR=self.folder, AWS_EC2_METADATA_DISABLED="true", PYTHONDONTWRITEBYTECODE="1",
                   OMP_NUM_THREADS="1", PYTHONPATH=paths.REPO, PYTHONWARNINGS="ignore",
                   S3_USE_HTTPS="0", S3_ENDPOINT_URL=self.endpoint.partition("://")[2])  # torchdata's
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def shard_environment(self, dataset, rank, size, endpoint=None, **more):
        """The same under libshard."""
        own = {"LD_PRELOAD": paths.LIBRARY, "SHARD_DATASET": dataset, "SHARD_RANK": str(rank),
               "SHARD_SIZE": str(size), "SHARD_LOG": "warn", "SHARD_JOB": f"job{self.jobs}",
               "SHARD_CACHE_DIR": os.path.join(self.folder, "cache")}
        return self.environment(endpoint, **{**own, **more})

    def calls(self, function, arguments, environments, python=PYTHON):
        """[(what a function returns, {} if it died; stderr)] of forks that have these environments, which differ in
        LIVE variables only: all that are alike come from one process."""
        env = {k: v for k, v in environments[0].items() if k not in LIVE}
        key = json.dumps([python, env], sort_keys=True)
        child = self._children.pop(key, None) or Child(env, python)
        found = child.ask(function, arguments, [{k: v for k, v in each.items() if k in LIVE}
                                                for each in environments]).answers()
        if child.has_ended():
            child.end()
        else:
            self._children[key] = child
        while len(self._children) > KEPT:
            self._children.pop(next(iter(self._children))).end()
        return [(returned or {}, err) for returned, err in found]

    def call(self, function, arguments, env, python=PYTHON):
        """The same of one."""
        return self.calls(function, arguments, [env], python)[0]

    def without(self, function, arguments, **more):
        """The same without libshard."""
        return self.call(function, arguments, self.environment(**more))

    def bare(self, requests, **more):
        """Answers of clients without libshard."""
        key = json.dumps([requests, more], sort_keys=True)
        if key not in self.known:
            answers, err = self.without("client:answers", [requests], **more)
            if len(answers) != len(requests):
                self.check(f"bare: {[name for name, _ in requests]}", False, err)
                answers = [{"error": [["none"], "", []]}] * len(requests)
            self.known[key] = answers
        return self.known[key]

    def job(self, function, arguments, dataset, ranks, size, **more):
        """The same of some ranks of a job of its own, which run together."""
        self.jobs += 1
        return self.calls(function, arguments, [
            self.shard_environment(dataset, rank, size, **more) for rank in ranks])

    def ranks(self, size, dataset, requests, some=None, **more):
        """[(answers of clients, stderr)] of all ranks, or of some."""
        return [(returned or [], err) for returned, err in self.job(
            "client:answers", [requests], dataset, some or range(size), size, **more)]

    def close(self):
        """End the processes that are left."""
        for child in self._children.values():
            child.end()

    def shardctl(self, *words):
        """One that has ended."""
        return subprocess.run([paths.SHARDCTL, *words], env=self.environment(), capture_output=True, timeout=processes.HANGS,
                              check=False)

    def owners(self, dataset, size, **more):
        """{KEY: rank} as `shardctl ls` divides a bucket, or its listing: what directories and mounted buckets do."""
        options = [f"--{name}={more[variable]}" for name, variable in
                   (("strategy", "SHARD_STRATEGY"), ("seed", "SHARD_SEED"), ("epoch", "SHARD_EPOCH"))
                   if variable in more]
        owners = {}
        for rank in range(size):
            done = self.shardctl("ls", dataset, "--uri", "-0", "--rank", str(rank), "--size", str(size), *options)
            if done.returncode:
                self.check(f"shardctl ls {dataset}", False, done.stderr)
            for uri in done.stdout.decode().split("\0")[:-1]:
                owners[uri.split("/", 3)[3]] = rank
        return owners

    def compare(self, label, requests, bare, ranks, owners, prefix=""):
        """Each way of listing: complete, nothing twice, each rank its own; the rest as without libshard.

        prefix: of the dataset. Keys outside it, and one that is the request's own Prefix, all ranks see.
        """
        lines = []
        for rank, (answers, err) in enumerate(ranks):
            if len(answers) != len(requests):
                lines.append(f"rank {rank} died: {err[-1200:]}")
        if lines:
            self.tell(label, lines)
            return
        markers = collections.defaultdict(list)  # of how many ranks a marker is: [which request]
        for number, (name, asked) in enumerate(requests):
            what = f"{name} {short(asked)}"
            given = [answers[number] for answers, _ in ranks]
            for line in self.differences(asked, bare[number], given, owners, prefix, markers, what):
                lines.append(f"{what}: {line}")
        if len(markers) > 1:
            lines.append(f"folder markers are treated in several ways: { {k: v[:4] for k, v in markers.items()} }")
        self.tell(label, lines[:12])

    @staticmethod
    def differences(asked, bare, given, owners, prefix, markers, what):
        """Lines about one way of listing."""
        if "error" in bare or bare["wrong"]:
            yield f"without libshard: {str(bare)[-600:]}"
            return
        count = collections.Counter()
        for rank, one in enumerate(given):
            if "error" in one:
                # A folder of which nothing is this rank's: s3fs.ls finds no such folder.
                if "FileNotFoundError" in str(one["error"][0]) and rank not in {
                        owners.get(key) for key, _, _ in bare["keys"]}:
                    continue
                yield f"rank {rank}: {str(one['error'])[-600:]}"
                continue
            if one["wrong"]:
                yield f"rank {rank}: {one['wrong']}"
            if sorted(map(str, one["whole"])) != sorted(map(str, bare["whole"])):
                yield f"rank {rank}: folders {one['whole'][:5]} for {bare['whole'][:5]}"
            count.update(json.dumps(item) for item in one["keys"])
            if [k.encode() for k, _, _ in one["keys"]] != sorted(k.encode() for k, _, _ in one["keys"]) and \
                    [k.encode() for k, _, _ in bare["keys"]] == sorted(k.encode() for k, _, _ in bare["keys"]):
                yield f"rank {rank}: not in the order of the keys"
            strange = [k for k, _, _ in one["keys"] if k.startswith(prefix) and not k.endswith("/") and
                       k != asked.get("prefix", asked.get("Prefix")) and owners.get(k) != rank]
            if strange and not what.startswith(("get_all", "s3fs_others", "google_get")):
                yield f"rank {rank}: {len(strange)} keys of others: {strange[:3]}"
        if any("error" in one for one in given) and not count:
            return
        everywhere = what.startswith(("get_all", "s3fs_others", "google_get"))
        wanted = collections.Counter(json.dumps(item) for item in bare["keys"])
        for item, times in wanted.items():
            key = json.loads(item)[0]
            seen = count.pop(item, 0)
            if everywhere or not key.startswith(prefix) or (
                    key == asked.get("prefix", asked.get("Prefix")) and not key.endswith("/")):
                times *= len(given)
            elif key.endswith("/") and what.startswith(("folders", "s3fs_walk", "s3fs_ls")) and seen == times * len(given):
                continue  # it was the request's own prefix as the program went down into the folder
            elif key.endswith("/"):
                markers["left out" if seen == 0 else "divided" if seen == times else seen].append((key, what))
                continue
            if seen != times:
                yield f"{key[:60]!r} seen {seen} times, not {times} ({item[-60:]})"
        for item in list(count)[:3]:
            yield f"no client finds this without libshard: {item[:200]}"


def short(asked):
    """Arguments, for people."""
    return {k: v if len(str(v)) < 60 else "..." for k, v in asked.items()}
