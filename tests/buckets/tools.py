"""The aws CLI, epochs, what an import costs, statistics."""
import ast
import json
import os
import shutil
import subprocess

from tests.buckets.fixture import ACCESS, PYTHON, SECRET, Child, site
from tests.harness import paths, statlogs
from tests.harness.processes import HANGS
from tests.harness.proxy import Proxy
from tests.s3.hosts import certificate


def awscli(buckets):
    """aws CLI v1 lists to mirror and to delete: it sees everything, and one line says so."""
    command = [PYTHON, "-m", "awscli", "--endpoint-url", buckets.endpoint, "s3", "ls", "--recursive", "s3://train/"]
    newest = f"{paths.REPO}:{site(os.path.dirname(os.path.dirname(paths.VENV_PYTHON)))}"
    bare = subprocess.run(command, env=buckets.environment(PYTHONPATH=newest), capture_output=True, timeout=HANGS, check=False)
    env = buckets.shard_environment("s3://train/train/", 1, 2, PYTHONPATH=newest)
    done = subprocess.run(command, env=env, capture_output=True, timeout=HANGS, check=False)
    lines = done.stderr.decode().splitlines()
    buckets.check("aws CLI v1: all keys", bare.returncode == 0 == done.returncode and bare.stdout == done.stdout and
                  len(bare.stdout.splitlines()) == len(buckets.made["train"]), (bare.stderr, done.stderr, len(done.stdout)))
    buckets.check("aws CLI v1: one warning", len(lines) == 1 and "aws" in lines[0].lower(), lines)


def ended(buckets):
    """A rank that has listed nothing is told of it at its end: by its node's first rank, whoever lists."""
    lists = "import boto3, os; boto3.client('s3').list_objects_v2(Bucket='train', Prefix='train/')"
    worker = ("import multiprocessing, boto3\ndef work():\n  {}\nif __name__ == '__main__':\n  one = "
              "multiprocessing.get_context('{}').Process(target=work)\n  one.start()\n  one.join()")
    reads = "import boto3; boto3.client('s3').get_object(Bucket='train', Key='{}')".format(
        next(key for key, _, _ in buckets.made["train"] if key.startswith("train/")).replace("'", "\\'"))
    script = os.path.join(buckets.folder, "ends.py")
    one, other = {}, {"SHARD_DATASET": "s3://train/train:s3://train/none"}
    for label, text, rank, more, told in (
            ("a client that only reads", reads, 0, one, ["s3://train/train/"]), ("the same in another rank", reads, 1, one, []),
            ("a client of its own", "import urllib.request, ssl", 0, one, ["s3://train/train/"]),
            ("one of two datasets", lists, 0, other, ["s3://train/none/"]),
            ("nothing that reaches a server", "import json", 0, one, []), ("a listing", lists, 0, one, []),
            ("a worker's listing, fork", worker.format(lists, "fork"), 0, one, []),
            ("a worker's listing, spawn", worker.format(lists, "spawn"), 0, one, []),
            ("a listing by a child", f"import boto3, subprocess, sys; subprocess.run([sys.executable, '-c', {lists!r}])", 0, one, []),
            ("an error", reads + "; raise ValueError('the only line')", 0, one, []),
            ("no rank", reads, 0, {"SHARD_RANK": None, "SHARD_SIZE": None}, [])):
        with open(script, "w", encoding="utf-8") as stream:
            stream.write(text)
        buckets.jobs += 1
        env = buckets.shard_environment("s3://train/train", rank, 2, **more)
        done = subprocess.run([PYTHON, script], env=env, capture_output=True, timeout=HANGS, check=False)
        said = [line for line in done.stderr.decode().splitlines() if line.startswith("libshard")]
        buckets.check(f"the end after {label}", len(said) == len(told) and (done.returncode == 0 or label == "an error") and
                      all(url in line and "has ended" in line for url, line in zip(told, said)), done.stderr[-600:])


