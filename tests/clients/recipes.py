"""How libraries read a dataset, as their manuals have it: libraries.py starts this with the Python that has them.

    recipes.py make ROOT                 writes the datasets
    recipes.py LIBRARY ROOT LAYOUT...    prints JSON: {layout: a list of samples, or why not as a text}

A library has a function, which takes the layout and ROOT, lists by the library's own calls, and returns samples. Layouts:
"classes": images (ROOT/images), tables of a row (parquet) and others, in folders of classes; a sample has its class as the
library has it. "stems": an image beside its caption (ROOT/stems). "folders": images and masks (ROOT/two/images,
ROOT/two/masks). "table": ROOT/delta, or a table of the library's own format. "index": what is opened by a file of names: ROOT/captions
(metadata.csv), ROOT/summary (_metadata), or the library's own format.
"""
import functools
import glob
import importlib.metadata
import itertools
import json
import os
import re
import struct
import sys
import tarfile
import wave
import zlib
from types import ModuleType

use = importlib.import_module
CLASSES, FILES, PAIRS, VERSIONS = ("cat", "dog", "emu"), 5, 7, 6
RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
OWN = os.environ.get("OWN", "/nonexistent")  # a folder of the rank's own
RECIPES = {}


def named(paths):
    """Samples: a file's class folder and its name."""
    return [str(path).split("/")[-2:] for path in paths]


def joined(one, other):
    """Samples: pairs of two lists of paths, each sorted as scripts do."""
    both = itertools.zip_longest(sorted(map(str, one)), sorted(map(str, other)), fillvalue="none")
    return [[os.path.basename(path) for path in pair] for pair in both]


def listed(find, layout, root):
    """Samples of what only finds files: find(folder, ending) gives paths."""
    if layout == "classes":
        return named(find(root + "/images", ".png"))
    if layout == "stems":
        return joined(find(root + "/stems", ".png"), find(root + "/stems", ".txt"))
    if layout == "folders":
        return joined(find(root + "/two/images", ".png"), find(root + "/two/masks", ".png"))
    return named(find(root + "/delta", ".parquet"))


def recipe(function):
    """Note a library's function, by the name in PyPI."""
    RECIPES[function.__name__.replace("_", "-")] = function
    return function


def group():
    """A process group of all ranks, for what asks torch."""
    import torch
    if SIZE > 1:
        torch.distributed.init_process_group("gloo", init_method="file://" + os.environ["GROUP"], rank=RANK, world_size=SIZE)


def operators():
    """Declare torchvision's C++ operators: PyPI's are for another PyTorch than one for CPUs. No reader of files calls them."""
    import torch
    library = torch.library.Library("torchvision", "DEF")
    path = os.path.join(os.path.dirname(importlib.util.find_spec("torchvision").origin), "_meta_registrations.py")
    with open(path, encoding="utf-8") as stream:
        for name in set(re.findall(r'register_fake\("torchvision::(\w+)|register_meta\("(\w+)', stream.read())):
            library.define("".join(name) + "(Tensor a) -> Tensor")
    return library


def mds():
    """streaming, without what it imports for other data (scripts/peer_streaming.py)."""
    types = ModuleType("transformers")
    types.BatchFeature = types.BatchEncoding = dict
    for name in ("transformers", "transformers.feature_extraction_utils", "transformers.tokenization_utils_base",
                 "streaming.multimodal", "streaming.text", "streaming.vision"):
        sys.modules[name] = types
    import streaming
    return streaming


# ---- tables of rows, and arrays

def framed(read):
    """Readers of what gives a data frame of pandas'."""
    return {"classes": lambda root: read(root + "/parquet").astype({"class": str})[["class", "id"]].values.tolist(),
            "table": lambda root: read(root + "/delta")["id"].tolist(), "index": lambda root: read(root + "/summary")["id"].tolist()}


