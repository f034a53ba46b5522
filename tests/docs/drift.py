"""Documents and code must tell the same, both ways.

    python3 tests/docs/drift.py [--build DIR] [--filter NAME]    all comparisons
    python3 tests/docs/drift.py --self-test                      ... and each of them can fail

A comparison takes what the code has (from the built library and shardctl, and from the source where
they do not tell) and what the documents say (README.md, shim/man), and gives a line for each
difference: what the code has and no document tells, and what a document tells and the code has not.
--self-test plants such differences, one at a time and in either direction, in copies of the texts,
and each must be found. Prints 'ok NAME' or 'FAIL NAME' with the lines; the exit status is 1 if
anything differs.
"""
import argparse
import errno
import glob
import json
import os
import re
import shutil
import subprocess
import sys

from facts import PAGES, REPO, Code, Documents, bold, plain, read
from provoked import Provoked

sys.path.insert(0, REPO)
from scripts import pictures as draw  # pylint: disable=wrong-import-position
from tests.harness import confine, paths  # pylint: disable=wrong-import-position
from tests.planted import FAULTS  # pylint: disable=wrong-import-position

# What the code has and documents need not tell, or the other way round: {what: why}. An entry that
# is no longer needed is an error, too.
INTERNAL_VARIABLES = {
    "LIBSHARD_RUN": "how they find the page that they share; made by the adapter",
    "LIBSHARD_NO_SIGN_REQUEST": "the adapter tells shardctl that the client signs nothing",
    "LIBSHARD_S3_OWNER": "the adapter tells shardctl whose the client says that the bucket must be",
    "LIBSHARD_NO_VERIFY_SSL": "the adapter tells shardctl that the client verifies no certificate",
}
INTERNAL_OPTIONS = {
    ("doctor", "--trial"): "how doctor starts itself",
}
FOREIGN_VARIABLES = {
    "HOME": "where ~ is", "IFS": "wordexp's",
    "PYTHONDEVMODE": "Python's", "PYTHONMALLOC": "Python's", "TERM": "the terminal's",
}
# Errors that are met inside and never reach the program that lists.
INTERNAL_ERRORS = {
    "EACCES": "turned into EPERM", "EAGAIN": "tried again, or turned into EIO",
    "EBADF": "another thread has closed it, as libc says it", "EEXIST": "another process was faster",
    "EISDIR": "turned into EINVAL", "ELOOP": "turned into EPERM", "EINTR": "tried again",
    "EFAULT": "the program's own wrong pointer, as libc says it",
    "ERANGE": "a path with fewer names than levels, turned into ENOENT", "EWOULDBLOCK": "a lock that is taken",
}
# Errors that the system gives and the code only passes on: no literal, and not provoked here.
PASSED_ON = {
    "EROFS": "needs a read-only file system", "ENOSPC": "needs a full one",
    "EMFILE": "needs a process without descriptors", "ENFILE": "needs a system without files",
    "ENOMEM": "needs a system without memory",
}
README_MOST = 10240  # bytes
ANY_NUMBER = ("SHARD_RANK", "SHARD_SIZE")  # what they are says which numbers they take


def both_ways(code, documents, where, kind):
    """Lines for what only one of two collections has."""
    return ([f"{where} lacks {kind} {item}" for item in sorted(set(code) - set(documents))]
            + [f"{where} has {kind} {item}, the code has not"
               for item in sorted(set(documents) - set(code))])


# ---- comparisons ---------------------------------------------------------------------------

