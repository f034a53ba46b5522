"""Programs of torch over tar shards, under torchrun: the shard view must give each rank its own.

    python -m tests.torch [--quick] [--preload LIB] [--ranks N] [--strategy NAME] ...

Readers that don't divide their files (webdataset, torchdata, a Dataset over os.listdir, ...) must
read every sample exactly once per epoch, over all ranks and workers, under the preload; and every
sample in every rank without it, so that a preload that does nothing fails here. What
libshard-pytorch(7) warns of is run, too: pipelines that divide by themselves lose samples under the preload.
train.py is the script that the man page shows.
"""
import collections
import dataclasses
import io
import json
import os
import re
import sys
import tarfile
import textwrap
import time

from tests.harness import confine, options, paths, processes
from tests.harness.verdicts import Verdicts

SAMPLES = 5   # in a tar
CLASSES = 3

# What must come of a reader's samples; a text that is none of them is a regex of an error that
# at least one rank must meet.
ONCE = "every sample once, over all ranks"
FULL = "every sample in every rank"
LOST = "some samples, none in two ranks, and the others lost"
EQUAL = "16 samples in every rank, none in two"
COMMON = "16 samples in every rank, some in two"
VERDICTS = (ONCE, FULL, LOST, EQUAL, COMMON)


@dataclasses.dataclass
class Reader:
    """A reader of readers.py, with what must come of it."""
    name: str
    workers: tuple = (0, 2)
    preloaded: str = ONCE
    bare: str = FULL


def plan():
    """Which readers are tried on which folder."""
    no_splitter = "need to add an explicit nodesplitter"
    return {
        # three tars for each rank
        "even": [
            Reader("listdir-shuffled"), Reader("scandir"), Reader("glob"), Reader("pathlib"),
            Reader("webdataset"), Reader("torchdata", (0,)),
            Reader("torchdata-filter-early"), Reader("torchdata-among-workers", (2,)),
            # These divide by themselves, or refuse to be used where nobody seems to. Two of them ask torch.distributed.
            Reader("webdataset-split-by-node", preloaded=LOST, bare=ONCE),
            Reader("torchdata-filter", (0,), preloaded=LOST, bare=ONCE),
            Reader("distributed-sampler", (0,), preloaded=LOST, bare=ONCE),
            Reader("webdataset-default", preloaded=no_splitter, bare=no_splitter),
        ],
        # one more
        "uneven": [
            Reader("listdir"), Reader("webdataset"), Reader("torchdata", (0,)),
            Reader("torchdata-among-workers", (2,)), Reader("torchdata-spawn", (2,)),
            Reader("webdataset-epochs", preloaded=EQUAL, bare=COMMON),
        ],
        # one for each rank but one, which has two: fewer than its workers
        "few": [
            Reader("listdir"), Reader("webdataset"), Reader("torchdata-among-workers", (2,)),
            Reader("webdataset-empty-check", (2,), preloaded="No samples found in dataset"),
        ],
        # one for each rank but one, which has none
        "scarce": [
            Reader("listdir"), Reader("torchdata", (0,)),
            Reader("torchdata-among-workers", (2,)),
            Reader("webdataset", (0,), preloaded="list index out of range"),
            Reader("listdir-shuffled", (0,), preloaded="num_samples=0"),
        ],
        # in sub-folders
        "nested": [
            Reader("deep-glob"), Reader("rglob"), Reader("walk"), Reader("webdataset-deep"),
            Reader("torchdata", (0,)), Reader("torchdata-among-workers", (2,)),
        ],
        # no tars but classes of images
        "classes": [Reader("class-folders")],
    }


# ---- the folders ---------------------------------------------------------------------------

def write_tar(path, first):
    """A tar of samples as webdataset names them; their names."""
    names = [f"{number:05d}" for number in range(first, first + SAMPLES)]
    with tarfile.open(path, "w") as tar:
        for name in names:
            for suffix, text in (("cls", str(int(name) % 10)), ("txt", "sample " + name)):
                member = tarfile.TarInfo(f"{name}.{suffix}")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text.encode()))
    return names


def write_tars(folder, count, subfolders=0):
    """A folder of tars; what its samples say."""
    texts = []
    for number in range(count):
        parent = os.path.join(folder, f"part-{number % subfolders}") if subfolders else folder
        os.makedirs(parent, exist_ok=True)
        path = os.path.join(parent, f"shard-{number:06d}.tar")
        texts += ["sample " + name for name in write_tar(path, number * SAMPLES)]
    return texts