ROWS = {
    "polars": {
        "classes": lambda root: use("polars").scan_parquet(root + "/parquet", hive_partitioning=True).select("class", "id").collect().rows(),
        "table": lambda root: use("polars").read_delta(root + "/delta")["id"].to_list()},
    "duckdb": {
        "classes": lambda root: use("duckdb").sql(
            f"select class, id from read_parquet('{root}/parquet/**/*.parquet', hive_partitioning=true)").fetchall(),
        "table": lambda root: use("duckdb").sql(f"select id from read_parquet('{root}/delta/*.parquet')").fetchall()},
    "pyarrow": framed(lambda folder: use("pyarrow.dataset").dataset(folder, format="parquet", partitioning="hive").to_table().to_pandas()),
    "pandas": framed(lambda folder: use("pandas").read_parquet(folder)),
    "dask": framed(lambda folder: use("dask.dataframe").read_parquet(folder).compute()),
    "fastparquet": framed(lambda folder: use("fastparquet").ParquetFile(folder).to_pandas()),
    "uproot": {"classes": lambda root: use("uproot").concatenate(root + "/root/*/*.root:rows", library="np")["id"].tolist()},
    "netcdf4": {"classes": lambda root: use("netCDF4").MFDataset(root + "/netcdf/*/*.nc")["id"][:].tolist()},
    "xarray": {
        "classes": lambda root: use("xarray").open_mfdataset(root + "/netcdf/*/*.nc", combine="nested", concat_dim="row")["id"].values.tolist(),
        "index": lambda root: use("xarray").open_zarr(root + "/zarr", consolidated=False)["id"].values.tolist()},
    "deltalake": {"table": lambda root: use("deltalake").DeltaTable(root + "/delta").to_pyarrow_table()["id"].to_pylist()},
    "pylance": {"table": lambda root: use("lance").dataset(root + "/lance/rows.lance").to_table()["id"].to_pylist()},
    "pyiceberg": {"table": lambda root: use("pyiceberg.table").StaticTable.from_metadata(
        sorted(glob.glob(root + "/iceberg/rows/metadata/*.metadata.json"))[-1]).scan().to_arrow()["id"].to_pylist()},
    "tiledb": {"table": lambda root: use("tiledb").open(root + "/tiledb/rows")[:].tolist()},
    "zarr": {"index": lambda root: use("zarr").open(root + "/zarr/id", mode="r")[:].tolist()},
}
for _name, _reads in ROWS.items():
    RECIPES[_name] = lambda layout, root, reads=_reads: reads[layout](root)


@recipe
def daft(layout, root):
    import daft as df
    if layout == "table":
        return df.read_deltalake(root + "/delta").to_pydict()["id"]
    if layout == "classes":
        rows = df.read_parquet(root + "/parquet/**/*.parquet", hive_partitioning=True).to_pydict()
        return list(zip(rows["class"], rows["id"]))
    return listed(lambda folder, ending: df.from_glob_path(f"{folder}/*{ending}").to_pydict()["path"], layout, root)


@recipe
def datafusion(layout, root):
    import datafusion as df
    context = df.SessionContext()
    if layout == "table":
        return context.read_parquet(root + "/delta").to_pydict()["id"]
    import pyarrow as pa
    rows = context.read_parquet(root + "/parquet", table_partition_cols=[("class", pa.string())]).to_pydict()
    return list(zip(rows["class"], rows["id"]))


@recipe
def ray(layout, root):
    import ray.data
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error", _temp_dir=OWN + "/ray")
    try:
        if layout == "table":
            return [row["id"] for row in ray.data.read_parquet(root + "/delta").take_all()]
        return named(row["path"] for row in ray.data.read_binary_files(root + "/images", include_paths=True).take_all())
    finally:
        ray.shutdown()


@recipe
def tensorstore(layout, root):
    import tensorstore as ts
    if layout == "index":
        return ts.open({"driver": "zarr3", "kvstore": "file://" + root + "/zarr/id"}).result().read().result().tolist()

    def find(folder, ending):
        store = ts.KvStore.open(f"file://{folder}/").result()
        return [f"{folder}/{key.decode()}" for key in store.list().result() if key.decode().endswith(ending)]
    return listed(find, layout, root)