def variables(code, documents):
    """SHARD_ variables: all in libshard.7, and none elsewhere that is not one."""
    told, gone = ([name for heading in documents.page("libshard.7").entries(section)
                   for name in re.findall(r"\bSHARD_[A-Z0-9_]+", heading)]
                  for section in ("ENVIRONMENT", "Withdrawn variables"))
    lines = both_ways(code.variables, told, "libshard.7, ENVIRONMENT,", "variable")
    lines += both_ways(code.withdrawn, gone, "libshard.7, Withdrawn variables,", "variable")
    lines += [f"the library says nothing of {name}, which is withdrawn" for name in code.withdrawn
              if "any more; " not in code.check(name, "x")]
    for name in code.variables:
        if "not a variable" in code.check(name, "x"):
            lines.append(f"shardctl doctor --variables has {name}, the library refuses it")
    texts = {**documents.all(), "shardctl --help": code.usage,
             **{f"shardctl {name} --help": text for name, text in code.help.items()}}
    for where, text in texts.items():
        for name in sorted(set(re.findall(r"\bSHARD_[A-Z0-9_]*[A-Z0-9]\b", text))):
            if name not in code.variables and (name not in code.withdrawn or where != "libshard.7"):
                lines.append(f"{where} names {name}, which is no variable")
    return lines


def other_variables(code, documents):
    """Other variables that are read: in some document, or internal."""
    read_ones, told = code.environment(), "\n".join(documents.all().values())
    lines = []
    for name, path in sorted(read_ones.items()):
        if name.startswith("SHARD_") or name in {**INTERNAL_VARIABLES, **FOREIGN_VARIABLES}:
            continue
        if not re.search(rf"\b{name}\b", told):
            lines.append(f"no document has {name}, which {path} reads")
    lines += [f"drift.py excuses {name}, which the code does not read"
              for name in {**INTERNAL_VARIABLES, **FOREIGN_VARIABLES} if name not in read_ones]
    sources = "\n".join(code.sources.values())
    for name in sorted(set(re.findall(r"\b(?:AWS_(?!BATCH_)|LIBSHARD_)[A-Z0-9_]*[A-Z0-9]\b", told))):
        if f'"{name}"' not in sources:
            lines.append(f"a document has {name}, which nothing reads")
    return lines


def entry_of(documents, name):
    """libshard.7's text of a variable."""
    for heading, text in documents.page("libshard.7").entries("ENVIRONMENT").items():
        if re.search(rf"\b{name}\b", heading):
            return " ".join(text.split())
    return ""


def words(code, documents):
    """The words that a variable takes: those of its error message that the library takes."""
    lines = []
    for name in code.variables:
        said, text = code.check(name, "-no such word-"), entry_of(documents, name)
        if not said:
            continue
        taken = {word for word in re.findall(r"[a-z]+", said.partition("expected")[2])
                 if not code.check(name, word)}
        lines += [f"libshard.7, {name}, lacks the word '{word}'" for word in sorted(taken)
                  if not re.search(rf"\b{word}\b", text)]
        for line in raw_entry(documents, name).splitlines() if taken else ():
            lines += [f"libshard.7, {name}, has the word '{word}', which is refused"
                      for word in bold(line) if re.fullmatch("[a-z]+", word)
                      and code.check(name, word)]
    return lines


def raw_entry(documents, name):
    """libshard.7's entry of a variable, as troff, up to the next one."""
    page = documents.pages["libshard.7"]
    page = page[page.index(".SH ENVIRONMENT"):page.index(".SS Launchers")]
    for entry in page.split("\n.TP\n")[1:]:
        heading, _, text = entry.partition("\n")
        if re.search(rf"\b{name}\b", plain(heading)):
            return text
    return ""


def number(text):
    """2^64-1, 8M or 100."""
    power, size = re.fullmatch(r"2\^(\d+)(-1)?", text), re.fullmatch(r"(\d+)([KMG])", text)
    if power:
        return 2 ** int(power.group(1)) - bool(power.group(2))
    if size:
        return int(size.group(1)) << {"K": 10, "M": 20, "G": 30}[size.group(2)]
    return int(text)