def tls(buckets):
    """A certificate is verified as the client does it: by a file of CAs, not at all, or in vain."""
    certificate(buckets.folder, "ca", None)
    context = certificate(buckets.folder, "right", "IP:127.0.0.1", "ca")
    bundle, unknown = os.path.join(buckets.folder, "ca.pem"), os.path.join(buckets.folder, "right.pem")
    boto = "import boto3; pages = boto3.client('s3', verify={}).get_paginator('list_objects_v2').paginate(" \
           "Bucket='train', Prefix='train/'); print([e['Key'] for page in pages for e in page.get('Contents', [])])"
    fsspec = "import s3fs; print(s3fs.S3FileSystem(client_kwargs={{'verify': {}}}).find('train/train'))"
    mini = "import minio, os, urllib3; print([one.object_name for one in minio.Minio(endpoint=os.environ['AWS_ENDPOINT_URL'" \
           "][8:], access_key='{}', secret_key='{}', http_client=urllib3.PoolManager({{}})).list_objects(bucket_name='train'," \
           " prefix='train/', recursive=True)])".format(ACCESS, SECRET)
    with Proxy(buckets.endpoint, tls=context) as proxy:
        for label, script, good in (
                ("boto3, a bundle", boto.format(repr(bundle)), True), ("boto3, verify=False", boto.format(False), True),
                ("s3fs, verify=False", fsspec.format(False), True), ("minio, no certificate", mini.format("cert_reqs='CERT_NONE'"), True),
                ("minio, a bundle", mini.format(f"cert_reqs='CERT_REQUIRED', ca_certs={bundle!r}"), True),
                ("boto3, another bundle", boto.format(repr(unknown)), False)):
            buckets.jobs += 1
            shutil.rmtree(os.path.join(buckets.folder, "cache"), ignore_errors=True)  # each makes the listing
            run = [subprocess.run([PYTHON, "-c", script], env=env, capture_output=True, timeout=HANGS, check=False) for env in
                   [buckets.environment(proxy.endpoint, AWS_MAX_ATTEMPTS="1")] + [
                       buckets.shard_environment("s3://train/train", rank, 2, proxy.endpoint, AWS_MAX_ATTEMPTS="1") for rank in range(2)]]
            if good:
                every, *shares = [sorted(ast.literal_eval(done.stdout.decode() or "[]")) for done in run]
                right = sorted(sum(shares, [])) == every and all(shares)
            else:
                right = all(done.returncode and b"CERTIFICATE_VERIFY_FAILED" in done.stderr for done in run)
            buckets.check(f"TLS: {label}", right, [done.stderr[-400:] for done in run])


def epochs(buckets):
    """A program sets SHARD_EPOCH before it lists; a page's epoch is that of the listing that it goes on with."""
    script = """
import boto3, json, os, sys
client, epochs = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"]), []
for epoch in range(3):
    os.environ["SHARD_EPOCH"] = str(epoch)
    client.list_objects_v2(Bucket="train", Prefix="train/", MaxKeys=1)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="train", Prefix="train/")
    epochs.append(keys := [])
    for page in pages:
        keys += [e["Key"] for e in page.get("Contents", []) if e["Key"][-1] != "/"]
        os.environ["SHARD_EPOCH"] = "77"
os.environ["SHARD_EPOCH"] = "0"
def begin(**more):
    pages = iter(client.get_paginator("list_objects_v2").paginate(Bucket="train", Prefix="train/", **more))
    return pages, next(pages).get("Contents", [])
first, open_one = begin(PaginationConfig={"PageSize": 7})
os.environ["SHARD_EPOCH"] = "1"
list(begin()[0])
epochs.append([e["Key"] for e in open_one + [e for page in first for e in page.get("Contents", [])] if e["Key"][-1] != "/"])
os.environ["SHARD_EPOCH"] = "0"
first, _ = begin(PaginationConfig={"PageSize": 7})
os.environ["SHARD_EPOCH"] = "1"
begin(PaginationConfig={"PageSize": 7})
try:
    print(len(list(first)), "pages of one epoch or the other")
except Exception as error:
    assert "two SHARD_EPOCHs" in str(error), error
os.environ["SHARD_EPOCH"] = "auto"
try:
    print(len(client.list_objects_v2(Bucket="train", Prefix="train/")["Contents"]), "keys in no epoch")
except Exception as error:
    assert "os.environ" in str(error), error
print(json.dumps(epochs))
"""
    buckets.jobs += 1
    shares = []
    for rank in range(2):
        env = buckets.shard_environment("s3://train/train/", rank, 2, SHARD_SEED="3", SHARD_STRATEGY="stride")
        done = subprocess.run([PYTHON, "-c", script], env=env, capture_output=True, timeout=HANGS, check=False)
        if done.returncode:
            buckets.check("epochs of a client", False, done.stderr.decode()[-800:])
            return
        shares.append(json.loads(done.stdout))
    every = sorted(k for k, _, _ in buckets.made["train"] if k.startswith("train/") and not k.endswith("/"))
    for place, epoch in (0, 0), (1, 1), (2, 2), (3, 0):
        owners = buckets.owners("s3://train/train/", 2, SHARD_STRATEGY="stride", SHARD_SEED="3", SHARD_EPOCH=str(epoch))
        buckets.check(f"epoch {epoch}{', while another begins' * (place == 3)}: complete, and as shardctl divides it",
                      sorted(shares[0][place] + shares[1][place]) == every and
                      all(owners[k] == rank for rank in range(2) for k in shares[rank][place]),
                      [len(share[place]) for share in shares])
    buckets.check("another share in each epoch", shares[0][0] != shares[0][1] != shares[0][2], shares[0][0][:3])


