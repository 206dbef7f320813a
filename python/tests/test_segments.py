"""Segments are reused, replaced when they are too small, and refused before the kernel would."""

from __future__ import annotations

import errno
import os
from typing import Any
from unittest import mock

import holdfast
from holdfast import _room, _segments
from holdfast._segments import SegmentPool, Stage, make_segment
from holdfast.errors import Unexpected

from .support import TestCase

MB = 1 << 20


class Choice(TestCase):
    def stage(self, kind: str = "tmpfs") -> Stage:
        return Stage(self.directory, kind, "because")

    def test_a_directory_in_memory_comes_first(self) -> None:
        segment, reason = make_segment(self.stage(), 10, "holdfast-x")
        self.addCleanup(segment.close, True)
        self.assertEqual((segment.kind, reason), ("tmpfs", "because"))
        self.assertEqual(os.listdir(self.directory), [os.path.basename(segment.path or "")])
        facts = os.stat(segment.path or "")
        self.assertEqual(facts.st_mode & 0o777, 0o600)
        self.assertGreaterEqual(facts.st_blocks * 512, segment.size)
        source = segment.source(3, 4)
        self.assertEqual(source, {"path": segment.path, "offset": 3, "length": 4})

    def test_without_room_there_a_memfd_is_next_and_the_reason_is_told(self) -> None:
        with mock.patch.object(_segments, "directory_free", return_value=MB):
            segment, reason = make_segment(self.stage(), 10, "holdfast-x")
        self.addCleanup(segment.close, True)
        self.assertEqual(segment.kind, "memfd")
        self.assertIn(f"{self.directory} has {MB} bytes left", reason)
        source = segment.source(0, 5)
        self.assertEqual(source["pid"], os.getpid())
        name = os.readlink(f"/proc/self/fd/{source['fd']}")
        self.assertEqual(name, f"/memfd:holdfast-x-{source['segment']} (deleted)")
        with segment.view() as view:
            view[:5] = b"bytes"
        with open(f"/proc/{source['pid']}/fd/{source['fd']}", "rb") as file:
            self.assertEqual(file.read(5), b"bytes")

    def test_a_segment_goes_to_the_directory_of_another_agent_with_its_bytes(self) -> None:
        other = Stage(os.path.join(self.directory, "other"), "tmpfs")
        os.mkdir(other.directory, 0o700)
        segment, _ = make_segment(self.stage(), 10, None)
        self.addCleanup(segment.close, True)
        with segment.view() as view:
            view[:5] = b"bytes"
        before = segment.path
        segment.bring_to(self.stage())
        self.assertEqual(segment.path, before)
        with self.assertRaisesRegex(holdfast.NoStagingSpace, "full"):
            segment.bring_to(Stage(other.directory, "none", "full"))
        self.assertEqual((segment.path, segment.is_usable(self.stage())), (before, True))
        segment.bring_to(other)
        self.assertEqual(os.listdir(self.directory), ["other"])
        with open(segment.path or "", "rb") as file:
            self.assertEqual(file.read(5), b"bytes")
        with segment.view() as view:
            view[:5] = b"other"
        with open(segment.path or "", "rb") as file:
            self.assertEqual(file.read(5), b"other")

    def test_a_directory_on_disk_is_the_last(self) -> None:
        segment, reason = make_segment(self.stage("disk"), 10, None)
        self.addCleanup(segment.close, True)
        self.assertEqual(segment.kind, "disk")
        self.assertIn("memfd: the agent does not see this process", reason)

    def test_a_full_file_system_is_found_by_allocating_and_nothing_is_left(self) -> None:
        full = OSError(errno.ENOSPC, "No space left on device")
        with mock.patch("os.posix_fallocate", side_effect=full) as allocate:
            with self.assertRaises(holdfast.NoStagingSpace) as caught:
                make_segment(self.stage(), 3 * MB, "holdfast-x")
        self.assertEqual(caught.exception.bytes_needed, 4 * MB)
        self.assertEqual(caught.exception.code, "StorageFull")
        self.assertEqual(caught.exception.details["bytesNeeded"], 4 * MB)
        self.assertIn("No space left", str(caught.exception))
        self.assertEqual(allocate.call_count, 2)
        self.assertEqual(os.listdir(self.directory), [])

    def test_a_directory_keeps_room_for_the_records_of_the_agent(self) -> None:
        for free, kind in ((5 * MB, "tmpfs"), (5 * MB - 1, "memfd")):
            with mock.patch.object(_segments, "directory_free", return_value=free):
                segment, _ = make_segment(self.stage(), 4 * MB, "holdfast-x")
            self.addCleanup(segment.close, True)
            self.assertEqual(segment.kind, kind)

    def test_memory_is_never_taken_past_what_is_available(self) -> None:
        with mock.patch.object(_segments, "memory_available", return_value=MB):
            with mock.patch("os.posix_fallocate") as allocate:
                with self.assertRaisesRegex(holdfast.NoStagingSpace, f"{MB} bytes of memory are left"):
                    make_segment(self.stage(), 10, "holdfast-x")
                self.assertEqual(allocate.call_count, 0)

    def test_another_failure_of_the_file_system_is_not_hidden(self) -> None:
        with mock.patch("os.posix_fallocate", side_effect=OSError(errno.EIO, "broken")):
            with self.assertRaisesRegex(Unexpected, "no segment can be made: broken"):
                make_segment(self.stage(), 10, None)

    def test_a_directory_that_was_removed_is_a_place_without_room(self) -> None:
        gone = Stage(self.path("gone"), "tmpfs")
        segment, reason = make_segment(gone, 10, "holdfast-x")
        self.addCleanup(segment.close, True)
        self.assertEqual(segment.kind, "memfd")
        self.assertIn("tmpfs: no room: No such file", reason)
        with self.assertRaises(holdfast.NoStagingSpace):
            make_segment(gone, 10, None)

    def test_a_directory_that_other_users_may_enter_is_not_used(self) -> None:
        os.chmod(self.directory, 0o777)
        segment, reason = make_segment(self.stage(), 10, "holdfast-x")
        self.addCleanup(segment.close, True)
        self.assertEqual((segment.kind, os.listdir(self.directory)), ("memfd", []))
        self.assertIn("mode 0777", reason)

    def test_a_link_to_a_directory_is_not_used(self) -> None:
        os.symlink(self.directory, self.path("link"))
        link = Stage(self.path("link"), "tmpfs")
        with self.assertRaises(holdfast.NoStagingSpace):
            make_segment(link, 10, None)
        self.assertEqual(os.listdir(self.directory), ["link"])

    def test_a_directory_of_another_user_is_not_used(self) -> None:
        with mock.patch.object(_segments, "trusted_users", return_value={os.geteuid() + 1}):
            with self.assertRaisesRegex(holdfast.NoStagingSpace, f"user {os.geteuid()}"):
                make_segment(self.stage(), 10, None)

    def test_a_stage_that_the_agent_does_not_use(self) -> None:
        segment, reason = make_segment(self.stage("none"), 10, "holdfast-x")
        self.addCleanup(segment.close, True)
        self.assertEqual(segment.kind, "memfd")
        self.assertIn("tmpfs: because", reason)

    def test_another_file_of_its_name_is_not_the_segment(self) -> None:
        segment, _ = make_segment(self.stage(), 10, None)
        self.addCleanup(segment.close, True)
        self.assertTrue(segment.is_there())
        os.rename(segment.path or "", self.path("moved"))
        with open(segment.path or "", "wb"):
            pass
        self.assertFalse(segment.is_there())


