"""Data libraries, bare and on a shard view: libshard-shares(7)'s table of what comes of class folders, pairs and tables.

    python3 -m tests.clients.libraries [--filter RE] [--preload LIB]
    python3 -m tests.clients.libraries --table      prints the manual's table

recipes.py has how each library reads; .venv-libraries (scripts/setup.sh all) has the libraries. Each reads the datasets
bare, in one process, and then as each of two ranks under the preload. What comes of it must be what CELLS says:

    divided   each sample is in one rank, as the bare run has it: class, label, pair
    refused   the library fails, and libshard's line names the remedy
    line      libshard's line names the remedy, and the library finds nothing
    whole     each rank reads everything
    wrong     none of these
    itself    with SHARD_VIEW=off each sample is in one rank: the library asks for rank and size itself
    -         it does not read this
"""
import json
import os
import re
import subprocess
import sys

from tests.harness import confine, options, paths
from tests.harness.processes import HANGS
from tests.harness.verdicts import Verdicts

PYTHON = os.path.join(paths.REPO, ".venv-libraries", "bin", "python")
RECIPES = paths.source("clients", "recipes.py")
PAGE = os.path.join(paths.REPO, "shim", "man", "libshard-shares.7")
RANKS = 2
LAYOUTS = ("classes", "stems", "folders", "table", "index")
# What is a dataset for libshard. Captions of yolo are found by their images' names.
DATASETS = ("images", "texts", "parquet", "root", "netcdf", "tars", "audio", "stems", "two/images", "two/masks", "yolo/images", "numpy",
            "delta", "lance", "iceberg", "tiledb", "zarr", "mds", "litdata", "shar", "captions", "summary")
CELLS = """
datasets              divided  -        -        refused  wrong
timm                  divided  -        -        -        -
torchvision           divided  -        -        -        -
ultralytics           divided  -        divided  -        -
supervision           divided  -        divided  -        -
keras                 divided  -        divided  -        -
tensorflow-cpu        divided  divided  divided  refused  -
tensorflow-datasets   divided  -        -        -        -
nvidia-dali-cuda120   divided  divided  divided  -        -
fastai                divided  -        divided  -        -
monai                 divided  -        -        -        -
scikit-learn          divided  -        -        -        -
scikit-image          divided  divided  divided  line     -
tifffile              divided  divided  divided  refused  -
pims                  divided  -        divided  -        -
torch-geometric       divided  -        -        -        -
nltk                  divided  -        -        -        -
lhotse                divided  -        -        refused  -
webdataset            divided  -        -        -        -
torchdata             divided  divided  divided  refused  -
polars                divided  -        -        refused  -
duckdb                divided  -        -        refused  -
pyarrow               divided  -        -        refused  -
pandas                divided  -        -        refused  -
dask                  divided  -        -        refused  whole
fastparquet           divided  -        -        refused  whole
daft                  divided  divided  divided  refused  -
datafusion            divided  -        -        refused  -
ray                   divided  -        -        refused  -
uproot                divided  -        -        -        -
netcdf4               divided  -        -        -        -
xarray                divided  -        -        -        whole
deltalake             -        -        -        refused  -
pylance               -        -        -        refused  -
pyiceberg             -        -        -        refused  -
tiledb                -        -        -        refused  -
zarr                  -        -        -        -        whole
tensorstore           divided  divided  divided  -        whole
mosaicml-streaming    -        -        -        -        itself
litdata               -        -        -        -        itself
fsspec                divided  divided  divided  line     -
etils                 divided  divided  divided  line     -
obstore               divided  divided  divided  refused  -
opendal               divided  divided  divided  refused  -
multi-storage-client  divided  divided  divided  line     -
"""
TABLE = {name: dict(zip(LAYOUTS, cells)) for name, *cells in map(str.split, CELLS.strip().splitlines())}


def differ(bare, ranks):
    """What is wrong with the ranks' samples; "" if each sample is in one rank, and each rank has some."""
    every, shares = sorted(map(json.dumps, bare)), [sorted(map(json.dumps, rank)) for rank in ranks]
    if not all(shares):
        return "a rank has nothing"
    found = sorted(sum(shares, []))
    lost, others = set(every) - set(found), sorted(set(found) - set(every))
    return "" if found == every else (f"{len(every)} samples, the ranks have {[len(share) for share in shares]}: {len(lost)} are lost, "
                                      f"{len(found) - len(set(found))} there twice, {len(others)} others, such as {others[:3]}")


def judge(bare, ranks, said):
    """A cell's verdict, and why."""
    if isinstance(bare, str) or not bare:
        return "nothing", f"bare: {bare}"
    if all(re.search("^libshard: .*error: .*(SHARD_VIEW=off|SHARD_SAMPLE)", text, re.MULTILINE) for text in said):
        if all(isinstance(rank, str) for rank in ranks):
            return "refused", ranks
        if not any(ranks):
            return "line", said
    if any(isinstance(rank, str) for rank in ranks):
        return "fails", f"{ranks} {said}"
    wrong = differ(bare, ranks)
    if not wrong:
        return "divided", ""
    return ("whole" if not any(differ(bare, [rank]) for rank in ranks) else "wrong"), f"{wrong} {said}"


