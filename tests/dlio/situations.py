"""What users meet around a run: launchers, variables, caches, versions. The real DLIO, one
process each, started from its own command line.

    python -m tests.dlio.situations [--preload LIB] ...

Every situation says whether the run must open exactly what the unmodified one opens, whether the
library's line must appear on stderr (once), and whether the list must have been lazy or compressed.
"""
import concurrent.futures
import dataclasses
import glob
import os
import re
import shutil
import subprocess
import sys

from tests.dlio import configs
from tests.dlio.cli import read_steps
from tests.harness import confine, options, paths, processes
from tests.harness.opens import opens_difference, read_opens
from tests.harness.verdicts import Verdicts

# TensorFlow comes when it is used; and at exit of the main process a hook of the test's own tells what the list was.
with open(paths.source("dlio", "later.py"), encoding="utf-8") as later:
    PROBE = later.read() + '''
import atexit, os, sys
def tell():
    config = sys.modules.get("dlio_benchmark.utils.config")
    if config and os.getpid() == PID:
        args = config.ConfigArguments.get_instance()
        files = args.__dict__.get("file_list_train")
        with open(os.environ["PROBE"], "w") as stream:
            stream.write("%s %d" % (type(files).__qualname__, len(files) if files is not None else -1))
PID = os.getpid()
def few(event, names):  # small lists are compressed, too
    if event == "import" and names[0] == "dlio_benchmark.storage.storage_factory":
        compressing = sys.modules.get("_libshard.compressing")
        if compressing:
            compressing.MANY = 8
sys.addaudithook(few)
if os.environ.get("PROBE"):
    atexit.register(tell)
'''


# Runs a plug-in's lines once DLIO's arguments have been imported.
PLUGGED = '''
def plug(event, names):
    if event == "import" and names[0] == "dlio_benchmark.storage.storage_factory" and not plug.done:
        plug.done = True
        exec(LINES, {})
plug.done = False
LINES = %r
sys.addaudithook(plug)
'''

# DLIO's own reader and loader, as classes of somebody else's.
CUSTOM = '''
def __getattr__(name):
    if name == "Reader":
        from dlio_benchmark.reader.image_reader import ImageReader as kind
    elif name == "Loader":
        from dlio_benchmark.data_loader.torch_data_loader import TorchDataLoader as kind
    else:
        raise AttributeError(name)
    globals()[name] = type(name, (kind,), {"__module__": "custom"})
    return globals()[name]
def __dir__():
    return ["Reader", "Loader"]
'''

# What plug-ins do.
TIMER = '''
import functools, time
from dlio_benchmark.utils.config import ConfigArguments
own = ConfigArguments.derive_configurations
@functools.wraps(own)
def timed(*args, **kwargs):
    self = "the timer's own"
    started = time.time()
    try:
        return own(*args, **kwargs)
    finally:
        started = time.time() - started
ConfigArguments.derive_configurations = timed
'''


@dataclasses.dataclass
class Situation:
    """One run under the preload, and what must come of it."""
    name: str
    env: dict = dataclasses.field(default_factory=dict)
    kind: str = "FileList"     # of the list: FileList, Paths (compressed), or list
    says: str = ""             # regex of the one line of the library; "": it is silent
    start: str = "module"      # "module", "script" (main.py itself), "torchrun", "mpirun"
    prepare: object = None     # function(Situations, environment)
    tree: str = ""             # "changed": a DLIO with one function changed
    plugin: str = ""           # run in both when DLIO's arguments have been imported
    config: configs.Config = None


UNKNOWN = "runs unmodified, and its lists are compressed: .*get_global_map_index is not a version known"


def option(name, *options):
    """The default configuration, with some options: a name and a value each."""
    return configs.Config(name, configs.plain("jpeg"), dict(zip(options[::2], options[1::2])))


