-- An Lmod module file: libshard/0.1.0.lua in a folder of MODULEPATH. Set prefix to where `make install` put it.
-- It preloads nothing by itself, for that would reach every command of the shell: mpirun -x LD_PRELOAD=$LIBSHARD ...
local prefix = os.getenv("LIBSHARD_PREFIX") or "/usr/local"

help([[mpirun -x LD_PRELOAD=$LIBSHARD dlio_benchmark ...; see man libshard]])
whatis("Name: libshard")
whatis("Description: each rank's shard of a dataset, for unmodified programs")

setenv("LIBSHARD", pathJoin(prefix, "lib", "libshard.so"))
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share", "man"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib", "pkgconfig"))