def ranges(code, documents):
    """The numbers that a variable takes."""
    lines = []
    for name in code.variables:
        text = entry_of(documents, name)
        told = [tuple(map(number, pair)) for pair in
                re.findall(r"\b(\d+) to (\d[\d^]*(?:-1)?)", text)]
        least = [number(one) for one in re.findall(r"at least (\d+[KMG]?)", text)]
        for first, last in told:
            wrong = [value for value in (first, last) if code.check(name, str(value))]
            wrong += [value for value in (first - 1, last + 1) if not code.check(name, str(value))]
            lines += [f"libshard.7 says {name} goes from {first} to {last}; "
                      f"of {value} the library says otherwise" for value in wrong]
        for first in least:
            if code.check(name, str(first)) or not code.check(name, str(first - 1)):
                lines.append(f"libshard.7 says {name} is at least {first}, the library does not")
        said = re.search(r"\b(\d+) to (\d+)\b", code.check(name, "-no number-"))
        if said and name not in ANY_NUMBER and tuple(map(int, said.groups())) not in told:
            lines.append(f"libshard.7, {name}, lacks the range {said.group()}")
    return lines


def default_of(text):
    """The default that an entry tells, or ""."""
    for pattern in (r"\(default:? ([\w.-]+)[,)]", r"\bDefault: ([\w.-]+?)\.?(?:\s|$)",
                    r"\b([\w.-]+),? \(?the default\b", r"\b([\w.-]+) \(default\)", r"; default: (\S+)"):
        found = re.search(pattern, " ".join(text.split()))
        if found:
            return found.group(1)
    return ""


def defaults(code, documents):
    """The defaults of variables that have one in the table."""
    lines = []
    for name, default in code.variables.items():
        told = default_of(entry_of(documents, name))
        if default and told != default:
            lines.append(f"{name} is {default} by default, libshard.7 says '{told}'")
        if not default and re.fullmatch(r"\d+[KMG]?", told) and told != "0":
            lines.append(f"libshard.7 says {name} is {told} by default, the code has none")
    rows = re.findall(r"^\| `(SHARD_\w+)` \|.*\| `?([^|`]+)`? \|$", documents.readme, re.MULTILINE)
    for name, told in rows:
        default = code.variables.get(name, "")
        if default and told.strip() != default:
            lines.append(f"{name} is {default} by default, README says '{told.strip()}'")
    return lines


def commands(code, documents):
    """Commands: the table, the usage, the man page's synopsis and sections."""
    page = documents.page("shardctl.1")
    usage = re.findall(r"^  (\w+)\b", code.usage.partition("Commands:")[2], re.MULTILINE)
    synopsis = re.findall(r"^shardctl (\w+)", page.sections["SYNOPSIS"][""], re.MULTILINE)
    sections = [match.group(1) for match in
                (re.match(r"shardctl (\w+)", title) for title in page.sections) if match]
    lines = [f"shardctl {name} --help prints no usage" for name, text in code.help.items()
             if not text.startswith(f"Usage: shardctl {name}")]
    return (lines + both_ways(code.commands, usage, "shardctl --help", "command")
            + both_ways(code.commands, synopsis, "shardctl.1's SYNOPSIS", "command")
            + both_ways(code.commands, sections, "shardctl.1", "section of command"))


def help_options(text):
    """Options of a --help text: {option: default or ""}."""
    found, lines = {}, text.splitlines()
    for i, line in enumerate(lines):
        if re.match(r" {2,6}-|Usage:| {7}shardctl", line) and not line.startswith("  - "):
            head = re.split(r" {2,}(?=\S)", line.strip())[0]
            rest = [line[len(head):]]
            for more in lines[i + 1:]:
                if re.match(r" {2,6}-", more) or not more.startswith("   "):
                    break
                rest.append(more)
            usage = line.startswith(("Usage:", "       shardctl"))
            for option in re.findall(r"(?<![\w-])(--?[a-z0-9][a-z-]*)", line if usage else head):
                found[option] = found.get(option, "") or ("" if usage else default_of(" ".join(rest)))
    found.pop("--help", None)
    return found