def situations():
    """What is tried."""
    data = {"SHARD_DATASET": "{train}"}
    ranked = {**data, "SHARD_RANK": "0", "SHARD_SIZE": "2"}
    compress = {"SHARD_ADAPTER": "compress"}
    folders = configs.Config("folders", configs.plain("jpeg", 1, configs.FOLDERS), {})
    # With fewer files than there are, their order decides which.
    subset = configs.Config("subset", configs.plain("jpeg"), {"dataset.num_files_train": 24})
    return [
        Situation("no-launcher"),
        Situation("main-py-itself", start="script"),
        Situation("dataset-set-too", env=ranked),
        Situation("view-off", env={"SHARD_VIEW": "off"}, kind="list"),
        Situation("view-global", env={"SHARD_VIEW": "global", **ranked}),
        Situation("adapter-off", env={"SHARD_ADAPTER": "off"}, kind="list"),
        Situation("adapter-off-dataset-set", env={"SHARD_ADAPTER": "off", **ranked}, kind="list",
                  says="SHARD_DATASET is not applied"),
        Situation("unknown-version", kind="Paths", tree="changed", says=UNKNOWN),
        Situation("unknown-version-view-shard", env={"SHARD_VIEW": "shard", **ranked}, kind="Paths",
                  tree="changed", says=UNKNOWN),
        Situation("unknown-version-mpirun", start="mpirun", kind="Paths", tree="changed", says=UNKNOWN),
        Situation("unknown-version-main-py", start="script", kind="Paths", tree="changed", says=UNKNOWN),
        Situation("unknown-version-no-cache", env={"SHARD_CACHE_DIR": "{work}/no/such/dir", "SHARD_LOG": "error"},
                  kind="list", tree="changed"),
        Situation("compress", env=compress, kind="Paths"),
        Situation("compress-mpirun", env=compress, kind="Paths", start="mpirun"),
        Situation("compress-forkserver", env=compress, kind="Paths",
                  config=option("forkserver", "reader.multiprocessing_context", "forkserver")),
        Situation("compress-no-workers", env=compress, kind="Paths", start="mpirun",
                  config=option("no-workers", "reader.read_threads", 0)),
        Situation("compress-shuffled", env=compress, kind="Paths", start="mpirun",
                  config=option("shuffled", "reader.file_shuffle", "seed", "reader.sample_shuffle", "seed")),
        Situation("compress-folders", env=compress, kind="Paths", start="mpirun", config=folders),
        Situation("compress-custom-reader", env=compress, kind="list",
                  config=option("custom-reader", "reader.reader_classname", "custom.Reader")),
        Situation("compress-custom-loader", env=compress, kind="list",
                  config=option("custom-loader", "reader.data_loader_classname", "custom.Loader",
                                "reader.data_loader_sampler", "index")),
        Situation("compress-no-cache", env={**compress, "SHARD_CACHE_DIR": "{work}/no/such/dir"}, kind="list",
                  says="what DLIO has made of its files stays in memory, as it is: .*/no/such/dir': No such file"),
        Situation("misspelt", env={"SHARD_CACHEDIR": "/tmp"}, kind="list",
                  says="SHARD_CACHEDIR is not a variable of libshard; did you mean "
                       "SHARD_CACHE_DIR"),
        Situation("bad-timeout", env={"SHARD_TIMEOUT": "soon"}, kind="list",
                  says="SHARD_TIMEOUT='soon'"),
        Situation("bad-rank", env={"SHARD_RANK": "2", "SHARD_SIZE": "2"}, kind="list",
                  says="SHARD_RANK=2 does not fit SHARD_SIZE=2"),
        Situation("cache-missing-parent", env={"SHARD_CACHE_DIR": "{work}/no/such/dir"}, kind="list",
                  says="cache directory '.*/no/such/dir': No such file"),
        Situation("cache-is-a-file", env={"SHARD_CACHE_DIR": "{work}/file"}, kind="list",
                  prepare=lambda s, env: open(env["SHARD_CACHE_DIR"], "w").close(),
                  says="file' is not a directory"),
        Situation("cache-of-another", env={"SHARD_CACHE_DIR": "{work}/theirs"}, kind="list",
                  prepare=another_users, says="belongs to another user"),
        Situation("listing-given", env={"SHARD_LISTING": "{work}/train.listing"},
                  prepare=lambda s, env: s.index(env, FLAT)),
        Situation("listing-given-folders", env={"SHARD_LISTING": "{work}/train.listing"},
                  prepare=lambda s, env: s.index(env, FOLDERS), config=folders),
        Situation("listing-missing", env={"SHARD_LISTING": "{work}/none.listing"}, kind="list",
                  says="SHARD_LISTING='.*none.listing': No such file"),
        Situation("listing-truncated", env={"SHARD_LISTING": "{work}/cut.listing"}, kind="list",
                  prepare=truncated, says="SHARD_LISTING='.*cut.listing': not a listing"),
        Situation("listing-of-other-options", env={"SHARD_LISTING": "{work}/train.listing"}, kind="list",
                  prepare=lambda s, env: s.index(env, []),
                  says="train.listing' was made of .*; make it by shardctl index --options 'order=path depth=1 .*include=.*jpeg'"),
        Situation("listings-given", env={"SHARD_LISTING": "{work}/train.listing:{work}/valid.listing"}, prepare=both_listings),
        Situation("torchrun", start="torchrun"),
        Situation("plugin-timer", start="mpirun", plugin=TIMER, kind="Paths", config=subset,
                  says="ConfigArguments.derive_configurations is not the function that .*replaced "
                       "or wrapped"),
        Situation("mpirun-shard", start="mpirun", env={"SHARD_VIEW": "shard"},
                  says="SHARD_VIEW=shard has no effect"),
    ]


