"""What the code has and what the documents say, for drift.py."""
import ctypes
import errno
import glob
import os
import re
import subprocess
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ("libshard.7", "libshard-dlio.7", "libshard-examples.7", "libshard-pytorch.7", "libshard-s3.7", "libshard-shares.7", "shardctl.1")


# ---- troff ---------------------------------------------------------------------------------

def arguments(line):
    """The arguments of a macro."""
    found = re.findall(r'"((?:[^"]|"")*)"|(\S+)', line.partition(" ")[2])
    return [quoted or bare for quoted, bare in found]


def bold(line):
    """What a line sets in bold."""
    begin, step = {".B": (0, 1), ".BR": (0, 2), ".RB": (1, 2)}.get(line.split(" ")[0], (0, 0))
    return [word.strip() for word in arguments(line)[begin::step]] if step else []


def plain(line):
    """A line of a man page without troff."""
    if line.startswith(".") and not line.startswith((".\\\"", "...")):
        line = (" " if line.startswith((".B ", ".I ")) else "").join(arguments(line))
    for escape, text in (("\\-", "-"), ("\\(aq", "'"), ("\\(dq", '"'), ("\\e", "\\"), ("\\c", ""),
                         ("\\(bu", "*"), ("\\(lf", ""), ("\\(rf", "")):
        line = line.replace(escape, text)
    return re.sub(r"\\f[A-Z]", "", line)


class Page:
    """A man page: {section: {heading of an entry ("" before the first): text}}."""

    def __init__(self, text):
        self.text = text
        self.sections, section, entry, heading = {}, {}, "", False
        for line in text.splitlines():
            macro = line[1:3] if line.startswith(".") else ""
            if macro in ("SH", "SS"):
                title = plain(line[4:]).strip('"').replace('"', "")
                section, entry = self.sections.setdefault(title, {"": ""}), ""
            elif macro == "TP":
                heading = True
            elif heading:
                heading, entry = False, plain(line)
                section.setdefault(entry, "")
            elif macro in ("PP", "IP"):
                entry = entry if macro == "IP" and line != ".IP" and entry else ""
            elif not line.startswith(('.\\"', ".TH", ".in", ".EX", ".EE", ".nf", ".fi")):
                section[entry] = section.get(entry, "") + plain(line) + "\n"

    def entries(self, section):
        """{heading: text} of a section."""
        return {heading: text for heading, text in self.sections.get(section, {}).items() if heading}

    def whole(self):
        """All of it, without troff."""
        return "\n".join(plain(line) for line in self.text.splitlines())


# ---- what the code has ---------------------------------------------------------------------

def read(*path):
    """A file of the repository."""
    with open(os.path.join(REPO, *path), encoding="utf-8") as stream:
        return stream.read()


