"""Tars in a bucket, read by webdataset, for torchrun: each rank reads those that are its own.

    torchrun --nproc-per-node P tars.py SHARDCTL s3://bucket/prefix EPOCHS

Rank 0 prints, for each epoch, which rank has read which samples. Tars are fetched by a command, as
webdataset does it: this program itself, as `tars.py fetch s3://bucket/key`.
"""
import json
import os
import shlex
import subprocess
import sys


def fetch(url):
    """An object to standard output."""
    import boto3  # pylint: disable=import-outside-toplevel
    bucket, _, key = url.removeprefix("s3://").partition("/")
    boto3.client("s3").download_fileobj(bucket, key, sys.stdout.buffer)


def own(shardctl, url, rank, size, epoch):
    """The URIs of a rank's share."""
    done = subprocess.run([shardctl, "ls", url, "--uri", "-0", "--rank", str(rank), "--size", str(size), "--seed", "1", "--epoch", str(epoch)],
                          stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().split("\0")[:-1]


def main():
    """All epochs."""
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    import webdataset as wds  # pylint: disable=import-outside-toplevel
    shardctl, url, epochs = sys.argv[1:]
    rank, size, found = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), []
    for epoch in range(int(epochs)):
        tars = own(shardctl, url, rank, size, epoch)
        pipes = [f"pipe:{shlex.join([sys.executable, os.path.abspath(__file__), 'fetch', tar])}" for tar in tars]
        dataset = wds.WebDataset(pipes, nodesplitter=None, shardshuffle=False, empty_check=False).decode()
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2)
        found.append({"tars": tars, "samples": [sample["__key__"] for sample in loader]})
    # Workers have been forked by then: not while gloo's threads run, from which PyTorch's forks sometimes do not come back.
    dist.init_process_group("gloo")
    for epoch in found:
        ranks = [None] * size
        dist.all_gather_object(ranks, epoch)
        if rank == 0:
            print(json.dumps(ranks), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] == "fetch":
        fetch(sys.argv[2])
    else:
        main()
