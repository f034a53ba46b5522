"""A module of the shape of MLCommons' fork with skip_listing."""
import enum
import os

import numpy as np


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


class DLIOMPI:
    """Its MPI world."""

    comm = None

    @classmethod
    def get_instance(cls):
        return cls.comm


class ConfigArguments:
    """Its arguments."""

    files_pre_sharded = False
    skip_listing = True
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
        """Makes the names; returns what it would tell people."""
        told = []
        self.comm.barrier()
        self.args.files_pre_sharded = True
        lists = {}
        for dataset_type in DatasetType:
            train = dataset_type is DatasetType.TRAIN
            num_subfolders = self.num_subfolders_train if train else self.num_subfolders_eval
            mine = []
            folder = os.path.join(self.args.data_folder, f"{dataset_type}")
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
            mine = mine[:count // self.comm_size]
            lists[dataset_type] = mine
            told.append("%d files, %d here" % (count, len(mine)))
        self.args.derive_configurations(lists[DatasetType.TRAIN], lists[DatasetType.VALID])
        return told
