"""README's and MEASURED.md's pictures, from what make bench has measured: python3 scripts/pictures.py BENCH.json FOLDER

shim/pictures/bench.json has the rows that MEASURED.md tells of, rounded as there. A run of make bench with the parts
`speed`, `memory`, `dlio-sizes` and `s3-connections` has rows of the same names. Each picture is drawn for light and for dark pages.
"""
import json
import math
import os
import re
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FLOOR = 720, 300, 64, 210, 44, 250
COLOURS = {"light": {"text": "#1f2328", "dim": "#59636e", "line": "#d1d9e0", "unmodified": "#bc4c00", "libshard": "#1f5f9f",
                     "s3dlio": "#8250df", "limit": "#59636e"},
           "dark": {"text": "#e6edf3", "dim": "#9aa4af", "line": "#3d444d", "unmodified": "#f0883e", "libshard": "#79b8ff",
                    "s3dlio": "#d2a8ff", "limit": "#9aa4af"}}
FORK = "MLCommons' DLIO, skip_listing"
FILES = "files of the dataset"


def numbers(rows, pattern):
    """[(number in the name, row)] of the rows whose name is like this, in order."""
    found = [(re.fullmatch(pattern, row["name"]), row) for row in rows]
    return sorted(((int(name[1].replace(",", "")), row) for name, row in found if name), key=lambda pair: pair[0])


def memory(rows):
    """(title, unit, whether the axes are logarithmic, what the lower one counts, {(label, colour): points})."""
    names = {FORK: "dlio-sizes: most memory", "PyPI's DLIO": "memory"}
    found = {label: numbers(rows, name + r" on the node, ([\d,]+) files") for label, name in names.items()}
    series = {(label, "unmodified"): [(n, row["peer_value"]) for n, row in line] for label, line in found.items() if line}
    series[FORK, "libshard"] = [(n, row["value"]) for n, row in found[FORK]]
    return "Most memory on the node", "GB", False, FILES, series


def speed(rows):
    """The same of samples/s. PyPI's rows count the files of one of two ranks, and the short list's, too."""
    fork = numbers(rows, r"dlio-sizes: speed, ([\d,]+) files")
    pypi = numbers(rows, r"speed, ([\d,]+) files per rank")
    few = [(2 * int(found[1]), row["peer_value"]) for _, row in pypi
             if (found := re.fullmatch(r"unmodified, (\d+) files per rank", row["peer"]))]
    same = [(2 * n, row) for n, row in pypi if row["peer"] == "unmodified, the same"]
    return ("Samples read in a second", "samples/s", True, FILES,
            {(FORK, "unmodified"): [(n, row["peer_value"]) for n, row in fork],
             (FORK, "libshard"): [(n, row["value"]) for n, row in fork],
             ("PyPI's DLIO", "unmodified"): few + [(n, row["peer_value"]) for n, row in same],
             ("PyPI's DLIO", "libshard"): [(n, row["value"]) for n, row in same]})


def keys(rows):
    """The same of a bucket's keys. Clients that were run as they come are a level line."""
    ours = numbers(rows, r"s3-connections: (\d+) connections")
    ends = [n for n, _ in ours[:1] + ours[-1:]]

    def of(peer):
        return [(n, row["peer_value"]) for n, row in ours if row["peer"] == peer]

    series = {("what the server can give", "limit"): of("plain requests, ideal ranges"),
              ("shardctl", "libshard"): sorted({n: row["value"] for n, row in ours}.items())}
    for label, colour, peer in (("boto3", "unmodified", "boto3's paginator"), ("s3dlio", "s3dlio", "s3dlio's list")):
        series[label, colour] = [(n, rate) for _, rate in of(peer) for n in ends]
    return "Keys listed in a second, 20 ms of delay", "keys/s", True, "connections", series


def short(number):
    """As people write it: 8M."""
    for size, letter in ((1_000_000, "M"), (1000, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def axis(most, least, logarithmic):
    """(marks, what puts a value between 0 and 1)."""
    if logarithmic:
        low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
        return [10 ** k for k in range(low, high + 1)], lambda v: (math.log10(v) - low) / (high - low)
    step = 10 ** math.floor(math.log10(most / 2))
    step *= next(m for m in (1, 2, 5, 10) if most / (m * step) <= 6)
    top = math.ceil(most / step)
    return [k * step for k in range(top + 1)], lambda v: v / (top * step)


def draw(picture, colours):
    """A picture as SVG."""
    title, unit, logarithmic, counted, series = picture
    points = [point for line in series.values() for point in line]
    (x_marks, x_part), (y_marks, y_part) = (
        axis(max(p[k] for p in points), min(p[k] for p in points), logarithmic) for k in (0, 1))

    def at_x(v):
        return LEFT + x_part(v) * (WIDTH - LEFT - RIGHT)

    def at_y(v):
        return FLOOR - y_part(v) * (FLOOR - TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
           f'font-family="system-ui,sans-serif" font-size="12" fill="{colours["dim"]}"><title>{escape(title)}, by {counted}</title>',
           f'<text x="{LEFT}" y="20" font-size="15" font-weight="600" fill="{colours["text"]}">{escape(title)}, {unit}</text>']
    for mark in y_marks:
        out.append(f'<path d="M{LEFT} {at_y(mark):.1f}H{WIDTH - RIGHT}" stroke="{colours["line"]}"/>'
                   f'<text x="{LEFT - 8}" y="{at_y(mark) + 4:.1f}" text-anchor="end">{short(mark) if mark >= 1_000_000 else format(mark, ",g")}</text>')
    for mark in x_marks:
        out.append(f'<text x="{at_x(mark):.1f}" y="{FLOOR + 18}" text-anchor="middle">{short(mark)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{FLOOR + 38}" text-anchor="middle">{counted}</text>')
    taken = []  # labels stand beside the ends of their lines, and not over each other
    for (name, side), line in sorted(series.items(), key=lambda pair: at_y(pair[1][-1][1])):
        path = "M" + "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y in line)
        dash = ' stroke-dasharray="6 4"' if name == "PyPI's DLIO" else ""
        out.append(f'<path d="{path}" fill="none" stroke="{colours[side]}" stroke-width="2.5"{dash}/>')
        out += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="4" fill="{colours[side]}"><title>{x:,} {counted.split()[0]}: {y:,g} {unit}</title></circle>'
                for x, y in line]
        y = max([at_y(line[-1][1]), *(one + 34 for one in taken)])
        taken.append(y)
        under = {"libshard": "under libshard: ", "unmodified": "unmodified: "}[side] if counted == FILES else ""
        out.append(f'<text x="{WIDTH - RIGHT + 12}" y="{y - 2:.1f}" fill="{colours[side]}" font-weight="600" font-size="13">'
                   f'{under}{line[-1][1]:,g}</text>'
                   f'<text x="{WIDTH - RIGHT + 12}" y="{y + 13:.1f}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>\n"])


def pictures(rows):
    """{file name: SVG}."""
    return {f"{make.__name__}-{scheme}.svg": draw(make(rows), colours)
            for make in (memory, speed, keys) for scheme, colours in COLOURS.items()}


def main():
    """Draw them."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        made = pictures(json.load(stream))
    for name, text in made.items():
        with open(os.path.join(sys.argv[2], name), "w", encoding="utf-8") as stream:
            stream.write(text)


if __name__ == "__main__":
    main()
