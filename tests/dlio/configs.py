"""The configurations of the same-run matrix, and the datasets they read.

Sizes are chosen so that ranks x batch divides the samples (where a
configuration doesn't say otherwise): what a run opens then repeats exactly.
"""
import dataclasses
import os
import shutil
import subprocess

from tests.dlio import running

TRAIN_FILES = 32
VALID_FILES = 16
FOLDERS = 10

# Names that go wrong in careless code; every one sorts among DLIO's own img_*.
ODD_NAMES = ["img_ with  spaces", "img_'quote\"", "img_new\nline", "img_back\\slash", "img_[1]*?",
             "img_é ü 日本", "img_\U0001f600", "img_%s{0}$HOME", "-img", "IMG"]


def package(python, tree=""):
    """The folder of DLIO's package: in a tree, or as an interpreter finds it."""
    if tree:
        return os.path.join(os.path.abspath(tree), "dlio_benchmark")
    code = ("import importlib.util as u;"
            "print(u.find_spec('dlio_benchmark').submodule_search_locations[0])")
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A dataset that DLIO generates once and all runs read.

    The name must not contain the format: DLIO's search for upper-case names
    replaces it in the whole path ("jpeg-in-path" does so on purpose).
    """
    name: str
    format: str = "jpeg"
    spf: int = 1  # samples per file
    folders: int = 0
    train: int = TRAIN_FILES
    valid: int = VALID_FILES
    edit: object = None  # function(train folder, valid folder), after generation


@dataclasses.dataclass
class Config:
    """One run of the benchmark, unmodified and under the preload."""
    name: str
    dataset: Dataset
    options: dict
    loader: str = "pytorch"
    ranks: tuple = (1, 2, 4)
    opens: str = ""          # what to compare: "counts", only the "set", or "nothing"; see matrix()
    may_hang: int = 0        # some ranks may die alone, which ends the job: keep it for the end; 2: the very end
    fallback: bool = False   # the library is right to leave this one unmodified
    private: bool = False    # generates its own dataset, anew for every run
    quick: bool = False
    dataset_path: str = ""   # format string that makes the path DLIO gets from the real one
    needs: str = ""          # a file of DLIO's package, or an argument: only trees that have it run this

    @property
    def dali(self):
        """Whether it needs nvidia.dali."""
        return self.loader.endswith("dali")


def family(fmt):
    """A name for a format that does not contain it."""
    return {"jpeg": "photo", "png": "picture", "npz": "zipped", "npy": "array", "tfrecord": "records",
            "csv": "table", "hdf5": "hierarchy", "indexed_binary": "offsets",
            "mmap_indexed_binary": "mapped", "parquet": "columns"}[fmt]


def plain(fmt, spf=1, folders=0, **sizes):
    """The standard dataset of a format and layout."""
    parts = [family(fmt), f"f{folders}", f"s{spf}"] + [f"{k}{v}" for k, v in sizes.items()]
    return Dataset("-".join(parts), fmt, spf, folders, **sizes)


def image_of(folder):
    """Some file of the folder, to copy."""
    return os.path.join(folder, sorted(name for name in os.listdir(folder) if name[0] != ".")[0])


def add_other_files(folder, tag=""):
    """Files that are no data, or that only DLIO's suffix test takes for data."""
    image = image_of(folder)
    for name in ("README.txt", ".DS_Store", "img_0.jpeg.tmp", "jpeg.npz", "zzz",
                 f"img{tag}.JPEG", f".hidden{tag}.jpeg", f"img_nodot{tag}jpeg", f"~{tag}.jpeg"):
        shutil.copy(image, os.path.join(folder, name))


def add_others(train, valid):
    """Other files among the data."""
    for folder in (train, valid):
        add_other_files(folder)


def add_others_in_folders(train, valid):
    """The same inside the sub-folders, where DLIO globs instead."""
    for parent in (train, valid):
        for name in os.listdir(parent):
            add_other_files(os.path.join(parent, name), name)


