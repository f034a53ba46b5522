#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of shardctl verify --html: what is on it, of 1, 8 and 1,024 ranks, and how a browser shows it.

Eight ranks are real; what others wrote is made here. Each page is read as XML and as HTML, and some by headless
Chromium, in both colour schemes.

    python3 -m tests.behaviour.page [--keep DIR]     DIR gets the pages and the pictures
"""
import argparse
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from xml.etree import ElementTree

from tests.harness import paths
from tests.harness.verdicts import Verdicts

RANKS, EPOCHS, FILES = 8, 3, 80
MOST = 2_000_000
MEASURES = ("listed", "first", "peak", "end", "files", "opens", "lost")  # columns of the table of ranks
HOSTILE = '</title><script>alert(1)</script><img src=x onerror="alert(2)"/>&amp;\'"\u202e\u2066\x1b[31m\n\x9b'
TAGS = set("html head meta title style body h1 h2 h3 p b ul li details summary dl div dt dd i br table thead tbody tr th"
           " td figure figcaption svg path text g rect footer".split())
SECRET = "wJalrXUtnFEMI/K7MDENG"
RANK = """
import os, sys, time
big = bytearray(150 << 20) if os.environ["SHARD_RANK"] == "0" else None
for epoch in range(3):
    os.environ["SHARD_EPOCH"] = str(epoch)
    for name in os.listdir(sys.argv[1]):
        open(os.path.join(sys.argv[1], name)).close()
    time.sleep(0.3)
"""
PICTURE = """
import json, sys
from PIL import Image
image = Image.open(sys.argv[1]).convert("RGB")
levels = {tuple(bytes.fromhex(colour)): int(level) for level, colour in json.loads(sys.argv[2]).items()}
lines = set()
for y in range(image.height):
    seen = [levels[one] for one in image.crop((0, y, image.width, y + 1)).getdata() if one in levels]
    lines.add(tuple(level for i, level in enumerate(seen) if i == 0 or level != seen[i - 1]))