def run(*command, **variables):
    """What a command prints, both ways."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("SHARD_", "AWS_", "LD_PRELOAD"))}
    done = subprocess.run(command, env={**env, **variables}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=300)
    return done.stdout


class Code:
    """Facts of the code."""

    def __init__(self, build):
        self.build = build
        self.library = os.path.join(build, "libshard.so")
        ctl = os.path.join(build, "shardctl")
        self.sources = {path: read(path) for path in
                        (os.path.relpath(file, REPO) for file in
                         glob.glob(os.path.join(REPO, "shim", "**", "*.[ch]"), recursive=True)
                         + glob.glob(os.path.join(REPO, "shim", "**", "*.def"), recursive=True)
                         + glob.glob(os.path.join(REPO, "shim", "**", "*.py"), recursive=True))}
        self.makefile = read("Makefile")
        self.targets = set(re.findall(r"^([\w-]+):(?!=)", run("make", "-C", REPO, "-npqRr", ":"),
                                      re.MULTILINE))
        with open(os.path.join(build, "gen", "exports.txt"), encoding="utf-8") as stream:
            self.exports = dict(line.split() for line in stream)  # {name: LISTING, STATS or API}
        self.pins = dict(re.findall(r"^([\w-]+)==(\S+)", read("scripts", "requirements-clients.txt"),
                                    re.MULTILINE))
        self.usage = run(ctl, "--help")
        self.commands = re.findall(r"^COMMAND\((\w+),", self.sources["shim/ctl/commands.def"],
                                   re.MULTILINE)
        self.help = {name: run(ctl, name, "--help") for name in self.commands}
        self.withdrawn = ["SHARD_" + name for name in re.findall(
            r"^GONE\((\w+),", self.sources["shim/config/variables.def"], re.MULTILINE)]
        self.variables, self.launchers = {}, []  # {name: default or ""}
        for line in run(ctl, "doctor", "--variables").splitlines():
            name, _, rest = line.partition(" ")
            by = re.match(r"\s*set by (.*)", rest)
            if by:
                self.launchers += by.group(1).split(", ")
            elif name.startswith("SHARD_"):
                self.variables[name] = rest.partition("; default: ")[2].strip()
        if not self.variables or not self.launchers or not all(self.help.values()):
            sys.exit(f"{ctl} tells nothing of variables, launchers or options: build it first")
        self.answers = {}

    def table(self, name):
        """What is between the braces of an array, wherever it is; "" if it is nowhere."""
        for source in self.sources.values():
            found = re.search(rf"\b{name}\[\] = \{{(.*?)\}};", source, re.DOTALL)
            if found:
                return found.group(1)
        return ""

    def check(self, name, value):
        """What the library says of a variable's value; "" if it takes it."""
        if (name, value) not in self.answers:
            begin, end = os.pipe()
            child = os.fork()
            if child == 0:
                for other in [other for other in os.environ if other.startswith("SHARD_")]:
                    del os.environ[other]
                os.environ[name] = value
                text = ctypes.create_string_buffer(512)
                ctypes.CDLL(self.library).shard_config_check(text, 512)
                os.write(end, text.value)
                os._exit(0)
            os.close(end)
            os.waitpid(child, 0)
            with os.fdopen(begin, "rb") as stream:
                self.answers[name, value] = stream.read().decode()
        return self.answers[name, value]

    def options(self, command):
        """The options of a command's table in the source, with dashes."""
        source = self.sources.get(f"shim/ctl/cmd_{command}.c", "")
        shared = dict(re.findall(r"#define (CTL_ROW_\w+) +(\{[^}]*)",
                                 self.sources["shim/ctl/arguments.h"]))
        rows = re.search(r"rows\[\] = \{(.*?)\};", source, re.DOTALL)
        rows = re.sub(r"CTL_ROW_\w+", lambda row: shared[row.group()], rows.group(1) if rows else "")
        found = {"--" + name for name in re.findall(r'\{"([a-z-]+)",', rows)}
        found |= {"-" + letter for letter in re.findall(r"\{(?:NULL|\"[a-z-]+\"), '(.)'", rows)}
        found |= set(re.findall(r'#define \w+ "(--[a-z-]+)"', source))
        return found - {"--help"}

    def environment(self):
        """Variables that are read, but SHARD_ ones: {name: file}."""
        found = {}
        for path, source in self.sources.items():
            for name in re.findall(r'(?:getenv|variable|file)\((?:[^()"]|"[a-z]*")*"([A-Z0-9_]+)"\)',
                                   source) + re.findall(r'"((?:AWS|LIBSHARD)_[A-Z0-9_]+)"', source):
                found[name] = path
        return found

    def errors(self):
        """Errors that listing calls can end with, as the source names them: {name: file}."""
        found = {}
        for path, source in self.sources.items():
            if path.startswith(("shim/view/", "shim/cache/", "shim/listing/reader.c",
                                "shim/interpose/dir.c", "shim/interpose/wordexp.c")):
                for name in re.findall(r"-(E[A-Z0-9]+)\b", source):
                    if hasattr(errno, name):
                        found[name] = path
        return found


class Documents:
    """Texts of the documents."""

    def __init__(self):
        self.readme = read("README.md")
        self.measured = read("shim", "MEASURED.md")
        self.pages = {name: read("shim", "man", name) for name in PAGES}
        self.threats = read("tests", "docs", "threats.txt")

    def page(self, name):
        """A man page."""
        return Page(self.pages[name])

    def all(self):
        """{name: text without troff}."""
        return {"README.md": self.readme, "MEASURED.md": self.measured,
                **{name: Page(text).whole() for name, text in self.pages.items()}}