def rename_alike(train, valid):
    """The same names in every sub-folder: DLIO sorts by them alone."""
    for parent in (train, valid):
        for folder, _, names in os.walk(parent):
            for i, name in enumerate(sorted(names)):
                os.rename(os.path.join(folder, name), os.path.join(folder, f"same_{i}.jpeg"))


def add_stray_file(train, _valid):
    """A file beside the sub-folders: DLIO stops with an assertion."""
    with open(os.path.join(train, "stray.jpeg"), "w", encoding="utf-8"):
        pass


def add_empty_folder(train, valid):
    """One sub-folder more, without data."""
    os.mkdir(os.path.join(train, "empty"))
    os.mkdir(os.path.join(valid, "empty"))


def rename_odd(train, valid):
    """Give some files names with all that a name can hold."""
    for parent in (train, valid):
        files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(parent)
                       for name in names)
        for path, stem in zip(files[2:], ODD_NAMES):
            suffix = path.rpartition(".")[2]
            os.rename(path, os.path.join(os.path.dirname(path), f"{stem}.{suffix}"))


def rename_not_utf8(train, valid):
    """A name that is no text in any encoding Python would guess."""
    for folder in (train, valid):
        os.rename(image_of(folder), os.path.join(os.fsencode(folder), b"img_\xff\xfe.jpeg"))


def empty_train(train, _valid):
    """A train folder without files."""
    shutil.rmtree(train)
    os.mkdir(train)


def remove_valid(_train, valid):
    """No valid folder at all: DLIO lists it even if it needs no evaluation."""
    shutil.rmtree(valid)


def cross():
    """The full product: layouts, threads, samples per file, formats with their loaders.

    With 1 rank all of it. With 2 ranks all of PyTorch's JPEG, and of the others as much as has every pair of
    layout, threads and samples; with 4 ranks of that what has threads. TFRecord reads with 1 thread for the product: with 0 it fails unmodified (also tried, once).
    """
    for loader, fmt in (("pytorch", "jpeg"), ("pytorch", "npz"), ("tensorflow", "npz"),
                        ("tensorflow", "tfrecord")):
        for folders in (0, FOLDERS):
            for threads in ((1, 2) if fmt == "tfrecord" else (0, 2)):
                for spf in (1, 4):
                    layout = "folders" if folders else "flat"
                    pairs = not bool(folders) ^ (threads == 2) ^ (spf == 4)
                    yield Config(f"{loader}-{fmt}-{layout}-threads{threads}-spf{spf}",
                                 plain(fmt, spf, folders), {"reader.read_threads": threads}, loader,
                                 ranks=(1,) + (2,) * (fmt == "jpeg" or pairs) + (4,) * (pairs and threads == 2),
                                 quick=spf == 1 and (threads == 2) == bool(folders))
    yield Config("tensorflow-tfrecord-flat-threads0-spf1", plain("tfrecord"),
                 {"reader.read_threads": 0}, "tensorflow", ranks=(2,))


