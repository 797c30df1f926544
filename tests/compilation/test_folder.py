"""The folder for compiled code: private, whole files only, limited in size, and memory when it cannot be used."""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from gvfx.compilation import folder
from gvfx.compilation.folder import Folder

KEY, OTHER = "a" * 64, "b" * 64
WRITE_FOREVER = """
import sys
from pathlib import Path
from gvfx.compilation.folder import Folder
place, k = Folder(Path(sys.argv[1])), 0
while True:
    place.write(f"{k % 3:064d}", "loop", bytes([k % 3]) * 4_000_000)
    k += 1
    if k == 3: print("going", flush=True)
"""


@pytest.fixture
def place(tmp_path):
    return Folder(tmp_path)


@pytest.fixture(autouse=True)
def forget():
    """What was said once is said again in the next test."""
    folder._say.cache_clear()
    folder._opened.cache_clear()


def opened(monkeypatch, path):
    monkeypatch.setenv("GVFX_CACHE_DIR", str(path))
    return folder.current()


def test_what_was_written_is_read(place):
    assert place.read(KEY, "loop") is None
    place.write(KEY, "loop", b"code")
    assert place.read(KEY, "loop") == b"code" and place.read(KEY, "network") is None
    place.write(KEY, "loop", b"other code")
    assert place.read(KEY, "loop") == b"other code"
    assert [entry.path.name for entry in place.entries()] == [f"{KEY}.loop"]


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: raw[:-1] + b"X", lambda raw: b"", lambda raw: b"x" + raw])
def test_a_damaged_file_is_dropped(place, damage):
    place.write(KEY, "loop", b"code")
    file = place.path / f"{KEY}.loop"
    file.write_bytes(damage(file.read_bytes()))
    assert place.read(KEY, "loop") is None
    assert not file.exists()


def test_the_least_recently_used_go_first(tmp_path):
    place = Folder(tmp_path, limit=3500)
    for k in range(3):
        place.write(str(k), "loop", bytes(1000))
        os.utime(tmp_path / f"{k}.loop", (k, k))
    assert place.read("0", "loop")  # used now
    place.write("3", "loop", bytes(1000))
    assert {entry.path.stem for entry in place.entries()} == {"0", "2", "3"}


def test_small_entries_do_not_search_the_folder_every_time(place, monkeypatch):
    searched = []
    monkeypatch.setattr(Folder, "entries", lambda self: searched.append(1) or [])
    for k in range(1000):
        place.write(str(k), "loop", bytes(10_000))
    assert len(searched) == 2  # before 5 MB and after


def test_files_of_killed_processes_are_removed_after_an_hour(place):
    old, new = place.path / ".x.1.tmp", place.path / ".x.2.tmp"
    for file, age in ((old, 4000), (new, 0)):
        file.touch()
        os.utime(file, (time.time() - age,) * 2)
    place.write(KEY, "loop", b"code")
    assert not old.exists() and new.exists()
    assert place.clear() == 1
    assert not any(place.path.iterdir())


def test_a_kill_while_writing_leaves_whole_entries_or_none(place):
    for round_ in range(6):
        writer = subprocess.Popen([sys.executable, "-c", WRITE_FOREVER, str(place.path)], stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"going\n"
        time.sleep(0.003 * round_)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        for k in range(3):
            assert place.read(f"{k:064d}", "loop") == bytes([k]) * 4_000_000


def test_the_folder_is_private(tmp_path, monkeypatch):
    place = opened(monkeypatch, tmp_path / "new" / "folder")
    assert place is not None and stat.S_IMODE(place.path.stat().st_mode) == 0o700
    place.write(KEY, "loop", b"code")
    assert stat.S_IMODE((place.path / f"{KEY}.loop").stat().st_mode) == 0o600


def refused(monkeypatch, caplog, path, reason):
    """The folder is not used, and one line says why."""
    with caplog.at_level(logging.WARNING, "gvfx"):
        assert opened(monkeypatch, path) is None
        assert opened(monkeypatch, path) is None
    (line,) = caplog.messages
    assert line.startswith("gvfx: compiled code is kept in memory only: ") and reason in line and "GVFX_CACHE_DIR" in line


def test_a_folder_that_others_may_enter_is_refused(tmp_path, monkeypatch, caplog):
    tmp_path.chmod(0o750)
    refused(monkeypatch, caplog, tmp_path, "other users may enter it; set GVFX_CACHE_DIR to a new folder of yours.")


def test_a_folder_that_others_may_replace_is_refused(tmp_path, monkeypatch, caplog):
    (tmp_path / "cache").mkdir(mode=0o700)
    tmp_path.chmod(0o777)
    refused(monkeypatch, caplog, tmp_path / "cache", f"because {tmp_path} can be written by others")
    caplog.clear()
    tmp_path.chmod(0o1777)
    assert opened(monkeypatch, tmp_path / "cache" / "inner") is not None


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch, caplog):
    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    refused(monkeypatch, caplog, tmp_path, "it belongs to another user")


