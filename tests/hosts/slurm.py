"""Slurm on two hosts (machines.py): munged, slurmctld and two slurmd, with a configuration of their own.

    with Slurm(hosts, folder) as slurm:
        slurm.run(["srun", "-N2", "hostname"])

Nothing below /etc is read or written. All of it runs in the hosts' namespaces, and ends with them.
"""
import os
import re
import shlex
import shutil
import subprocess
import time

from tests.harness import processes

CONFIGURATION = """\
ClusterName=test
SlurmctldHost=host0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
JobRequeue=1
SchedulerParameters=batch_sched_delay=0,sched_interval=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=host0 NodeAddr=10.77.0.1 CPUs=4
NodeName=host1 NodeAddr=10.77.0.2 CPUs=4
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """The cluster, and commands on its first host."""

    def __init__(self, hosts, folder):
        self.hosts, self.folder, self._services = hosts, folder, []
        self.env = {"SLURM_CONF": os.path.join(folder, "slurm.conf")}

    def __enter__(self):
        os.makedirs(os.path.join(self.folder, "state"))
        os.chmod(self.folder, 0o755)
        with open(self.env["SLURM_CONF"], "w", encoding="utf-8") as stream:
            stream.write(CONFIGURATION.format(folder=self.folder))
        self._name_pmix()
        key = os.path.join(self.folder, "munge.key")
        with open(key, "wb") as stream:
            stream.write(os.urandom(128))
        os.chmod(key, 0o400)
        at = self.folder + "/munge."
        self._serve(self.hosts[0], "munged", "--foreground", "--force", f"--key-file={key}",
                    f"--socket={at}socket", f"--pid-file={at}pid", f"--log-file={at}log",
                    f"--seed-file={at}seed")
        processes.until(lambda: os.path.exists(at + "socket"), "munged's socket")
        self._serve(self.hosts[0], "slurmctld", "-D")
        for host in self.hosts:
            self._serve(host, "slurmd", "-D", "-N", host.name)
        processes.until(self._is_ready, "two idle nodes")
        return self

    def __exit__(self, *_):
        for service in reversed(self._services):
            service.terminate()
        end = time.monotonic() + 5
        while time.monotonic() < end and any(service.poll() is None for service in self._services):
            time.sleep(0.05)  # the hosts' end ends what does not listen

    def _name_pmix(self):
        """Slurm loads PMIx by a name that Debian has in libpmix-dev only, which depends on eleven packages more: the
        hosts have it, too."""
        known = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
        there = os.path.dirname(os.path.realpath(re.search(r"libpmix\.so\.2 .*=> (.*)", known).group(1)))
        if not os.path.exists(os.path.join(there, "libpmix.so")):
            made = os.path.join(self.folder, "pmix")
            shutil.copytree(there, made, symlinks=True)
            os.symlink("libpmix.so.2", os.path.join(made, "libpmix.so"))
            for host in self.hosts:
                host.check(f"mount --bind {shlex.quote(made)} {shlex.quote(there)}")

    def _serve(self, host, name, *arguments):
        with open(os.path.join(self.folder, f"{name}-{host.name}.out"), "wb") as output:
            self._services.append(host.start([name, *arguments], {**os.environ, **self.env,
                                  "PATH": "/usr/sbin:/sbin:" + os.environ["PATH"]}, output=output))

    def _is_ready(self):
        for service in self._services:
            if service.poll() is not None:
                raise RuntimeError(f"{service.args} has ended: see {self.folder}")
        status, output = self.run(["sinfo", "-h", "-o", "%t %D"])
        time.sleep(0.2)
        return status == 0 and output.split() == ["idle", "2"]

    def run(self, words, env=None):
        """Run a command of Slurm's on the first host: (exit status, output)."""
        return self.hosts[0].run(words, {**os.environ, **self.env, **(env or {})})
