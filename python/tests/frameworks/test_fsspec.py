"""``holdfast.fsspec`` on a real agent."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any
from unittest import mock

import fsspec
from fsspec.core import url_to_fs

import holdfast
import holdfast.fsspec
from holdfast import _requirements
from holdfast._run_pool import runs
from holdfast.fsspec import _pending

from ..real_agent import RealAgentCase, save_again
from ..support import PYTHON_ROOT, optional, python_child
from . import abstract_get



class FsspecCase(RealAgentCase):
    def setUp(self) -> None:
        super().setUp()
        os.environ["HOLDFAST_AGENT"] = self.agent.socket
        self.addCleanup(runs.close)
        self.addCleanup(_pending.pending._forget)
        self.base = holdfast.fsspec.url(self.uri)
        self.fs: Any = url_to_fs(self.base)[0]

    def save(self, version: int, **files: bytes) -> None:
        with self.connect() as run:
            run.save(version, buffers=files).wait()

    def at(self, *parts: str) -> str:
        return "/".join((self.base, *parts))


class Reading(FsspecCase):
    def test_a_run_lists_its_versions_and_a_version_its_files(self) -> None:
        self.save(1, a=b"1")
        self.save(20, **{"a": b"22", "dir/b": b"333", "dir/sub/c": b""})
        run = self.base.removeprefix("holdfast://")
        self.assertEqual(self.fs.ls(self.base, detail=False), [f"{run}/step-1", f"{run}/step-20"])
        self.assertEqual(self.fs.ls(self.at("step-20"), detail=False), [f"{run}/step-20/a", f"{run}/step-20/dir"])
        self.assertEqual(self.fs.ls(self.at("step-20", "dir", "b"), detail=False), [f"{run}/step-20/dir/b"])
        files = [f"{run}/step-20/{name}" for name in ("a", "dir/b", "dir/sub/c")]
        self.assertEqual(self.fs.find(self.at("step-20")), files)
        self.assertEqual(self.fs.glob(self.at("step-*", "a")), [f"{run}/step-1/a", files[0]])
        self.assertEqual(self.fs.info(self.at("step-20", "a"))["size"], 2)
        self.assertTrue(self.fs.isdir(self.at("step-20", "dir")))
        self.assertTrue(self.fs.isdir(self.base))

    def test_bytes_text_and_ranges(self) -> None:
        self.save(1, a="zwölf\n".encode(), b=bytes(range(200)))
        self.assertEqual(self.fs.cat(self.at("step-1", "a")), "zwölf\n".encode())
        self.assertEqual(self.fs.cat_file(self.at("step-1", "b"), 5, 8), b"\5\6\7")
        self.assertEqual(self.fs.cat_ranges([self.at("step-1", "b")] * 2, [0, 198], [1, 200]), [b"\0", b"\xc6\xc7"])
        with fsspec.open(self.at("step-1", "a"), "r", encoding="utf-8") as file:
            self.assertEqual(file.read(), "zwölf\n")

    def test_a_version_is_copied_to_a_directory(self) -> None:
        self.save(1, **{"a": b"1", "dir/b": b"2"})
        self.fs.get(self.at("step-1"), self.path("out"), recursive=True)
        with open(self.path("out", "dir", "b"), "rb") as file:
            self.assertEqual(file.read(), b"2")

    def test_what_is_missing_is_not_there_and_an_agent_that_is_gone_is_an_error(self) -> None:
        self.save(1, a=b"1")
        for parts in (["step-2"], ["step-2", "a"], ["step-1", "b"], ["step-1", "a", "b"]):
            self.assertFalse(self.fs.exists(self.at(*parts)), parts)
            self.assertFalse(self.fs.isdir(self.at(*parts)) or self.fs.isfile(self.at(*parts)), parts)
            with self.assertRaises(FileNotFoundError):
                self.fs.ls(self.at(*parts))
        with self.assertRaisesRegex(FileNotFoundError, "'b'"):
            self.fs.open(self.at("step-1", "b"))
        gone: Any = fsspec.filesystem("holdfast", agent=self.path("none.sock"), timeout=0.1)
        for ask in (gone.exists, gone.isdir, gone.isfile, gone.ls):
            with self.assertRaises(holdfast.AgentUnavailable):
                ask(self.at("step-1"))

    def test_a_version_has_the_time_of_its_commit(self) -> None:
        before = datetime.now(timezone.utc).timestamp() - 1
        self.save(1, a=b"1")
        for path in (self.at("step-1"), self.at("step-1", "a")):
            self.assertGreater(self.fs.modified(path).timestamp(), before)
        with self.assertRaises(holdfast.InvalidArgument):
            self.fs.modified(self.base)

    def test_the_latest_has_a_url_of_its_own(self) -> None:
        self.assertIsNone(holdfast.fsspec.latest_url(self.uri))
        self.save(7, a=b"1")
        self.assertEqual(holdfast.fsspec.latest_url(self.uri), self.at("step-7"))
        self.assertEqual(holdfast.fsspec.latest_url(self.base), self.at("step-7"))

    def test_an_alias_of_the_agent(self) -> None:
        agent = self.started({"runs": {"prod": {"uri": self.uri}}})
        self.save(1, a=b"1")
        fs: Any = fsspec.filesystem("holdfast", agent=agent.socket)
        self.assertEqual(fs.cat("holdfast://prod/step-1/a"), b"1")

    def test_versions_that_a_rollback_left_behind_are_not_there(self) -> None:
        self.save(1, a=b"1")
        self.save(2, a=b"2")
        words = [*self.agent.command, "rollback", self.uri, "--to", "1", "--reason", "test"]
        subprocess.run(words, check=True, timeout=60, stdout=subprocess.DEVNULL)
        self.assertEqual([path[-6:] for path in self.fs.ls(self.base, detail=False)], ["step-1"])
        self.assertFalse(self.fs.exists(self.at("step-2")))


    def test_a_copied_directory_is_of_one_checkpoint(self) -> None:
        self.save(1, a=b"1")
        self.save(2, a=b"old", b=b"old")
        opened, asked = holdfast.Run.open, []

        def replaced(run: Any, name: str, version: Any = None) -> Any:
            asked.append(name)
            if len(asked) == 2:
                save_again(self.uri, 2, self.path("again"), a=b"new", b=b"new")
            return opened(run, name, version)

        with mock.patch.object(holdfast.Run, "open", replaced):
            self.fs.get(self.at("step-2"), self.path("copied"), recursive=True)
        self.assertEqual(asked, ["a", "b"])
        for name in asked:
            self.assertEqual(pathlib.Path(self.path("copied", name)).read_text(), "old")
        self.assertEqual(self.fs.cat(self.at("step-2", "a")), b"new")

    def test_empty_directories_of_a_version_are_shown(self) -> None:
        os.makedirs(self.path("in", "dir", "none", "inner"))
        pathlib.Path(self.path("in", "dir", "a")).write_text("a")
        os.mkdir(self.path("in", "no"))
        subprocess.run(
            [*self.agent.command, "save", self.path("in"), self.uri, "--version", "1"],
            check=True, timeout=60, stdout=subprocess.DEVNULL,
        )  # fmt: skip

        def shown(*parts: str) -> list[str]:
            return [path.rpartition("/")[2] for path in self.fs.ls(self.at("step-1", *parts), detail=False)]

        self.assertEqual(shown(), ["dir", "no"])
        self.assertEqual(shown("dir"), ["a", "none"])
        self.assertEqual((shown("dir", "none"), shown("no")), (["inner"], []))
        self.assertEqual(shown("dir", "none", "inner"), [])
        self.assertTrue(self.fs.isdir(self.at("step-1", "dir", "none")))
        self.assertFalse(self.fs.exists(self.at("step-1", "n")))
        with self.assertRaises(FileNotFoundError):
            self.fs.ls(self.at("step-1", "n"))
        self.fs.get(self.at("step-1"), self.path("out"), recursive=True)
        self.assertEqual(os.listdir(self.path("out", "dir", "none")), ["inner"])


    def test_a_run_that_does_not_exist_is_absent_and_an_empty_one_is_not(self) -> None:
        self.assertFalse(self.fs.exists(self.base))
        self.assertFalse(self.fs.isdir(self.base))
        for call in (self.fs.ls, self.fs.info):
            with self.assertRaisesRegex(FileNotFoundError, f"there is no run at {self.uri}"):
                call(self.base)
        self.assertEqual(self.fs.find(self.base), [])
        with self.connect():
            pass
        self.assertEqual((self.fs.ls(self.base), self.fs.isdir(self.base)), ([], True))

    def test_a_file_has_a_size_and_is_read_from_its_end(self) -> None:
        self.save(1, a=b"0123456789")
        with self.fs.open(self.at("step-1", "a"), "rb") as file:
            self.assertEqual(file.size, 10)
        ranges: list[Any] = [(-3, None), (-3, -1), (2, 4)]
        parts = [self.fs.cat_file(self.at("step-1", "a"), *each) for each in ranges]
        self.assertEqual(parts, [b"789", b"78", b"23"])


class Writing(FsspecCase):
    def test_a_transaction_commits_each_version_as_a_whole(self) -> None:
        os.makedirs(self.path("in", "dir"))
        for name in ("a", "dir/b"):
            pathlib.Path(self.path("in", name)).write_text(name)
        with self.fs.transaction:
            self.fs.put(self.path("in"), self.at("step-1"), recursive=True)
            self.fs.pipe(self.at("step-2", "c"), b"c")
            with self.fs.open(self.at("step-2", "t"), "w") as text:
                text.write("text")
            self.assertEqual(self.fs.find(self.base), [])
        self.assertEqual(len(self.fs.ls(self.base)), 2)
        self.assertEqual(self.fs.cat(self.at("step-1", "dir", "b")), b"dir/b")
        self.assertEqual(self.fs.cat(self.at("step-2", "t")), b"text")
        with self.fs.transaction:
            self.fs.copy(self.at("step-1"), self.at("step-3"), recursive=True)
        self.assertEqual(self.fs.cat(self.at("step-3", "a")), b"a")

    def test_put_leaves_nothing_out_without_a_word(self) -> None:
        os.makedirs(self.path("in", "dir"))
        pathlib.Path(self.path("in", "dir", "a")).write_text("a")
        os.symlink("a", self.path("in", "dir", "link"))
        with self.fs.transaction:
            # Through a link that the caller names, and by a pattern.
            os.symlink("in", self.path("top"))
            self.fs.put(self.path("top"), self.at("step-1"), recursive=True)
            self.fs.put(self.path("i*"), self.at("step-2"), recursive=True)
        for place in ("step-1/dir", "step-2/dir"):
            self.assertEqual([self.fs.cat(self.at(place, name)) for name in ("a", "link")], [b"a", b"a"])
        os.symlink("dir", self.path("in", "weights"))
        for source in (self.path("in"), self.path("i*"), [self.path("in")]):
            with self.subTest(source), self.assertRaisesRegex(
                holdfast.InvalidArgument, "/in/weights is a symbolic link to a directory; replace it"
            ), self.fs.transaction:
                self.fs.put(source, self.at("step-3"), recursive=True)
        self.assertFalse(self.fs.exists(self.at("step-3")))

    def test_versions_of_one_transaction_are_committed_in_their_order_until_one_is_refused(self) -> None:
        with self.assertRaises(holdfast.InvalidArgument), self.fs.transaction:
            for name in ("step-3/a", "step-2/a", "step-2/a/b", "step-1/a"):
                self.fs.pipe(self.at(*name.split("/")), b"x")
        self.assertEqual([path[-6:] for path in self.fs.ls(self.base, detail=False)], ["step-1"])

    def test_a_transaction_that_fails_leaves_nothing(self) -> None:
        with self.assertRaises(ZeroDivisionError), self.fs.transaction:
            self.fs.pipe(self.at("step-1", "a"), b"a")
            raise ZeroDivisionError
        with self.assertRaisesRegex(holdfast.InvalidArgument, "'open'.*still open"), self.fs.transaction:
            self.fs.pipe(self.at("step-1", "a"), b"a")
            file = self.fs.open(self.at("step-1", "open"), "wb")
        file.close()
        with self.fs.transaction:
            self.fs.pipe(self.at("step-2", "b"), b"b")
        self.assertEqual([path[-8:] for path in self.fs.find(self.base)], ["step-2/b"])

    def test_a_file_that_is_compressed_is_whole_when_its_caller_has_closed_it(self) -> None:
        kinds = [("gzip", "wb"), ("bz2", "wb"), ("xz", "wb"), ("zip", "wb"), ("gzip", "wt")]
        with self.fs.transaction:
            for kind, mode in kinds:
                path = self.at("step-1", f"{mode}.{kind}")
                with self.fs.open(path, mode, compression=kind) as file:
                    file.write("hello" if mode == "wt" else b"hello")
        for kind, mode in kinds:
            path = self.at("step-1", f"{mode}.{kind}")
            with self.subTest(kind=kind, mode=mode), self.fs.open(path, "rb", compression=kind) as file:
                self.assertEqual(file.read(), b"hello")
        opened = []
        with self.assertRaisesRegex(holdfast.InvalidArgument, "'open'.*still open"), self.fs.transaction:
            opened.append(self.fs.open(self.at("step-2", "open"), "wb", compression="gzip"))
        opened[0].close()
        self.assertFalse(self.fs.exists(self.at("step-2")))

    def test_a_transaction_within_another_is_refused_and_the_outer_one_continues(self) -> None:
        step, fs = self.at("step-30"), self.fs
        begin = (fs.start_transaction, lambda: fs.transaction.__enter__(), fs.transaction.start)
        with fs.transaction:
            fs.pipe(f"{step}/a", b"1")
            for begin_again in (*begin, fs.transaction.start):
                with self.assertRaisesRegex(holdfast.Unsupported, "transaction .* is in progress"):
                    begin_again()
            fs.pipe(f"{step}/c", b"3")
        self.assertEqual([path[-1] for path in fs.find(step)], ["a", "c"])
        with self.assertRaises(holdfast.Unsupported), fs.transaction:
            fs.pipe(self.at("step-31", "a"), b"1")
            with fs.transaction:
                self.fail("the block began")
        self.assertFalse(fs.exists(self.at("step-31")))

    def test_a_transaction_of_a_second_thread_is_refused_or_has_a_file_system_of_its_own(self) -> None:
        def refused() -> None:
            with self.assertRaisesRegex(holdfast.Unsupported, "in this thread or another"), self.fs.transaction:
                self.fail("the block began")

        def independent() -> None:
            fs: Any = fsspec.filesystem("holdfast")
            with fs.transaction:
                fs.pipe(self.at("step-41", "b"), b"2")

        def joins() -> None:
            self.fs.pipe(self.at("step-42", "c"), b"3")

        with ThreadPoolExecutor(1) as thread:
            with self.fs.transaction:
                thread.submit(refused).result()
                thread.submit(independent).result()
                self.assertTrue(self.fs.exists(self.at("step-41", "b")))
                self.fs.pipe(self.at("step-42", "a"), b"1")
                thread.submit(joins).result()
            self.assertEqual(len(self.fs.find(self.at("step-42"))), 2)

    def test_a_transaction_that_has_ended_ends_no_later_one_and_may_begin_again(self) -> None:
        first = self.fs.start_transaction()
        self.fs.pipe(self.at("step-1", "a"), b"1")
        self.fs.end_transaction()
        self.fs.end_transaction()
        with self.fs.transaction:
            first.complete()
            self.fs.pipe(self.at("step-2", "a"), b"2")
        with first:
            self.fs.pipe(self.at("step-3", "a"), b"3")
        self.assertEqual(len(self.fs.ls(self.base)), 3)

    def test_what_was_removed_in_a_transaction_is_not_committed(self) -> None:
        with self.fs.transaction:
            for name in ("a", "b", "dir/c", "dir2/d"):
                self.fs.pipe(self.at("step-1", name), b"x")
            self.fs.pipe(self.at("step-2", "a"), b"x")
            self.fs.rm(self.at("step-1", "b"))
            self.fs.rm(self.at("step-1", "dir"), recursive=True)
            self.fs.rm(self.at("step-2"), recursive=True)
            with self.assertRaises(FileNotFoundError):
                self.fs.rm(self.at("step-1", "b"))
        names = [path.rpartition("/step-")[2] for path in self.fs.find(self.base)]
        self.assertEqual(names, ["1/a", "1/dir2/d"])

    def test_file_systems_of_a_process_share_its_writer(self) -> None:
        given: list[dict[str, Any]] = [{}, {"timeout": 17}, {"agent": self.agent.socket}]
        for version, options in enumerate(given):
            fs: Any = fsspec.filesystem("holdfast", **options)
            with fs.transaction:
                fs.pipe(self.at(f"step-{version}", "a"), b"x")
        self.assertEqual(len(self.fs.ls(self.base)), 3)
        other: Any = fsspec.filesystem("holdfast", attempt="other")
        with self.assertRaisesRegex(holdfast.InvalidArgument, "writes .* as attempt"), other.transaction:
            other.pipe(self.at("step-9", "a"), b"x")

    def test_files_of_a_committed_version_never_change(self) -> None:
        self.save(1, a=b"1")
        with self.assertRaisesRegex(FileExistsError, "version 1 is committed"), self.fs.transaction:
            self.fs.pipe(self.at("step-1", "more"), b"x")
        for mode in ("ab", "r+b"):
            with self.assertRaisesRegex(holdfast.Unsupported, "written once"):
                self.fs.open(self.at("step-1", "a"), mode)
        with self.assertRaisesRegex(holdfast.Unsupported, "keep their names"):
            self.fs.mv(self.at("step-1", "a"), self.at("step-1", "b"))
        self.assertEqual(self.fs.cat(self.at("step-1", "a")), b"1")

    def test_a_version_that_another_process_commits_meanwhile_stays(self) -> None:
        with self.assertRaises(holdfast.HoldfastError), self.fs.transaction:
            self.fs.pipe(self.at("step-1", "a"), b"mine")
            self.save(1, a=b"theirs")
        self.assertEqual(self.fs.cat(self.at("step-1", "a")), b"theirs")

    def test_outside_of_a_transaction_nothing_says_when_a_version_is_complete(self) -> None:
        with self.assertRaisesRegex(holdfast.Unsupported, "with fs.transaction"):
            self.fs.pipe(self.at("step-1", "a"), b"1")
        self.assertEqual(self.fs.find(self.base), [])

    def test_retention_removes_versions_and_rm_does_not(self) -> None:
        self.save(1, a=b"1")
        for path in (self.base, self.at("step-1"), self.at("step-1", "a")):
            with self.assertRaisesRegex(holdfast.Unsupported, "retention"):
                self.fs.rm(path, recursive=True)
        with self.assertRaises(FileNotFoundError):
            self.fs.rm_file(self.at("step-2", "a"))
        self.assertEqual(self.fs.cat(self.at("step-1", "a")), b"1")

    def test_a_child_of_a_fork_begins_anew(self) -> None:
        self.fs.makedirs(self.at("step-1"))
        with self.fs.open(self.at("step-1", "__0_0.distcp"), "wb") as file:
            file.write(b"1")

        def child() -> int:
            url_to_fs(self.base)[0].exists(self.base)
            return len(_pending.pending._versions)

        self.assertEqual(python_child(child), 0)
        self.assertEqual(len(_pending.pending._versions), 1)
        self.fs.rm(self.at("step-1"))
        self.assertEqual(len(_pending.pending._versions), 0)

    def test_saves_that_were_given_up_take_no_memory_for_ever(self) -> None:
        for version in range(5):
            self.fs.makedirs(self.at(f"step-{version}"))
        self.assertEqual([key.version for key in _pending.pending._versions], [3, 4])
        with self.assertRaisesRegex(holdfast.InvalidArgument, "a later one has begun"):
            self.fs.open(self.at("step-1", "__0_0.distcp"), "wb").close()
        self.fs.rm(self.at("step-3"))
        self.fs.rm(self.at("step-4"))


class BadInput(FsspecCase):
    def test_paths(self) -> None:
        refused = [
            ("holdfast://prod/final", "'final' has no version"),
            ("holdfast://prod/latest/a", "latest_url"),
            ("holdfast://prod/epoch=1-loss=0.12.ckpt", "has no version"),
            ("holdfast:///step-1", "names no run"),
            ("holdfast:/prod/step-1", "removed a slash"),
            (pathlib.Path("holdfast://prod/step-1"), "removed a slash"),
            ("s3:/bucket/run", "removed a slash"),
            ("holdfast://s3://bucket/run/step-1", "percent-encoded"),
            ("holdfast://99999999999999999999999/step-99999999999999999999999", "expected 0 to"),
        ]
        for path, why in refused:
            with self.assertRaisesRegex(holdfast.InvalidArgument, why, msg=str(path)):
                self.fs.info(path)
        for path in ("holdfast://prod", "holdfast://prod/step-1", "holdfast://prod/epoch=0-step=1.ckpt"):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "names no file"):
                self.fs.open(path)
        with self.assertRaisesRegex(holdfast.InvalidArgument, "the run as well"):
            self.fs.ls("holdfast://")

    def test_options(self) -> None:
        with self.assertRaisesRegex(holdfast.InvalidArgument, "run: expected agent, attempt, start, timeout"):
            fsspec.filesystem("holdfast", run="s3://bucket/run")
        with self.assertRaisesRegex(holdfast.InvalidArgument, "timeout"):
            fsspec.filesystem("holdfast", timeout=0).ls(self.base)

    def test_names_that_hold_a_version(self) -> None:
        from holdfast._framework_ids import version_in

        for name, version in [
            ("step-100", 100),
            ("0", 0),
            ("global_step12", 12),
            ("epoch=3-step=100.ckpt", 100),
            ("epoch=3-step=100-v1.ckpt", 100),
            ("checkpoint-7", 7),
            ("step=1.5", None),
            ("loss=0.25", None),
            ("last.ckpt", None),
            ("step-", None),
        ]:
            self.assertEqual(version_in(name), version, name)

    def test_urls(self) -> None:
        self.assertEqual(holdfast.fsspec.url("prod", 3, "a/b"), "holdfast://prod/step-3/a/b")
        self.assertEqual(holdfast.fsspec.url("s3://b/r?x=1", 3), "holdfast://s3%3A%2F%2Fb%2Fr%3Fx%3D1/step-3")
        refused: list[tuple[Any, ...]] = [("",), ("prod", -1), ("prod", None, "a")]
        for given in refused:
            with self.assertRaises(holdfast.InvalidArgument):
                holdfast.fsspec.url(*given)

    def test_old_packages(self) -> None:
        for found in ("2024.3.9", "2023.12", "0"):
            with mock.patch.object(_requirements, "version", return_value=found):
                with self.assertRaisesRegex(holdfast.Unsupported, f"fsspec {found} is installed.*2024.6.0 or newer"):
                    _requirements.require("fsspec", "2024.6.0", "fsspec")
        with mock.patch.object(_requirements, "version", return_value="2024.6.0.post1"):
            _requirements.require("fsspec", "2024.6.0", "fsspec")
        with self.assertRaisesRegex(holdfast.Unsupported, r"pip install 'holdfast\[fsspec\]'"):
            _requirements.require("no-such-package", "1", "fsspec")


class OfFsspec(FsspecCase):
    def test_the_tests_of_fsspec_that_copy_from_a_file_system(self) -> None:
        words = ["-q", "--color=no", "-p", "no:cacheprovider", abstract_get.__file__]
        result = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            env={**os.environ, "HOLDFAST_TEST_URL": self.base, "PYTHONPATH": PYTHON_ROOT},
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertRegex(result.stdout, r"(?m)^\d{2} passed in", result.stdout[-2000:])


class Package(FsspecCase):
    def test_holdfast_alone_imports_no_framework(self) -> None:
        code = (
            "import sys, holdfast; [getattr(holdfast, name) for name in dir(holdfast)]; "
            "print([name for name in ('fsspec', 'torch', 'lightning', 'pyarrow', 'ray') if name in sys.modules])"
        )
        printed = subprocess.run(
            [sys.executable, "-c", code], cwd=PYTHON_ROOT, check=True, capture_output=True, timeout=60
        ).stdout
        self.assertEqual(printed.strip(), b"[]")

    def test_the_entry_point_names_the_file_system(self) -> None:
        tomllib: Any = optional("tomllib")
        with open(os.path.join(PYTHON_ROOT, "pyproject.toml"), "rb") as file:
            project = tomllib.load(file)["project"]
        module, _, name = project["entry-points"]["fsspec.specs"]["holdfast"].partition(":")
        with tempfile.TemporaryDirectory() as directory:
            info = pathlib.Path(directory, "holdfast-1.dist-info")
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: holdfast\nVersion: 1\n")
            (info / "entry_points.txt").write_text(f"[fsspec.specs]\nholdfast = {module}:{name}\n")
            code = "import fsspec; print(type(fsspec.filesystem('holdfast')).__name__)"
            printed = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONPATH": f"{directory}:{PYTHON_ROOT}"},
                check=True,
                capture_output=True,
                timeout=60,
            ).stdout
        self.assertEqual(printed.strip(), b"HoldfastFileSystem")