def options(code, documents):
    """Each command's options: the table, its --help, and its sections of the man page."""
    lines, page = [], documents.page("shardctl.1")
    for name in code.commands:
        table = {option for option in code.options(name) if (name, option) not in INTERNAL_OPTIONS}
        helped, told = help_options(code.help[name]), {}
        for title, section in page.sections.items():
            if re.match(rf"shardctl {name}\b", title):
                for heading, text in section.items():
                    where = heading if heading else title
                    for option in re.findall(r"(?<![\w-])(--?[a-z0-9][a-z-]*)", where):
                        told[option] = default_of(text + " " + heading) if heading else \
                            told.get(option, "")
        told.pop("--", None)
        lines += both_ways(table, helped, f"shardctl {name} --help", "option")
        lines += both_ways(table, told, f"shardctl.1, {name},", "option")
        for option, default in helped.items():
            if default and option in told and told[option] != default:
                lines.append(f"shardctl {name} --help says {option} is {default} by default, "
                             f"shardctl.1 says '{told[option]}'")
    sources = "\n".join(code.sources.values())
    lines += [f"{option} of {name} is internal here, but the code does not have it"
              for name, option in INTERNAL_OPTIONS if f'"{option}"' not in sources]
    return lines


def error_names(text):
    """The errors that a text names."""
    return [name for name in re.findall(r"\bE[A-Z][A-Z0-9]+\b", text) if hasattr(errno, name)]


def errors(code, documents):
    """Errors of listing calls: those in the source, and libshard.7's section."""
    told = [name for heading in documents.page("libshard.7").entries("ERRORS")
            for name in error_names(heading)]
    literal = code.errors()
    lines = [f"libshard.7, ERRORS, lacks {name} of {path}" for name, path in sorted(literal.items())
             if name not in told and name not in INTERNAL_ERRORS]
    lines += [f"libshard.7, ERRORS, has {name}, which no code returns" for name in told
              if name in INTERNAL_ERRORS or (name not in literal and name not in PASSED_ON)]
    table = documents.readme.partition("## When it says something")[2].partition("\n## ")[0]
    lines += [f"README has {name}, libshard.7's ERRORS has not"
              for name in sorted(set(error_names(table))) if name not in told]
    return lines


def provoked_errors(code, documents):
    """Errors of real listing calls are the ones that libshard.7 has."""
    told = [name for heading in documents.page("libshard.7").entries("ERRORS")
            for name in error_names(heading)]
    if not hasattr(code, "provoked"):
        code.provoked = Provoked(code).all()
    lines = [f"{what}: {got}, not {wanted}" for what, wanted, got in code.provoked if got != wanted]
    lines += [f"{what}: {got}, which libshard.7's ERRORS has not"
              for what, _, got in code.provoked if got not in told]
    return lines


def launchers(code, documents):
    """Launchers: libshard.7's sentence and README's rows."""
    text = " ".join(documents.page("libshard.7").sections["Launchers"][""].split())
    text = re.sub(r"\([^)]*\)", "", text)
    names = set(code.launchers) - {"batch systems"}
    lines = [f"libshard.7, Launchers, lacks {name}" for name in sorted(names)
             if not re.search(rf"\b{re.escape(name)}\b", text)]
    listed = re.search(r"variables:(.*?)\.", text)
    told = [re.sub(r"^and\b|'s$", "", one.strip()).strip() for one in
            (listed.group(1) if listed else "").split(",")]
    told = [re.sub(r"'s\b.*", "", one) for one in told if one]
    lines += [f"libshard.7, Launchers, has {name}, the code has not" for name in told
              if name not in names]
    rows = ", ".join(re.findall(r"^\| launchers: (.*?) \|", documents.readme, re.MULTILINE))
    rows = [one.strip() for one in re.sub(r"\([^)]*\)", "", rows).split(",")]
    return lines + both_ways(names - {"PyTorch"}, [one for one in rows if one], "README", "launcher")