# ---- what finds files: find(folder, ending), with a pattern where the library has no way to walk

def wild(folder, ending):
    """A pattern for a folder of files, or of classes."""
    return f"{folder}/*/*{ending}" if folder.endswith("/images") and "/two/" not in folder else f"{folder}/*{ending}"


def within(folder, ending, names):
    """Paths of the names below a folder that end so."""
    return [f"{folder}/{name}" for name in names if name.endswith(ending)]


FINDERS = {
    "fsspec": lambda folder, ending: use("fsspec").filesystem("file").glob(f"{folder}/**/*{ending}"),
    "obstore": lambda folder, ending: within(folder, ending, (
        one["path"] for page in use("obstore.store").LocalStore(folder).list() for one in page)),
    "opendal": lambda folder, ending: within(folder, ending, (one.path for one in use("opendal").Operator("fs", root=folder).scan("/"))),
    "multi-storage-client": lambda folder, ending: [one.key for one in use("multistorageclient").list(folder) if one.key.endswith(ending)],
    "etils": lambda folder, ending: use("etils.epath").Path(folder).glob(os.path.relpath(wild(folder, ending), folder)),
    "torchdata": lambda folder, ending: use("torchdata.datapipes.iter").FileLister(folder, "*" + ending, recursive=True),
    "scikit-image": lambda folder, ending: use("skimage.io").imread_collection(wild(folder, ending)).files,
    "tifffile": lambda folder, ending: use("tifffile").TiffSequence(wild(folder, ending)),
    "pims": lambda folder, ending: use("pims").ImageSequence(wild(folder, ending))._filepaths,
    "tensorflow-cpu": lambda folder, ending: map(os.fsdecode, use("tensorflow").data.Dataset.list_files(
        wild(folder, ending), shuffle=False).as_numpy_iterator()),
}
for _name, _find in FINDERS.items():
    RECIPES[_name] = functools.partial(listed, _find)


# ---- images and their classes

@recipe
def datasets(layout, root):
    import datasets as hf
    if layout == "table":
        return hf.load_dataset("parquet", data_files=root + "/delta/*.parquet", split="train")["id"]
    if layout == "index":
        rows = hf.load_dataset("imagefolder", data_dir=root + "/captions", split="train").cast_column("image", hf.Image(decode=False))
        return [[os.path.basename(row["image"]["path"]), row.get("text")] for row in rows]
    rows = hf.load_dataset("imagefolder", data_dir=root + "/images", split="train").cast_column("image", hf.Image(decode=False))
    return [[*named([row["image"]["path"]])[0], row["label"], rows.features["label"].names[row["label"]]] for row in rows]


@recipe
def timm(_, root):
    stub = operators()
    from timm.data import create_dataset
    reader = create_dataset("folder", root + "/images").reader
    return [sample for sample in ([*named([path])[0], label] for path, label in reader.samples) if stub]


@recipe
def torchvision(_, root):
    stub = operators()
    from torchvision.datasets import ImageFolder
    return [[*named([path])[0], label] for path, label in ImageFolder(root + "/images").samples if stub]


@recipe
def ultralytics(layout, root):
    stub = operators()
    from types import SimpleNamespace
    from ultralytics.data.dataset import ClassificationDataset, YOLODataset
    if layout == "classes":
        options = SimpleNamespace(imgsz=16, single_cls=False, fraction=1.0, cache=False, scale=0.5, fliplr=0.5, flipud=0, erasing=0,
                                  auto_augment=None, hsv_h=0, hsv_s=0, hsv_v=0)
        return [[*named([sample[0]])[0], sample[1]] for sample in ClassificationDataset(root + "/images", options).samples if stub]
    found = YOLODataset(img_path=root + "/yolo/images", data={"names": {0: "x"}, "channels": 3, "nc": 1}, task="detect", imgsz=16, augment=False)
    return [[os.path.basename(one["im_file"]), one["bboxes"][0][0].item()] for one in found.labels]


