# SPDX-License-Identifier: MIT
"""epochs: what the processes of a rank share of its epochs (shard_run_begin() of libshard.h): which
one it is, and how many files of the dataset they have opened. For DLIOs of all families.

An epoch that opened far fewer files than one before it has been read from memory, and is told. Who
opens a file counts it, in libc's call; here the counts of two epochs are compared. What DLIO reads
ahead it opens after it has trained for an epoch (or evaluated), so it counts for the next one.
"""
import os
import sys
from functools import partial

from ..native import INFO, WARN, native, say_once
from ..patching import replaces
from ..sequences import FileList, tell_reads
from . import compare_ranks, workers

KINDS = {"train": 0, "eval": 1}
FEW = 10  # an epoch that opens less than a FEWth of what it should opens far fewer files

_reads = {}  # kind -> Reads, in the rank's main process
_told = set()
_say = partial(say_once, said=_told)  # once per run


class Reads:
    """How often the rank's processes open files of one list, epoch by epoch."""

    def __init__(self, kind, files, suffix):
        self._kind, self._files, self._suffix = kind, len(files), suffix
        self._folders = set()
        self._before = native().run_opens(KINDS[kind])
        self._most = 0   # opens of an epoch until now,
        self._steps = 0  # and its steps
        for prefix in _local(files.prefix):
            if native().run_watch(KINDS[kind], prefix, suffix):
                self._folders.add(os.path.join(os.path.realpath(prefix), ""))
        if not self._folders:
            self._before = None

    def end(self, epoch, steps):
        """An epoch has ended, after so many steps, if they are known. What to tell, or None."""
        opens = native().run_opens(KINDS[self._kind])
        if opens is None or self._before is None:
            self._before = None  # not all opens are known, now or later
            return None
        opened, self._before = opens - self._before, opens
        expected = self._most
        if steps is not None and steps < self._steps:
            expected = self._most * steps // self._steps
        if opened * FEW < expected and self._held() * 2 < expected - opened:
            return "%sepoch %d opened %s of %s files: they were served from memory; its " \
                   "throughput is not the storage's" % (
                       "the evaluation after " if self._kind == "eval" else "", epoch,
                       format(opened, ","), format(min(expected, self._files), ","))
        if opened > self._most:
            self._most, self._steps = opened, steps or 0
        return None

    def _held(self):
        """How many files the rank's processes hold open, or mapped: they are read without being
        opened again. As many as there are, if that cannot be told."""
        multiprocessing = sys.modules.get("multiprocessing")
        children = multiprocessing.active_children() if multiprocessing else ()
        held = 0
        try:
            for pid in [os.getpid()] + [child.pid for child in children]:
                paths = set(_mapped(pid))
                paths.update(_open(pid))
                held += sum(map(self._is_ours, paths))
        except OSError:
            return sys.maxsize
        return held

    def _is_ours(self, path):
        return (path.lower().endswith(self._suffix.lower())
                and any(map(path.startswith, self._folders)))


def _local(prefix):
    """The prefixes by which libc may be asked for a list's files; none for objects."""
    scheme, separator, rest = prefix.rpartition("://")
    if scheme not in ("", "file", "direct"):
        return set()
    prefix = rest if separator else prefix
    return {prefix, os.path.join(os.path.abspath(prefix), "")}


def _open(pid):
    """Paths of the files that a process has open."""
    folder = "/proc/%d/fd" % pid
    for fd in os.listdir(folder):
        try:
            yield os.readlink(os.path.join(folder, fd))
        except FileNotFoundError:
            pass


