"""ElasticDL's saver: one shard of each parameter server, restored to any number of them."""

from __future__ import annotations

import json
import os
import struct
import time
from typing import Any, Optional
from unittest import mock

import holdfast
from holdfast.elasticdl import CheckpointSaver, best_checkpoint, export, restore_shard

from .real_agent import RealAgentCase
from .support import TIMEOUT

Rows = dict[int, tuple[float, ...]]


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _tensor(shape: list[int], values: tuple[float, ...]) -> bytes:
    dims = b"".join(_field(2, b"\x08" + _varint(size)) for size in shape)
    return b"\x08\x01" + _field(2, dims) + _field(4, struct.pack(f"<{len(values)}f", *values))


class Model:
    """The last form of ElasticDL's message, with one table of two columns."""

    def __init__(self, version: int, rows: Rows, dense: Optional[dict[str, float]] = None) -> None:
        self.version = version
        self.rows = rows
        self.dense = dense or {}

    def SerializeToString(self) -> bytes:
        info = _field(1, b"embedding") + b"\x10\x02" + _field(3, b"uniform") + b"\x20\x01"
        parts = [b"\x08" + _varint(self.version), _field(2, info)]
        for name, value in self.dense.items():
            parts.append(_field(3, _field(1, name.encode()) + _field(2, _tensor([1], (value,)))))
        values = tuple(value for row in self.rows.values() for value in row)
        ids = b"".join(_varint(one) for one in self.rows)
        slices = _field(1, _tensor([len(self.rows), 2], values)) + _field(2, ids)
        parts.append(_field(4, _field(1, b"embedding") + _field(2, slices)))
        return b"".join(parts)


def _fields(data: bytes) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        else:
            size = varint()
            found.append((key >> 3, data[at : at + size]))
            at += size
    return found


def _floats(tensor: bytes) -> tuple[float, ...]:
    content = dict(_fields(tensor)).get(4, b"")
    return struct.unpack(f"<{len(content) // 4}f", content)


def parsed(data: Optional[bytes]) -> Model:
    assert data is not None
    model = Model(0, {})
    for number, value in _fields(data):
        if number == 1:
            model.version = value
        elif number == 3:
            entry = dict(_fields(value))
            model.dense[entry[1].decode()] = _floats(entry[2])[0]
        elif number == 4:
            slices = dict(_fields(dict(_fields(value))[2]))
            ids = [one for _, one in _fields(b"".join(b"\x08" + bytes([one]) for one in slices.get(2, b"")))]
            values = _floats(slices[1]) if 1 in slices else ()
            model.rows.update({one: values[2 * at : 2 * at + 2] for at, one in enumerate(ids)})
    return model


def shard(version: int, index: int, count: int) -> Model:
    rows: Rows = {one: (float(one), float(version)) for one in range(index, 12, count)}
    return Model(version, rows, {"bias": 0.5} if index == 0 else {})


WHOLE = shard(7, 0, 1)


