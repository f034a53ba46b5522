"""A line for each check, and the sums: what every driver prints.

`ok NAME`, or `FAIL NAME` with what is wrong below it; at the end `N passed, M failed`, which
tests/run.py adds up.
"""
import shutil


def printable(text):
    """Text that any terminal takes, whatever the names in it."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


class Verdicts:
    """The checks of one driver. Not for several threads."""

    def __init__(self):
        self.passed = self.failed = 0

    def tell(self, name, lines):
        """A check that passed if there are no lines about what is wrong."""
        self.passed, self.failed = self.passed + (not lines), self.failed + bool(lines)
        print(printable(f"{'FAIL' if lines else 'ok'} {name}"), flush=True)
        for line in lines:
            print(printable("      " + str(line).rstrip().replace("\n", "\n      ")), flush=True)

    def check(self, name, good, why=""):
        """A check that passed if `good` is true; `why` is what was found instead."""
        self.tell(name, [] if good else [str(why)[:1500] or "no more is known"])

    def conclude(self, folder=None, keep=False):
        """Print the sums; the exit status, which is 1 if nothing was checked, too.

        The folder is removed unless something failed or it is the user's own.
        """
        print(f"{self.passed} passed, {self.failed} failed")
        if folder and self.failed:
            print(f"logs and results are kept in {folder}")
        elif folder and not keep:
            shutil.rmtree(folder)
        return 1 if self.failed or not self.passed else 0
