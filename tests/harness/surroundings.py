"""What a test must not depend on: what the process that starts it was given for other programs."""
import os
import re
import tempfile

# Of libshard, launchers, clients of buckets, the dynamic linker and libc, Python, and threads of libraries. The tests
# set of these what they need.
OTHERS = re.compile(
    r"(?:LIB)?SHARD_|AWS_|STORAGE_EMULATOR_HOST$|.*_proxy$|OMPI_|OPAL_|ORTE_|PRTE_|PMIX?_|HYDRA_|MPI|SLURM_|SBATCH_|SRUN_|"
    r"PBS_|LSB_|TORCHELASTIC_|(?:LOCAL_|GROUP_|ROLE_)?(?:RANK|WORLD_SIZE)$|MASTER_(?:ADDR|PORT)$|LD_(?!LIBRARY_PATH)|GLIBC_|MALLOC_|"
    r"PYTHON(?!DONTWRITEBYTECODE)|OMP_|KMP_|MKL_|OPENBLAS_|DFTRACER_|DLIO_|HYDRA_FULL|TF_|CUDA_VISIBLE|GLOO_|NCCL_|"
    r"LC_|LANG$|LANGUAGE$|TZ$|CDPATH$|BASH_ENV$|ENV$|POSIXLY_CORRECT$|STAGES$", re.IGNORECASE)


def forget(env=os.environ):
    """Remove all that from the environment; text is UTF-8, and a file that is made can be read by all."""
    for name in list(env):
        if OTHERS.match(name):
            del env[name]
    env["LC_ALL"] = "C.UTF-8"
    if env is os.environ:
        os.umask(0o022)


def preloadable():
    """The temporary folder, if LD_PRELOAD can name a file in it; else /tmp."""
    folder = tempfile.gettempdir()
    return "/tmp" if re.search(r"[\s:]", folder) else folder
