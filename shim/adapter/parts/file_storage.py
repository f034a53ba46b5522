# SPDX-License-Identifier: MIT
"""file_storage: FileStorage.walk_node() answered from the listing of the node."""
import os

from ..mapped_listing import Listing
from ..sequences import FileList
from .placeholders import PlaceholderNames, Refusal, Placeholder, answer_walks, check_order, names_of

# Functions that are relied upon and the same in every DLIO known so far.
FINGERPRINTS = {
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


def flat(storage, folder, suffix):
    """FileList of the entries of `folder` whose name ends with `suffix`, sorted by path."""
    listing = Listing.of_dataset(storage.get_uri(folder), "order=path depth=1 include=" + include("*" + suffix))
    check_order(listing)
    if listing.directories_shown:
        raise Refusal("it holds directories whose names end with %r" % suffix)
    # What DLIO puts before a name: os.path.join does not need the name to be known.
    return FileList(listing, storage.get_uri(os.path.join(folder, "x"))[:-1])


def subfolders(storage, folder, suffix):
    """FileList of folder/*/*.suffix in both cases, as glob finds them."""
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
        root, "order=basename depth=2 exact=2 hidden=0 follow=1 include="
        + ":".join(include("*." + pattern) for pattern in patterns))
    check_order(listing)
    if listing.directories_shown:
        raise Refusal("it holds directories whose names end with .%s" % suffix)
    if listing.duplicates:
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
        answer = [Placeholder(files[0], files)] if files else []
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
        answer = names_of(files, first) if files else PlaceholderNames(first, None)
    return answer


def patch(module, _tree):
    """Patch dlio_benchmark.storage.file_storage."""
    answer_walks(module.FileStorage, _walk)
