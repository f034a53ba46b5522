"""make lint: what each function of libshard.so needs of a thread's stack, its calls included.

    python3 scripts/stacks.py build/stacks/FILE.ci ...     gcc's call graphs (-fcallgraph-info=su), one for each source

A thread may have PTHREAD_STACK_MIN bytes, 16 KiB, less what libc keeps there; so have Argobots' by default. libshard.so may
use MOST bytes of them. What is counted is the sum of the frames on the deepest way from any function. Not counted are

- libc's, Python's and the program's own functions: a program without libshard calls them, too;
- the loader's call of the constructor (EXEMPT), before there are threads.

A call by a pointer is counted by POINTERS, which names what is called, for a function, a file or a room; it is an error if
none is told. A function that calls itself, by whatever way, is counted as often as REPEATS tells; any other is an error.
So is a frame whose size gcc cannot bound (alloca, arrays of variable length).
"""
import pathlib
import re
import sys

MOST = 6 * 1024

# The constructor, and what only it calls by a pointer: how a variable is read.
EXEMPT = {"shard_init", "take_listings", "shard_listing_list_fault"}

# Where a call by a pointer leads: to these functions of ours, or to others' ().
POINTERS = {
    "shim/adapter": (),  # Python's
    "get_element": ("make_path", "make_number"),
    "find": ("make_path", "make_number"),
    "shim/interpose": (),  # libc's, behind the wrappers; the program's callbacks
    "shim/interpose/glob.c": ("open_dir", "read_dir", "close_dir"),  # by libc's glob()
    "shim/cache/lock.c": ("tell",),
    "shard_collect_each": ("collect", "remove_old"),
    "collect": (),  # shardctl's: libshard.so has none there
    "shim/config/config.c": (),  # the constructor's
    "shim/host/inode.c": (),  # libc's open(), maybe by our wrapper: it returns at once where libshard lists; called by
    # the adapter's functions it may take its own way, 4.4 KiB behind 1.4 of theirs
    "shim/view": (),  # libc's getdents64()
}

REPEATS = {
    "row_is_set": 2,  # PyTorch's row asks for torchrun's
    "is_same": 8,  # a sample of DLIO's is a tuple of tuples; three levels were seen
    "walk_directory": 1, "visit_entry": 1,  # nftw: one for each level of the tree, as in libc
}

NODE = re.compile(r'node: \{ title: "([^"]*)" label: "[^"]*\\n(\d+) bytes \((.*?)\)')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"')


def short(title):
    """The function's name, without its file and gcc's suffixes for parts and copies."""
    return re.sub(r"\.(constprop|part|isra|cold)\.?\d*", "", title.rsplit(":", 1)[-1].lstrip("*"))


def pointed(title, file):
    """The names that a function of a file calls by a pointer; None: that is not told."""
    for key in (short(title), file, *map(str, pathlib.PurePath(file).parents)):
        if key in POINTERS:
            return POINTERS[key]
    return None


def read(paths):
    """Frames, calls, and what is wrong."""
    frames, calls, wrong, by_pointer = {}, {}, [], []
    for path in paths:
        file = "shim/" + path.rsplit("/stacks/", 1)[-1].removesuffix("ci") + "c"
        for line in pathlib.Path(path).read_text().splitlines():
            if node := NODE.match(line):
                frames[node[1]] = int(node[2])
                if node[3] == "dynamic":
                    wrong.append(f"{short(node[1])} of {file}: the size of its frame is not bounded")
            elif (edge := EDGE.match(line)) and edge[2] == "__indirect_call":
                by_pointer.append((edge[1], file))
            elif edge:
                calls.setdefault(edge[1], set()).add(edge[2])
    names = {}
    for title in frames:
        names.setdefault(short(title), set()).add(title)
    for title, file in by_pointer:
        targets = pointed(title, file)
        if targets is None:
            wrong.append(f"{short(title)} of {file} calls by a pointer: POINTERS tells not what")
        for name in targets or ():
            calls.setdefault(title, set()).update(names.get(name, ()))
    stale = {name for row in POINTERS.values() for name in row} | set(REPEATS) | EXEMPT
    wrong += [f"there is no function {name}" for name in sorted(stale - set(names))]
    return frames, calls, wrong


def measure(frames, calls, wrong):
    """The deepest way from each function: bytes, and the functions on it."""
    done, way = {}, []

    def deepest(title):
        if title in way:
            loop = {short(t) for t in way[way.index(title):]}
            if not loop & set(REPEATS):
                wrong.append("calls itself: " + ", ".join(sorted(loop)))
            return 0, ()
        if title not in done:
            way.append(title)
            below = max((deepest(t) for t in calls.get(title, ()) if t in frames), default=(0, ()))
            way.pop()
            done[title] = frames[title] * REPEATS.get(short(title), 1) + below[0], (title, *below[1])
        return done[title]

    for title in frames:
        deepest(title)
    return done


def main():
    frames, calls, wrong = read(sys.argv[1:])
    done = measure(frames, calls, wrong)
    called = {t for title, targets in calls.items() if short(title) not in EXEMPT for t in targets if t != title}
    first = [title for title in frames if short(title) not in EXEMPT and (title not in called or ":" not in title)]
    constructor = {t for name in frames if short(name) in EXEMPT for t in calls.get(name, ())}
    first = [title for title in first if title in called or title not in constructor]
    for title in sorted(first, key=lambda t: -done[t][0]):
        if done[title][0] > MOST:
            way = " > ".join(f"{short(t)} {frames[t]}" for t in done[title][1])
            wrong.append(f"{short(title)} needs {done[title][0]} bytes of stack, {MOST} at most: {way}")
    for line in sorted(set(wrong)):
        print(f"stacks: {line}", file=sys.stderr)
    deepest = max(first, key=lambda t: done[t][0], default=None)
    if not deepest:
        sys.exit("stacks: no call graph")
    print(f"  STACK {done[deepest][0]} bytes at most ({short(deepest)}), of {MOST}")
    sys.exit(bool(wrong))


main()