def tables(buckets):
    """A listing that meets a key of a table fails, in all pages of it; what lies beside the table is divided."""
    script = """
import boto3, json, sys
client, answers = boto3.client("s3"), []
if sys.argv[1:]:
    client.create_bucket(Bucket="lake")
    for key in "a/0 a/1 a/2 t/A.parquet t/_delta_log/0.json t/z.parquet z/0 z/1".split():
        client.put_object(Bucket="lake", Key="all/" + key, Body=b"")
for prefix, delimiter in ("a/", ""), ("z/", ""), ("", "/"), ("", ""), ("t/", ""), ("t/", "/"), ("t/z", ""):
    try:
        page = client.list_objects_v2(Bucket="lake", Prefix="all/" + prefix, Delimiter=delimiter)
        answers.append(sorted(e["Key"] for e in page.get("Contents", [])))
    except Exception as error:
        answers.append(str(error))
print(json.dumps(answers))
"""
    subprocess.run([PYTHON, "-c", script, "make"], env=buckets.environment(), capture_output=True, timeout=HANGS, check=True)
    for strategy in ("stride", "range", "hash"):
        buckets.jobs += 1
        ranks = [subprocess.run([PYTHON, "-c", script], env=buckets.shard_environment(
            "s3://lake/all/", rank, 2, SHARD_STRATEGY=strategy), capture_output=True, timeout=HANGS, check=False) for rank in range(2)]
        got = [json.loads(done.stdout or "[]") for done in ranks]
        shares = [sorted(sum((one[k] for one in got), [])) for k in range(2)]
        # by hash, nothing tells of a table where no key that is its log's is met
        wrong = [a for one in got for a in one[3:7 if strategy != "hash" else 5] if "'t' is a table (Delta Lake)" not in a]
        buckets.check(f"tables: {strategy}", shares == [[f"all/a/{k}" for k in range(3)], ["all/z/0", "all/z/1"]] and
                      all(one[2] == [] for one in got) and not wrong, [got, [done.stderr[-500:] for done in ranks]])


def samples(buckets):
    """SHARD_SAMPLE: the keys of a sample are one rank's, as shardctl has them; without it, sets are refused."""
    script = """
import boto3, json, sys
client, keys = boto3.client("s3"), []
if sys.argv[1:]:
    client.create_bucket(Bucket="sets")
    for stem in ["a/%d" % k for k in range(9)] + ["a/1-b", "a/1/x", "b", "c.d/0"]:
        for ending in ".jpg", ".txt":
            client.put_object(Bucket="sets", Key="all/" + stem + ending, Body=b"")
for page in client.get_paginator("list_objects_v2").paginate(Bucket="sets", Prefix="all/", PaginationConfig={"PageSize": 7}):
    keys += [e["Key"][4:] for e in page.get("Contents", [])]
print(json.dumps(keys))
"""
    made = subprocess.run([PYTHON, "-c", script, "make"], env=buckets.environment(), capture_output=True, timeout=HANGS, check=True)
    every = json.loads(made.stdout)
    for rule in ("stem", "directory", None):
        for strategy in ("stride", "range", "hash"):
            buckets.jobs += 1
            more = {"SHARD_STRATEGY": strategy, **({"SHARD_SAMPLE": rule} if rule else {})}
            ranks = [subprocess.run([PYTHON, "-c", script], env=buckets.shard_environment("s3://sets/all/", rank, 2, **more),
                                    capture_output=True, timeout=HANGS, check=False) for rank in range(2)]
            shares = [sorted(json.loads(done.stdout or "[]")) for done in ranks]
            if not rule:
                good = all(done.returncode and b"SHARD_SAMPLE=stem" in done.stderr for done in ranks) if strategy != "hash" else \
                    sorted(sum(shares, [])) == every
            else:
                told = [buckets.shardctl("ls", "s3://sets/all/", "--sample", rule, "--strategy", strategy, "--rank", str(rank), "--size", "2")
                        for rank in range(2)]
                good = shares == [sorted(done.stdout.decode().split()) for done in told] and sorted(sum(shares, [])) == every
            buckets.check(f"samples: {rule}, {strategy}", good, [shares, [done.stderr[-500:] for done in ranks]])