colours = {"%02x%02x%02x" % colour: count for count, colour in image.getcolors(1 << 24)}
print(json.dumps({"size": image.size, "lines": sorted(lines), "colours": colours}))
"""
told = Verdicts()
WORK = tempfile.mkdtemp(prefix="shard-page.")


class Reader(html.parser.HTMLParser):
    """What a browser makes of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = set(), [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def content(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def made(rank, size, files, **more):
    """What a rank wrote that opened so many files in each of the epochs, as many as it owns."""
    number = [rank * 31 + 1 for _ in files]
    whole = size * (size - 1) // 2 * 31 + size
    epochs = [{"epoch": e, "opened": n, "distinct": n, "distinct_sum": f"{s:016x}", "owned": files[0],
               "owned_sum": f"{s:016x}"} for e, (n, s) in enumerate(zip(files, number))]
    of_set = {"dataset": "/data/train", "entries": more.pop("entries", files[0] * size), "digest": "0f" * 32, "sum": f"{whole:016x}",
              "owned": files[0], "owned_sum": f"{number[0]:016x}", "mixed": False, "lists": "one", "epochs": epochs,
              "listed_ms": 4000 + rank, "used": 0}
    of_set["used"] = of_set["entries"]
    of_set.update({key: more.pop(key) for key in list(more) if key in of_set})
    times = {"begun_ms": 1795621402183 + rank, "lasted_ms": 170000, "first_open_ms": 4500 + rank, "bin_ms": 2000,
             "opens": [0, 0] + [10] * 80}
    return {"libshard": "0", "rank": rank, "size": size, "host": f"nid{rank // 4:05d}", "launcher": "Slurm", "view": "shard",
            "strategy": "range", "seed": 3, "job": None, "lost": 0, "peak_rss": 2_000_000_000, "times": times, **of_set,
            "datasets": [of_set] * more.pop("datasets", 1), **more}


def written(name, ranks):
    """Their files."""
    folder = os.path.join(WORK, name)
    os.mkdir(folder)
    for i, rank in enumerate(ranks):
        with open(f"{folder}/{i:04d}.json", "w", encoding="utf-8") as stream:
            json.dump(rank, stream)
    return [f"{folder}/{i:04d}.json" for i in range(len(ranks))]


def verify(page, files):
    """Exit status and what is said."""
    env = {**os.environ, "AWS_SECRET_ACCESS_KEY": SECRET, "LC_ALL": "C"}
    done = subprocess.run([paths.SHARDCTL, "verify", "--html", page, *files], capture_output=True, text=True, env=env,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def page_of(name, files, status=0):
    """The path of the page, and its XML; what holds for all is checked."""
    path = os.path.join(WORK, name + ".html")
    got, said = verify(path, files)
    told.check(f"{name}: verify", got == status, f"status {got}: {said}")
    text = content(path)
    reader = Reader(text)
    wrong = [f"element {tag}" for tag in reader.tags - TAGS]
    wrong += [f"attribute {key}={value}" for key, value in reader.attributes
              if key.startswith("on") or key in ("src", "href") or re.search("url|//", value or "")]
    wrong += [f"has {what}" for what in ("http:", "https:", "nan", "inf", SECRET, "\u202e", "\x1b", "\x9b")
              if what in re.sub("http-equiv", "", text)]
    wrong += [f"{len(text)} bytes"] if len(text.encode()) > MOST else []
    told.tell(f"{name}: needs and holds nothing else, {len(text) // 1000} KB", wrong)
    return path, ElementTree.fromstring(text)


def cells(xml):
    """The heat map: rows of (class, tooltip, text)."""
    rows = xml.findall(".//table[@class='map']/tbody/tr") or xml.findall(".//table[@class='map low']/tbody/tr")
    return [[(td.get("class", ""), td.get("title"), td.text or "") for td in row.findall("td")] for row in rows]


def table(xml):
    """The table of ranks: a dictionary for each."""
    rows = xml.findall(".//table[@class='list']")[-1].findall("tbody/tr")
    return [dict(zip(("rank", *MEASURES, "host"), ("".join(one.itertext()) for one in row))) for row in rows]


def chromium(path, *options):
    """What it prints; it has a profile of its own."""
    done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                           "--user-data-dir=" + WORK + "/profile", *options, "file://" + path],
                          capture_output=True, timeout=120, check=False)
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def palettes(text):
    """The variables of the style: in light, and in dark."""
    light, dark = (dict(re.findall(r"--(\w+):#(\w+)", part)) for part in text.partition("@media")[::2])
    return [{key: value * (2 if len(value) == 3 else 1) for key, value in one.items()} for one in (light, {**light, **dark})]


def contrast(one, other):
    """Of two colours, as WCAG computes it."""
    def luminance(colour):
        parts = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in bytes.fromhex(colour)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def look(name, path, dark, wanted):
    """Take a picture; `wanted` tells what is wrong with it, of its colours."""
    palette = palettes(content(path))[dark]
    picture = f"{WORK}/{name}-{'dark' if dark else 'light'}.png"
    chromium(path, "--window-size=1040,1500", "--screenshot=" + picture,
             *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    levels = json.dumps({key[1:]: value for key, value in palette.items() if re.fullmatch(r"c\d", key)})
    done = subprocess.run([paths.VENV_PYTHON, "-c", PICTURE, picture, levels], capture_output=True, text=True, check=False)
    if done.returncode:
        told.check(f"{name}: a picture", False, done.stderr)
        return
    seen = json.loads(done.stdout)
    count = {key: seen["colours"].get(value, 0) for key, value in palette.items()}
    wrong = [] if seen["size"] == [1040, 1500] else [f"size {seen['size']}"]
    wrong += [] if count["bg"] > 500_000 else [f"{count['bg']} pixels of the background"]
    wrong += [f"{count[key]} pixels of {key}" for key in ("fg", "dim", "line") if count[key] < 300]
    told.tell(f"{name}: the picture, {'dark' if dark else 'light'}", wrong + wanted(count, seen["lines"]))


def real():
    """Eight ranks that list, and open their share in each of three epochs."""
    data, out = os.path.join(WORK, "data"), os.path.join(WORK, "out")
    os.mkdir(data), os.mkdir(out)
    for i in range(FILES):
        open(f"{data}/{i}", "x").close()
    env = {**{key: value for key, value in os.environ.items() if not key.startswith("SHARD_")}, "SHARD_DATASET": data,
           "SHARD_STATS": out + "/%r.json", "SHARD_CACHE_DIR": WORK + "/cache", "SHARD_SEED": "7",
           "SHARD_SIZE": str(RANKS), "LD_PRELOAD": paths.LIBRARY}
    before = time.time() * 1000
    ranks = [subprocess.Popen([sys.executable, "-S", "-c", RANK, data], env={**env, "SHARD_RANK": str(r)}) for r in range(RANKS)]
    told.check("ranks", [rank.wait() for rank in ranks] == [0] * RANKS)
    after = time.time() * 1000
    files = [f"{out}/{r}.json" for r in range(RANKS)]
    stats = [json.loads(content(file)) for file in files]
    for s in stats:
        t = s["times"]
        busy = [i for i, n in enumerate(t["opens"]) if n]
        told.check(f"times of rank {s['rank']}", 0 <= s["listed_ms"] <= t["first_open_ms"] <= t["lasted_ms"] - 900
                   and before <= t["begun_ms"] + 1 and t["begun_ms"] + t["lasted_ms"] <= after + 50
                   and sum(t["opens"]) == sum(e["opened"] for e in s["epochs"]) == FILES // RANKS * EPOCHS
                   and 550 <= (busy[-1] - busy[0] + 1) * t["bin_ms"] <= t["lasted_ms"]
                   and (s["peak_rss"] > 150 << 20) == (s["rank"] == 0) and s["peak_rss"] > 4 << 20, s)
    path, xml = page_of("real", files)
    told.check("real: verdict", "Proven for 8 ranks" in "".join(xml.itertext()))
    told.check("real: the map", [[cell[2] for cell in row] for row in cells(xml)] ==
               [[str(FILES // RANKS)] * RANKS] * EPOCHS, cells(xml))
    rows = table(xml)
    told.check("real: the table", [int(row["opens"]) for row in rows] == [FILES // RANKS * EPOCHS] * RANKS
               and all(re.fullmatch(r"\d+ ms|\d+\.\d s", row["listed"]) for row in rows), rows)
    told.check("real: once more, in place of it", verify(path, files)[0] == 0)
    killed = out + "/killed.json"
    subprocess.run([sys.executable, "-S", "-c", RANK + "os.kill(os.getpid(), 9)", data], check=False,
                   env={**env, "SHARD_SIZE": "1", "SHARD_RANK": "0", "SHARD_STATS": killed})
    subprocess.run([paths.SHARDCTL, "stats", killed + ".log"], check=True)
    _, xml = page_of("killed", [killed])
    row = table(xml)[0]
    told.check("killed: what is known", (row["end"], row["peak"], row["opens"]) == ("not known", "not known", str(FILES * EPOCHS))
               and re.fullmatch(r"\d+ ms|\d+\.\d s", row["first"]), row)


def shapes():
    """Pages of other sizes."""
    _, xml = page_of("one", written("one", [made(0, 1, [500] * 4)]))
    told.check("one: the map", [[cell[2] for cell in row] for row in cells(xml)] == [["500"]] * 4, cells(xml))
    slope, xml = page_of("slope", written("slope", [made(r, 8, [80 - 10 * r] * 2, entries=360) for r in range(8)]))
    told.check("slope: levels", [[cell[0] for cell in row] for row in cells(xml)] ==
               [[f"c{level}" for level in range(8, 0, -1)]] * 2, cells(xml))
    ranks = [made(r, 1024, [100] * 6) for r in range(1024)]
    ranks[700] = made(700, 1024, [100, 100, 10, 100, 0, 100])
    ranks[300]["datasets"][0]["listed_ms"] = 60_000
    many, xml = page_of("many", written("many", ranks))
    rows = cells(xml)
    told.check("many: the map", [len(row) for row in rows] == [64] * 6
               and [(e, g) for e, row in enumerate(rows) for g, cell in enumerate(row) if " u" in cell[0]] == [(2, 43), (4, 43)],
               rows)
    told.check("many: whose cell", rows[2][43][1] == "ranks 688 to 703, epoch 2: 10 to 100 files", rows[2][43])
    text = " ".join("".join(xml.itertext()).split())
    told.check("many: says that it groups, and who is late", "a cell has 16 ranks and 1 epoch" in text
               and "60.0 s (rank 300)" in text and "at most 60.0 s (rank 300)" in text, text[:3000])
    _, xml = page_of("long", written("long", [made(r, 65, [9] * 300, datasets=6, host=HOSTILE * 9) for r in range(65)]))
    rows = cells(xml)
    told.check("long: the map", [len(row) for row in rows] == [33] * 38 * 4 and "2 more datasets" in "".join(xml.itertext()),
               [len(row) for row in rows])
    return slope, many


def bad():
    """What others write, what is missing, and where no page may go."""
    ranks = [made(r, 2, [5], host=HOSTILE, launcher=HOSTILE, strategy=HOSTILE, dataset=HOSTILE, digest=HOSTILE) for r in range(2)]
    path, xml = page_of("hostile", written("hostile", ranks))
    text = "".join(xml.itertext())
    told.check("hostile: escaped", "<script>alert(1)</script>" in text and r"\xe2\x80\xae" in text and r"\x1b[31m\x0a" in text, text)
    reader = Reader(chromium(path, "--dump-dom"))
    told.check("hostile: in a browser", reader.tags and reader.tags <= TAGS and "alert(1)" in reader.text
               and not any(key.startswith("on") for key, _ in reader.attributes), reader.tags - TAGS)
    for i, strange in enumerate((
            {"times": {"begun_ms": -5, "lasted_ms": "x", "first_open_ms": 1e300, "bin_ms": 0, "opens": {}}, "peak_rss": []},
            {"times": {"begun_ms": 2 ** 64 - 1, "lasted_ms": 2 ** 64 - 1, "first_open_ms": 0, "bin_ms": 2 ** 63, "opens": [2 ** 64 - 1] * 500}},
            {"times": {"begun_ms": 0, "lasted_ms": None, "first_open_ms": None, "bin_ms": 0, "opens": []}, "peak_rss": None},
            {"times": None, "peak_rss": 2 ** 64 - 1})):
        page_of(f"strange {i}", written(f"strange {i}", [made(0, 2, [5]), {**made(1, 2, [5]), **strange}]))
    old = [{key: value for key, value in made(r, 2, [0]).items() if key not in ("times", "peak_rss")} for r in range(2)]
    for one in old:
        one["datasets"][0].pop("listed_ms")
    _, xml = page_of("old", written("old", old))
    text = "".join(xml.itertext())
    told.check("old: what it does not know", "have no times" in text and text.count("not known") > 8
               and all(cell[0] == "c0" for row in cells(xml) for cell in row), text)
    files = written("less", [made(r, 3, [5]) for r in (0, 2)])
    _, xml = page_of("less", files, 1)
    told.check("less: what is missing", "Not proven: 1 fault" in "".join(xml.itertext()) and
               "rank 1 of 3 is missing" in "".join(xml.itertext()))
    _, xml = page_of("none", [WORK + "/is-not-there"], 1)
    kept = content(files[0])
    status, said = verify(files[0], files[1:])
    told.check("a rank's file in the place of the page", status == 2 and content(files[0]) == kept and "no such page" in said, said)
    for where, why in ((WORK + "/none/x.html", "No such file"), (WORK, "not a regular file"), ("/dev/full", "not a regular file")):
        status, said = verify(where, files[:1])
        told.check(f"no page in {where.replace(WORK, 'WORK')}", status == 1 and why in said, said)
    told.check("nothing is left", not [name for name in os.listdir(WORK) if ".tmp." in name], os.listdir(WORK))


def pictures(slope, many):
    """What a browser shows, in both schemes."""
    for scheme, palette in zip(("light", "dark"), palettes(content(slope))):
        pairs = [(key, "bg") for key in ("fg", "dim", "good", "warn", "bad")]
        pairs += [("on" if level < 5 else "over", f"c{level}") for level in range(1, 9)]
        least = {**dict.fromkeys(pairs, 4.5), ("bar", "bg"): 3, ("pale", "bg"): 3, ("bar", "pale"): 2}
        told.tell(f"contrast, {scheme}", [f"{one} on {other}: {contrast(palette[one], palette[other]):.2f}"
                                          for (one, other), most in least.items()
                                          if contrast(palette[one], palette[other]) < most])

    def of_slope(count, lines):
        return ([] if list(range(8, 0, -1)) in lines and list(range(1, 9)) in lines else [f"no map, or legend: {lines}"]) + \
            ([] if count["bar"] > 20_000 and count["good"] > 300 else [f"bars: {count}"])

    def of_many(count, _):
        return [] if count["c8"] > 40_000 and count["bar"] > 20_000 and count["pale"] > 150 and count["warn"] > 50 else [count]

    look("slope", slope, False, of_slope)
    look("slope", slope, True, of_slope)
    look("many", many, True, of_many)


def main():
    """Run all; the exit status is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", metavar="DIR", help="copy pages and pictures there")
    args = parser.parse_args()
    if shutil.which("chromium"):
        real()
        slope, many = shapes()
        bad()
        pictures(slope, many)
    else:
        told.check("chromium", False, "there is none; scripts/setup.sh all installs it")
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    for name in os.listdir(WORK) if args.keep else ():
        if name.endswith((".html", ".png")):
            shutil.copy(os.path.join(WORK, name), args.keep)
    return told.conclude(WORK)


if __name__ == "__main__":
    sys.exit(main())
