# SPDX-License-Identifier: MIT
"""object_store: walk_node() of MLCommons' ObjStoreLibStorage, answered from a bucket's listing.

The class lists by one of three libraries: s3dlio, s3torchconnector, minio. Tried with a real
server, all three return every key below the prefix, folder markers included, in the order of their
bytes. So shardctl's listing stands for each; what differs is which account and endpoint a library
takes, and the prefix. With `storage_type: direct_fs` the class lists a local folder by s3dlio.
"""
import os

from ..listing import Listing
from ..sequences import FileList
from . import rank0
from .bucket import is_known, is_plain, listed, variables
from .tokens import Refusal, check_order
from .walk_node import CHUNK, include

# Compared when DLIO imports the storage class; a class that is not known lists its bucket itself.
KNOWN = {
    "storage/obj_store_lib.py": {
        "MinIOAdapter.__init__": ("a5b6ab4b5b", "566946fb5b"),
        "MinIOAdapter.list_objects": ("25f6d17e87",),
        "ObjStoreLibStorage.__init__": ("5ba2a4ffbf", "760ffdeb89", "9461d4200a", "bec1b44778", "a49aec9aa8", "01894f26a6", "a22df5f7a5", "e70c0eef19"),
        "ObjStoreLibStorage.get_uri": ("daefc985e9",),
        "ObjStoreLibStorage.get_node": ("2c65b2946b",),
        "ObjStoreLibStorage.walk_node": ("f87eded86e",),
        "ObjStoreLibStorage.list_objects": ("2ea817993c", "fdd9764e32"),
    },
    "storage/s3_storage.py": {
        "S3Storage.__init__": ("0f02e5488f",),
        "S3Storage.get_node": ("2c65b2946b",),
    },
    "storage/storage_handler.py": {
        "DataStorage.__init__": ("c1d4ed2810", "1ad10003e6"),
        "DataStorage.get_node": ("2bc2be5578",),
    },
}

LIBRARIES = ("s3dlio", "s3torchconnector", "minio")


# ---- a bucket ----------------------------------------------------------------------------------


def endpoint(storage):
    """The endpoint that the storage's library asks."""
    if storage.storage_library == "s3dlio":
        # The library's own variable, which the storage class does not know, comes first.
        return os.environ.get("AWS_ENDPOINT_URL_S3") or storage.endpoint
    if storage.storage_library == "minio" and "://" not in str(storage.endpoint):
        return "http://%s" % storage.endpoint
    return storage.endpoint


def _account(storage, server):
    """Variables for shardctl: what the storage class and its library take. None if that is not
    enough for it."""
    library, region, gone = storage.storage_library, storage.region, []
    path_style = True
    if library == "s3dlio":
        region = (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
                  or "us-east-1")
    elif library == "s3torchconnector":
        config = getattr(storage.s3_client, "s3client_config", None)
        if config is None or getattr(config, "profile", None):
            raise Refusal("storage_options.s3_profile, or a s3torchconnector that does not tell "
                          "of it, is for s3torchconnector only")
        path_style = config.force_path_style
    else:
        path_style = ".amazonaws.com" not in server
        gone.append("AWS_SESSION_TOKEN")  # the class hands none to minio
    return variables(storage, server, region, path_style, gone)


def _bucket_and_prefix(storage, folder):
    """(bucket, prefix, what each file's URI begins with) of a folder, as walk_node() finds them."""
    import urllib.parse

    uri = storage.get_uri(folder)
    try:
        parts = urllib.parse.urlparse(uri)
    except ValueError as error:
        raise Refusal(str(error)) from None
    prefix = parts.path.lstrip("/")
    before = storage.get_uri(os.path.join(folder, "x"))[:-1]
    if (parts.scheme != "s3" or before != "s3://%s/%s/" % (parts.netloc, prefix)
            or not is_plain(uri, parts.netloc)):
        raise Refusal("it is not of the form s3://bucket/folder, or folder in the bucket "
                      "storage_root")
    if storage.use_full_object_uri and storage.storage_library != "s3dlio":
        prefix = before[:-1]  # keys are whole URIs
    return parts.netloc, prefix, before


def _of_bucket(storage, args, folder, server):
    if storage.storage_library not in LIBRARIES or storage.uri_scheme != "s3":
        raise Refusal("only s3dlio, s3torchconnector and minio with uri_scheme s3 are known")
    # With other loaders, or the iterative sampler, DLIO does other things with the names.
    if (str(args.framework) != "pytorch" or str(args.data_loader) != "pytorch"
            or str(args.data_loader_sampler) not in ("None", "index")):
        raise Refusal("in a bucket only the PyTorch loader with the index sampler is known")
    bucket, prefix, before = _bucket_and_prefix(storage, folder)
    server = server or endpoint(storage)
    environment = _account(storage, server)
    if environment is None:
        return None  # DLIO stops, too
    listing = listed("s3://%s/%s/" % (bucket, prefix), args, environment)
    if listing is None:
        return None
    if "://" not in folder and listing.uses_byte(ord(":")) and listing.uses_byte(ord("/")):
        raise Refusal("some keys may hold '://', which DLIO takes for a URI")
    return FileList(listing, before)


# ---- direct_fs ---------------------------------------------------------------------------------


def _of_folder(storage, args, folder, chunks):
    """s3dlio's list of a local folder: the files in it and below, through links to folders, too; as
    the directory shows them, so that chunks are sorted by themselves."""
    if storage.storage_library != "s3dlio" or storage.uri_scheme != "direct":
        return None  # DLIO stops
    before = storage.get_uri(os.path.join(folder, "x"))[:-1]
    root = before[len("direct://"):-1]
    if not root.startswith("/") or any(c in before for c in "?#") or not before.isprintable():
        raise Refusal("its path is not that of a local folder, or holds '?', '#' or a control "
                      "character")
    options = "order=path depth=0 hidden=1 follow=0"
    listing = Listing.of_dataset(root, options + " include=*")
    if listing.links:
        raise Refusal("it holds links to directories")
    if chunks and listing.count > CHUNK:
        if listing.directories > 1:
            raise Refusal("it holds folders, and more than %d files, whose order is that of the "
                          "directories" % CHUNK)
        options = "order=path depth=1 hidden=1 chunk=%d" % CHUNK
    listing = Listing.of_dataset(root, options + " include=" + include("*" + str(args.format)))
    check_order(listing)
    return FileList(listing, before) if listing.count else None


# ---- what families use -------------------------------------------------------------------------


def files(storage, args, folder, server=None, chunks=False):
    """FileList of what initialize() makes of walk_node(folder): the URIs of all that ends with the
    format, sorted. None where DLIO's own way must be gone; Refusal or OSError, why it is.

    server  the endpoint of another rank, if the list must be that rank's
    chunks  whether CHUNK names at a time are sorted by themselves
    """
    if str(args.storage_type) == "direct_fs":
        return _of_folder(storage, args, folder, chunks)
    return _of_bucket(storage, args, folder, server)


def _offered(storage, folder, server, chunks):
    """What a rank opens of an offer; see rank0.Offer."""
    return files(storage, storage._args, folder, server, chunks)


def patch(chunks, module, tree):
    """Patch dlio_benchmark.storage.obj_store_lib; chunks: see files()."""
    def flat(storage, _benchmark, folder, _suffix):
        return repr(folder), _offered, folder, endpoint(storage), chunks

    def subfolders(*_arguments):
        return None  # there are none in a bucket: what DLIO makes of its names is its own

    if is_known(tree, KNOWN):
        rank0.answer_walks(module.ObjStoreLibStorage, flat, subfolders)
