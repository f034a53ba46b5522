"""A peer of tests/buckets/pipeline.py for make bench: the same samples by MosaicML Streaming, which needs a copy
of the data in a format of its own.

    peer_streaming.py write FOLDER TARS SAMPLES SIZE      makes the copy of put_tars' samples
    torchrun ... peer_streaming.py read REMOTE LOCAL      one epoch; rank 0 prints which rank has read which

Streaming is in .venv-buckets, without the packages that it has for other data.
"""
# pylint: disable=import-outside-toplevel
import json
import sys
import types


def stand_in(name, **content):
    """A module that Streaming imports and that nothing here uses."""
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(content)


for _name in ("multimodal", "text", "vision"):
    stand_in("streaming." + _name)
stand_in("transformers")
stand_in("transformers.feature_extraction_utils", BatchFeature=type("BatchFeature", (dict,), {}))
stand_in("transformers.tokenization_utils_base", BatchEncoding=type("BatchEncoding", (dict,), {}))
import streaming  # noqa: E402  pylint: disable=wrong-import-position


def write(folder, samples, size_limit):
    """Files of at most so many bytes with (name, content) of each sample."""
    with streaming.MDSWriter(out=folder, columns={"name": "str", "data": "bytes"}, size_limit=size_limit) as out:
        for name, data in samples:
            out.write({"name": name, "data": data})


def read(remote, local):
    """One epoch; rank 0 prints which rank has read which samples."""
    import torch.distributed as dist
    from torch.utils.data import DataLoader

    dist.init_process_group("gloo")
    dataset = streaming.StreamingDataset(remote=remote, local=local, shuffle=True, batch_size=1)
    ranks = [None] * dist.get_world_size()
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    dist.all_gather_object(ranks, [sample["name"] for sample in loader if sample["data"]])
    if dist.get_rank() == 0:
        print(json.dumps(ranks))
    dist.destroy_process_group()


def main():
    """Write, or read."""
    if sys.argv[1] == "write":
        from tests.buckets.tars import samples
        folder, tars, count, size = sys.argv[2], *map(int, sys.argv[3:])
        write(folder, (sample for tar in range(tars) for sample in samples(tar, count, size)), count * size)
    else:
        read(*sys.argv[2:])


if __name__ == "__main__":
    main()