@recipe
def supervision(layout, root):
    import supervision as sv
    if layout == "classes":
        found = sv.ClassificationDataset.from_folder_structure(root + "/images")
        numbers = {path: int(found.annotations[path].class_id[0]) for path in found.image_paths}
        return [[*named([path])[0], found.classes[number], number] for path, number in numbers.items()]
    found = sv.DetectionDataset.from_yolo(root + "/yolo/images", root + "/yolo/labels", root + "/yolo/data.yaml")
    return [[os.path.basename(path), found.annotations[path].xyxy[0].tolist()] for path in found.image_paths]


@recipe
def keras(layout, root):
    import keras as ke
    def load(folder, **options):
        return ke.utils.image_dataset_from_directory(folder, batch_size=None, color_mode="grayscale", image_size=(16, 16), shuffle=False, **options)
    if layout == "classes":
        found = load(root + "/images")
        return [[int(image[0, 0, 0]), found.class_names[label], int(label)] for image, label in found.as_numpy_iterator()]
    both = zip(load(root + "/two/images", labels=None).as_numpy_iterator(), load(root + "/two/masks", labels=None).as_numpy_iterator())
    return [[int(image[0, 0, 0]), int(mask[0, 0, 0])] for image, mask in both]


@recipe
def tensorflow_datasets(_, root):
    import tensorflow_datasets as tfds
    builder = tfds.folder_dataset.ImageFolder(root + "/split")
    return [[int(row["image"][0, 0, 0]), int(row["label"]), os.path.basename(row["image/filename"].decode())]
            for row in builder.as_dataset(split="train").as_numpy_iterator()]


@recipe
def fastai(layout, root):
    stub = operators()
    import numpy as np
    from fastai.vision.data import CategoryBlock, DataBlock, ImageBlock, MaskBlock, get_image_files, parent_label

    def load(folder, block, label):
        every = DataBlock((ImageBlock, block), get_items=get_image_files, get_y=label, splitter=lambda items: (list(range(len(items))), [0]))
        return every.datasets(folder).train
    if layout == "classes":
        found = load(root + "/images", CategoryBlock, parent_label)
        return [[*named([path])[0], int(found[at][1])] for at, path in enumerate(found.items) if stub]
    found = load(root + "/two/images", MaskBlock, lambda path: path.parent.parent / "masks" / path.name)
    return [[path.name, int(np.array(found[at][1])[0, 0])] for at, path in enumerate(found.items)]


@recipe
def monai(_, root):
    from monai.apps import MedNISTDataset
    found = MedNISTDataset(root + "/mednist", "training", lambda row: row, download=False, val_frac=0, test_frac=0, num_workers=0,
                           progress=False)
    return [[*named([row["image"]])[0], row["class_name"], int(row["label"])] for row in found]


@recipe
def scikit_learn(_, root):
    from sklearn.datasets import load_files
    found = load_files(root + "/images", shuffle=False)
    return [[*named([path])[0], int(label), found.target_names[label]] for path, label in zip(found.filenames, found.target)]


@recipe
def nltk(_, root):
    import nltk as nl
    nl.data.path.append(root)
    from nltk.corpus.reader import CategorizedPlaintextCorpusReader
    found = CategorizedPlaintextCorpusReader(root + "/texts", r".*\.txt", cat_pattern=r"(\w+)/.*")
    return [[*named([name])[0], found.categories(name)[0]] for name in found.fileids()]


@recipe
def torch_geometric(_, root):
    import torch
    from torch_geometric.data import Data, InMemoryDataset

    class Graphs(InMemoryDataset):
        """As PyG's manual has it: raw/ is listed, and what is made of it is stored below the root."""
        raw_dir = root + "/images"
        raw_file_names = property(lambda self: [os.path.relpath(path, self.raw_dir) for path in sorted(glob.glob(self.raw_dir + "/*/*"))])

        def process(self):
            self.save([Data(x=torch.zeros(1), name=path) for path in self.raw_paths], self.processed_paths[0])
        processed_file_names = "graphs.pt"

    made = Graphs(OWN + "/pyg")
    made.load(made.processed_paths[0])
    return named(one.name for one in made)


