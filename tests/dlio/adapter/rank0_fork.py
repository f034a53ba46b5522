"""A module of the shape of MLCommons' fork since rank 0 lists alone."""
import concurrent.futures
import enum
import glob
import os

import numpy as np


CHUNK = 1000


class DatasetType(enum.Enum):
    """What initialize() lists."""

    TRAIN = "train"
    VALID = "valid"

    def __str__(self):
        return self.value


class Storage:
    """Files of a local disk."""

    root = "/"

    def get_uri(self, id):
        return os.path.join(self.root, id)

    def walk_node(self, id, use_pattern=False):
        if not use_pattern:
            return os.listdir(self.get_uri(id))
        stem, suffix = os.path.splitext(self.get_uri(id))
        return glob.glob(stem + suffix) + glob.glob(stem + suffix.upper())


class DLIOMPI:
    """Its MPI world."""

    comm = None

    @classmethod
    def get_instance(cls):
        return cls.comm


class ConfigArguments:
    """Its arguments."""

    files_pre_sharded = False
    skip_listing = False
    interval = 0    # of the files that rank 0 looks for
    above_one = False  # the later rule: another width of folders' names, and none where there is one
    generated = 0   # the number in the names; 0: that of the files read
    file_prefix = "img"
    comm = None  # stands for DLIO's of all ranks

    def derive_configurations(self, file_list_train=None, file_list_eval=None):
        self.file_list_train, self.file_list_eval = list(file_list_train), list(file_list_eval)
        self.num_files_train, self.num_files_eval = len(file_list_train), len(file_list_eval)

    def _reshard_files(self, epoch_number):
        for name in "file_list_train", "file_list_eval":
            mine = list(getattr(self, name))
            np.random.seed(self.seed + epoch_number)
            np.random.shuffle(mine)
            buckets = [[] for _ in range(self.comm_size)]
            for i, path in enumerate(mine):
                buckets[(i + self.my_rank) % self.comm_size].append(path)
            new = []
            for bucket in self.comm.alltoall(buckets):
                new.extend(bucket)
            np.random.seed(self.seed + epoch_number + self.my_rank * 31)
            np.random.shuffle(new)
            setattr(self, name, new)
        self.num_files_train, self.num_files_eval = map(len, (self.file_list_train,
                                                              self.file_list_eval))


class Benchmark:
    """What lists."""

    def __init__(self, args, storage, comm, **given):
        self.args, self.storage, self.comm = args, storage, comm
        self.my_rank, self.comm_size = args.my_rank, args.comm_size = comm.rank, comm.size
        self.num_files_train, self.num_files_eval, self.do_eval = 0, 0, True
        self.num_subfolders_train = self.num_subfolders_eval = 0
        self.__dict__.update(given)

    def initialize(self):
        """Lists; returns what it would tell people."""
        told = []
        self.comm.barrier()
        self.args.files_pre_sharded = True
        lists = {}
        for dataset_type in DatasetType:
            train = dataset_type is DatasetType.TRAIN
            num_subfolders = self.num_subfolders_train if train else self.num_subfolders_eval
            mine, count = [], 0

            def keep(chunk, start, mine=mine):
                for i, path in enumerate(chunk):
                    if (start + i) % self.comm_size == self.my_rank:
                        mine.append(path)

            def send(chunk):
                return self.comm.bcast(chunk, root=0)

            folder = os.path.join(self.args.data_folder, f"{dataset_type}")
            if self.args.skip_listing:
                count = self.num_files_train if train else self.num_files_eval * self.do_eval
                total = self.args.generated or count
                digits = len(str(total))
                least = 1 if self.args.above_one else 0
                width = len(str(num_subfolders - 1 + least))

                def name(i, total=total, digits=digits, width=width, least=least,
                         num_subfolders=num_subfolders, folder=folder):
                    made = f"{self.args.file_prefix}_{str(i).zfill(digits)}_of_{total}.{self.args.format}"
                    if num_subfolders > least:
                        made = os.path.join(str(i % num_subfolders).zfill(width), made)
                    return self.storage.get_uri(os.path.join(folder, made))

                for i in range(self.my_rank, count, self.comm_size):
                    mine.append(name(i))
                seen = []
                if self.my_rank == 0 and count > 0 and self.args.interval > 0:
                    seen = [name(i) for i in sorted({0, count - 1}
                                                    | set(range(0, count, self.args.interval)))]
                told.append("of %d: %s" % (len(mine), seen))
            elif num_subfolders > 0:
                names = sorted(self.storage.walk_node(folder)) if self.my_rank == 0 else None
                names = self.comm.bcast(names, root=0)

                def _list_subfolder(sf_name):
                    where = os.path.join(self.args.data_folder, f"{dataset_type}", sf_name)
                    return self.storage.walk_node(os.path.join(where, f"*.{self.args.format}"),
                                                  use_pattern=True)

                pending = []
                if self.my_rank == 0:
                    with concurrent.futures.ThreadPoolExecutor(4) as pool:
                        for found in pool.map(_list_subfolder, names):
                            pending.extend(found)
                            while len(pending) >= CHUNK:
                                chunk = send(sorted(pending[:CHUNK]))
                                pending = pending[CHUNK:]
                                keep(chunk, count)
                                count += len(chunk)
                    if pending:
                        chunk = send(sorted(pending))
                        keep(chunk, count)
                        count += len(chunk)
                    send([])
            elif self.my_rank == 0:
                names = self.storage.walk_node(folder)
                for begin in range(0, len(names), CHUNK):
                    chunk = send(sorted(
                        self.storage.get_uri(os.path.join(folder, entry))
                        for entry in names[begin:begin + CHUNK]
                        if entry.endswith(f"{self.args.format}")))
                    keep(chunk, count)
                    count += len(chunk)
                send(None)
            while self.my_rank != 0 and not self.args.skip_listing:
                chunk = self.comm.bcast(None, root=0)
                if not chunk and (num_subfolders > 0 or chunk is None):
                    break
                keep(chunk, count)
                count += len(chunk)
            expected = self.num_files_train if train else self.num_files_eval * self.do_eval
            if expected > count:
                raise ValueError("not enough files")
            mine = mine[:(min(expected, count) if expected > 0 else count) // self.comm_size]
            lists[dataset_type] = mine
            told.append("%d files, %d here" % (count, len(mine)))
        self.args.derive_configurations(lists[DatasetType.TRAIN], lists[DatasetType.VALID])
        return told
