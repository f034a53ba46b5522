"""A driver's parts: functions that make their checks on what all of them share."""
import os
import sys
import time


def chosen(parts):
    """The parts that the command line names, in their order; all if it names none. It ends here if
    there is no such part."""
    asked = sys.argv[1:]
    unknown = set(asked) - {part.__name__ for part in parts}
    if unknown:
        sys.exit(f"no such part: {' '.join(unknown)}; there are {' '.join(part.__name__ for part in parts)}")
    return [part for part in parts if not asked or part.__name__ in asked]


def run(parts, fixture):
    """Run them, and say how long each took."""
    for part in parts:
        begin, cpu = time.monotonic(), sum(os.times()[:4])
        part(fixture)
        print(f"-- {part.__name__}: {time.monotonic() - begin:.1f} s, {sum(os.times()[:4]) - cpu:.1f} s CPU",
              flush=True)