def shuffles():
    """Shuffling of files and samples, where the loader has it."""
    photo, zipped = plain("jpeg"), plain("npz", 4)
    for option, value in (("file_shuffle", "seed"), ("sample_shuffle", "seed"),
                          ("sample_shuffle", "random"), ("file_shuffle", "random")):
        yield Config(f"pytorch-jpeg-{option}-{value}", photo, {f"reader.{option}": value},
                     ranks=(2, 4), quick=value == "seed")
        yield Config(f"tensorflow-npz-{option}-{value}", zipped, {f"reader.{option}": value},
                     "tensorflow", ranks=(2, 4), quick=option == "file_shuffle" and value == "seed")
    yield Config("pytorch-npz-both-seed", zipped,
                 {"reader.file_shuffle": "seed", "reader.sample_shuffle": "seed"}, ranks=(4,))
    yield Config("tensorflow-npz-folders-file_shuffle-seed", plain("npz", 1, FOLDERS),
                 {"reader.file_shuffle": "seed"}, "tensorflow", ranks=(4,))
    yield Config("tensorflow-npz-file_shuffle-off", zipped, {"reader.file_shuffle": "off"},
                 "tensorflow", ranks=(2,))
    yield Config("tensorflow-npz-same-seed", zipped,
                 {"reader.file_shuffle": "seed", "train.seed_change_epoch": False},
                 "tensorflow", ranks=(2,))
    yield Config("tensorflow-tfrecord-sample_shuffle-seed", plain("tfrecord"),
                 {"reader.sample_shuffle": "seed"}, "tensorflow", ranks=(2,))
    yield Config("tensorflow-tfrecord-file_shuffle-seed", plain("tfrecord", 1, FOLDERS),
                 {"reader.file_shuffle": "seed"}, "tensorflow", ranks=(2,))


def formats():
    """The other formats, once each."""
    for fmt in ("csv", "hdf5", "png", "npy", "indexed_binary", "mmap_indexed_binary"):
        yield Config(f"pytorch-{fmt}", plain(fmt, 4), {"reader.read_threads": 2}, ranks=(2,),
                     may_hang=True)
    yield Config("tensorflow-hdf5", plain("hdf5", 4), {"reader.read_threads": 2}, "tensorflow",
                 ranks=(2,), may_hang=True)


def readers():
    """Options of reading that change which opens happen, or in which process."""
    photo, folders = plain("jpeg"), plain("jpeg", 1, FOLDERS)
    for name, options in {
            "read_type-on_demand": {"reader.read_type": "on_demand"},
            "read_type-memory": {"reader.read_type": "memory"},
            "prefetch0": {"reader.prefetch_size": 0, "reader.read_threads": 1},
            "no-evaluation": {"workflow.evaluation": False, "reader.read_threads": 1},
            "total-steps": {"train.total_training_steps": 3, "workflow.evaluation": False,
                            "reader.read_threads": 0},
            "checkpoint": {"workflow.checkpoint": True, "checkpoint.checkpoint_after_epoch": 1,
                           "checkpoint.epochs_between_checkpoints": 1,
                           "checkpoint.model_size": 1024},
            "eval-every-second": {"evaluation.epochs_between_evals": 2, "train.epochs": 3},
    }.items():
        yield Config(f"pytorch-jpeg-{name}", photo, options, ranks=(2,))
    yield Config("pytorch-jpeg-spawn", photo,
                 {"reader.read_threads": 1, "reader.multiprocessing_context": "spawn"}, ranks=(2,))
    yield Config("pytorch-jpeg-folders-spawn", folders,
                 {"reader.read_threads": 2, "reader.multiprocessing_context": "spawn"}, ranks=(1,))


def dali():
    """NVIDIA's loader, on a machine without a GPU.

    native_dali makes a pipeline for each epoch and keeps the old ones, which the second epoch dies
    of, whatever DALI's version. From February 2025 on it wants to be told a sampler.
    """
    native = {"reader.data_loader_sampler": "index", "train.epochs": 1, "reader.read_threads": 1}
    for fmt in ("jpeg", "npz"):
        for threads in (0, 2):
            yield Config(f"dali-{fmt}-threads{threads}", plain(fmt), {"reader.read_threads": threads},
                         "dali", ranks=(2, 4) if threads else (2,), quick=threads > 0 and fmt == "jpeg")
    yield Config("dali-npz-spf4-sample_shuffle-seed", plain("npz", 4),
                 {"reader.sample_shuffle": "seed", "reader.read_threads": 1}, "dali", ranks=(2,), quick=True)
    yield Config("dali-jpeg-folders-file_shuffle-seed", plain("jpeg", 1, FOLDERS),
                 {"reader.file_shuffle": "seed", "reader.read_threads": 1}, "dali", ranks=(2,), quick=True)
    yield Config("dali-jpeg-uneven", plain("jpeg", 1, train=33, valid=17),
                 {"reader.read_threads": 1}, "dali", ranks=(2,), may_hang=True)
    for fmt in ("jpeg", "npy", "tfrecord"):
        yield Config(f"native_dali-{fmt}", plain(fmt), native, "native_dali", ranks=(2, 4),
                     may_hang=True, quick=True)
    yield Config("native_dali-npy-second-epoch", plain("npy"), {**native, "train.epochs": 2},
                 "native_dali", ranks=(2,), may_hang=True)
    yield Config("native_dali-npy-no-sampler", plain("npy"), {"train.epochs": 1}, "native_dali",
                 ranks=(2,), may_hang=True)