# What DLIO's listings are asked for with.
FLAT = ["--options", "order=path depth=1 include=*jpeg"]
FOLDERS = ["--options", "order=basename depth=2 exact=2 hidden=0 follow=1 include=*.jpeg:*.JPEG"]


def another_users(_situations, env):
    """A cache directory that is not ours."""
    os.makedirs(env["SHARD_CACHE_DIR"], exist_ok=True)
    os.chown(env["SHARD_CACHE_DIR"], 12345, 12345)


def both_listings(tests, env):
    """Listings for training and evaluation."""
    for name, file in zip(("train", "valid"), env["SHARD_LISTING"].split(":")):
        tests.index({"TRAIN": os.path.join(os.path.dirname(env["TRAIN"]), name), "SHARD_LISTING": file}, FLAT)


def truncated(tests, env):
    """A listing without its end."""
    tests.index(env, [])
    os.truncate(env["SHARD_LISTING"], os.path.getsize(env["SHARD_LISTING"]) - 1)


class Situations:
    """Folders, datasets and the unmodified results."""

    def __init__(self, args, work):
        self.args, self.work = args, work
        self.ctl = os.path.join(os.path.dirname(args.preload), "shardctl")
        self.default = configs.Config("default", configs.plain("jpeg"), {})
        self.bare = {}

    def data(self, config):
        """The dataset's folder."""
        return os.path.join(self.work, "data", config.dataset.name)

    def index(self, env, options):
        """Build SHARD_LISTING with shardctl."""
        subprocess.run([self.ctl, "index", env["TRAIN"], "-o", env["SHARD_LISTING"], *options],
                       check=True, stdout=subprocess.DEVNULL)

    def changed_tree(self):
        """The installed DLIO with one function changed in a way that matters to nobody."""
        folder = os.path.join(self.work, "changed")
        if not os.path.isdir(folder):
            shutil.copytree(configs.package(self.args.python), os.path.join(folder, "dlio_benchmark"))
            path = os.path.join(folder, "dlio_benchmark", "utils", "config.py")
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
            text, n = re.subn(r"(def get_global_map_index.*\n)", r"\1        changed = True\n", text)
            assert n == 1
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
        return folder

    def run(self, name, config, env, start, preload, tree="", plugin=""):
        """(status, stderr and stdout, opens by process, steps by process, probe)."""
        folder = os.path.join(self.work, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "site"))
        with open(os.path.join(folder, "site", "sitecustomize.py"), "w", encoding="utf-8") as stream:
            stream.write(PROBE + (PLUGGED % plugin if plugin else ""))
        with open(os.path.join(folder, "site", "custom.py"), "w", encoding="utf-8") as stream:
            stream.write(CUSTOM)
        python = self.args.python
        base = processes.environment(python)
        path = [os.path.join(folder, "site")] + ([tree] if tree else [])
        exported = {**env, "PYTHONPATH": os.pathsep.join(path),
                    "OPENLOG_ROOT": self.data(config) + "/", "PYTHONUNBUFFERED": "1"}
        overrides = configs.words(configs.settings(config, os.path.join(self.work, "data"), folder, "$R"))
        program = [python, "-m", "dlio_benchmark.main"]
        if start == "script":
            program = [python, os.path.join(configs.package(python), "main.py")]
        # Each process has logs of its own; only a shell in it knows its rank.
        script = ('R=${RANK:-${OMPI_COMM_WORLD_RANK:-0}}; export OPENLOG="$0/opens$R" PROBE="$0/probe$R";'
                  ' mkdir "$0/mpi$R"; export OMPI_MCA_orte_tmpdir_base="$0/mpi$R";'  # two that begin at once break a shared one
                  ' n=$#; while [ $n -gt 0 ]; do a=$1; shift; n=$((n-1));'
                  ' case $a in *\'$R\'*) a=${a%%\\$R*}$R${a#*\\$R};; esac; set -- "$@" "$a"; done;'
                  ' exec "$@" 2>"$0/said$R"')
        command = ["sh", "-c", script, folder] + program + overrides
        if start == "mpirun":
            command = processes.mpi_command(2, command, preload, exported)
            environment = base
        else:
            if start == "torchrun":
                command = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                           "--master-port", "0", "--standalone", "--no-python"] + command
            environment = {**base, **exported}
            if preload:
                environment["LD_PRELOAD"] = ":".join(preload)
        log = os.path.join(folder, "job.log")
        status, reason = processes.run_job(command, environment, folder, log)
        text = ""
        for said in (log, *sorted(glob.glob(glob.escape(folder) + "/said*"))):  # mpirun would mix lines
            with open(said, encoding="utf-8", errors="replace") as stream:
                text += stream.read()
        opens, steps, probes = [], [], []
        for rank in range(2):
            opens.append(read_opens(os.path.join(folder, f"opens{rank}")))
            found = read_steps(os.path.join(folder, f"output{rank}"), rank if start == "mpirun" else 0)
            if found is not None:
                steps.append(found)
            path = os.path.join(folder, f"probe{rank}")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as stream:
                    probes.append(stream.read().split())
        return reason or status, text, opens, steps, probes

    def unmodified(self, config, start, plugin=""):
        """The unmodified run of a configuration, made once."""
        key = (config.name, start, plugin)
        if key not in self.bare:
            self.bare[key] = self.run(f"bare-{len(self.bare)}", config, {}, start,
                                      [self.args.openlog], plugin=plugin)
        return self.bare[key]

    def check(self, situation):
        """Differences as lines."""
        config = situation.config or self.default
        train = os.path.join(self.data(config), "train")
        work = os.path.join(self.work, "files-" + situation.name)
        os.makedirs(work, exist_ok=True)
        env = {"SHARD_CACHE_DIR": os.path.join(work, "cache")}
        env.update({k: v.format(train=train, work=work) for k, v in situation.env.items()})
        if situation.prepare:
            situation.prepare(self, {**env, "TRAIN": train})
        start = {"script": "module"}.get(situation.start, situation.start)
        status, text, opens, steps, _ = self.unmodified(config, start, situation.plugin)
        if status != 0 or not sum(opens[0].values()):
            return [f"fails unmodified ({status}):", text[-1500:]]
        tree = self.changed_tree() if situation.tree else ""
        status, text, got, got_steps, probes = self.run(
            situation.name, config, env, situation.start,
            [self.args.preload, self.args.openlog], tree, situation.plugin)
        if status != 0:
            return [f"fails under the preload ({status}):", text[-1500:]]
        lines = []
        # A wrong variable is said once in a process, and mpirun's daemon is one, too.
        said = sorted(set(re.findall(r"^libshard: .*", text, re.MULTILINE)))
        if situation.says:
            if len(said) != 1 or not re.search(situation.says, said[0]):
                lines.append(f"said {said} instead of one line like {situation.says!r}")
        elif said:
            lines.append(f"said {said}")
        for kind, _ in probes:
            if kind != situation.kind:
                lines.append(f"its list is a {kind}")
        if not probes:
            lines.append("its list was not seen")
        if steps != got_steps:
            lines.append(f"steps {steps} unmodified, {got_steps} under the preload")
        for one, other in zip(opens, got):
            lines += opens_difference(one, other)
        return lines


