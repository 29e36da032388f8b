"""Hosts of a test: network namespaces of this machine, each with a wire to it and no folder of the test."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Host:
    """A namespace; `gateway` is this machine as it is seen from there."""

    name: str
    gateway: str
    hidden: Path
    """A folder of this machine in whose place the host's processes have an empty one, each its own."""

    @contextlib.contextmanager
    def running(
        self, command: Sequence[str], env: Mapping[str, str], log: Path
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A process of the host, killed at the end with all that it started."""
        # `ip netns exec` gives it mounts of its own too.
        hide = 'mount -t tmpfs none "$0" && exec "$@"'
        full = ["ip", "netns", "exec", self.name, "sh", "-c", hide, str(self.hidden), *command]
        with log.open("ab") as out:
            process = subprocess.Popen(
                full, env=dict(env), stdout=out, stderr=out, cwd="/", start_new_session=True
            )
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """At once, with its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=60)


def why_no_hosts() -> str | None:
    """What keeps this machine from having any; None where nothing does."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return "network namespaces need `ip` and root"
    name = f"ksdp-try-{os.getpid()}"
    try:
        with contextlib.ExitStack() as gone:
            ip("netns", "add", name)
            gone.callback(ip, "netns", "del", name)
            tried = ["ip", "netns", "exec", name, "mount", "-t", "tmpfs", "none", "/mnt"]
            subprocess.run(tried, check=True, capture_output=True, timeout=60)
            ip("link", "add", f"kst{os.getpid()}", "type", "veth", "peer", "name", "eth0", "netns", name)
    except (OSError, subprocess.SubprocessError) as error:
        return f"this machine has no network namespaces ({type(error).__name__})"
    return None


@contextlib.contextmanager
def hosts(count: int, hidden: Path) -> Iterator[list[Host]]:
    """Some hosts, each with a wire to this machine."""
    with contextlib.ExitStack() as gone:
        made = []
        for number in range(1, count + 1):
            name, wire = f"ksdp-{os.getpid()}-{number}", f"ks{os.getpid() % 10**7}-{number}"
            net = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
            mine, theirs = f"{net}.{number * 4 + 1}", f"{net}.{number * 4 + 2}"
            ip("netns", "add", name)
            gone.callback(ip, "netns", "del", name)
            ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("addr", "add", f"{mine}/30", "dev", wire)
            ip("link", "set", wire, "up")
            for inside in (
                ["addr", "add", f"{theirs}/30", "dev", "eth0"],
                ["link", "set", "eth0", "up"],
                ["link", "set", "lo", "up"],
                ["route", "add", "default", "via", mine],
            ):
                ip("-n", name, *inside)
            made.append(Host(name, mine, hidden))
        yield made
