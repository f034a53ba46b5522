# SPDX-License-Identifier: MIT
"""recognise: which family a DLIO is of, told by the sources of its functions."""
import hashlib
import os


def fingerprints(source):
    """{qualified name: fingerprint} of the methods in a module's source.

    A fingerprint is the first ten hex digits of SHA-256 over the method's lines, decorators
    included, stripped, without blank and comment lines.

    By indentation, which takes a tenth of the time of parsing. A method ends where a line begins
    that is not further in than its `def`; a string or bracket that reaches further out would end
    it early, but after its first line, so a method that was changed in that way differs, too. The
    bracket that ends the parameters, on a line of its own, does not end the method.
    """
    found = {}
    cls, lines, decorators, name = "", [], [], None

    def finish():
        if name:  # the last definition counts, as it does in Python
            found[name] = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:10]

    for line in source.splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if indent > 4 or (name and text.startswith(")")):
            if name:
                lines.append(text)
            continue
        finish()
        name = None
        if indent == 0:
            words = text.replace("(", " ").replace(":", " ").split()
            cls, decorators = words[1] if words[0] == "class" else "", []
        elif indent == 4 and text.startswith("@"):
            decorators.append(text)
        elif indent == 4 and cls and text.startswith("def "):
            name = "%s.%s" % (cls, text[4:].partition("(")[0].strip())
            lines, decorators = decorators + [text], []
        else:
            decorators = []
    finish()
    return found


class Family:
    """DLIOs of one shape: how they are recognised, and what is done to them.

    name     how people call it
    known    {file of the package: {function: its fingerprints}}, all functions that are touched or
             relied upon. Whatever combination of these fingerprints a DLIO has, the patches must
             be right for it.
    patches  {module: function(module, tree)}, called once the module has been imported
    """

    def __init__(self, name, known, patches):
        self.name, self.known, self.patches = name, known, patches


def changed(known, changes):
    """A table of known functions where some, {function: fingerprints}, differ from `known`."""
    made = {file: {name: changes.get(name, fingerprints_of_it)
                   for name, fingerprints_of_it in functions.items()}
            for file, functions in known.items()}
    strangers = set(changes).difference(*made.values())
    if strangers:
        raise ValueError("not in the table: %s" % sorted(strangers))
    return made


class Tree:
    """The sources of the DLIO that this process imports."""

    def __init__(self, folder):
        self.folder = folder
        self._found = {}  # file -> its fingerprints, or the error

    def path(self, file):
        """Where a file of the package lies."""
        return os.path.join(self.folder, *file.split("/"))

    def holds(self, code, file):
        """Whether a code object was read from a file of the package."""
        return os.path.realpath(code.co_filename) == os.path.realpath(self.path(file))

    def fingerprint(self, file, function):
        """A function's fingerprint, None if the file has no such function; OSError, ValueError."""
        if file not in self._found:
            try:
                with open(self.path(file), encoding="utf-8") as stream:  # CRLF becomes LF
                    self._found[file] = fingerprints(stream.read())
            except (OSError, ValueError) as error:
                self._found[file] = error
        found = self._found[file]
        if isinstance(found, Exception):
            raise found
        return found.get(function)

    def difference(self, file, function, known):
        """None if a function has one of the fingerprints `known`, else what to tell people."""
        try:
            if self.fingerprint(file, function) in known:
                return None
            text = "%s is not a version known to libshard" % function
        except (OSError, ValueError) as error:
            text = str(error)
        return "%s: %s" % (self.path(file), text)

    def differences(self, known):
        """[(file, function, what to tell people)] where the tree is not as the table says."""
        compared = ((file, function, self.difference(file, function, prints))
                    for file, functions in known.items() for function, prints in functions.items())
        return [one for one in compared if one[-1] is not None]


def recognise(tree, families):
    """(family, None) for the first family whose functions all match, else (None, the reason).

    Functions of two families make neither: what one family's patches do was tried with its own
    functions only.
    """
    nearest = fewest = None
    for family in families:
        different = tree.differences(family.known)
        if not different:
            return family, None
        if fewest is None or len(different) < len(fewest):
            nearest, fewest = family, different
    for file, function, text in fewest:
        owner = next((family.name for family in families
                      if function in family.known.get(file, ())
                      and not tree.difference(file, function, family.known[file][function])), None)
        if owner is None:
            return None, text
    return None, ("%s: %s is that of another version (%s) than other functions (%s); reinstall DLIO"
                  % (tree.path(file), function, owner, nearest.name))