def functions(code, documents):
    """Functions of libc that pass through the library."""
    def base(name):
        name = re.sub(r"^__(\w+)_2$", r"\1", name)
        return name if name == "getdents64" else re.sub(r"64(?=$|_)", "", name)
    page = documents.pages["libshard.7"].partition(".SH WHAT IT CHANGES")[2].partition("\n.PP")[0]
    lines = []
    for kind, text in zip(("LISTING", "STATS"), page.split("\n.B SHARD_STATS\n")):
        told = [word for line in text.splitlines() if line.startswith(".BR ")
                for word in re.findall(r"[a-zA-Z_]\w+", line[4:])]
        exports = {base(name) for name in code.exports if code.exports[name] == kind}
        lines += both_ways(exports, told, f"libshard.7, WHAT IT CHANGES, {kind},", "function")
    return lines


def patches(code, documents):
    """What the adapter replaces in DLIO and in clients of buckets, as their pages tell it."""
    def put(text):
        """The names in whose place something is put: by an assignment, or a decorator of patching.py."""
        found = re.findall(r"^ +(?:cls|module)\.(\w+) = (?!cls|module)", text, re.MULTILINE)
        found += re.findall(r"@(?:replaces\(cls\)|where_lazy\(cls\)|stands_for\([\w.]+\))\n +(?:async )?def (\w+)", text)
        return set(found + re.findall(r'stands_for\(\w+, "(\w+)"\)', text))

    sections = documents.page("libshard-s3.7").sections
    clients_told = " ".join(sections["What libshard changes in clients"].values())
    clients_of = "\n".join(text for path, text in code.sources.items()
                           if path.endswith(".py") and "/buckets/" in path)
    lines = [f"libshard-s3.7 lacks {name}, which the adapter replaces in a client of buckets"
             for name in sorted(put(clients_of)) if not re.search(rf"\b{name}\b", clients_told)]
    python = "\n".join(text for path, text in code.sources.items()
                       if path.endswith(".py") and "/buckets/" not in path)
    told = " ".join(documents.page("libshard-dlio.7").sections["WHAT IT CHANGES IN DLIO"])
    replaced = put(python)
    known = set(re.findall(r'"(\w+\.\w+)": ?[{(d]', python))
    lines += [f"libshard-dlio.7 lacks {name}, which the adapter replaces" for name in sorted(replaced)
              if not re.search(rf"\b{name}\b", told)]
    lines += [f"libshard-dlio.7 has {name}, which the adapter does not know"
              for name in sorted(set(re.findall(r"\b[A-Za-z]\w+\.\w+\b", told)) - known)
              if not name.startswith(("sys.", "utils."))]
    return lines if replaced and known else ["drift.py finds nothing that the adapter replaces"]


def clients(code, documents):
    """The table of data libraries and the pinned ones."""
    page = documents.page("libshard-pytorch.7").sections["DATA LIBRARIES THAT WORK UNMODIFIED"][""]
    rows = dict(re.findall(r"^(\S.*?) {2,}(\d[\w.]*) {2,}", page, re.MULTILINE))
    rows = {name.lower().split()[-1]: version for name, version in rows.items()}
    tested = re.findall(r'^    "[\w.-]+": \("(\w+)",', read("tests", "clients", "readers.py"),
                        re.MULTILINE)
    lines = both_ways(tested, rows, "libshard-pytorch.7's table", "library")
    return lines + [f"libshard-pytorch.7 has {name} {version}, pinned is {code.pins.get(name)}"
                    for name, version in rows.items() if code.pins.get(name) != version]


def cache_files(code, documents):
    """The names of files in the cache directory."""
    printed = {found.replace("%s", "OWNER") for found in re.findall(r'"%\.32s(\.(?:[a-z]+|%s))', code.sources["shim/cache/filenames.c"])}
    told = {found for heading in documents.page("libshard.7").entries("FILES")
            for found in re.findall(r"\bKEY(\.\w*)", heading)}
    return both_ways(printed, told, "libshard.7, FILES,", "name KEY")


