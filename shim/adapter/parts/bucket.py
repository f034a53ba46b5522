# SPDX-License-Identifier: MIT
"""bucket: walk_node() of `storage_type: s3` by s3torchconnector, answered from a listing of the
bucket (argonne-lcf's main, from December 2025 on)."""
import os

from .. import STARTED
from ..listing import Listing
from ..native import native
from ..sequences import FileList
from .benchmark import rely_on
from .tokens import (ARGUMENT, Refusal, answer_walks, check_order, folder_at_hand, names_of,
                     say_refusal)
from .walk_node import include

# Compared when DLIO imports the storage class; a class that is not known lists its bucket itself.
KNOWN = {
    "storage/s3_torch_storage.py": {
        "S3PyTorchConnectorStorage.__init__": ("886ea454dd",),
        "S3PyTorchConnectorStorage.get_uri": ("01171c7ce1",),
        "S3PyTorchConnectorStorage.get_node": ("2c65b2946b",),
        "S3PyTorchConnectorStorage.walk_node": ("7115db634e",),
        "S3PyTorchConnectorStorage.list_objects": ("7c8fe31bca",),
    },
    "storage/s3_storage.py": {
        "S3Storage.__init__": ("0f02e5488f",),
        "S3Storage.get_node": ("2c65b2946b",),
    },
    "storage/storage_handler.py": {
        "DataStorage.__init__": ("c1d4ed2810",),
        "DataStorage.get_node": ("2bc2be5578",),
    },
}

_turns = {}  # URL of a prefix -> how often this process has asked for it


def _first_from(listing, name):
    """The first name of a listing in path order that is not before `name`, or None."""
    low, high = 0, listing.count
    while low < high:
        middle = (low + high) // 2
        if listing.name(middle).encode() < name.encode():
            low = middle + 1
        else:
            high = middle
    return listing.name(low) if low < listing.count else None


def _variables(storage, server, region, path_style):
    """Variables for shardctl: a storage class's account at a server; None if that is not enough for the class."""
    values = {"AWS_ENDPOINT_URL_S3": server, "AWS_REGION": region,
              "AWS_ACCESS_KEY_ID": storage.access_key_id,
              "AWS_SECRET_ACCESS_KEY": storage.secret_access_key}
    if not all(isinstance(value, str) and value for value in values.values()):
        return None
    if path_style:
        values["SHARD_S3_ADDRESSING"] = "path"
    if "SHARD_TIMEOUT" not in os.environ:
        values["SHARD_TIMEOUT"] = "10"  # for a request: the unmodified run gives up soon, too
    values["SHARD_LOG"] = "warn"  # only the reason of a failure is wanted
    values["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "false"  # whatever a profile says
    # "NAME" takes a variable away: nothing else may say where the bucket is.
    return ["%s=%s" % pair for pair in values.items()] + [
        "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_PROFILE"]


def _is_plain(uri, bucket):
    """Whether a URI, and its bucket's name, have none but plain characters."""
    return uri.isprintable() and bucket.replace("-", "").replace("_", "").replace(".", "").isalnum()


def _listed(url, args, environment):
    """The listing of s3://bucket/prefix/ with the keys that end with the format; None if there are
    none. Refusal or OSError, why there is no listing."""
    turn = _turns[url] = _turns.get(url, 0) + 1
    since = STARTED  # the ranks of an MPI job have met since then, after data was generated
    if args.comm_size == 1:
        # Processes that do not know each other each list for themselves; but shares must be of one
        # list.
        turn, since = (turn, 1) if native().view_asked() == "shard" else (0, 0)
    listing = Listing.of_bucket(url, "order=path include=" + include("*" + str(args.format)),
                                environment, turn, since)
    if not listing.count:
        return None
    check_order(listing)
    if any(listing.uses_byte(byte) for byte in (*range(32), 127, 0xEF)):
        raise Refusal("some keys have characters that XML may not hold")
    absolute = _first_from(listing, "/")
    if absolute is not None and absolute.startswith("/"):
        raise Refusal("some keys have two slashes after the folder")
    return listing


def _walk(storage, benchmark, kind, node, use_pattern):
    """The answer to initialize()'s walk_node(), or None for the unmodified one.

    The storage class's keys are whole URIs: data_folder/train/x is the object of that very name, s3:// included,
    in the bucket that the URI names. It lists all below a prefix; sub-folders it does not know.
    """
    import urllib.parse

    args = benchmark.args
    folder = os.path.join(args.data_folder, kind)
    subfolders = getattr(benchmark, "num_subfolders_" + ARGUMENT[kind])
    if use_pattern or node != folder or subfolders != 0:
        return None  # DLIO itself stops at sub-folders
    try:
        parts = urllib.parse.urlparse(node)
    except ValueError:
        return None
    if node != "s3://%s/%s" % (parts.netloc, parts.path.lstrip("/")) or not _is_plain(node, parts.netloc):
        raise Refusal("data_folder is not of the form s3://bucket/folder")
    # With other loaders, or the iterative sampler, DLIO takes keys for local paths, and fails.
    if str(args.data_loader) != "pytorch" or str(args.data_loader_sampler) not in ("None", "index"):
        raise Refusal("in a bucket only the PyTorch loader with the index sampler is known")
    # A session token is the environment's, for s3torchconnector and for shardctl.
    environment = _variables(storage, storage.endpoint, storage.region, storage.s3_client_config.force_path_style)
    if environment is None:
        return None  # DLIO stops, too
    listing = _listed("s3://%s/%s/" % (parts.netloc, node), args, environment)
    return None if listing is None else names_of(FileList(listing, folder + "/"))


def patch(module, tree):
    """Patch dlio_benchmark.storage.s3_torch_storage, if the class is as KNOWN says."""
    different = tree.differences(KNOWN)
    if different:
        say_refusal("storage_type s3", different[0][-1])
    else:
        rely_on(KNOWN)
        answer_walks(module.S3PyTorchConnectorStorage, _walk, folder_at_hand)
