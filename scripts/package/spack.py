# SPDX-License-Identifier: MIT
"""Spack's recipe: packages/libshard/package.py of a repository of yours. It has not been run by this project."""
from spack.package import *


class Libshard(MakefilePackage):
    """Each rank's shard of a dataset, for unmodified programs, by LD_PRELOAD."""

    homepage = "https://libshard.invalid"  # where you have the source from
    version("0.1.0", sha256="0" * 64)      # of `make dist`'s file

    depends_on("c", type="build")
    depends_on("curl")
    depends_on("json-c")
    depends_on("openssl")
    depends_on("jemalloc")

    def install(self, spec, prefix):
        make("install", "PREFIX=" + prefix)

    def setup_run_environment(self, env):
        env.set("LIBSHARD", join_path(self.prefix.lib, "libshard.so"))