def threats(_, documents):
    """Each sentence of libshard.7's SECURITY has checks that are there: tests/docs/threats.txt."""
    sentences, begun, checks, lines = [], [], {}, []
    for line in documents.pages["libshard.7"].partition("\n.SH SECURITY\n")[2].partition("\n.SH ")[0].splitlines():
        if not line.startswith((".SS", ".PP", ".IP", ".TP")):
            begun.append(plain(line))
            if line.endswith("."):
                sentences.append(" ".join(begun))
                begun = []
    sentence = ""
    for line in documents.threats.splitlines():
        if line.startswith(" "):
            checks[sentence].append(line.strip())
        elif line and not line.startswith("#"):
            sentence = line
            checks[sentence] = []
    for sentence, named in checks.items():
        lines += [] if named else [f"threats.txt has no check of: {sentence}"]
        for file, _, name in (check.partition(": ") for check in named):
            path = os.path.join(REPO, "tests", file)
            text = read("tests", file) if os.path.isfile(path) else ""
            if not name or not re.search(rf"[\"'(]{re.escape(name)}", text):
                lines.append(f"threats.txt: {file} has no check '{name}'")
    return lines + both_ways(sentences or ["of SECURITY"], checks, "threats.txt", "sentence:")


def figures(_, documents):
    """README's figures are MEASURED.md's."""
    lines = []
    table = documents.readme.partition("| measured")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        for cell in row.strip("|").split("|")[1:]:
            found = re.match(r"\s*([\d.,]+)", cell)
            if not found or not re.search(rf"(?<![\d.,]){re.escape(found.group(1))}(?![\d,])",
                                          documents.measured):
                lines.append(f"README has the figure '{cell.strip()}', MEASURED.md has not")
    for ratio in re.findall(r"(\d[\d.,]*) times", documents.readme):
        if not re.search(rf"(?<![\d.,]){re.escape(ratio)}(?![\d,])", documents.measured):
            lines.append(f"README has the figure '{ratio} times', MEASURED.md has not")
    return lines or ([] if table else ["README has no table of figures"])


def pictures(_, documents):
    """README's and MEASURED.md's pictures are drawn from bench.json, whose figures MEASURED.md has."""
    folder = os.path.join(REPO, "shim", "pictures")
    with open(os.path.join(folder, "bench.json"), encoding="utf-8") as stream:
        rows = json.load(stream)
    lines = [f"bench.json has {value:,g}, MEASURED.md has not" for row in rows for value in (row["value"], row["peer_value"])
             if not re.search(rf"(?<![\d.,]){re.escape(f'{value:,.3g}' if row['unit'] == 'GB' else f'{value:,g}')}(?![\d,])",
                              documents.measured)]
    for name, text in draw.pictures(rows).items():
        if read("shim", "pictures", name) != text:
            lines.append(f"shim/pictures/{name} is not what scripts/pictures.py makes")
        if f'"shim/pictures/{name}"' not in documents.readme and f'"pictures/{name}"' not in documents.measured:
            lines.append(f"neither README nor MEASURED.md shows shim/pictures/{name}")
    return lines


def size(_, documents):
    """README is short enough to be read."""
    used = len(documents.readme.encode())
    return [f"README has {used} bytes, more than {README_MOST}"] if used > README_MOST else []


def places(code, documents):
    """Files, targets of make and man pages that documents name are there, pages are installed."""
    lines = []
    for where, text in documents.all().items():
        for path in sorted(set(re.findall(r"\b(?:tests|shim|scripts|include)/[\w./-]*\w", text))):
            if not os.path.exists(os.path.join(REPO, path)):
                lines.append(f"{where} names {path}, which is not there")
        for page, section in set(re.findall(r"\b(libshard[\w-]*|shardctl) ?\((\d)\)", text)):
            if f"{page}.{section}" not in documents.pages:
                lines.append(f"{where} names {page}({section}), which is not there")
    for line in re.findall(r"(?:^    |`)make ([a-z][\w -]*)", documents.readme, re.MULTILINE):
        lines += [f"README names make {word}, the Makefile does not" for word in line.split()
                  if word.islower() and word not in code.targets]
    rules = code.makefile.partition("\ninstall:")[2]
    install, uninstall = rules.partition("\nuninstall:")[0], rules.partition("\nuninstall:")[2]
    lines += [f"make install lacks {name}" for name in PAGES if f"shim/man/{name}" not in install]
    lines += [f"make uninstall lacks {name}" for name in PAGES
              if f"/{name}" not in uninstall.partition("\n\n")[0]]
    there = {os.path.basename(file) for file in glob.glob(os.path.join(REPO, "shim", "man", "*"))}
    return lines + both_ways(there, documents.pages, "drift.py", "page")