def test_a_link_is_refused(tmp_path, monkeypatch, caplog):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    refused(monkeypatch, caplog, tmp_path / "link", "it is a link or a file")


def test_folders_further_up_and_links_on_the_way_count_too(tmp_path, monkeypatch, caplog):
    inner = tmp_path / "open" / "closed" / "cache"
    inner.mkdir(parents=True, mode=0o700)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("open/closed")
    refused(monkeypatch, caplog, tmp_path / "link" / "cache", f"because {tmp_path / 'open'} can be written by others")
    (tmp_path / "open").chmod(0o700)
    (tmp_path / "loop").symlink_to("loop")
    folder._opened.cache_clear()
    assert opened(monkeypatch, tmp_path / "link" / "cache") is not None
    caplog.clear()
    refused(monkeypatch, caplog, tmp_path / "loop" / "cache", "symbolic links")


@pytest.mark.parametrize(
    "plant",
    [
        lambda file, elsewhere: file.chmod(0o620),
        lambda file, elsewhere: elsewhere.hardlink_to(file),
        lambda file, elsewhere: (file.rename(elsewhere), file.symlink_to(elsewhere)),
        lambda file, elsewhere: (file.unlink(), os.mkfifo(file)),
        lambda file, elsewhere: file.parent.chmod(0o777),
    ],
    ids=["writable by others", "hard link", "link", "pipe", "open folder"],
)
def test_what_others_may_have_written_is_not_read(place, plant, caplog):
    place.write(KEY, "loop", b"code")
    assert place.read(KEY, "loop") == b"code"
    plant(place.path / f"{KEY}.loop", place.path / "elsewhere")
    with caplog.at_level(logging.WARNING, "gvfx"):
        assert place.read(KEY, "loop") is None and place.read(KEY, "loop") is None
    (line,) = caplog.messages
    assert line.endswith("set GVFX_CACHE_DIR to a new folder of yours.")


def test_a_file_of_another_user_is_not_read(place, monkeypatch):
    place.write(KEY, "loop", b"code")
    monkeypatch.setattr(os, "geteuid", lambda: place.path.stat().st_uid + 1)
    assert place.read(KEY, "loop") is None


def test_an_entry_under_another_key_is_dropped(place):
    place.write(KEY, "loop", b"code")
    (place.path / f"{KEY}.loop").rename(place.path / f"{OTHER}.loop")
    assert place.read(OTHER, "loop") is None


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").touch()
    refused(monkeypatch, caplog, tmp_path / "file" / "folder", "Not a directory")


def test_a_read_only_home(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refused(monkeypatch, caplog, tmp_path / "cache", "it cannot be written")


def test_no_home(monkeypatch, caplog):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("GVFX_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(folder.Path, "home", no_home)
    with caplog.at_level(logging.WARNING, "gvfx"):
        assert folder.current() is None
    assert "Could not determine home directory" in caplog.text


def test_a_full_disk_is_said_once(place, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with caplog.at_level(logging.WARNING, "gvfx"):
        place.write(KEY, "loop", b"code")
        place.write(OTHER, "loop", b"code")
    assert caplog.messages == [f"gvfx: compiled code is not kept: cannot write to {place.path} (No space left on device)."]


def test_where_the_folder_is(tmp_path, monkeypatch):
    monkeypatch.setenv("GVFX_CACHE_DIR", str(tmp_path))
    assert folder.chosen() == tmp_path
    monkeypatch.delenv("GVFX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder.chosen() == tmp_path / "gvfx"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says: ignore
    assert folder.chosen() == folder.Path.home() / ".cache" / "gvfx"