def _mapped(pid):
    """Paths of the files that a process has mapped."""
    with open("/proc/%d/maps" % pid, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6:
                yield fields[5]


# ---- SHARD_SHUFFLE -----------------------------------------------------------------------------


def _reshuffled(args, lists, fault):
    """The lists in an order of their own in each epoch, or as they are, and a line why. fault: why
    this rank cannot, or None."""
    if str(args.data_loader) != "pytorch":
        _say(WARN, "SHARD_SHUFFLE=epoch has no effect: it is for DLIO's PyTorch loaders; the %s "
             "loader gives its ranks files in an order of its own" % args.data_loader)
        return lists
    if getattr(args, "files_pre_sharded", False):
        _say(WARN, "SHARD_SHUFFLE=epoch has no effect: this DLIO gives each rank files of its own, and deals them "
             "anew in each epoch itself (dataset.file_shuffle)")
        return lists
    seed = int(os.environ.get("SHARD_SEED") or args.seed)
    made, mine = {}, {}
    for kind, files in lists.items():
        made[kind] = mine[kind] = None
        if isinstance(files, FileList) and not fault:
            made[kind] = files.reshuffled(seed)
        if made[kind]:
            mine[kind] = seed, len(files), files.listing.digest
    if not compare_ranks.is_joined(args.comm_size):
        _say(WARN, "SHARD_SHUFFLE=epoch has no effect: it needs libshard, and its list of files, in all ranks")
        return lists
    everyone = [mine]
    if args.comm_size > 1:
        from dlio_benchmark.utils.utility import DLIOMPI

        everyone = DLIOMPI.get_instance().comm().allgather(mine)
    for kind, files in lists.items():
        if not files:
            continue
        folder = "train" if kind == "train" else "valid"
        others = [one[kind] for one in everyone]
        if mine[kind] and others.count(mine[kind]) == len(others):
            lists[kind] = made[kind]
            _say(INFO, "SHARD_SHUFFLE=epoch: the %d files of %s are dealt to %d ranks anew in "
                 "each epoch, by seed %d" % (len(files), folder, args.comm_size, seed))
            continue
        if fault:
            why = "needs processes of a rank that share their epoch: %s" % fault
        elif not isinstance(files, FileList):
            why = "needs libshard's list of %s, which is listed in the unmodified way" % folder
        else:
            rank = next(i for i, one in enumerate(others) if one != mine[kind])
            why = "needs one list of %s and one seed: those of rank %d are not rank %d's; give " \
                  "all ranks the same SHARD_ variables (mpirun -x)" % (folder, rank, args.my_rank)
        _say(WARN, "SHARD_SHUFFLE=epoch has no effect: it " + why)
    return lists


# ---- the patches -------------------------------------------------------------------------------


def _begin(args, lists):
    """DLIO has its lists, {kind: files}: count from now on. What to use in their place."""
    _reads.clear()
    _told.clear()
    shuffle = os.environ.get("SHARD_SHUFFLE") == "epoch"
    for kind, files in lists.items():
        why = "DLIO has made that list itself" if not isinstance(files, FileList) else "its files are objects"
        if (files and not (isinstance(files, FileList) and _local(files.prefix)) and native().stats_on()
                and not os.environ.get("SHARD_DATASET")):
            _say(WARN, "SHARD_STATS has no effect on %s: %s" % ("train" if kind == "train" else "valid", why))
    lazy = any(isinstance(files, FileList) for files in lists.values())
    if not shuffle and not lazy and not native().stats_on():
        return lists
    fault = None
    try:
        os.environ["LIBSHARD_RUN"] = native().run_begin()
    except OSError as error:
        fault = error
    for kind, files in lists.items():
        if isinstance(files, FileList) and not fault:
            _reads[kind] = Reads(kind, files, str(args.format))
    return _reshuffled(args, lists, fault) if shuffle else lists


def _accounted(args, lists, listing, used):
    """How many files of a list an epoch's steps account for: loaders may leave out a last, partial batch,
    and a run may end after so many steps."""
    evaluation = getattr(lists["eval"], "listing", None) is listing
    batch, each = (args.batch_size_eval if evaluation else args.batch_size), args.num_samples_per_file
    steps = used * each // args.comm_size // batch
    if not evaluation and getattr(args, "total_training_steps", -1) > 0:
        steps = min(steps, args.total_training_steps)
    return min(used, steps * batch * args.comm_size // each)


def patch_config(module, _tree):
    """Patch dlio_benchmark.utils.config."""
    cls = module.ConfigArguments
    derive, again = cls.derive_configurations, cls.reconfigure

    @replaces(cls)
    def derive_configurations(self, file_list_train=None, file_list_eval=None, *rest, **more):
        if file_list_train is not None and file_list_eval is not None:
            lists = _begin(self, {"train": file_list_train, "eval": file_list_eval})
            file_list_train, file_list_eval = lists["train"], lists["eval"]
            derive(self, file_list_train, file_list_eval, *rest, **more)
            return tell_reads(lambda listing, used: _accounted(self, lists, listing, used))
        return derive(self, file_list_train, file_list_eval, *rest, **more)

    @replaces(cls)
    def reconfigure(self, epoch_number, *rest, **more):
        # DLIO calls this before its first epoch, and after each; after the last one, too.
        if epoch_number <= getattr(self, "epochs", epoch_number):
            native().run_set_epoch(epoch_number)
        result = again(self, epoch_number, *rest, **more)
        workers.renew(self, epoch_number)
        return result


def _ended(kind, epoch, steps):
    text = _reads[kind].end(epoch, steps) if kind in _reads else None
    if text is not None:
        _reads.clear()  # once is enough
        _say(WARN, text + workers.advice())


def patch_counter(module, _tree):
    """Patch dlio_benchmark.utils.statscounter, whose methods DLIO calls when it has trained, or
    evaluated."""
    cls = module.StatsCounter
    if not hasattr(cls, "end_train") or not hasattr(cls, "end_eval"):
        return
    train, evaluation = cls.end_train, cls.end_eval

    @replaces(cls)
    def end_train(self, epoch, steps, *rest, **more):
        _ended("train", epoch, steps)
        return train(self, epoch, steps, *rest, **more)

    @replaces(cls)
    def end_eval(self, epoch, *rest, **more):
        _ended("eval", epoch, None)
        return evaluation(self, epoch, *rest, **more)
