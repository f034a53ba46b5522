"""Tars in a bucket by torchdata. libshard-pytorch(7) shows the lines that matter."""
import json
import multiprocessing
import sys

import torch.distributed as dist
from torch.utils.data import DataLoader, get_worker_info
from torch.utils.data.graph_settings import apply_sharding
from torchdata.datapipes.iter import IterableWrapper


def among_workers(_):
    """Divide among the workers only: the ranks' shares are libshard's."""
    info = get_worker_info()
    apply_sharding(info.dataset, info.num_workers, info.id)


def sample(member):
    """A member of a tar: its name, and how many bytes it has."""
    path, stream = member
    return path.rpartition("/")[2], len(stream.read())


def main():
    """Some epochs; rank 0 prints which rank has read which samples."""
    url, start, epochs = sys.argv[1:]
    multiprocessing.set_forkserver_preload(["torchdata.datapipes.iter"])
    dist.init_process_group("gloo")
    tars = IterableWrapper([url]).list_files_by_fsspec()  # under libshard: this rank's own
    tars = tars.shuffle().sharding_filter()
    samples = tars.open_files_by_fsspec(mode="rb").load_from_tar().map(sample)
    for _ in range(int(epochs)):
        loader = DataLoader(samples, batch_size=None, shuffle=True, num_workers=2,
                            worker_init_fn=among_workers, multiprocessing_context=start)
        ranks = [None] * dist.get_world_size()
        dist.all_gather_object(ranks, [name for name, _ in loader])
        if dist.get_rank() == 0:
            print(json.dumps(ranks))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