def paths():
    """The same dataset under other paths."""
    photo, records = plain("jpeg"), plain("tfrecord")
    for name, path in {"trailing-slash": "{data}/{name}//", "dots": "{data}/./{name}/../{name}",
                       "relative": "data/{name}", "link": "{data}/links/{name}"}.items():
        yield Config(f"pytorch-jpeg-path-{name}", photo, {}, ranks=(2,), dataset_path=path)
    yield Config("tensorflow-tfrecord-path-relative", records, {}, "tensorflow", ranks=(2,),
                 dataset_path="data/{name}")
    yield Config("pytorch-jpeg-format-in-path", Dataset("jpeg-in-path", folders=FOLDERS), {},
                 ranks=(2,))


def counts():
    """Numbers of files that do not fit."""
    photo, records, zipped = plain("jpeg"), plain("tfrecord"), plain("npz")
    fewer = {"dataset.num_files_train": 16, "dataset.num_files_eval": 8}
    yield Config("pytorch-jpeg-subset", photo, fewer, quick=True)
    yield Config("pytorch-jpeg-folders-subset", plain("jpeg", 1, FOLDERS), fewer, ranks=(2,))
    yield Config("pytorch-jpeg-no-file", photo, {"dataset.num_files_train": 0, "dataset.num_files_eval": 0}, ranks=(2,), quick=True)
    yield Config("tensorflow-npz-subset", zipped, fewer, "tensorflow", ranks=(2,))
    yield Config("tensorflow-tfrecord-subset", records, fewer, "tensorflow", ranks=(2,))
    for name, option in (("train", "num_files_train"), ("eval", "num_files_eval")):
        yield Config(f"pytorch-jpeg-missing-{name}", photo, {f"dataset.{option}": 40},
                     quick=name == "train")
        yield Config(f"tensorflow-tfrecord-missing-{name}", records, {f"dataset.{option}": 40},
                     "tensorflow", ranks=(2,))
    for loader, fmt in (("pytorch", "jpeg"), ("tensorflow", "npz"), ("tensorflow", "tfrecord")):
        threads = 1 if fmt == "tfrecord" else 0
        # TensorFlow may or may not have opened the file of the incomplete batch when it is stopped.
        yield Config(f"{loader}-{fmt}-uneven", plain(fmt, 1, train=33, valid=17),
                     {"reader.read_threads": threads}, loader, ranks=(2, 4), may_hang=2 if loader == "pytorch" else 1,
                     opens="" if loader == "pytorch" else "nothing")
        yield Config(f"{loader}-{fmt}-fewer-than-ranks", plain(fmt, 4, train=3, valid=2),
                     {"reader.read_threads": threads, "reader.batch_size": 1}, loader,
                     ranks=(4,), may_hang=True)
    yield Config("tensorflow-npz-uneven-files", plain("npz", 4, train=31), {}, "tensorflow",
                 ranks=(4,))


