"""Jobs on two hosts, by the recipes of libshard(7), and what must come of them."""
import glob
import json
import os
import re
import shutil
import subprocess

from tests.harness import paths, statlogs

PAGES = [os.path.join(paths.REPO, "shim", "man", page) for page in ("libshard.7", "libshard-examples.7")]
# What a recipe has for one listing of all hosts.
SHARED = re.compile(r"-x SHARD_LISTING\S* |-genv SHARD_LISTING\S* \S+ |^(?:export SHARD_LISTING|shardctl index).*\n", re.MULTILINE)
JOBS_LISTING = re.compile(r"^[0-9a-f]+\.(?!given)[^.]+\.listing$")


def recipe(name):
    """The command lines of a man page, as people see them."""
    text = ""
    for page in PAGES:
        with open(page, encoding="utf-8") as stream:
            text += stream.read()
    found = re.search(rf'^\.\\" recipe: {name}\n\.EX\n(.*?)^\.EE$', text, re.M | re.S)
    return found.group(1).replace("\\-", "-").replace("\\e", "\\")


class Job:
    """One job: a folder with its program, its dataset, its statistics and what its ranks write."""

    def __init__(self, fixture, name, files=41, dataset=None):
        self.fixture, self.name = fixture, name
        self.folder = os.path.join(fixture.folder, name)
        self.data = dataset or os.path.join(self.folder, "data")
        for part in ("shared", "data"):
            os.makedirs(os.path.join(self.folder, part))
        if not dataset:
            for number in range(files):
                self.add(f"f{number:04}")
        shutil.copy(paths.source("hosts", "train.py"), self.folder)
        with open(os.path.join(self.folder, "wrapper.sh"), "w", encoding="utf-8") as stream:
            stream.write('ls "$SHARD_DATASET" >/dev/null\n"$@"\n')
        self.env = {
            "DATA": self.data, "SHARED": os.path.join(self.folder, "shared"), "LIBSHARD": paths.LIBRARY,
            "SHARD_STATS": os.path.join(self.folder, "stats"),
            # as root, and with another command than ssh
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm_rsh_agent": fixture.hosts.shell,
            "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": fixture.hosts.shell,
            "OMP_NUM_THREADS": "1", "PATH": fixture.bin + ":" + paths.BUILD + ":" + fixture.path}
        self.before, self.output = self.links(), ""

    def add(self, name):
        """Make another file."""
        with open(os.path.join(self.data, name), "x", encoding="utf-8"):
            pass

    def index(self):
        """Make the listing that a recipe is about."""
        subprocess.run([paths.SHARDCTL, "index", "--quiet", self.data, "-o", self.env["SHARED"] + "/train.listing"],
                       stdout=subprocess.DEVNULL, check=True)

    def links(self):
        """What each host's own cache knows of jobs."""
        return [set(filter(JOBS_LISTING.match, os.listdir(host.cache()) if os.path.isdir(host.cache())
                           else ())) for host in self.fixture.hosts]

    def script(self, text, name="job.sh"):
        """A file of commands in the job's folder; its path."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return path

    def environment(self, **more):
        """What a command of the job's gets."""
        kept = {name: value for name, value in os.environ.items()
                if not re.match("SHARD_|SLURM_|OMPI_|PMI|LD_PRELOAD|TORCHELASTIC|MASTER_|RANK", name)}
        return {**kept, **self.env, **more}

    def reports(self, below=""):
        """What the ranks have written, by rank."""
        found = []
        for path in glob.glob(os.path.join(self.folder, below, "out", "*.json")):
            with open(path, encoding="utf-8") as stream:
                found.append(json.load(stream))
        return sorted(found, key=lambda one: one["rank"])

    def said(self):
        """What libshard has said in the job's output: nothing, if the dataset does not change."""
        return re.findall("^.*(libshard: .*)$", self.output, re.MULTILINE)

    def verify(self, below=""):
        """(exit status, output) of shardctl verify on the ranks' logs, but for what they have read."""
        folder = os.path.join(self.folder, below, "stats")
        wrong = [one for one in statlogs.facts(folder)["verdicts"] if not one["proven"] and one["verdict"] != "read"]
        return int(bool(wrong)), statlogs.verify(folder)[1]

    def faults(self, launcher, size, jobs=1, below=""):
        """Lines about all that is not as it must be. jobs: new identities in each host's cache; None:
        they are not looked at."""
        reports, lines = self.reports(below), []
        if [one["rank"] for one in reports] != list(range(size)):
            return [f"ranks {[one['rank'] for one in reports]}"]
        hosts = {}
        for one in reports:
            hosts.setdefault(one["host"], []).append(one)
            for role in ("worker", "grandchild"):
                if one[role] != one["main"]:
                    lines.append(f"rank {one['rank']}: its {role} has {len(one[role])} names, not {len(one['main'])}")
            if one["error"] or one["size"] != size or one["launcher"] != launcher:
                lines.append(f"rank {one['rank']}: {one['error']} size {one['size']}, {one['launcher']}")
        if sorted(hosts) != ["host0", "host1"]:
            lines.append(f"it ran on {sorted(hosts)}")
        for name, ranks in hosts.items():
            found = sorted((one["local_rank"], one["local_size"]) for one in ranks)
            if found not in ([(i, len(ranks)) for i in range(len(ranks))], [(i, -1) for i in range(len(ranks))]):  # Slurm's
                lines.append(f"local ranks and sizes on {name}: {found}")
        if sorted(sum((one["main"] for one in reports), [])) != sorted(os.listdir(self.data)):
            lines.append("the shares are no partition of the dataset")
        status, output = self.verify(below)
        if status:
            lines.append(output)
        now = self.links()
        found = [len(new - old) for new, old in zip(now, self.before)]
        if jobs is not None and found != [jobs] * len(found):
            lines.append(f"new identities of jobs on the hosts: {found}, not {jobs} each")
        self.before = now
        shutil.rmtree(os.path.join(self.folder, below, "out"))
        shutil.rmtree(os.path.join(self.folder, below, "stats"), ignore_errors=True)  # a run has a folder of its own
        return lines


def shares(text, wanted):
    """A recipe as it is, or without what gives all hosts one listing."""
    return text if wanted else SHARED.sub("", text).replace("\\\n  python3", "python3")
