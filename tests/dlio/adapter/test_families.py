"""Which family a DLIO is recognised as."""
import itertools
import os
import unittest

import _libshard
from _libshard import dlio, recognise

from .plain import WORK, touch


class Told(recognise.Tree):
    """A tree whose functions have the fingerprints {(file, function): fingerprint}."""

    def __init__(self, told):
        super().__init__("/dlio")
        self.told = told

    def fingerprint(self, file, function):
        return self.told.get((file, function))


def choices(family):
    """{(file, function): its fingerprints}."""
    return {(file, function): known for file, functions in family.fingerprints.items()
            for function, known in functions.items()}


class TestFamilies(unittest.TestCase):
    """The families there are."""

    def test_each(self):
        """Whatever of its fingerprints a function has, the family is found."""
        for family in dlio.FAMILIES:
            known = choices(family)
            self.assertGreaterEqual(len(known), 17, family.name)
            for i in range(max(map(len, known.values()))):
                told = {name: prints[i % len(prints)] for name, prints in known.items()}
                self.assertEqual(recognise.recognise(Told(told), dlio.FAMILIES), (family, None))

    def test_distinct(self):
        """PlaceholderNames, and DLIOs, are of one family only."""
        names = [family.name for family in dlio.FAMILIES]
        self.assertEqual(len(names), len(set(names)))
        for one, other in itertools.combinations(dlio.FAMILIES, 2):
            here, there = choices(one), choices(other)
            self.assertTrue(any(not set(here[name]) & set(there[name])
                                for name in here if name in there), (one.name, other.name))

    def test_mixtures(self):
        """One function of another family: refused, unless some family has all of it so."""
        refused = 0
        for one, other in itertools.permutations(dlio.FAMILIES, 2):
            here, there = choices(one), choices(other)
            for name, prints in there.items():
                told = {name: known[0] for name, known in here.items()}
                told[name] = prints[-1]
                found, reason = recognise.recognise(Told(told), dlio.FAMILIES)
                fits = [family for family in dlio.FAMILIES
                        if all(told.get(n) in known for n, known in choices(family).items())]
                self.assertEqual(found, fits[0] if fits else None)
                if found is None:
                    refused += 1
                    self.assertRegex(reason, "^/dlio/.*: .* is not a version known to libshard")
        self.assertGreater(refused, 50)

    def test_missing(self):
        """Without one of its functions, or with a changed one, no family is found."""
        for family in dlio.FAMILIES:
            known = {name: prints[0] for name, prints in choices(family).items()}
            for name, instead in itertools.product(known, (None, "0123456789")):
                found, reason = recognise.recognise(Told({**known, name: instead}), dlio.FAMILIES)
                self.assertIsNone(found)
                self.assertEqual(reason, "/dlio/%s: %s is not a version known to libshard" % name)

    def test_installed(self):
        """The DLIO of these tests is of the family that was taken."""
        found, reason = recognise.recognise(recognise.Tree(dlio.tree.folder), dlio.FAMILIES)
        self.assertEqual((found.name, reason), (_libshard.family(), None))


class TestRecognise(unittest.TestCase):
    """Families and trees of the tests' own, from files."""

    TEXTS = {"one": ("a = 1", "b = 1"), "two": ("a = 2", "b = 2")}
    FILES = {"main.py": "class Main:\n    def run(self):\n        %s\n",
             "sub/part.py": "class Part:\n    def __init__(self):\n        %s\n"}

    def setUp(self):
        self.families = []
        for name, texts in self.TEXTS.items():
            prints = {file: {function: (print_,) for function, print_ in recognise.fingerprints(
                text % line).items()} for (file, text), line in zip(self.FILES.items(), texts)}
            self.families.append(recognise.Family(name, prints, {}))

    def tree(self, name, *lines):
        """A tree with a line of code in each file."""
        tree = recognise.Tree(os.path.join(WORK, "trees", name))
        for (file, text), line in zip(self.FILES.items(), lines):
            touch(tree.path(file))
            with open(tree.path(file), "w", encoding="utf-8", newline="\r\n") as stream:
                stream.write(text % line)
        return tree

    def test_signature_over_lines(self):
        """The body counts, too, where the parameters end with a bracket on a line of its own."""
        text = "class Main:\n    def run(\n        self,\n    ):\n        %s\n\n    x = 1\n"
        one, other = (recognise.fingerprints(text % line)["Main.run"] for line in ("a = 1", "a = 2"))
        self.assertNotEqual(one, other)

    def test_files(self):
        for name, texts in self.TEXTS.items():
            found, reason = recognise.recognise(self.tree(name, *texts), self.families)
            self.assertEqual((found.name, reason), (name, None))

    def test_unreadable(self):
        found, reason = recognise.recognise(self.tree("short", "a = 1"), self.families)
        self.assertIsNone(found)
        self.assertIn("sub/part.py: ", reason)
        self.assertIn("No such file or directory", reason)

    def test_unknown_function_is_named(self):
        """What is of another family is not the reason if something else is of none."""
        tree = self.tree("unknown", "a = 2", "b = 3")
        self.assertEqual(recognise.recognise(tree, self.families),
                         (None, "%s: Part.__init__ is not a version known to libshard"
                          % tree.path("sub/part.py")))

    def test_changed_tables(self):
        known = self.families[0].fingerprints
        made = recognise.changed(known, {"Main.run": ("x", "y")})
        self.assertEqual(made["main.py"], {"Main.run": ("x", "y")})
        self.assertEqual(made["sub/part.py"], known["sub/part.py"])
        with self.assertRaisesRegex(ValueError, "Main.walk"):
            recognise.changed(known, {"Main.walk": ()})
