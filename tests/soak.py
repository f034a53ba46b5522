"""What may go wrong once in a hundred times, again and again, on a machine that is busy: make soak.

    python -m tests.soak [--rounds N] [--seconds S] [--filter RE]

A round is one pass of each race, from an empty cache. A pass that takes ten times as long as the
median of those before is a failure, too: something waited for what did not come. Not a part of
make test.

The hang of torch/readers that `readers` and `trained` were made for is PyTorch's: on 2026-11-25 it was
seen in a job without libshard (tests/torch/__main__.py, HANGS_IN_FORK).
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import time

from tests.harness import paths, processes

LIMIT = 600  # seconds of a pass
LEAST = 60   # seconds: less is never too long


def races(python):
    """{name: command}"""
    return {
        "forks": ["bash", paths.source("behaviour", "races.sh")],
        "locks": [os.path.join(paths.BUILD, "tests", "test_cache")],
        "readers": [python, "-m", "tests.torch", "--filter", "preloaded-even"],
        "trained": [python, "-m", "tests.torch", "--filter", "train-even"],
        "shardview": ["bash", paths.source("behaviour", "shardview.sh")],
        "identity": ["bash", paths.source("behaviour", "identity.sh")],
    }


def run(command):
    """(seconds, exit status or why it was ended, output)"""
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=paths.REPO, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="backslashreplace",
                               start_new_session=True)
    try:
        text, _ = process.communicate(timeout=LIMIT)
        status = process.returncode
    except subprocess.TimeoutExpired:
        stacks = subprocess.run(["ps", "-eo", "pid,ppid,stat,etimes,wchan:20,args", "--forest"],
                                capture_output=True, text=True, check=False).stdout
        processes.kill_tree(process.pid)
        text, status = process.communicate()[0] + stacks, "no end"
    return time.monotonic() - begin, status, text


def main():
    """Run the rounds; the exit status is 1 if a pass failed."""
    processes.end_jobs_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no round after so long")
    parser.add_argument("--load", type=int, default=os.cpu_count(), help="processes that do nothing but take time")
    parser.add_argument("--filter", default="", help="only races this regex is found in")
    args = parser.parse_args()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(args.load)]
    chosen = {name: command for name, command in races(sys.executable).items() if re.search(args.filter, name)}
    took, failed, begin = {name: [] for name in chosen}, 0, time.monotonic()
    try:
        for number in range(1, args.rounds + 1):
            if time.monotonic() - begin > args.seconds:
                break
            for name, command in chosen.items():
                seconds, status, text = run(command)
                usual = statistics.median(took[name]) if took[name] else seconds
                late = seconds > max(LEAST, 10 * usual)
                took[name].append(seconds)
                if status != 0 or late:
                    failed += 1
                    print(f"FAIL {name}, round {number}: {status}, {seconds:.0f} s, as a rule {usual:.0f} s\n"
                          f"{text[-6000:]}", flush=True)
            print(f"round {number}: " + ", ".join(f"{name} {each[-1]:.0f} s" for name, each in took.items()), flush=True)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    print(f"{sum(map(len, took.values())) - failed} passed, {failed} failed")
    return 1 if failed or not any(took.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