def write_classes(folder, images):
    """Sub-folders of images, the second half of each class one level below; what they say."""
    texts = []
    for label in range(CLASSES):
        for number in range(images):
            parent = os.path.join(folder, f"class-{label}", "more" if number >= images // 2 else "")
            os.makedirs(parent, exist_ok=True)
            with open(os.path.join(parent, f"{number:03d}.jpeg"), "w", encoding="utf-8") as stream:
                stream.write(f"image {number}")
            texts.append(f"{label} image {number}")
    return texts


def write_data(folder, ranks):
    """All folders: {name: what its samples say}."""
    def inside(name):
        return os.path.join(folder, name)
    return {
        "even": write_tars(inside("even"), 3 * ranks),
        "uneven": write_tars(inside("uneven"), 3 * ranks + 1),
        "few": write_tars(inside("few"), ranks + 1),
        "scarce": write_tars(inside("scarce"), ranks - 1),
        "nested": write_tars(inside("nested"), 3 * ranks + 1, subfolders=3),
        "classes": write_classes(inside("classes"), 2 * ranks + 1),
    }


# ---- verdicts ------------------------------------------------------------------------------

def verdict_holds(verdict, ranks, texts):
    """Whether it does of one epoch's samples, a list for each rank."""
    texts = collections.Counter(texts)
    ranks = [collections.Counter(rank) for rank in ranks]
    together = sum(ranks, collections.Counter())
    strangers = together.keys() - texts.keys()
    common = sum(map(len, ranks)) > len(together)
    if verdict in (EQUAL, COMMON):
        return (not strangers and all(rank.total() == 16 for rank in ranks)
                and common == (verdict == COMMON))
    if verdict == ONCE:
        return together == texts
    if verdict == FULL:
        return all(rank == texts for rank in ranks)
    return not strangers and not common and 0 < len(together) < len(texts)  # LOST


def judged(verdict, results, texts, epochs=2):
    """Lines that say what is wrong with (epochs, error) of each rank; none if it is as it must."""
    errors = [error for _, error in results if error]
    if verdict not in VERDICTS:
        if not any(re.search(verdict, error) for error in errors):
            return [f"no error like {verdict!r} but {errors}"]
        return []
    if errors:
        return errors
    lines = []
    for epoch in range(epochs):
        ranks = [read[epoch] if epoch < len(read) else [] for read, _ in results]
        if not verdict_holds(verdict, ranks, texts):
            lines.append(f"epoch {epoch}: not {verdict!r}: the ranks have read "
                         f"{[len(rank) for rank in ranks]} samples, "
                         f"{len(set().union(*ranks))} different ones of {len(texts)}")
    return lines


# ---- the jobs ------------------------------------------------------------------------------

class Torch:
    """Folders and jobs, and the sums."""

    def __init__(self, args, work):
        self.args, self.work = args, work
        self.data = os.path.join(work, "data")
        self.texts = write_data(self.data, args.ranks)
        self.verdicts = Verdicts()

    def start(self, name, dataset, program):
        """torchrun of a program, under the preload if there is a dataset: its output, and lines if it failed or the
        library said anything."""
        folder = os.path.join(self.work, name)
        os.makedirs(folder)
        env = {key: value for key, value in processes.environment(self.args.python).items()
               if not key.startswith("SHARD_")}
        env.update(PYTHONFAULTHANDLER="1", GLOO_SOCKET_IFNAME="lo")
        if dataset:
            env.update(LD_PRELOAD=self.args.preload, SHARD_DATASET=dataset,
                       SHARD_STRATEGY=self.args.strategy,
                       SHARD_CACHE_DIR=os.path.join(folder, "cache"))
        command = [self.args.python, "-m", "torch.distributed.run", "--standalone",
                   "--nproc-per-node", str(self.args.ranks)] + program
        log = os.path.join(folder, "job.log")
        status, reason = processes.run_job(command, env, folder, log)
        with open(log, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
        if reason or status != 0:
            return text, [f"torchrun ended with {reason or status}:", text[-10000:]]
        said = sorted(set(re.findall(r"^libshard: .*", text, re.MULTILINE)))
        return text, [f"said {said}"] if said else []

    def readers(self, job, dataset, folders):
        """One job of readers.py over some folders of the plan, under the preload or not."""
        begin = time.monotonic()
        tries = [(folder, reader, workers) for folder in folders
                 for reader in plan()[folder] for workers in reader.workers]
        if self.args.quick:  # each reader once on a folder; without the preload, once
            tries = list({(reader.name, dataset and folder): (folder, reader, workers)
                          for folder, reader, workers in tries}.values())
        output = os.path.join(self.work, job + ".json")
        _, lines = self.start(job, dataset, [paths.source("torch", "readers.py"), output] + [
            f"{reader.name}:{workers}:{os.path.join(self.data, folder)}"
            for folder, reader, workers in tries])
        self.verdicts.tell(f"{job} ({len(tries)} readers, {time.monotonic() - begin:.0f} s)", lines)
        if not os.path.exists(output):
            return
        with open(output, encoding="utf-8") as stream:
            ranks = json.load(stream)
        for (folder, reader, workers), *results in zip(tries, *ranks):
            lines = judged(reader.preloaded if dataset else reader.bare, results,
                           self.texts[folder])
            if not dataset and reader.preloaded in (ONCE, EQUAL) and not lines:
                # The test is one that can fail.
                lines = [] if judged(reader.preloaded, results, self.texts[folder]) else [
                    "it divides its samples without the preload, too"]
            self.verdicts.tell(f"{job} {folder} {reader.name}, {workers} workers", lines)

    def train(self, job, folder, preloaded):
        """One job of train.py."""
        begin = time.monotonic()
        path = os.path.join(self.data, folder)
        text, lines = self.start(job, path if preloaded else "",
                                 [paths.source("torch", "train.py"), path])
        epochs = [json.loads(line) for line in re.findall(r"^\[\[.*\]\]$", text, re.MULTILINE)]
        if not lines and len(epochs) != 2:
            lines = [f"{len(epochs)} epochs in its output:", text[-2000:]]
        if not lines:
            texts = [text.partition(" ")[2] for text in self.texts[folder]]
            results = [(list(rank), "") for rank in zip(*epochs)]
            lines = judged(ONCE if preloaded else FULL, results, texts)
            if not preloaded and not judged(ONCE, results, texts):
                lines.append("it divides its samples without the preload, too")
        self.verdicts.tell(f"{job} ({time.monotonic() - begin:.0f} s)", lines)


def check_manual():
    """Lines if libshard-pytorch(7) doesn't show train.py's lines, or a function of readers.py, as they are."""
    def content(*path):
        with open(os.path.join(paths.REPO, *path), encoding="utf-8") as stream:
            return stream.read()
    training = re.search(r" *tars = .*?backward\(\)\n", content("tests", "torch", "train.py"), re.DOTALL).group()
    training = "".join(line for line in training.splitlines(True) if "seen" not in line)
    shown = [textwrap.dedent(training),
             re.search(r"def among_workers\(.*\n(?:    .*\n)+",
                       content("tests", "torch", "readers.py")).group()]
    page = content("shim", "man", "libshard-pytorch.7").replace("\\-", "-").replace("\\e", "\\")
    return ["it lacks this:\n" + text for text in shown if f".EX\n{text.strip()}\n.EE" not in page]


def parse_arguments():
    """The command line."""
    parser = options.parser(__doc__, "preload", "python", "filter", "workdir")
    parser.add_argument("--ranks", type=int, default=4, help="processes of a job, 2 or more")
    parser.add_argument("--quick", action="store_true", help="each reader once on a folder, and once at all without "
                        "the preload")
    parser.add_argument("--strategy", default="stride", help="SHARD_STRATEGY of the jobs")
    args = options.parse(parser)
    if args.ranks < 2:
        parser.error("--ranks must be 2 or more")
    return args


def main():
    """Run all jobs; the exit status is 1 if anything is not as it must be."""
    confine.begin()
    processes.end_jobs_on_signals()
    args = parse_arguments()
    work = options.work_folder(args, "torch-run-")
    tests = Torch(args, work)
    folders = {name: os.path.join(tests.data, name) for name in tests.texts}
    # One dataset, and several: each job starts torch anew in every rank, which takes most of its time.
    rest = [name for name in folders if name != "even"]
    jobs = {"preloaded-even": lambda job: tests.readers(job, folders["even"], ["even"]),
            "preloaded-rest": lambda job: tests.readers(job, ":".join(folders[name] for name in rest), rest)}
    jobs["bare"] = lambda job: tests.readers(job, "", list(folders))
    jobs["train-even"] = lambda job: tests.train(job, "even", True)
    jobs["train-uneven"] = lambda job: tests.train(job, "uneven", True)
    jobs["train-bare"] = lambda job: tests.train(job, "even", False)
    tests.verdicts.tell("libshard-pytorch.7 shows what is tested", check_manual())
    for name, job in jobs.items():
        if re.search(args.filter, name):
            job(name)
    return tests.verdicts.conclude(work, args.workdir)


if __name__ == "__main__":
    sys.exit(main())
