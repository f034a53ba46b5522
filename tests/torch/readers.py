"""What programs read a folder with, as one torchrun job: run.py starts it.

    torchrun ... tests/torch/readers.py OUTPUT READER:WORKERS:FOLDER ...

Every READER lists and reads FOLDER as programs do that know nothing of libshard, for two epochs,
in a DataLoader with so many WORKERS. Rank 0 writes to OUTPUT, as JSON and for every rank, a list
of what came of each: [the samples of each epoch, the error that ended it or ""].
"""
import gc
import glob
import json
import os
import pathlib
import sys
import tarfile

import torch.distributed as dist
import webdataset as wds
from torch.utils.data import DataLoader, Dataset, DistributedSampler, get_worker_info
from torch.utils.data.graph_settings import apply_sharding
from torchdata.datapipes.iter import FileLister, FileOpener

EPOCHS = 2


# ---- ways to list --------------------------------------------------------------------------

def by_listdir(folder):
    """os.listdir."""
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if name.endswith(".tar"))


def by_scandir(folder):
    """os.scandir, files only."""
    with os.scandir(folder) as entries:
        return sorted(entry.path for entry in entries if entry.is_file())


def by_glob(folder):
    """glob.glob."""
    return sorted(glob.glob(os.path.join(folder, "*.tar")))


def by_pathlib(folder):
    """pathlib.Path.glob."""
    return sorted(str(path) for path in pathlib.Path(folder).glob("*.tar"))


def by_deep_glob(folder):
    """glob.glob with **."""
    return sorted(glob.glob(os.path.join(folder, "**", "*.tar"), recursive=True))


def by_rglob(folder):
    """pathlib.Path.rglob."""
    return sorted(str(path) for path in pathlib.Path(folder).rglob("*.tar"))


def by_walk(folder):
    """os.walk."""
    return sorted(os.path.join(path, name) for path, _, names in os.walk(folder)
                  for name in names)


# ---- plain torch ---------------------------------------------------------------------------

class TarSamples(Dataset):
    """A sample is a .txt member of one of the tars."""

    def __init__(self, tars):
        self.members = []
        for path in tars:
            with tarfile.open(path) as tar:
                self.members += [(path, name) for name in tar.getnames() if name.endswith(".txt")]

    def __len__(self):
        return len(self.members)

    def __getitem__(self, index):
        path, name = self.members[index]
        with tarfile.open(path) as tar:
            return tar.extractfile(name).read().decode()


class ClassFolders(Dataset):
    """Listed as torchvision's ImageFolder does: a class is a sub-folder, its number that of the
    sorted names; an image is any file below it."""

    def __init__(self, folder):
        with os.scandir(folder) as entries:
            classes = sorted(entry.name for entry in entries if entry.is_dir())
        self.images = [(os.path.join(path, name), label)
                       for label, kind in enumerate(classes)
                       for path, _, names in sorted(os.walk(os.path.join(folder, kind),
                                                            followlinks=True))
                       for name in sorted(names)]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        path, label = self.images[index]
        with open(path, encoding="utf-8") as stream:
            return f"{label} {stream.read()}"


def plain(listing, **options):
    """A reader: a Dataset over the tars that were listed so."""
    def reader(folder, workers):
        return DataLoader(TarSamples(listing(folder)), batch_size=4, num_workers=workers,
                          **options)
    return reader


def class_folders(folder, workers):
    """A Dataset over folders of classes, shuffled."""
    return DataLoader(ClassFolders(folder), batch_size=4, shuffle=True, num_workers=workers)


def distributed_sampler(folder, workers):
    """The sampler that divides among the ranks what each of them is taken to have whole."""
    dataset = TarSamples(by_listdir(folder))
    return DataLoader(dataset, sampler=DistributedSampler(dataset), num_workers=workers)


# ---- webdataset ----------------------------------------------------------------------------

def text_of(sample):
    """What a sample of webdataset's says."""
    return sample["txt"].decode()


def web(listing=by_glob, **options):
    """A reader: the package webdataset."""
    def reader(folder, workers):
        dataset = wds.WebDataset(listing(folder), shardshuffle=False, **options).map(text_of)
        return DataLoader(dataset, batch_size=None, num_workers=workers)
    return reader


