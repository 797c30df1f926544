"""Files: only regular ones are read, writing is whole, through links and private, and what was left behind is swept up."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time

import pytest

from gvfx import files
from gvfx import files as processes
from gvfx.errors import InputError
from gvfx.files import Irregular, append_line, beside, check_writable, open_lines, read_whole, sweep_up, write_new, write_whole


def make_sparse(path):
    with path.open("wb") as file:
        file.truncate(40 * 2**30)


IRREGULAR = {
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "loop": lambda path: path.symlink_to(path.name),
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/full"),
    "sparse": make_sparse,
}


@pytest.mark.parametrize("kind", IRREGULAR)
def test_only_regular_files_of_a_sensible_size_are_read(kind, tmp_path):
    path = tmp_path / "file"
    IRREGULAR[kind](path)
    with pytest.raises(Irregular):
        read_whole(path)


def test_a_file_that_is_not_there_or_too_large(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_whole(tmp_path / "none")
    (tmp_path / "file").write_bytes(b"12345")
    assert read_whole(tmp_path / "file", 5) == b"12345"
    with pytest.raises(Irregular, match="has 5 bytes, more than the 4"):
        read_whole(tmp_path / "file", 4)


def test_writing_goes_through_links_and_keeps_permissions(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to("target")
    write_whole(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new" and stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "target"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "terminal"])
def test_what_is_no_file_is_never_replaced(kind, tmp_path):
    path = tmp_path / "file"
    IRREGULAR[kind](path)
    before = path.lstat()
    with pytest.raises(OSError):
        write_whole(path, b"new")
    with pytest.raises(InputError, match="^--json: "):
        check_writable(path, "--json")
    assert path.lstat() == before


def test_a_temporary_name_is_new_and_never_a_link(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "0" * 16)
    beside(tmp_path / "file").symlink_to("victim")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", b"theirs")
    assert victim.read_bytes() == b"mine" and not (tmp_path / "file").exists()


def test_the_folder_is_flushed_after_the_rename(tmp_path, monkeypatch):
    flushed, real = [], os.fsync

    def fsync(handle):
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(files.os, "fsync", fsync)
    write_whole(tmp_path / "new" / "file", b"x")
    assert flushed[1:] == [str(tmp_path / "new"), str(tmp_path)] and flushed[0].endswith(".tmp")


def test_a_folder_that_cannot_be_flushed_is_no_error_but_a_failing_disk_is(tmp_path, monkeypatch):
    real = os.fsync

    def fsync(number):
        def fail(handle):
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                raise OSError(number, os.strerror(number))
            real(handle)

        return fail

    monkeypatch.setattr(files.os, "fsync", fsync(errno.EINVAL))
    write_whole(tmp_path / "file", b"x")
    monkeypatch.setattr(files.os, "fsync", fsync(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        write_whole(tmp_path / "file", b"x")


def test_a_temporary_file_that_was_swept_up_is_written_anew(tmp_path, monkeypatch):
    real, swept = files.Path.replace, []

    def replace(self, target):
        if not swept:
            swept.append(self)
            self.unlink()
        return real(self, target)

    monkeypatch.setattr(files.Path, "replace", replace)
    write_whole(tmp_path / "file", b"x")
    assert (tmp_path / "file").read_bytes() == b"x" and swept


def test_a_new_file_replaces_nothing(tmp_path):
    write_new(tmp_path / "sub" / "file", b"first")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "sub" / "file", b"second")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "link", b"second")
    assert (tmp_path / "sub" / "file").read_bytes() == b"first" and len([*(tmp_path / "sub").iterdir()]) == 1


def test_only_abandoned_temporary_files_are_swept_up(tmp_path):
    names = {".a.0123456789abcdef.tmp": True, ".b.4242.tmp": True, "notes.tmp": False, ".a.fresh0.tmp": False, ".c": False}
    for name in names:
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    fresh = tmp_path / ".a.00000000000000ff.tmp"
    fresh.write_text("being written")
    sweep_up(tmp_path, "a")
    assert (tmp_path / ".b.4242.tmp").exists() and not (tmp_path / ".a.0123456789abcdef.tmp").exists()
    sweep_up(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {name for name, gone in names.items() if not gone} | {fresh.name}


def test_a_temporary_file_goes_with_its_process_where_that_is_known(tmp_path):
    code = "import sys, pathlib, gvfx.files; p = gvfx.files.beside(pathlib.Path(sys.argv[1])); p.touch(); print(p)"
    left = subprocess.run([sys.executable, "-c", code, tmp_path / "a"], capture_output=True, text=True, check=True).stdout.strip()
    own, mark = beside(tmp_path / "a"), processes.own_mark()
    _, number, started = mark.split("-")
    again = own.with_name(f".a.{mark}1-{'0' * 16}.tmp")  # a process that had our number before
    other = own.with_name(f".a.{'0' * 8}-{number}-{started}1-{'0' * 16}.tmp")  # of another system
    for path in (own, again, other):
        path.touch()
    check_writable(tmp_path / "a", "save")
    assert not os.path.exists(left) and {*tmp_path.iterdir()} == {own, other}
    os.utime(other, (time.time() - 7200,) * 2)
    sweep_up(tmp_path)
    assert {*tmp_path.iterdir()} == {own}


def test_the_folder_of_an_output_is_made(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    assert check_writable(path, "save") == path and path.parent.is_dir() and not path.exists()
    path.write_text("x")
    with pytest.raises(InputError, match=r"^save: cannot write .* \(Not a directory\); name another file or folder\.$"):
        check_writable(path / "below", "save")


def test_lines_are_whole_also_on_a_full_disk_and_after_a_kill(tmp_path, monkeypatch):
    path = tmp_path / "lines"
    path.write_text("half a li")
    handle, real = open_lines(path), os.write
    append_line(handle, "first")
    wrote = []

    def write(to, raw):
        if wrote:
            raise OSError(errno.ENOSPC, "No space left on device")
        wrote.append(real(to, raw[:3]))
        return 3

    monkeypatch.setattr(files.os, "write", write)
    with pytest.raises(OSError, match="No space"):
        append_line(handle, "second")
    monkeypatch.setattr(files.os, "write", real)
    append_line(handle, "third")
    os.close(handle)
    assert path.read_text() == "half a li\nfirst\nthird\n"