@recipe
def nvidia_dali_cuda120(layout, root):
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipeline(function):
        return function()

    def run(count, function):
        made = pipeline(function)
        made.build()
        return [[bytes(part.at(0)) for part in made.run()] for _ in range(count)]

    def size(folder):
        return len([entry for _, _, files in os.walk(folder) for entry in files])
    if layout == "classes":
        read = run(size(root + "/images"), lambda: tuple(fn.readers.file(file_root=root + "/images")))
        return [[zlib.crc32(data), label[0]] for data, label in read]
    if layout == "stems":
        return [[zlib.crc32(one), zlib.crc32(other)] for one, other in run(size(root + "/numpy") // 2, lambda: tuple(
            fn.readers.numpy(file_root=root + "/numpy", file_filter=end) for end in ("*.image.npy", "*.label.npy")))]
    return [[zlib.crc32(one), zlib.crc32(other)] for one, other in run(size(root + "/two/images"), lambda: tuple(
        fn.readers.file(file_root=root + "/two", dir_filters=[name])[0] for name in ("images", "masks")))]


# ---- shards

@recipe
def webdataset(_, root):
    import webdataset as wds
    found = wds.WebDataset(sorted(glob.glob(root + "/tars/*/*.tar")), nodesplitter=None, shardshuffle=False, empty_check=False)
    return [[row["__key__"], row["cls"].decode()] for row in found]


@recipe
def mosaicml_streaming(_, root):
    group()
    return [row["id"] for row in mds().StreamingDataset(local=root + "/mds", shuffle=False, batch_size=1)]


@recipe
def litdata(_, root):
    group()
    from litdata import StreamingDataset
    return [int(row) for row in StreamingDataset(root + "/litdata", shuffle=False)]


@recipe
def lhotse(layout, root):
    import lhotse as lh
    if layout == "table":
        return [cut.id for cut in lh.CutSet.from_shar(in_dir=root + "/shar")]
    return named(one.sources[0].source for one in lh.RecordingSet.from_dir(root + "/audio", "*.wav"))


# ---- the datasets

def gray(value):
    """A PNG of 16 x 16 pixels of one value."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress(bytes([0] + [value] * 16) * 16)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def write(path, data):
    """A file, with the folders above it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(data)


def make_classes(root, name, number):
    """A file of each kind in a class's folder."""
    import netCDF4 as nc
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet
    import uproot as up
    for kind, ending, data in (("images", "png", gray(number)), ("texts", "txt", b"%d" % number), ("root", "root", b""), ("netcdf", "nc", b""),
                               ("parquet", "parquet", b""), ("tars", "tar", b""), ("audio", "wav", b"")):
        write(f"{root}/{kind}/{'class=' * (kind == 'parquet')}{name}.{ending}", data)
    pa.parquet.write_table(pa.table({"id": [number]}), f"{root}/parquet/class={name}.parquet")
    with up.recreate(f"{root}/root/{name}.root") as stream:
        stream["rows"] = {"id": np.array([number])}
    with nc.Dataset(f"{root}/netcdf/{name}.nc", "w", format="NETCDF4_CLASSIC") as stream:
        stream.createDimension("row", None)
        stream.createVariable("id", "i4", ("row",))[:] = [number]
    with tarfile.open(f"{root}/tars/{name}.tar", "w") as stream:
        for path, inside in ((f"{root}/images/{name}.png", f"{number}.png"), (f"{root}/texts/{name}.txt", f"{number}.cls")):
            stream.add(path, inside)
    with wave.open(f"{root}/audio/{name}.wav", "wb") as stream:
        stream.setparams((1, 2, 8000, 8, "NONE", ""))
        stream.writeframes(bytes([number, 0] * 8))