def troff(_, documents):
    """man pages without warnings."""
    if not shutil.which("groff"):
        return ["there is no groff; scripts/setup.sh check installs it"]
    lines = []
    for name, text in documents.pages.items():
        done = subprocess.run(["groff", "-ww", "-man", "-Tutf8"], input=text.encode(), check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=600)
        lines += [f"{name}: {line}" for line in done.stderr.decode().splitlines()]
    return lines


# The maps of the code: where each is, and the folders of shim/ that it covers.
MAPS = {
    "interpose/init.c": ("interpose", "view", "stats", "shard", "host", "listing", "config", "base"),
    "cache/cache.h": ("cache",),
    "ctl/main.c": ("ctl", "build", "source"),
    "source/s3/s3.h": ("source/s3",),
    "adapter/__init__.py": ("adapter",),
    "adapter/buckets/__init__.py": ("adapter/buckets",),
}


def maps(code, _):
    """Each module has a line in the map of its room, and each line a module."""
    lines = []
    for place, rooms in MAPS.items():
        text = re.split(r"^(?:#pragma once|#include|import) ?", code.sources["shim/" + place], flags=re.MULTILINE)[0]
        told = {name.partition(".")[0] for row in re.findall(r"^(?: \*)? {2,}((?:\w+(?:\.[ch])?, )*\w+(?:\.[ch])?)  +\S", text, re.MULTILINE)
                for name in row.split(", ")}
        there = {os.path.splitext(os.path.basename(path))[0] for path in code.sources
                 if os.path.dirname(path).removeprefix("shim/") in rooms and path.endswith((".c", ".h", ".py"))}
        packages = {path.split("/")[2] for path in code.sources if path.startswith("shim/adapter/") and path.count("/") == 3}
        there = there - {"__init__", "sources"} | (packages if rooms == ("adapter",) else set())
        told.discard("contract")  # made by scripts/contract.awk
        lines += both_ways(there, told, f"the map in shim/{place}", "module")
    return lines


def plants(code, _):
    """The lines that `make planted` changes."""
    return [f"tests/planted.py: the text of '{one.name}' is not in {one.file}, or more than once"
            for one in FAULTS if code.sources.get(one.file, "").count(one.old) != 1]


COMPARISONS = (variables, other_variables, words, ranges, defaults, commands, options, errors,
               provoked_errors, launchers, functions, patches, clients, cache_files, threats, figures, pictures, size,
               places, troff, maps, plants)


def main():
    """All comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", default=paths.BUILD,
                        help="where libshard.so and shardctl are")
    parser.add_argument("--filter", default="", help="only comparisons this regex is found in")
    parser.add_argument("--self-test", action="store_true", help="prove that they can fail, too")
    args = parser.parse_args()
    confine.begin()
    code, documents = Code(paths.preloadable(os.path.abspath(args.build))), Documents()
    passed = failed = 0
    for comparison in COMPARISONS:
        if re.search(args.filter, comparison.__name__):
            lines = comparison(code, documents)
            print(f"{'FAIL' if lines else 'ok'} {comparison.__name__}", *lines, sep="\n  ")
            passed, failed = passed + (not lines), failed + bool(lines)
    if args.self_test:
        import planted  # pylint: disable=import-outside-toplevel
        lines = planted.self_test(code, documents)
        print(f"{'FAIL' if lines else 'ok'} {len(planted.PLANTED)} planted differences are found", *lines,
              sep="\n  ")
        passed, failed = passed + (not lines), failed + bool(lines)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
