"""What scripts/contract.awk has made for ctypes, against the headers: structures and numbers."""
import ctypes
import os
import subprocess
import tempfile
import unittest

from _libshard import contract

from .plain import REPO

TYPES = {ctypes.c_int: "int", ctypes.c_uint8: "uint8_t", ctypes.c_uint32: "uint32_t",
         ctypes.c_uint64: "uint64_t", ctypes.c_char: "char", ctypes.c_char_p: "const char *"}


def declared(kind):
    """A ctypes type as it is written in C."""
    if issubclass(kind, ctypes.Array):
        return "%s[%d]" % (TYPES[kind._type_], kind._length_)
    return TYPES[kind]


class TestStructures(unittest.TestCase):
    """A C program, made of the names that Python knows, tells where each field lies."""

    def told_by_c(self, name, fields):
        """[sizeof(struct)], then [name, offset, size, whether the type is Python's]."""
        lines = "".join(
            'printf("%s %%zu %%zu %%d\\n", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s),'
            " __builtin_types_compatible_p(__typeof__(((struct %s *)0)->%s), %s));\n"
            % (field, name, field, name, field, name, field, declared(kind))
            for field, kind in fields)
        source = ("#include <stdio.h>\n#include <adapter/api.h>\nint main(void) {\n"
                  'printf("%%zu\\n", sizeof(struct %s));\n%s%sreturn 0;\n}\n' % (name, lines, "".join(
                      "_Static_assert(%s == %d, \"\");\n" % one for one in vars(contract).items()
                      if one[0].startswith("SHARD_"))))
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "offsets")
            environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
            done = subprocess.run(
                [os.environ.get("CC", "cc"), "-I", os.path.join(REPO, "include"), "-I", os.path.join(REPO, "shim"),
                 "-x", "c", "-", "-o", program], input=source, text=True, capture_output=True, check=False,
                env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            out = subprocess.run([program], check=True, capture_output=True, text=True,
                                 env=environment).stdout
        first, *rest = out.splitlines()
        return int(first), [line.split() for line in rest]

    def test_fields(self):
        """Same names, types, offsets and sizes; and no field of C is missing: what is between two
        fields, and behind the last, is not more than alignment asks for."""
        for name in ("shard_listing_info", "shard_world", "shard_sharing"):
            mirror = getattr(contract, name)
            with self.subTest(name):
                size, fields = self.told_by_c(name, mirror._fields_)
                self.assertEqual(size, ctypes.sizeof(mirror))
                self.assertEqual(fields, [
                    [field, str(getattr(mirror, field).offset), str(getattr(mirror, field).size),
                     "1"] for field, _ in mirror._fields_])
                end = 0
                for field, kind in mirror._fields_:
                    here = getattr(mirror, field)
                    self.assertLess(here.offset - end, ctypes.alignment(kind), field)
                    end = here.offset + here.size
                self.assertLess(size - end, ctypes.alignment(mirror))