def make_pairs(root, number):
    """Images beside captions, and images and masks in two folders."""
    import io
    import numpy as np
    write(f"{root}/stems/{number}.png", gray(number))
    write(f"{root}/stems/{number}.txt", b"%d" % number)
    write(f"{root}/two/images/{number}.png", gray(number))
    write(f"{root}/two/masks/{number}.png", gray(number + 100))
    write(f"{root}/yolo/images/{number}.png", gray(number))
    write(f"{root}/yolo/labels/{number}.txt", b"0 0.%d 0.5 0.1 0.1\n" % (number + 2))
    for part, plus in (("image", 0), ("label", 100)):
        data = io.BytesIO()
        np.save(data, np.array([number + plus], np.uint8))
        write(f"{root}/numpy/{number}.{part}.npy", data.getvalue())


def make_tables(root):
    """Tables of several versions, and arrays of several chunks."""
    import deltalake as de
    import fastparquet as fp
    import lance
    import lhotse as lh
    import litdata as li
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import tiledb as db
    import zarr as za
    from pyiceberg.catalog.sql import SqlCatalog
    catalog = SqlCatalog("x", uri=f"sqlite:///{OWN}/catalog", warehouse=f"file://{root}")
    catalog.create_namespace("iceberg")
    table = catalog.create_table("iceberg.rows", schema=pa.schema([("id", pa.int64())]), location=f"file://{root}/iceberg/rows")
    os.makedirs(root + "/tiledb")
    db.from_numpy(root + "/tiledb/rows", np.zeros(VERSIONS, np.int64))
    for version in range(VERSIONS):
        rows = pa.table({"id": [version]})
        de.write_deltalake(root + "/delta", rows, mode="append")
        lance.write_dataset(rows, root + "/lance/rows.lance", mode="append" if version else "create")
        table.append(rows)
        with db.open(root + "/tiledb/rows", "w") as array:
            array[version:version + 1] = np.array([version + 1])
    za.open_group(root + "/zarr", mode="w").create_array("id", data=np.arange(VERSIONS), chunks=(1,), dimension_names=["row"])
    fp.write(root + "/summary", pd.DataFrame({"id": range(VERSIONS)}), file_scheme="hive", row_group_offsets=list(range(VERSIONS)))
    with mds().MDSWriter(out=root + "/mds", columns={"id": "int"}, size_limit=64) as writer:
        for number in range(8 * VERSIONS):
            writer.write({"id": number})
    li.optimize(fn=int, inputs=list(range(8 * VERSIONS)), output_dir=root + "/litdata", chunk_size=4, num_workers=1)
    cuts = lh.CutSet.from_cuts(one.to_cut() for one in lh.RecordingSet.from_dir(root + "/audio", "*.wav"))
    os.makedirs(root + "/shar")
    cuts.to_shar(root + "/shar", fields={"recording": "wav"}, shard_size=4)


def make(root):
    """All datasets."""
    for (at, name), number in itertools.product(enumerate(CLASSES), range(FILES)):
        make_classes(root, f"{name}/{name}{number}", at * FILES + number)
    for number in range(PAIRS):
        make_pairs(root, number)
        write(f"{root}/captions/{number}.png", gray(number))
    write(root + "/captions/metadata.csv", "".join(["file_name,text\n", *(f"{number}.png,caption {number}\n" for number in range(PAIRS))]).encode())
    write(root + "/yolo/data.yaml", b"names: [x]\n")
    for link, to in ("split/train", "images"), ("mednist/MedNIST", "images"):
        os.makedirs(os.path.dirname(f"{root}/{link}"))
        os.symlink(f"{root}/{to}", f"{root}/{link}")
    make_tables(root)


def main():
    """What the command line names. Nothing is torn down at the end: threads of libraries that nobody joins abort there."""
    output, sys.stdout = sys.stdout, sys.stderr
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        name, root, *layouts = sys.argv[1:]
        found = {"version": importlib.metadata.version(name)}
        for layout in layouts:
            print(f"layout {layout}", file=sys.stderr, flush=True)
            try:
                found[layout] = list(RECIPES[name](layout, root))
            except Exception as error:
                found[layout] = f"{type(error).__name__}: {error}"
        print(json.dumps(found, default=lambda value: value.item()), file=output, flush=True)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