class Saver(RealAgentCase):
    def saver(self, index: int = 0, count: int = 1, **options: Any) -> CheckpointSaver:
        place = options.pop("place", self.uri)
        given = {"attempt": "a1", "agent": self.agent.socket, "timeout": TIMEOUT, **options}
        kept = given.pop("keep_checkpoint_max", 3)
        saver = CheckpointSaver(place, 5, kept, writer=(index, count), **given)
        self.addCleanup(saver.close)
        return saver

    def options(self) -> dict[str, Any]:
        return {"agent": self.agent.socket, "timeout": TIMEOUT}

    def save_of(self, count: int, version: int = 7) -> None:
        savers = [self.saver(index, count) for index in range(count)]
        handles = [
            saver.save(version, shard(version, index, count)) for index, saver in enumerate(savers)
        ]
        for handle in handles:
            handle.wait()

    def test_servers_save_their_shards_and_any_number_of_them_restores(self) -> None:
        self.save_of(3)
        with self.saver(attempt="a2") as whole:
            names = [file.name for file in whole.run.files()]
            self.assertEqual(names, [f"variables-{index}-of-3.ckpt" for index in range(3)])
            model = parsed(whole.restore())
            self.assertEqual((model.version, model.rows, model.dense), (7, WHOLE.rows, WHOLE.dense))
        for count in (2, 3, 5):
            rows: Rows = {}
            for index in range(count):
                part = parsed(restore_shard(self.uri, index, count, **self.options()))
                self.assertEqual({one % count for one in part.rows} - {index}, set())
                rows.update(part.rows)
            self.assertEqual(rows, WHOLE.rows)

    def test_a_version_is_there_when_all_servers_have_delivered_it(self) -> None:
        one, two = self.saver(0, 2), self.saver(1, 2)
        self.assertIsNone(one.restore())
        first = one.save(5, shard(5, 0, 2))
        self.assertIsNone(two.restore())
        two.save(5, shard(5, 1, 2).SerializeToString()).wait()
        first.wait()
        self.assertEqual(parsed(two.restore()).version, 5)
        self.assertIsNone(restore_shard(f"{self.uri}-none", 0, 1, **self.options()))

    def test_a_version_that_one_server_skips_holds_up_no_other_and_is_no_error(self) -> None:
        one, two = self.saver(0, 2), self.saver(1, 2)
        skipped = one.save(5, shard(5, 0, 2))
        for handle in [one.save(10, shard(10, 0, 2)), two.save(10, shard(10, 1, 2))]:
            handle.wait()
        self.assertEqual(parsed(two.restore()).version, 10)
        end = time.monotonic() + TIMEOUT
        while not skipped.done() and time.monotonic() < end:
            time.sleep(0.05)
        with self.assertLogs("holdfast", "WARNING") as logged:
            one.save(15, shard(15, 0, 2))
        self.assertIn("version 5 was not committed", logged.output[0])

    def test_a_directory_as_elasticdl_takes_it(self) -> None:
        place = self.path("check points")
        saver = self.saver(place=place)
        saver.save(7, WHOLE).wait()
        self.assertIn("VERSION", " ".join(os.listdir(place)).upper())
        for given in (place, f"{place}/"):
            restored = parsed(restore_shard(given, 0, 1, directory=self.directory, **self.options()))
            self.assertEqual(restored.rows, WHOLE.rows)
        self.assertEqual(os.listdir(self.directory), ["check points"])

    def test_when_a_checkpoint_is_due(self) -> None:
        saver = self.saver()
        self.assertTrue(saver.is_enabled())
        self.assertEqual([one for one in range(11) if saver.need_to_checkpoint(one)], [0, 5, 10])
        never = CheckpointSaver(f"{self.uri}-2", 0, 0, **self.options())
        self.addCleanup(never.close)
        self.assertFalse(never.is_enabled() or never.need_to_checkpoint(0))

    def test_the_newest_and_the_best_stay(self) -> None:
        best = [{"metric": "auc", "mode": "max", "count": 1}]
        saver = self.saver(keep_checkpoint_max=1, keep_best=best)
        for version, auc in ((5, 0.9), (10, 0.2), (15, 0.3)):
            saver.save(version, shard(version, 0, 1), metrics={"auc": auc}).wait()
        self.until(lambda: [one.version for one in saver.run.versions() if one.state == "live"] == [15, 5])

    def test_metrics_of_an_evaluation_after_the_save_choose_what_is_exported(self) -> None:
        saver = self.saver(keep_checkpoint_max=0)
        self.assertIsNone(best_checkpoint(self.uri, "auc", **self.options()))
        for version in (5, 10, 15, 20):
            saver.save(version, shard(version, 0, 1)).wait()
        with self.assertRaisesRegex(holdfast.InvalidArgument, "no checkpoint has 'auc'; .* no metrics"):
            best_checkpoint(self.uri, "auc", **self.options())
        for version, auc in ((5, 0.8), (10, 0.9), (15, 0.9)):
            saver.annotate(version, {"auc": auc})
        for mode, expected in (("max", 15), ("min", 5)):
            found = best_checkpoint(self.uri, "auc", mode, **self.options())
            assert found is not None
            self.assertEqual(found.version, expected)
        path = self.path("best.safetensors")
        restored = export(self.uri, path, best=("auc", "max"), **self.options())
        self.assertEqual((restored.version, restored.file_count), (15, 2))
        with open(self.path("best.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["version"], 15)
        with self.assertRaises(holdfast.TargetExists):
            export(self.uri, path, **self.options())
        self.assertEqual(export(self.uri, path, replace=True, **self.options()).version, 20)
        self.assertEqual(export(self.uri, path, version=5, replace=True, **self.options()).version, 5)

    def test_odd_arguments_are_refused(self) -> None:
        saver = self.saver()
        for model in (None, 7, "bytes", mock.Mock(spec=[]), b"", shard(6, 0, 1)):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "^model"):
                saver.save(7, model)
        for steps, kept, named in ((-1, 0, "checkpoint_steps"), (1.5, 0, "checkpoint_steps"), (1, -1, "keep")):
            odd: Any = steps
            with self.assertRaisesRegex(holdfast.InvalidArgument, f"^{named}"):
                CheckpointSaver(self.uri, odd, kept, **self.options())
        with self.assertRaisesRegex(holdfast.InvalidArgument, "^keep_best"):
            CheckpointSaver(self.uri, 1, 0, keep_best=[{}], **self.options())
        saver.save(7, WHOLE).wait()
        for index, count in ((1, 1), (-1, 2), (0, 0)):
            with self.assertRaises(holdfast.InvalidArgument):
                restore_shard(self.uri, index, count, **self.options())
        with self.assertRaises(holdfast.InvalidArgument):
            saver.restore(form="S1")
        with self.assertRaises(holdfast.NotFound):
            saver.restore(8)
        for given in ({"best": ("auc", "more")}, {"best": ("auc", "max"), "version": 7}):
            asked: Any = given
            with self.assertRaisesRegex(holdfast.InvalidArgument, "mode|either"):
                export(self.uri, self.path("x"), **asked, **self.options())
        with self.assertRaises(holdfast.NotFound):
            export(f"{self.uri}-none", self.path("x"), best=("auc", "max"), **self.options())

    def test_what_may_be_cut_off_is_a_warning(self) -> None:
        saver = self.saver()
        saver.save(7, WHOLE.SerializeToString()[:2]).wait()
        with self.assertLogs("holdfast", "WARNING") as logs:
            saver.restore()
        self.assertIn("suspicious", logs.output[0])