def web_epochs(folder, workers):
    """16 samples in each rank and epoch, however many it has."""
    dataset = wds.WebDataset(by_glob(folder), nodesplitter=None, shardshuffle=False,
                             empty_check=False).map(text_of)
    return wds.WebLoader(dataset, batch_size=None, num_workers=workers).with_epoch(16)


# ---- torchdata's pipes ---------------------------------------------------------------------

def content(member):
    """A tar's member, read: streams don't travel from a worker to its parent."""
    return member[0], member[1].read()


def pipe_text(sample):
    """What a sample of torchdata's says."""
    return sample[".txt"].decode()


def pipe(folder, sharding_filter):
    """From a folder to samples; the workers list it."""
    source = FileLister(folder, "*.tar", recursive=True)
    if sharding_filter:
        source = source.sharding_filter()
    return FileOpener(source, mode="b").load_from_tar().map(content).webdataset().map(pipe_text)


def pipes(sharding_filter, **options):
    """A reader: torch's DataLoader over torchdata's pipes."""
    def reader(folder, workers):
        return DataLoader(pipe(folder, sharding_filter), batch_size=None, num_workers=workers,
                          **options)
    return reader


def among_workers(_):
    """Divide among the workers only: the ranks' shares are libshard's."""
    info = get_worker_info()
    apply_sharding(info.dataset, info.num_workers, info.id)


READERS = {
    "listdir": plain(by_listdir),
    "listdir-shuffled": plain(by_listdir, shuffle=True),
    "scandir": plain(by_scandir),
    "glob": plain(by_glob),
    "pathlib": plain(by_pathlib),
    "deep-glob": plain(by_deep_glob),
    "rglob": plain(by_rglob),
    "walk": plain(by_walk),
    "class-folders": class_folders,
    "distributed-sampler": distributed_sampler,
    "webdataset": web(nodesplitter=None, empty_check=False),
    "webdataset-deep": web(by_deep_glob, nodesplitter=None, empty_check=False),
    "webdataset-default": web(),
    "webdataset-empty-check": web(nodesplitter=None),
    "webdataset-split-by-node": web(nodesplitter=wds.split_by_node, empty_check=False),
    "webdataset-epochs": web_epochs,
    "torchdata": pipes(False),
    "torchdata-filter": pipes(True),
    "torchdata-filter-early": pipes(True),  # before torch.distributed is initialised
    "torchdata-among-workers": pipes(True, worker_init_fn=among_workers, multiprocessing_context="forkserver"),
    "torchdata-spawn": pipes(True, worker_init_fn=among_workers, persistent_workers=True,
                             multiprocessing_context="spawn"),
}


def asks(entry):
    """Whether a reader asks torch.distributed, if that is initialised."""
    name = entry.partition(":")[0]
    return name == "distributed-sampler" or name.startswith("torchdata") and not name.endswith("-early")


def read(entry):
    """(samples of each epoch, error)."""
    gc.collect()  # iterators that were left early end their workers now, not in a later reader's
    name, workers, folder = entry.split(":", 2)
    epochs = []
    try:
        loader = READERS[name](folder, int(workers))
        for _ in range(EPOCHS):
            epochs.append([])
            for batch in loader:
                epochs[-1] += [batch] if isinstance(batch, str) else batch
    except (ValueError, IndexError) as error:
        return epochs, repr(error)
    return epochs, ""


def main():
    """Read all, most of them before gloo's threads run: a fork beside them does once in some hundred jobs not come back,
    without libshard, too. Then those that ask torch.distributed, without workers or by a server; and gather what was read."""
    output, entries = sys.argv[1], sys.argv[2:]
    gc.collect()
    gc.freeze()  # torch's 400,000 objects, which each later collection would look at
    results = {entry: read(entry) for entry in entries if not asks(entry)}
    dist.init_process_group("gloo")
    for entry in entries:
        if entry not in results:
            results[entry] = read(entry)
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, [results[entry] for entry in entries])
    if dist.get_rank() == 0:
        with open(output, "w", encoding="utf-8") as stream:
            json.dump(ranks, stream)
    dist.destroy_process_group()
    os._exit(0)  # as rarely, C++ aborts a rank as it destroys a thread that was not joined


if __name__ == "__main__":
    main()
