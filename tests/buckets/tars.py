"""The pipeline on tars in a bucket, under a real torchrun."""
import io
import json
import subprocess
import tarfile

from tests.buckets.fixture import PYTHON
from tests.harness import paths
from tests.harness.processes import HANGS


def samples(number, count, size=1):
    """(name, content) of each sample of a tar."""
    for one in range(count):
        yield f"{number:04d}-{one:04d}.bin", bytes([number % 251]) * size


def put_tars(client, bucket, count, each, size=1):
    """Tars of so many samples each, of so many bytes, below train/, and one beside it; the samples' names."""
    client.create_bucket(Bucket=bucket)
    names = []
    for number in range(count):
        body = io.BytesIO()
        with tarfile.open(fileobj=body, mode="w") as tar:
            for name, content in samples(number, each, size):
                member = tarfile.TarInfo(name)
                member.size = size
                tar.addfile(member, io.BytesIO(content))
                names.append(name)
        client.put_object(Bucket=bucket, Key=f"train/shard {number:04d}.tar", Body=body.getvalue())
    client.put_object(Bucket=bucket, Key="trainer.tar", Body=b"")
    return names


def torchrun(buckets, ranks, arguments, env):
    """The finished process of a job of this many ranks."""
    env = {k: v for k, v in env.items() if k not in ("SHARD_RANK", "SHARD_SIZE", "SHARD_JOB")}
    return subprocess.run([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
                           *arguments], env={**env, "GLOO_SOCKET_IFNAME": "lo"}, cwd=buckets.folder, capture_output=True,
                          timeout=HANGS, check=False)


def tars(buckets):
    """Every sample once in each epoch, over all ranks and workers."""
    wanted = sorted(put_tars(buckets.client, "tars", 7, 3))
    script = paths.source("buckets", "pipeline.py")
    # Not by fork from a rank: gloo's threads run there, and PyTorch's forks sometimes do not come back.
    for start, epochs, how in (("forkserver", 2, {}), ("spawn", 1, {"SHARD_STRATEGY": "hash"})):
        env = buckets.shard_environment("s3://tars/train", 0, 2, **how)
        done = torchrun(buckets, 2, [script, "s3://tars/train", start, str(epochs)], env)
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"[[")]
        buckets.check(f"torchdata under torchrun, {start}: every sample once in each epoch", done.returncode == 0 and
                      len(said) == epochs and all(sorted(sum(ranks, [])) == wanted and all(ranks) for ranks in said),
                      done.stderr.decode()[-1200:] + str([[len(r) for r in ranks] for ranks in said]))