class Room(TestCase):
    def available(self, files: dict[str, str]) -> Any:
        for name, text in files.items():
            path = self.path(name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        real = open

        def redirected(path: str, *args: Any, **options: Any) -> Any:
            return real(self.path(path.lstrip("/")), *args, **options)

        with mock.patch("builtins.open", redirected):
            return _room.memory_available()

    def test_the_least_of_machine_and_each_cgroup_above_counts(self) -> None:
        files = {
            "proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 1000000 kB\n",
            "proc/self/cgroup": "0::/job/task\n",
            "sys/fs/cgroup/job/task/memory.max": "max\n",
            "sys/fs/cgroup/job/memory.max": "1000000\n",
            "sys/fs/cgroup/job/memory.current": "700000\n",
            "sys/fs/cgroup/job/memory.stat": "anon 5\ninactive_file 100000\n",
        }
        self.assertEqual(self.available(files), int(400000 * 0.95))

    def test_the_first_version_of_cgroups_is_read_too(self) -> None:
        v1 = "sys/fs/cgroup/memory/job/memory"
        files = {
            "proc/meminfo": "MemAvailable: 1000000 kB\n",
            "proc/self/cgroup": "5:cpu,memory:/job\n1:name=systemd:/x\n",
            f"{v1}.limit_in_bytes": "5000\n",
            f"{v1}.usage_in_bytes": "6000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
        }
        self.assertEqual(self.available(files), 0)

    def test_a_kernel_that_does_not_say_limits_nothing(self) -> None:
        self.assertIsNone(self.available({}))

    def test_this_machine_says_a_number(self) -> None:
        self.assertGreater(_room.memory_available() or 0, 0)


class Pool(TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.said: list[str] = []
        self.stage = Stage(self.directory, "tmpfs")
        self.pool = SegmentPool("holdfast-x", self.said.append)
        self.addCleanup(self.pool.close)

    def take(self, size: int) -> Any:
        return self.pool.take(self.stage, size)

    def test_two_are_made_and_then_used_again_warm(self) -> None:
        one, two = self.take(10), self.take(10)
        self.assertIsNone(self.take(10))
        self.pool.give_back(one)
        self.assertIs(self.take(20), one)
        self.pool.give_back(one)
        self.pool.give_back(two)
        self.assertEqual({self.take(10), self.take(10)}, {one, two})
        self.assertEqual(len(os.listdir(self.directory)), 2)
        self.assertEqual(len(self.said), 1, "the choice is logged once")

    def test_one_that_is_too_small_is_replaced(self) -> None:
        one, two = self.take(10), self.take(10)
        self.pool.give_back(two)
        big = self.take(5 * MB)
        self.assertGreaterEqual(big.size, 5 * MB)
        self.assertEqual(len(os.listdir(self.directory)), 2)
        self.pool.give_back(one)
        self.pool.give_back(big)
        self.assertIs(self.take(10), one, "the smallest that fits")

    def test_free_segments_are_given_up_when_there_is_no_room_for_another(self) -> None:
        small = self.take(10)
        self.pool.give_back(small)

        def available() -> int:
            return MB if os.path.exists(small.path) else 100 * MB

        with mock.patch.object(_segments, "memory_available", available):
            big = self.take(5 * MB)
        self.assertEqual(os.listdir(self.directory), [os.path.basename(big.path)])

    def test_after_a_refusal_both_can_still_be_taken(self) -> None:
        with mock.patch.object(_segments, "memory_available", return_value=0):
            with self.assertRaises(holdfast.NoStagingSpace):
                self.take(10)
        self.assertIsNotNone(self.take(10))
        self.assertIsNotNone(self.take(10))

    def test_one_that_the_agent_may_still_read_is_not_used_again(self) -> None:
        one = self.take(10)
        self.pool.give_back(one, reusable=False)
        self.assertEqual(os.listdir(self.directory), [])
        self.assertIsNot(self.take(10), one)

    def test_closing_unlinks_what_no_save_uses(self) -> None:
        used, free = self.take(10), self.take(10)
        self.pool.give_back(free)
        self.pool.close()
        self.assertEqual(os.listdir(self.directory), [os.path.basename(used.path)])

    def test_no_descriptor_and_no_mapping_is_left(self) -> None:
        before = len(os.listdir("/proc/self/fd"))
        with mock.patch.object(_segments, "directory_free", return_value=0):
            memfd = self.take(10)
        named = self.take(10)
        self.pool.give_back(memfd)
        self.pool.give_back(named)
        self.pool.close()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        with open("/proc/self/maps", encoding="utf-8") as maps:
            self.assertNotIn("segment-", maps.read())