def parse_arguments():
    """The command line."""
    return options.parse(options.parser(__doc__, "preload", "openlog", "python", "filter", "workdir"))


def main():
    """Try all; the exit status is 1 if any differs."""
    confine.begin()
    processes.end_jobs_on_signals()
    args = parse_arguments()
    work = options.work_folder(args, "dlio-sit-")
    tests = Situations(args, work)
    chosen = [s for s in situations() if re.search(args.filter, s.name)]
    if os.geteuid() != 0 and any(s.prepare is another_users for s in chosen):
        print("skip: cache-of-another needs root")
        chosen = [s for s in chosen if s.prepare is not another_users]
    for config in {id(s.config): s.config or tests.default for s in chosen}.values():
        configs.write(config.dataset, os.path.join(work, "data"))
    for situation in chosen:  # made before two run at a time
        start = {"script": "module"}.get(situation.start, situation.start)
        tests.unmodified(situation.config or tests.default, start, situation.plugin)
    if any(s.tree for s in chosen):
        tests.changed_tree()
    verdicts = Verdicts()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for situation, lines in zip(chosen, pool.map(tests.check, chosen)):
            verdicts.tell(situation.name, lines)
    return verdicts.conclude(work, args.workdir)


if __name__ == "__main__":
    sys.exit(main())