class Libraries:
    """The datasets, and the runs."""

    def __init__(self, args, work):
        self.args, self.work, self.root, self.run = args, work, work + "/data", 0
        process, own = self.start(self.environment(), "make")
        if process.wait(HANGS) != 0:
            with open(own + "/err", encoding="utf-8", errors="replace") as err:
                sys.exit(f"recipes.py make: {err.read()[-2000:]}")

    def environment(self, rank=None, **variables):
        """A process's environment; without a rank there is no preload."""
        self.run += 1
        own = f"{self.work}/{self.run}"
        os.mkdir(own)
        env = {**os.environ, "OWN": own, "TMPDIR": own, "HOME": own, "HF_HOME": own, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
               "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "YOLO_OFFLINE": "true", "CUDA_VISIBLE_DEVICES": "", **variables}
        if rank is not None:
            env.update(LD_PRELOAD=self.args.preload, SHARD_DATASET=":".join(f"{self.root}/{name}" for name in DATASETS),
                       SHARD_SAMPLE="stem", SHARD_CACHE_DIR=self.work + "/cache")
            for names, value in (("SHARD_RANK RANK LOCAL_RANK", rank), ("SHARD_SIZE WORLD_SIZE LOCAL_WORLD_SIZE", RANKS)):
                env.update(dict.fromkeys(names.split(), str(value)))
        return env

    def start(self, env, name, *layouts):
        """Start recipes.py; its output goes to a file, as processes that a library leaves keep it open."""
        with open(env["OWN"] + "/out", "wb") as out, open(env["OWN"] + "/err", "wb") as err:
            command = [PYTHON, RECIPES, name, self.root, *layouts]
            return subprocess.Popen(command, env=env, cwd=env["OWN"], stdout=out, stderr=err), env["OWN"]

    def read(self, name, layouts, environments):
        """[({layout: samples or why not}, {layout: its lines on standard error})], of processes side by side."""
        results, met = [], f"{self.work}/met.{self.run}"  # where ranks that ask torch for a group meet
        for process, own in [self.start({**env, "GROUP": met}, name, *layouts) for env in environments]:
            process.wait(HANGS)
            with open(own + "/out", encoding="utf-8") as out, open(own + "/err", encoding="utf-8", errors="replace") as err:
                answer, text = out.read(), err.read()
            parts = re.split(r"^layout (\w+)\n", text, flags=re.MULTILINE)[1:]
            died = {"version": "?", **{layout: f"it died: {text[-800:]}" for layout in layouts}}
            results.append((json.loads(answer) if answer else died, {**dict.fromkeys(layouts, ""), **dict(zip(parts[::2], parts[1::2]))}))
        return results

    def cells(self, name, expected):
        """(version, {layout: (verdict, why)})."""
        layouts = [layout for layout in LAYOUTS if expected[layout] != "-"]
        (bare, _), = self.read(name, layouts, [self.environment()])
        ranks = self.read(name, layouts, [self.environment(rank) for rank in range(RANKS)])
        found = {layout: judge(bare[layout], [one[layout] for one, _ in ranks], [said[layout] for _, said in ranks]) for layout in layouts}
        itself = [layout for layout in layouts if expected[layout] == "itself"]
        if itself:  # it divides without libshard
            ranks = self.read(name, itself, [self.environment(rank, SHARD_VIEW="off") for rank in range(RANKS)])
            found.update({layout: ("itself", "") for layout in itself
                          if not differ(bare[layout], [one[layout] for one, _ in ranks])})
        return bare["version"], found


def table(versions):
    """The manual's table, as troff."""
    lines = [f"{'library':27}{'classes':8}{'stems':8}{'folders':8}{'table':8}index"]
    for name, cells in TABLE.items():
        lines.append((f"{name + ' ' + versions[name]:27}" + "".join(f"{cell:8}" for cell in cells.values())).rstrip())
    return "".join(line.replace("-", "\\-") + "\n" for line in lines)


def printed():
    """The table that the manual has."""
    with open(PAGE, encoding="utf-8") as stream:
        return stream.read().partition('.\\" made by tests/clients/libraries.py --table\n.EX\n')[2].partition(".EE\n")[0]


def main():
    """Try all libraries; the exit status is 1 if anything is not as it must be."""
    parser = options.parser(__doc__, "preload", "filter")
    parser.add_argument("--table", action="store_true", help="print the table as the manual must have it")
    args = options.parse(parser)
    confine.begin()
    if not os.path.exists(PYTHON):
        print("skip: there is no .venv-libraries; scripts/setup.sh all makes it")
        return 0
    text = "import importlib.metadata, json, sys; print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))"
    must = table(json.loads(subprocess.run([PYTHON, "-c", text, *TABLE], check=True, stdout=subprocess.PIPE).stdout))
    if args.table:
        print(must, end="")
        return 0
    verdicts = Verdicts()
    verdicts.check("libshard-shares(7) has the table that --table prints", printed() == must, must)
    with options.temporary_folder("shard-libraries-") as work:
        libraries = Libraries(args, work)
        for name, expected in TABLE.items():
            if re.search(args.filter, name):
                version, found = libraries.cells(name, expected)
                for layout, (verdict, why) in found.items():
                    verdicts.check(f"{name} {version}: {layout}: {verdict}", verdict == expected[layout], f"not {expected[layout]}: {why}")
    return verdicts.conclude()


if __name__ == "__main__":
    sys.exit(main())
