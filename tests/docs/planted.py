"""The proof that each comparison of drift.py can fail, in either direction: planted differences."""
import copy

import drift

def page_edit(page, old, new):
    """A change of a man page."""
    def edit(_, documents):
        assert old in documents.pages[page], f"{page} has no {old!r}"
        documents.pages[page] = documents.pages[page].replace(old, new)
    return edit


def readme_edit(old, new):
    """A change of README.md."""
    def edit(_, documents):
        assert old in documents.readme, f"README.md has no {old!r}"
        documents.readme = documents.readme.replace(old, new)
    return edit


def source_edit(path, old, new):
    """A change of a source file, or of all in a folder."""
    def edit(code, _):
        files = [file for file in code.sources if file.startswith(path) and old in code.sources[file]]
        assert files, f"{path} has no {old!r}"
        for file in files:
            code.sources[file] = code.sources[file].replace(old, new)
    return edit


def fact_edit(change):
    """A change of what was read from the built programs."""
    return lambda code, _: change(code)


def help_edit(command, old, new):
    """A change of a command's --help."""
    def edit(code, _):
        assert old in code.help[command], f"{command} --help has no {old!r}"
        code.help[command] = code.help[command].replace(old, new)
    return edit


PLANTED = (
    # The code has it, documents do not.
    (drift.variables, page_edit("libshard.7", ".B SHARD_WINDOW\nHow", ".B WINDOW\nHow")),
    (drift.variables, fact_edit(lambda code: code.variables.update(SHARD_NEW=""))),
    (drift.other_variables, page_edit("libshard-s3.7", "AWS_CA_BUNDLE", "THE_BUNDLE")),
    (drift.other_variables, source_edit("shim/ctl/", '#include "ctl/ctl.h"',
                                  'getenv("NEW_ONE")')),
    (drift.words, page_edit("libshard.7", '.BR error ", " warn " (the default), " info " or " debug',
                      '.BR error ", " warn " or " info')),
    (drift.ranges, page_edit("libshard.7", "1 to 256", "some")),
    (drift.defaults, page_edit("libshard.7", "(default 32)", "(default 16)")),
    (drift.defaults, readme_edit("| `stride` |\n| `SHARD_EPOCH", "| `hash` |\n| `SHARD_EPOCH")),
    (drift.commands, page_edit("shardctl.1", "\\fBshardctl get\\fR", "\\fBget\\fR")),
    (drift.commands, page_edit("shardctl.1", '.SS "shardctl get', '.SS "get')),
    (drift.commands, fact_edit(lambda code: code.commands.append("new") or code.help.update(new=""))),
    (drift.options, page_edit("shardctl.1", ".B \\-\\-unique\n", ".B unique\n")),
    (drift.options, help_edit("index", "--unique", "unique")),
    (drift.options, page_edit("shardctl.1", "Default: stride.\n", "Default: range.\n")),
    (drift.errors, page_edit("libshard.7", ".B ESTALE\n", ".B stale\n")),
    (drift.errors, source_edit("shim/view/", "-EPERM", "-EDOM")),
    (drift.provoked_errors, page_edit("libshard.7", ".B EPROTONOSUPPORT\n", ".B version\n")),
    (drift.provoked_errors, fact_edit(lambda code: setattr(
        code, "provoked", [("unreadable", "EPERM", "EACCES")]))),
    (drift.launchers, page_edit("libshard.7", "Flux", "Fl")),
    (drift.launchers, readme_edit("JSM, Flux", "JSM")),
    (drift.launchers, fact_edit(lambda code: code.launchers.append("New MPI"))),
    (drift.functions, page_edit("libshard.7", '" wordexp "', '" "')),
    (drift.functions, fact_edit(lambda code: code.exports.update(newcall="LISTING"))),
    (drift.functions, fact_edit(lambda code: code.exports.update(open="LISTING"))),
    (drift.patches, source_edit("shim/adapter/", "derive_configurations", "derive")),
    (drift.patches, page_edit("libshard-dlio.7", "\n.I ConfigArguments.reconfigure\n", "\n.I that\n")),
    (drift.clients, page_edit("libshard-pytorch.7", "\nPolars ", "\nPandas2 ")),
    (drift.clients, page_edit("libshard-pytorch.7", "26.0.1", "26.0.2")),
    (drift.cache_files, page_edit("libshard.7", ".I KEY.perm\n", ".I perm\n")),
    (drift.cache_files, source_edit("shim/cache/filenames.c", ".32s.perm", ".32s.kept")),
    (drift.threats, page_edit("libshard.7", ".SS The dataset\n", "Nobody can do any harm.\n.SS The dataset\n")),
    (drift.threats, lambda _, documents: setattr(
        documents, "threats", documents.threats.replace("behaviour/threats.sh: no file of", "behaviour/threats.sh: No file of"))),
    (drift.places, fact_edit(lambda code: setattr(
        code, "makefile", code.makefile.replace("libshard-s3.7", "other.7")))),
    # Documents have it, the code does not.
    (drift.variables, page_edit("libshard.7", ".TP\n.B SHARD_LOG\n",
                                ".TP\n.B SHARD_MORE\nNo.\n.TP\n.B SHARD_LOG\n")),
    (drift.variables, readme_edit("`SHARD_VIEW=off`", "`SHARD_VIEWS=off`")),
    (drift.variables, page_edit("libshard.7", ".TP\n.B SHARD_KNOWN\n", ".TP\n.B SHARD_KNWON\n")),
    (drift.variables, help_edit("verify", "SHARD_STATS", "SHARD_STTAS")),
    (drift.other_variables, page_edit("libshard-s3.7", "AWS_CA_BUNDLE", "AWS_CA_BUNDLE AWS_ROLE_ARN")),
    (drift.words, page_edit("libshard.7", '" info " or " debug', '" info ", " loud " or " debug')),
    (drift.ranges, page_edit("libshard.7", "1 to 256", "1 to 512")),
    (drift.ranges, page_edit("libshard.7", "at least 8M", "at least 4M")),
    (drift.defaults, page_edit("libshard.7", "Default: see \\fBLaunchers\\fR.", "Default: 7.")),
    (drift.commands, page_edit("shardctl.1", "\\fBshardctl doctor\\fR",
                         "\\fBshardctl treat\\fR\n\\fBshardctl doctor\\fR")),
    (drift.commands, fact_edit(lambda code: setattr(
        code, "usage", code.usage.replace("  doctor\n", "  treat  x\n  doctor\n")))),
    (drift.options, page_edit("shardctl.1", ".B \\-\\-unique\n", ".B \\-\\-unique\n.TP\n.B \\-\\-only\n")),
    (drift.options, help_edit("stat", "      --json", "      --only X   x\n      --json")),
    (drift.errors, page_edit("libshard.7", ".B EPERM\n", ".BR EPERM \", \" EACCES\n")),
    (drift.errors, page_edit("libshard.7", ".B EPERM\n", ".BR EPERM \", \" EXDEV\n")),
    (drift.errors, readme_edit("`EBADMSG`, `ESTALE`", "`EBADMSG`, `EXDEV`")),
    (drift.launchers, page_edit("libshard.7", "Flux, ", "Flux, Kube, ")),
    (drift.launchers, readme_edit("JSM, Flux", "JSM, Kube, Flux")),
    (drift.functions, page_edit("libshard.7", '" wordexp "', '" wordexp " " wordexp2 "')),
    (drift.patches, page_edit("libshard-dlio.7", "FileStorage.walk_node", "FileStorage.walk_nodes")),
    (drift.cache_files, page_edit("libshard.7", ".I KEY.perm\n", ".I KEY.newest\n")),
    (drift.pictures, readme_edit("shim/pictures/speed-dark.svg", "shim/pictures/speed-black.svg")),
    (drift.figures, readme_edit("| 5,297 |", "| 5,298 |")),
    (drift.figures, readme_edit("1.18 times", "1.49 times")),
    (drift.size, readme_edit("`make bench`", 10240 * "long ")),
    (drift.places, readme_edit("make bench", "make bunch")),
    (drift.places, readme_edit("(tests/torch/train.py)", "(tests/torch/trains.py)")),
    (drift.places, page_edit("libshard.7", ".BR libshard\\-s3 (7)", ".BR libshard\\-s4 (7)")),
    (drift.troff, page_edit("libshard.7", ".SH LIMITS", ".SHH LIMITS")),
    (drift.maps, source_edit("shim/interpose/init.c", " *   scandir  ", " *   scan  ")),
    (drift.plants, source_edit("shim/config/launcher.c", "w->ended[i] = whole ||", "w->ended[i] = false ||")),
)


def self_test(code, documents):
    """Lines for the planted differences that are not found."""
    lines, planted = [], set()
    baseline = {comparison: set(comparison(code, documents)) for comparison in drift.COMPARISONS}
    for comparison, edit in PLANTED:
        ours, theirs = copy.copy(code), copy.deepcopy(documents)
        for name in ("sources", "help", "variables", "commands", "launchers", "exports"):
            setattr(ours, name, copy.copy(getattr(code, name)))
        planted.add(comparison)
        number = PLANTED.index((comparison, edit)) + 1
        try:
            edit(ours, theirs)
            if not set(comparison(ours, theirs)) - baseline[comparison]:
                lines.append(f"{comparison.__name__} does not see planted difference {number}")
        except (AssertionError, AttributeError, KeyError, ValueError) as error:
            lines.append(f"{comparison.__name__}, planted difference {number}: {error!r}")
    return lines + [f"nothing is planted for {one.__name__}" for one in drift.COMPARISONS
                    if one not in planted]
