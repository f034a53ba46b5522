# SPDX-License-Identifier: MIT
"""walk_node: FileStorage.walk_node() answered from the listing of the node."""
import os

from ..listing import Listing
from ..sequences import FileList
from . import rank0
from .tokens import Names, Refusal, Token, answer_walks, check_order, names_of

# Functions that are relied upon and the same in every DLIO known so far.
KNOWN = {
    "storage/file_storage.py": {
        "FileStorage.walk_node": ("981681cd48",),
        "FileStorage.get_uri": ("b640d7a530",),
        "FileStorage.get_node": ("cd289db48e",),
        "FileStorage.get_basename": ("bf65d175eb",),
    },
}


def include(pattern):
    """A pattern as a word of shard_dataset_open()'s options: ':' separates there, blanks end."""
    return "".join(c if c.isalnum() or c in "*._-" else "".join("%%%02x" % b for b in c.encode())
                   for c in pattern)


def flat(storage, folder, suffix, more=""):
    """FileList of the entries of `folder` whose name ends with `suffix`, sorted by path; more:
    options."""
    listing = Listing.of_dataset(storage.get_uri(folder), "order=path depth=1%s include=%s"
                                 % (more, include("*" + suffix)))
    check_order(listing)
    if listing.directories_shown:
        raise Refusal("it holds directories whose names end with %r" % suffix)
    # What DLIO puts before a name: os.path.join does not need the name to be known.
    return FileList(listing, storage.get_uri(os.path.join(folder, "x"))[:-1])


def subfolders(storage, folder, suffix, order="basename", more=""):
    """FileList of folder/*/*.suffix in both cases, as glob finds them; more: options."""
    import glob

    root = storage.get_uri(folder)
    if glob.has_magic(root):
        raise Refusal("its path holds a character that is special in a pattern")
    if suffix != suffix.lower() or suffix.lower() == suffix.upper():
        raise Refusal("the format %r has no two cases" % suffix)
    patterns = [suffix, suffix.upper()]
    if suffix in root:
        # DLIO replaces the format everywhere in the path when it looks for upper case.
        if os.path.lexists(root.replace(suffix, suffix.upper())):
            raise Refusal("its path holds the format's name, and exists in upper case too")
        patterns.pop()
    listing = Listing.of_dataset(
        root, "order=%s depth=2 exact=2 hidden=0 follow=1%s include=%s"
        % (order, more, ":".join(include("*." + pattern) for pattern in patterns)))
    check_order(listing)
    if listing.directories_shown:
        raise Refusal("it holds directories whose names end with .%s" % suffix)
    if order == "basename" and listing.duplicates:
        raise Refusal("two of its files have one name, which leaves their order to chance")
    return FileList(listing, root + "/")


def _first_entry(path):
    """The first name of a directory as os.listdir() would show it, or None."""
    with os.scandir(path) as entries:
        for entry in entries:
            return entry.name
    return None


def _walk(storage, benchmark, kind, node, use_pattern):
    """The answer to initialize()'s walk_node(), or None for the unmodified one."""
    args = benchmark.args
    folder = os.path.join(args.data_folder, kind)
    suffix = str(args.format)
    if use_pattern:
        if node != os.path.join(args.data_folder, "%s/*/*.%s" % (kind, suffix)):
            return None
        files = subfolders(storage, folder, suffix)
        answer = [Token(files[0], files)] if files else []
    else:
        if node != folder:
            return None
        path = storage.get_uri(node)
        try:
            first = _first_entry(path)
        except OSError:
            return None
        if first is None or os.path.isdir(os.path.join(path, first)):
            return None  # nothing, or sub-folders: their names are few
        files = flat(storage, folder, suffix)
        answer = names_of(files, first) if files else Names(first, None)
    return answer


def patch(module, _tree):
    """Patch dlio_benchmark.storage.file_storage."""
    answer_walks(module.FileStorage, _walk, repr)


# ---- DLIOs whose rank 0 lists ------------------------------------------------------------------

CHUNK = 1_000_000  # paths that are sorted among themselves, and broadcast at once


def _in_chunks(storage, folder, suffix):
    """flat(), where every CHUNK entries are sorted by themselves, as the directory shows them."""
    return flat(storage, folder, suffix, " chunk=%d" % CHUNK)


def _by_folders(storage, folder, suffix):
    """subfolders(), where every CHUNK paths are sorted by themselves: a folder's as it shows them,
    and folders in the order of their names."""
    files = subfolders(storage, folder, suffix, "path")
    if len(files) > CHUNK:
        files = subfolders(storage, folder, suffix, "path", " chunk=%d" % CHUNK)
    return files


def _offered_subfolders(storage, _benchmark, folder, suffix, names):
    """What to offer, if DLIO finds in the folders what one listing has of them."""
    import glob

    root = storage.get_uri(folder)
    for name in names:
        path = os.path.join(root, name)
        if glob.has_magic(name):
            raise Refusal("%r holds a character that is special in a pattern" % name)
        if name.startswith(".") and os.path.isdir(path):
            raise Refusal("it has the hidden folder %r" % name)
        if suffix in name and suffix not in root and os.path.isdir(path):
            raise Refusal("the name of folder %r holds that of the format" % name)
    return repr(folder), _by_folders, folder, suffix


def patch_rank0(chunks, module, _tree):
    """Patch dlio_benchmark.storage.file_storage. chunks: whether a flat folder's names are sorted
    in chunks; if not, all are, and then cut into chunks."""
    def offered(storage, _benchmark, folder, suffix):
        try:
            if _first_entry(storage.get_uri(folder)) is None:
                return None
        except OSError:
            return None  # DLIO stops, too
        return repr(folder), _in_chunks if chunks else flat, folder, suffix

    rank0.answer_walks(module.FileStorage, offered, _offered_subfolders)
