"""Two hosts on one machine, made of namespaces: each has its own name, network, shared memory and
/tmp; all other files are those of both, as on a shared file system.

    with Hosts(folder) as hosts:
        hosts[0].run(["hostname"]), hosts[1].run([...])

It takes root. At the end all processes that are in a host's namespaces are ended. Numbers of
processes are the machine's.
"""
import os
import shlex
import signal
import subprocess

from tests.harness import paths, processes

NAMES = ("host0", "host1")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
MADE = ("--mount", "--uts", "--net", "--ipc")
NAMESPACES = ("mnt", "uts", "net", "ipc")
ENTER = "-m -u -n -i"
KEPT = ("PATH", "SHARD_STATS", "SHARD_CACHE_DIR", "HOME")


class Host:
    """One of the hosts."""

    def __init__(self, name, address, folder):
        self.name, self.address, self.folder = name, address, folder
        self.holder = subprocess.Popen(["unshare", *MADE, "sleep", "infinity"],
                                       stdin=subprocess.DEVNULL)
        self.first = self.holder.pid
        self._own = processes.until(self._find_own, f"the namespaces of {name}")
        self.check("hostname " + name)
        self.check("mount -t tmpfs -o mode=1777 tmpfs /dev/shm")
        self.check(f"mount --bind {shlex.quote(os.path.join(folder, 'hosts'))} /etc/hosts")
        self._mount_tmp([path for path in (folder, paths.REPO, paths.BUILD) if path.startswith("/tmp/")
                         and not path.startswith(paths.REPO + "/")])

    def _find_own(self):
        """What its namespaces are called, once it has all of them."""
        if self.holder.poll() is not None:
            raise RuntimeError("cannot make a host of namespaces: is this root?")
        with open(f"/proc/{self.first}/comm", encoding="utf-8") as stream:
            if stream.read().strip() != "sleep":
                return None  # its mounts may be this machine's still
        ours, own = ([os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES]
                     for pid in ("self", self.first))
        return own if not set(ours) & set(own) else None

    def _mount_tmp(self, shared):
        """A /tmp of its own, in which these folders are those of both hosts all the same."""
        for number, path in enumerate(shared):
            self.check(f"mkdir /dev/shm/{number} && mount --bind {shlex.quote(path)} /dev/shm/{number}")
        self.check("mount -t tmpfs -o mode=1777 tmpfs /tmp")
        for number, path in enumerate(shared):
            self.check(f"mkdir -p {shlex.quote(path)} && mount --move /dev/shm/{number} "
                       f"{shlex.quote(path)} && rmdir /dev/shm/{number}")

    def command(self, words, cwd=None):
        """The command line that runs another one on this host."""
        return ["nsenter", "-t", str(self.first), *ENTER.split(), "sh", "-c", 'cd "$0" && exec "$@"',
                cwd or self.folder, *words]

    def start(self, words, env=None, cwd=None, output=None):
        """A process on the host."""
        return subprocess.Popen(self.command(words, cwd), env=env, stdin=subprocess.DEVNULL,
                                stdout=output or subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, words, env=None, cwd=None, timeout=processes.HANGS):
        """Run a command to its end: (exit status, all it printed)."""
        job = self.start(words, env, cwd)
        try:
            output = job.communicate(timeout=timeout)[0]
            return job.returncode, output.decode("utf-8", "backslashreplace")
        except subprocess.TimeoutExpired:
            processes.kill_tree(job.pid)
            return -1, f"took more than {timeout} s\n" + job.communicate()[0].decode("utf-8", "replace")
        except BaseException:
            processes.kill_tree(job.pid)
            raise

    def check(self, text):
        """Run a command of the shell that must succeed."""
        status, output = self.run(["sh", "-c", text], cwd="/")
        if status:
            raise RuntimeError(f"{self.name}: {text}: {output}")

    def cache(self, name=""):
        """The path of the host's default cache directory, as this machine sees it."""
        return os.path.join(f"/proc/{self.first}/root/tmp/libshard-{os.geteuid()}", name)

    def members(self):
        """The processes on the host."""
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.readlink(f"/proc/{name}/ns/uts") == self._own[1]:
                    found.append(int(name))
            except OSError:
                pass  # it has ended meanwhile
        return found

    def end(self):
        """All its processes end."""
        try:
            while members := [pid for pid in self.members() if not _is_zombie(pid)]:
                for pid in members:
                    _kill(pid)
        finally:
            _kill(self.first)
            self.holder.wait()


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class Hosts:
    """Both; a list in which launchers find them by name, and a command that reaches them as ssh does."""

    def __init__(self, folder):
        self.folder, self._hosts = folder, []
        self.shell = os.path.join(folder, "remote-shell")

    def __getitem__(self, i):
        return self._hosts[i]

    def __iter__(self):
        return iter(self._hosts)

    def __enter__(self):
        with open(os.path.join(self.folder, "hosts"), "w", encoding="utf-8") as stream:
            stream.write("127.0.0.1 localhost\n" + "".join(
                f"{address} {name}\n" for address, name in zip(ADDRESSES, NAMES)))
        try:
            for name, address in zip(NAMES, ADDRESSES):
                self._hosts.append(Host(name, address, self.folder))
            self._connect()
            self._write_shell()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for host in self._hosts:
            host.end()

    def _connect(self):
        """A cable between the two: this machine's own network has no part in it."""
        one, other = self._hosts
        subprocess.run(["nsenter", "-t", str(one.first), "-n", "ip", "link", "add", "eth0", "type",
                        "veth", "peer", "name", "eth0", "netns", str(other.first)], check=True)
        for host in self._hosts:
            host.check(f"ip link set lo up && ip addr add {host.address}/24 dev eth0 && "
                       "ip link set eth0 up")

    def _write_shell(self):
        """`remote-shell [OPTIONS] HOST COMMAND...`: launchers run it in the place of ssh."""
        # As with ssh, variables stay behind; but the tests' own need not stand in each command.
        kept = " ".join(f'${{{name}+"{name}=${name}"}}' for name in KEPT)
        known = "".join(f"{host.name}) first={host.first} ;;\n" for host in self._hosts)
        with open(self.shell, "w", encoding="utf-8") as stream:
            stream.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n'
                         f'case $1 in\n{known}*) echo "no host $1" >&2; exit 255 ;;\nesac\nshift\n'
                         f'exec env -i {kept} nsenter -t "$first" {ENTER} sh -c "$*"\n')
        os.chmod(self.shell, 0o755)
