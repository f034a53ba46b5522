"""Tars in a bucket, read under torchrun."""
import io
import json
import subprocess
import sys
import tarfile

from tests.harness import paths
from tests.harness.processes import HANGS


def tars(s3):
    """torchrun over tars in a bucket: every sample once in each epoch, over all ranks."""
    s3.bucket("tars")
    samples, count, epochs = [], 10, 2
    for number in range(count):
        body = io.BytesIO()
        with tarfile.open(fileobj=body, mode="w") as tar:
            for sample in range(number * 4, number * 4 + 4):
                samples.append(f"{sample:05d}")
                for suffix in ("cls", "txt"):
                    member = tarfile.TarInfo(f"{sample:05d}.{suffix}")
                    member.size = 1
                    tar.addfile(member, io.BytesIO(b"1"))
        s3.client.put_object(Bucket="tars", Key=f"train/a part/shard+{number:03d}.tar",
                             Body=body.getvalue())
    s3.put("tars", "trainer", "valid/x.tar")
    env = s3.environment(AWS_DEFAULT_REGION="us-east-1", SHARD_LOG="warn", OMP_NUM_THREADS="1",
                         GLOO_SOCKET_IFNAME="lo")
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone",
                           "--nproc-per-node", "3",
                           paths.source("s3", "tars.py"), paths.SHARDCTL, "s3://tars/train/",
                           str(epochs)], env=env, capture_output=True, timeout=HANGS, check=False)
    s3.output += done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"[{")]
    s3.check("torchrun over tars", done.returncode == 0 and len(lines) == epochs, done.stderr[-500:])
    for epoch, ranks in enumerate(lines):
        s3.check(f"epoch {epoch}: every sample once",
                 sorted(x for r in ranks for x in r["samples"]) == samples, ranks)
        s3.check(f"epoch {epoch}: shares of 3 or 4 tars", sorted(len(r["tars"]) for r in ranks) == [3, 3,
                                                                                                    4],
                 ranks)
    s3.check("another order in each epoch", len(lines) == 2 and
             [r["tars"] for r in lines[0]] != [r["tars"] for r in lines[1]], lines)
