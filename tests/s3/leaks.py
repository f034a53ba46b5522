"""No secret in anything that libshard writes or shows."""
import contextlib
import os
import subprocess

from tests.harness import paths, processes
from tests.harness.proxy import Proxy
from tests.s3.fixture import SECRET, TOKEN

SECRETS = [s.encode() for s in (SECRET, TOKEN, "wrongSecret/9", "Signature=", "AWS4-HMAC", "GOOG4-HMAC")]


def command_lines(above):
    """Of a process and all that descend from it: what others on the machine were given is not ours."""
    for pid in processes.process_tree(above):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as stream:
            yield stream.read()


def secrets(s3):
    """Outputs, logs at their most talkative, what is kept, command lines."""
    check = s3.check
    s3.bucket("secrets")
    s3.put("secrets", *(f"train/{i}" for i in range(20)))
    folders = {name: os.path.join(s3.folder, "secrets", name) for name in ("tree", "cache", "stats",
                                                                           "scratch")}
    for folder in folders.values():
        os.makedirs(folder)
    seen = set()

    def look(_):
        """Who asks is there."""
        seen.update(command_lines(os.getpid()))

    with Proxy(s3.endpoint, fault=look) as proxy:
        made = os.path.join(folders["scratch"], "x.listing")
        s3.run("index", "s3://secrets/train/", "-o", made, endpoint=proxy.endpoint, TMPDIR=folders["scratch"],
               AWS_SESSION_TOKEN=TOKEN)
        s3.client.upload_file(made, "secrets", "x.listing")
        env = s3.environment(
            proxy.endpoint, LD_PRELOAD=paths.LIBRARY, SHARD_DATASET=folders["tree"] +
            "=s3://secrets/train",
            SHARD_RANK="0", SHARD_SIZE="1", SHARD_JOB="secrets", SHARD_LISTING="s3://secrets/x.listing",
            SHARD_CACHE_DIR=folders["cache"], SHARD_STATS=folders["stats"],
            TMPDIR=folders["scratch"], AWS_SESSION_TOKEN=TOKEN)
        rank = subprocess.Popen(("ls", folders["tree"]), env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        out, err = rank.communicate(timeout=processes.HANGS)
        s3.output += out + err
        check("a job with a session token", out.count(b"\n") == 20 and
              [r[0] for r in proxy.replies] == ["GET", "GET"], (out, err, proxy.replies))
    # so that there is output to be searched, if this part runs alone
    s3.run("ls", "s3://secrets/train")
    check("shardctl's command line was seen", any(b"\0index\0s3:" in line for line in seen), seen)
    found = [(s, line) for s in SECRETS for line in seen if s in line]
    check("no secret in a command line", not found, found)
    kept, found = 0, []
    places = [folders[n] for n in folders] + [os.path.join(s3.folder, n) for n in ("cache", "node0",
                                                                                   "node1")]
    for path in (os.path.join(where, name) for place in places for where, _, names in os.walk(place)
                 for name in names):
        if os.path.islink(path):
            text = os.fsencode(os.readlink(path))
        else:
            with open(path, "rb") as stream:
                text = stream.read()
        kept += len(text)
        found += [(path, s) for s in SECRETS if s in text]
    check("no secret in caches, listings and statistics", len(os.listdir(folders["stats"])) == 1 and
          kept > 1000 and not found, (found, kept, os.listdir(folders["stats"])))
    found = [s for s in SECRETS if s in s3.output]
    check("no secret in any output", b"HTTP 200" in s3.output and not found, found)
