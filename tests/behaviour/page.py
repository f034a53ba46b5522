#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of shardctl verify --html, of 4 and of 1,024 ranks, as headless Chromium shows it."""
import html.parser
import os
import shutil
import subprocess
import sys
import tempfile

from tests.harness import paths, statlogs
from tests.harness.verdicts import Verdicts

MOST = 2_000_000
HOSTILE = "</script><script>document.title='alert'</script><img src=x onerror=\"document.title='alert'\">&amp;\u202e"
told = Verdicts()
WORK = tempfile.mkdtemp(prefix="shard-page.")


class Reader(html.parser.HTMLParser):
    """What a browser shows: elements, their classes and titles, and texts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.inside = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in self.inside:
            del self.inside[len(self.inside) - 1 - self.inside[::-1].index(tag):]

    def handle_data(self, data):
        if self.inside and self.inside[-1] not in ("script", "style"):
            self.texts.append((self.inside[-1], data))

    def cells(self):
        """Class and title of each cell."""
        return [(attributes.get("class"), attributes.get("title", ""), attributes.get("style", "")) for tag, attributes in self.elements if tag == "td"]

    def text(self):
        """All of it."""
        return " ".join(text for _, text in self.texts)


def chromium(path):
    """The page as it is shown; the browser has a profile of its own."""
    done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                           "--user-data-dir=" + WORK + "/profile", "--dump-dom", "file://" + path],
                          capture_output=True, timeout=300, check=False)
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def page_of(name, folder, status, *more):
    """Make a page of a folder of logs; what a browser makes of it."""
    path = f"{WORK}/{name}.html"
    got, said = statlogs.verify(folder, "--html", path, *more)
    told.check(f"{name}: verify", got == status, f"status {got}: {said}")
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    told.check(f"{name}: needs nothing else, {len(text) // 1000} KB", "http" not in text.replace("http-equiv", "") and len(text.encode()) < MOST, len(text))
    reader = Reader(chromium(path))
    return reader


def real():
    """Four ranks that list 63 files, and open their share, or a part of it."""
    data = os.path.join(WORK, "data")
    os.mkdir(data)
    for i in range(63):
        open(f"{data}/{i:02}.tar", "x").close()
    env = {**{key: value for key, value in os.environ.items() if not key.startswith("SHARD_")}, "SHARD_DATASET": data,
           "SHARD_CACHE_DIR": WORK + "/cache", "SHARD_SIZE": "4", "SHARD_JOB": "page", "SHARD_STRATEGY": "range", "SHARD_LOG": "error", "LD_PRELOAD": paths.LIBRARY}
    for name, part in (("whole", "[:]"), ("twice", "[int(os.environ['SHARD_RANK'])::4]")):
        out = f"{WORK}/{name}"
        for rank in range(4):
            subprocess.run([sys.executable, "-S", "-c", f"import os\nfor f in os.listdir('{data}'){part}: open('{data}/' + f).close()"],
                           env={**env, "SHARD_RANK": str(rank), "SHARD_STATS": out}, check=True)
    reader = page_of("whole", WORK + "/whole", 0)
    told.check("whole: proven", "✓ Proven" in reader.text() and "all 63 of 63 files" in reader.text(), reader.text())
    told.check("whole: dark cells", [style.count("1.000") or style for _, _, style in reader.cells()] != [] and
               all(kind is None and "15 of 15" in title or "16 of 16" in title for kind, title, _ in reader.cells()), reader.cells())
    reader = page_of("twice", WORK + "/twice", 1)
    told.check("twice: not proven", "✗ Not proven" in reader.text() and "divided twice" in reader.text(), reader.text())
    told.check("twice: pale, framed cells", len(reader.cells()) == 4 and all(
        kind == "bad" and "4 of 1" in title and "0.2" in style for kind, title, style in reader.cells()), reader.cells())
    for where, why in ((WORK + "/none/x.html", "No such file"), (WORK, "not a regular file")):
        status, said = statlogs.verify(WORK + "/whole", "--html", where)
        told.check(f"no page in the place of {where.replace(WORK, 'WORK')}", status == 1 and why in said, said)


def made(name, root, size, epochs, missing=()):
    """Logs of so many ranks with two files each, but for those that are missing."""
    folder = f"{WORK}/{name}"
    os.mkdir(folder)
    with open(folder + ".names", "w", encoding="utf-8") as stream:
        stream.writelines(f"{i:05}\n" for i in range(2 * size))
    for rank in range(size):
        names = [f"{2 * rank:05}", f"{2 * rank + 1:05}"]
        statlogs.write(folder, root, 2 * size, rank, size, [names[:1] if (rank, e) in missing else names for e in range(epochs)])
    return folder


def main():
    """Run all; the exit status is 1 if anything is wrong."""
    if shutil.which("chromium"):
        real()
        reader = page_of("many", made("many", "/data/", 1024, 20), 1)
        told.check("many: groups of ranks", len(reader.cells()) == 64 * 20, len(reader.cells()))
        reader = page_of("hostile", made("hostile", f"/{HOSTILE}/", 2, 2), 1)
        told.check("hostile: it is text", "document.title='alert'" in reader.text() and not any(
            tag == "img" for tag, _ in reader.elements) and "alert" not in "".join(text for tag, text in reader.texts if tag == "title"), reader.elements)
    else:
        told.check("chromium", False, "there is none; scripts/setup.sh all installs it")
    return told.conclude(WORK)


if __name__ == "__main__":
    sys.exit(main())