def remainders(buckets):
    """SHARD_REMAINDER: shares of as many keys, as shardctl has them; too few keys are an error."""
    every = {k for k, _, _ in buckets.made["train"] if k.startswith("train/") and not k.endswith("/")}
    asked = [["paginator", {"bucket": "train", "Prefix": "train/", "size": 7}],
             ["s3fs_find", {"bucket": "train", "prefix": "train"}]]
    size = next(n for n in (3, 4, 5) if len(every) % n)
    for strategy in ("range", "stride"):
        for how, each in (("drop", len(every) // size), ("repeat", len(every) // size + 1)):
            for seed in ({}, {"SHARD_SEED": "5"}):
                more = {"SHARD_STRATEGY": strategy, "SHARD_REMAINDER": how, **seed}
                lines, together = [], set()
                for rank, (answers, err) in enumerate(buckets.ranks(size, "s3://train/train/", asked, **more)):
                    done = buckets.shardctl("ls", "s3://train/train/", "-0", "--rank", str(rank), "--size", str(size),
                                            "--strategy", strategy, "--remainder", how, *(["--seed=5"] if seed else []))
                    want = sorted("train/" + name for name in done.stdout.decode().split("\0")[:-1])
                    together.update(want)
                    for answer in answers or [{}]:
                        got = sorted(k for k, _, _ in answer.get("keys", []) if k[-1] != "/")
                        if got != want or len(got) != each:
                            lines.append(f"rank {rank}: {len(got)} of {len(want)}, wanted {each}: {str(err)[-300:]}")
                if how == "repeat" and together != every:
                    lines.append("some are nobody's")
                buckets.tell(f"{strategy}, {how}, {seed or 'no seed'}: as many keys in each rank", lines)
    ((answers, err),) = buckets.ranks(len(every) + 1, "s3://train/train/", asked[:1], some=[0], SHARD_REMAINDER="drop")
    buckets.check("drop with fewer keys than ranks", "error" in answers[0] and "SHARD_REMAINDER" in str(answers[0]), (answers, err))


def imports(buckets):
    """Without a bucket among the datasets, a client brings in nothing of ours."""
    asked = [["modules", {}]]
    for label, dataset in (("no dataset", None), ("a directory", buckets.plain), ("a mounted bucket", f"{buckets.plain}/m=s3://train/train")):
        ((answers, err),) = buckets.ranks(2, dataset, asked, some=[0], SHARD_DATASET=dataset)
        buckets.check(f"imports with {label}", answers and answers[0].get("whole") == [], (answers, err))
    ((answers, err),) = buckets.ranks(2, "s3://train/train", asked, some=[0])
    found = answers[0].get("whole", []) if answers else []
    buckets.check("imports with a bucket: nothing of DLIO's", found and not any(
        ".dlio" in name for name in found), (found, err))


def statistics(buckets):
    """SHARD_STATS counts keys and objects; verify proves the partition, and finds a rank that is missing."""
    listing, get = ["paginator", {"bucket": "train", "Prefix": "train/"}], "get_all"
    listing_file = os.path.join(buckets.folder, "train.listing")
    buckets.shardctl("index", "s3://train/train/", "-o", listing_file).check_returncode()
    for how, dataset, more in (("range", "s3://train/train/", ()), ("hash", "s3://train/train", ("--listing", listing_file))):
        stats = os.path.join(buckets.folder, f"stats-{how}")
        owners = buckets.owners("s3://train/train/", 2, SHARD_STRATEGY=how)
        buckets.jobs += 1
        started = []
        for rank in range(2):
            own = [one for one in buckets.made["train"] if owners.get(one[0]) == rank]
            env = buckets.shard_environment(dataset, rank, 2, SHARD_STRATEGY=how, SHARD_STATS=stats)
            started.append(Child(env).ask("client:answers", [[listing, [get, {"bucket": "train", "keys": own}]]]))
        said = [child.answers() for child in started]
        for child in started:
            child.end()
        status, text = statlogs.verify(stats, *more)
        buckets.check(f"verify, {how}", status == 0, (text, said))
        for cell in statlogs.facts(stats, *more)["datasets"][0]["cells"]:
            count = list(owners.values()).count(cell.rank)
            own = count if how == "range" else cell.own
            buckets.check(f"stats, {how}, rank {cell.rank}", own == cell.own and cell.distinct == cell.read == count, (count, cell))
        for log in statlogs.Logs(stats).logs:
            if log.rank == 1:
                os.unlink(os.path.join(stats, log.name))
        status, text = statlogs.verify(stats, *more)
        buckets.check(f"verify without a rank, {how}", status == 1 and "rank 1 of 2 is missing" in text, text)