def surroundings():
    """Other files among the data, names of every kind, folders that are empty or missing."""
    yield Config("pytorch-jpeg-others", Dataset("others", edit=add_others), {}, ranks=(1, 2),
                 quick=True)
    yield Config("pytorch-jpeg-folders-others",
                 Dataset("others-folders", folders=FOLDERS, edit=add_others_in_folders), {},
                 ranks=(2,))
    yield Config("pytorch-jpeg-folders-stray",
                 Dataset("stray-folders", folders=FOLDERS, edit=add_stray_file), {}, ranks=(2,))
    yield Config("pytorch-jpeg-folders-empty",
                 Dataset("empty-folders", folders=FOLDERS, edit=add_empty_folder),
                 {"dataset.num_subfolders_train": FOLDERS + 1,
                  "dataset.num_subfolders_eval": FOLDERS + 1}, ranks=(2,))
    yield Config("pytorch-jpeg-folders-same-names",
                 Dataset("same-names", folders=FOLDERS, edit=rename_alike), {}, ranks=(2,),
                 fallback=True)
    for folders, layout in ((0, ""), (FOLDERS, "-folders")):
        yield Config(f"pytorch-jpeg{layout}-odd-names",
                     Dataset(f"odd{layout}", folders=folders, edit=rename_odd), {}, ranks=(2,),
                     quick=True)
        yield Config(f"tensorflow-npz{layout}-odd-names",
                     Dataset(f"odd-zipped{layout}", "npz", folders=folders, edit=rename_odd), {},
                     "tensorflow", ranks=(2,))
    yield Config("pytorch-jpeg-not-utf8", Dataset("not-utf8", edit=rename_not_utf8), {},
                 ranks=(2,), fallback=True)
    yield Config("pytorch-jpeg-empty-valid", Dataset("empty-valid", valid=0),
                 {"workflow.evaluation": False}, ranks=(2,))
    yield Config("pytorch-jpeg-no-valid", Dataset("no-valid", edit=remove_valid),
                 {"workflow.evaluation": False}, ranks=(2,))
    yield Config("pytorch-jpeg-empty-train", Dataset("empty-train", edit=empty_train), {},
                 ranks=(2,))


def workflows():
    """Generating and training in one run; deleting the dataset at its end."""
    together = {"workflow.generate_data": True}
    for folders, layout in ((0, "flat"), (FOLDERS, "folders")):
        yield Config(f"pytorch-jpeg-{layout}-generate",
                     Dataset(f"generate-{layout}", folders=folders), together, ranks=(2,),
                     private=True)
        yield Config(f"pytorch-jpeg-{layout}-delete",
                     Dataset(f"delete-{layout}", folders=folders),
                     {**together, "dataset.keep_files": False}, ranks=(2,), private=True,
                     quick=not folders)
    yield Config("tensorflow-tfrecord-delete", Dataset("delete-records", "tfrecord"),
                 {**together, "dataset.keep_files": False}, "tensorflow", ranks=(2,), private=True)


def fork():
    """What only MLCommons' fork has: Parquet, read row group by row group by iterable datasets; its ways to read
    local files; and names made by counting, as mlpstorage 3 has it.

    Computing takes long enough for what was read ahead, past the last step, to be opened.
    """
    library = "storage.storage_options.storage_library"
    seed = {"reader.file_shuffle": "seed", "reader.sample_shuffle": "seed"}
    folders = plain("jpeg", 1, 4, train=42, valid=13)
    rows = {"reader.batch_size": 8, "reader.batch_size_eval": 8, "dataset.parquet.row_group_size": 4,
            "train.computation_time": 0.02, "evaluation.eval_time": 0.02}
    for name, dataset, options, ranks in (
            ("parquet", plain("parquet", 16), rows, (1, 2, 4)),
            ("parquet-workers", plain("parquet", 16, FOLDERS), {**rows, "reader.read_threads": 2}, (2,)),
            ("parquet-s3dlio", plain("parquet", 16), {**rows, library: "s3dlio"}, (2,)),
            ("jpeg-direct", plain("jpeg"), {library: "direct"}, (2,)),
            ("jpeg-fork", plain("jpeg", 1, FOLDERS), {
                **seed, "reader.read_threads": 2, "reader.multiprocessing_context": "fork"}, (2, 3)),
            ("skip", folders, {"reader.read_threads": 2, "dataset.listing_validation_interval": 5}, (1, 2, 4)),
            ("skip-seed", folders, seed, (1, 2, 4)),
            ("skip-spawn", folders, {**seed, "reader.multiprocessing_context": "spawn", "reader.read_threads": 1}, (2,)),
            ("skip-more", plain("jpeg", train=42, valid=13), {"dataset.num_files_train": 43}, (2,)),
            ("skip-parquet", plain("parquet", 16, 4), {**rows, **seed}, (2,))):
        yield Config(f"fork-{name}", dataset, {"reader.read_threads": 0, "dataset.skip_listing": "skip" in name, **options},
                     ranks=ranks, needs="skip_listing", quick=name in ("skip", "skip-seed"),
                     fallback=name == "skip-more", may_hang=name == "skip-more")


