# SPDX-License-Identifier: MIT
"""parts: what families are put together from. A part does one thing to one DLIO function or module,
and asks nothing about the family: where families differ, they hand it a function or a class, or
have a function of their own.
"""
from functools import partial

from . import config, epochs, file_storage, loaders, tensorflow, workers

# What is done to every DLIO, before the patches of its family.
EVERYWHERE = {
    "dlio_benchmark.utils.config": epochs.patch_config,
    "dlio_benchmark.utils.statscounter": epochs.patch_counter,
    "dlio_benchmark.data_loader.torch_data_loader": workers.patch_torch,
}


def patches(index_map, sampler_indices=loaders.clipped, dali_indices=loaders.clipped):
    """The patches of a DLIO that lists its dataset on every rank.

    index_map                      puts get_global_map_index() into place; see config.patch()
    sampler_indices, dali_indices  loaders.clipped or loaders.past_end
    """
    return {
        "dlio_benchmark.storage.file_storage": file_storage.patch,
        "dlio_benchmark.utils.config": partial(config.patch, index_map),
        "dlio_benchmark.data_loader.torch_data_loader": partial(loaders.patch_torch,
                                                                sampler_indices),
        "dlio_benchmark.data_loader.dali_data_loader": partial(loaders.patch_dali, dali_indices),
        "dlio_benchmark.reader.reader_handler": loaders.patch_reader,
        "dlio_benchmark.reader.tf_reader": tensorflow.patch,
    }
