# SPDX-License-Identifier: Apache-2.0
"""A worktree of its own in which faults are planted and built: what a user edits is never touched."""

import contextlib
import hashlib
import os
import pathlib
import select
import signal
import subprocess
import time
import typing

import drawing

# A killed process is gone as soon as it is scheduled; one in the kernel's hands may take long.
DEATH_S = 10.0


class Failed(Exception):
    """A command of the tree's that ought to work did not."""


class Done(typing.NamedTuple):
    status: int       # -1: longer than its limit
    said: str
    seconds: float


def run(command: "typing.Sequence[str]", folder: pathlib.Path, limit_s: float, env: "dict[str, str] | None" = None) -> Done:
    """A command in a session of its own; it and its children end with the limit, and when this process is interrupted."""
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    try:
        said, _ = process.communicate(timeout=limit_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        _end(process)
        said, status = process.communicate()[0], -1
    except BaseException:
        _end(process)
        raise
    return Done(status, said, time.monotonic() - began)


def _end(process: "subprocess.Popen[str]") -> None:
    """What is left of its session, when it returns, is dead or sleeps in the kernel."""
    # Of its session: ninja gives each compiler a group of its own.
    killed = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and os.getsid(int(entry.name)) == process.pid:
                killed.append(os.pidfd_open(int(entry.name)))
                signal.pidfd_send_signal(killed[-1], signal.SIGKILL)
    for descriptor in killed:
        # Nobody here is the parent of all of them. Readable: it has ended.
        select.select([descriptor], [], [], DEATH_S)
        os.close(descriptor)
    # What has left the session holds the pipe as well.
    process.wait()
    if process.stdout is not None:
        os.set_blocking(process.stdout.fileno(), False)


class Tree:
    """The worktree, its build, and which of its objects a fault has changed."""

    def __init__(self, root: pathlib.Path, path: pathlib.Path, jobs: int) -> None:
        self.root, self.path, self.build, self._jobs = root, path, path / "build" / "release", jobs
        self._objects: "dict[pathlib.Path, tuple[int, str]]" = {}

    def prepare(self) -> None:
        """At the commit of the checkout, as it is there, and configured."""
        if not (self.path / ".git").exists():
            self._git(self.root, "worktree", "prune")
            self._git(self.root, "worktree", "add", "--detach", "--force", str(self.path), "HEAD")
            (self.path / ".venv").symlink_to(self.root / ".venv")
        head = self._git(self.root, "rev-parse", "HEAD").strip()
        self._git(self.path, "checkout", "--force", "--quiet", "--detach", head)
        if not (self.build / "build.ninja").exists():
            python = self.path / ".venv" / "bin" / "python"
            self._must(["cmake", "--preset", "release", "-D", f"Python_EXECUTABLE={python}", "-D", "INGOT_BUILD_ID=mutants"], 600)

    def remove(self) -> None:
        self.end_processes()
        self._git(self.root, "worktree", "remove", "--force", str(self.path))

    def make(self, targets: "typing.Sequence[str]", limit_s: float = 1800) -> Done:
        return run(["cmake", "--build", str(self.build), "--target", *targets, "--", "--quiet", "-j", str(self._jobs)], self.path, limit_s)

    def must_make(self, targets: "typing.Sequence[str]") -> None:
        done = self.make(targets)
        if done.status != 0:
            raise Failed(f"building {' '.join(targets)} without a fault:\n{done.said[-4000:]}")

    def remember_objects(self) -> None:
        """What is compiled now is without a fault."""
        self._changed()

    def changed_objects(self) -> bool:
        """Whether any object's bytes are others than those that were remembered."""
        return bool(self._changed(update=False))

    @contextlib.contextmanager
    def planted(self, mutant: drawing.Mutant) -> "typing.Iterator[None]":
        """The file has the fault within, and never behind."""
        path = self.path / mutant.path
        text = path.read_text()
        try:
            path.write_text(mutant.edit.apply(text))
            yield
        finally:
            path.write_text(text)

    def end_processes(self) -> None:
        """Daemons and workers of this build; they have left the session of who started them."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if entry.name.isdigit() and os.readlink(entry / "exe").startswith(f"{self.path}/"):
                    os.kill(int(entry.name), signal.SIGKILL)

    def _changed(self, update: bool = True) -> "list[pathlib.Path]":
        changed = []
        for path in self.build.rglob("*.o"):
            time_ns = path.stat().st_mtime_ns
            known = self._objects.get(path)
            if known is not None and known[0] == time_ns:
                continue
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if known is None or known[1] != digest:
                changed.append(path)
            if update:
                self._objects[path] = (time_ns, digest)
        return changed

    def _git(self, folder: pathlib.Path, *arguments: str) -> str:
        done = run(["git", *arguments], folder, 120)
        if done.status != 0:
            raise Failed(f"git {' '.join(arguments)}: {done.said}")
        return done.said

    def _must(self, command: "typing.Sequence[str]", limit_s: float) -> None:
        done = run(command, self.path, limit_s)
        if done.status != 0:
            raise Failed(f"{' '.join(command)}:\n{done.said[-4000:]}")
