# SPDX-License-Identifier: MIT
"""folder: FileStorage.walk_node() answered from the listing of the node."""
import os

from ..listing import Listing
from ..sequences import FileList
from .tokens import Names, Refusal, Token, answer_walks, asked, check_order, count_tokens

# Functions that are relied upon and the same in every DLIO known so far.
KNOWN = {
    "storage/file_storage.py": {
        "FileStorage.walk_node": ("a87c8cab2f",),
        "FileStorage.get_uri": ("863de35193",),
        "FileStorage.get_node": ("38cdccc373",),
        "FileStorage.get_basename": ("f89ef0a86c",),
    },
}


def include(pattern):
    """A pattern as a word of shard_dataset_open()'s options: ':' separates there, blanks end."""
    return "".join(c if c.isalnum() or c in "*._-" else "".join("%%%02x" % b for b in c.encode())
                   for c in pattern)


def flat(storage, folder, suffix):
    """FileList of the entries of `folder` whose name ends with `suffix`, sorted by path."""
    listing = Listing.of_dataset(storage.get_uri(folder),
                                 "order=path depth=1 include=" + include("*" + suffix))
    check_order(listing)
    if listing.directories_shown:
        raise Refusal("it holds directories whose names end with %r" % suffix)
    # What DLIO puts before a name: os.path.join does not need the name to be known.
    return FileList(listing, storage.get_uri(os.path.join(folder, "x"))[:-1])


def subfolders(storage, folder, suffix, order="basename"):
    """FileList of folder/*/*.suffix in both cases, as glob finds them, by basename."""
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
        root, "order=%s depth=2 exact=2 hidden=0 follow=1 include=%s"
        % (order, ":".join(include("*." + pattern) for pattern in patterns)))
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


def _walk(tree, order, storage, frame, node, use_pattern):
    """The answer to initialize()'s walk_node(), or None for the unmodified one."""
    benchmark, kind = asked(tree, storage, frame)
    if benchmark is None:
        return None
    args = benchmark.args
    folder = os.path.join(args.data_folder, kind)
    suffix = str(args.format)
    if use_pattern:
        if node != os.path.join(args.data_folder, "%s/*/*.%s" % (kind, suffix)):
            return None
        files = subfolders(storage, folder, suffix, order)
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
        token = Token(files.listing.name(0), files) if files else None
        answer = Names(first, token)
    count_tokens(frame)
    return answer


def patch(module, tree, order="basename"):
    """Patch dlio_benchmark.storage.file_storage; order: what sub-folders' files are sorted by."""
    def walk(*arguments):
        return _walk(tree, order, *arguments)

    answer_walks(module.FileStorage, walk, lambda node, _frame: repr(node))