def matrix():
    """All configurations.

    PyTorch's come first: it forks, which TensorFlow's threads don't like. TensorFlow's loaders
    read ahead past the last step, so that only which files they open repeats, not how often.
    """
    configs = [config for part in (cross, shuffles, formats, readers, dali, paths, counts,
                                   surroundings, workflows, fork) for config in part()]
    for config in configs:
        config.opens = config.opens or ("set" if config.loader == "tensorflow" else "counts")
    return sorted(configs, key=lambda config: (config.may_hang, config.loader != "pytorch"))


def control():
    """The two naive designs: as it is, and with the number of files lowered to fit."""
    photo = plain("jpeg")
    return [Config("naive-as-is", photo, {}, ranks=(2,), opens="counts"),
            Config("naive-lowered", photo, {}, ranks=(2,), opens="counts")]


def write(dataset, data):
    """Whether the dataset's files are there: JPEG and npz are as DLIO generates them, which takes it six seconds."""
    import numpy
    from PIL import Image

    if dataset.format not in ("jpeg", "npz"):
        return False
    for kind, count in (("train", dataset.train), ("valid", dataset.valid)):
        os.makedirs(os.path.join(data, dataset.name, kind), exist_ok=True)
        for i in range(count):
            below = str(i % dataset.folders).zfill(len(str(dataset.folders))) if dataset.folders > 1 else ""
            folder = os.path.join(data, dataset.name, kind, below)
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, f"img_{str(i).zfill(len(str(count)))}_of_{count}.{dataset.format}")
            if dataset.format == "jpeg":
                Image.fromarray(numpy.zeros((32, 32), numpy.uint8)).save(path)
            else:
                numpy.savez(path, x=numpy.zeros((32, 32, dataset.spf), numpy.uint8), y=[0] * dataset.spf)
    return True


def settings(config, data, folder, rank=""):
    """DLIO's options for a configuration, {name: value}, whose results go below a folder; paths are absolute or
    below the working folder. rank: behind the names of the folders in it."""
    dataset = config.dataset
    path = (config.dataset_path or "{data}/{name}").format(data=data, name=dataset.name)
    return running.settings(path, folder, dataset.format, config.loader, {
        "framework": "pytorch" if config.dali else config.loader,
        "dataset.num_files_train": dataset.train, "dataset.num_files_eval": dataset.valid,
        "dataset.num_samples_per_file": dataset.spf,
        "dataset.num_subfolders_train": dataset.folders,
        "dataset.num_subfolders_eval": dataset.folders,
        "reader.batch_size_eval": 2 if dataset.spf == 1 else 1, "reader.read_threads": 2,
        "output.folder": os.path.join(folder, "output" + rank),
        "checkpoint.checkpoint_folder": os.path.join(folder, "checkpoints" + rank),
        **config.options})


def words(options):
    """The same on a command line."""
    return [f"++workload.{key}={value}" for key, value in options.items()]
