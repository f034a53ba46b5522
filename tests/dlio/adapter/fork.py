"""A module of the shape of MLCommons' fork, but for who lists: an index map that computes
a sample's file, a sampler, and an iterable dataset. It serves where the DLIO at hand is another."""
import os

import numpy as np
from dlio_benchmark.common.enumerations import Shuffle, StorageType


class VirtualIndexMap:
    """Sample number -> (path, sample in the file)."""

    def __init__(self, file_list, num_samples_per_file, start_sample, end_sample,
                 shuffle_seed=None, storage_type=None):
        self._start, self._num_samples_per_file = start_sample, num_samples_per_file
        self._sample_list = np.arange(start_sample, end_sample + 1)
        if shuffle_seed is not None:
            np.random.seed(shuffle_seed)
            np.random.shuffle(self._sample_list)
        local = storage_type == StorageType.LOCAL_FS
        self._abs_paths = [os.path.abspath(path) for path in file_list] if local else list(file_list)

    def __getitem__(self, sample):
        file, inside = divmod(sample, self._num_samples_per_file)
        return self._abs_paths[int(file)], int(inside)

    def __contains__(self, sample):
        return self._start <= sample < self._start + len(self._sample_list)

    def __len__(self):
        return len(self._sample_list)

    def __iter__(self):
        return iter(self._sample_list)

    def items(self):
        """In the order of the samples."""
        for sample in self._sample_list:
            yield int(sample), self[int(sample)]

    def __repr__(self):
        return "VirtualIndexMap(%d, %d)" % (len(self._sample_list), len(self._abs_paths))


class ConfigArguments:
    """What makes a map, of one argument set."""

    up = False  # whether samples that do not divide are the first ranks'

    def share(self, total):
        """(first, last) own sample, and the number per rank."""
        each = -(-total // self.comm_size) if self.up else total // self.comm_size
        first = self.my_rank * each
        return first, min(first + each, total) - 1 if self.up else first + each - 1, each

    def seed_of(self, epoch):
        """None if samples keep their order."""
        if self.sample_shuffle is Shuffle.OFF:
            return None
        return self.seed + epoch if self.seed_change_epoch else self.seed

    def get_global_map_index(self, file_list, total_samples, epoch_number):
        """(map, sum of the sample numbers)."""
        first, last, _ = self.share(total_samples)
        made = VirtualIndexMap(file_list, self.num_samples_per_file, first, last,
                               shuffle_seed=self.seed_of(epoch_number),
                               storage_type=self.storage_type)
        return made, int(np.sum(made._sample_list, dtype=np.int64))


class dlio_sampler:  # pylint: disable=invalid-name
    """A rank's sample numbers."""

    def __init__(self, rank, size, num_samples, epochs):
        self.epochs, self.num_samples = epochs, num_samples
        each = num_samples // size
        self.indices = list(range(rank * each, (rank + 1) * each))

    def __iter__(self):
        yield from self.indices

    def __len__(self):
        return len(self.indices)


class IterableDataset:
    """What a worker reads."""

    def __init__(self, files):
        self.files = files

    def share(self, worker, workers):
        """The worker's part of a copy of the list."""
        return list(self.files)[worker::workers]
