"""Mistakes of programs: each has an error that names it, on all ranks, and the next save succeeds."""

from __future__ import annotations

import importlib
import json
import re
import unittest
from importlib.metadata import PackageNotFoundError
from typing import Any, Optional
from unittest import mock

from holdfast.errors import InvalidArgument, Unsupported

from .ranks import WorldCase, require_torch

OK = ["ok", None]


class Saves(WorldCase):
    def assert_failed(
        self, answers: list[Any], ranks: Optional[list[int]], name: str, text: str
    ) -> None:
        """All ranks have DCP's error, with that of these ranks. ``None``: DCP chooses the rank."""
        for answer in answers:
            self.assertEqual(answer[0], "CheckpointException", answer)
            if ranks is not None:
                self.assertEqual([one[0] for one in answer[1]], ranks, answer)
            for _, found, message in answer[1]:
                self.assertEqual(found, name, message)
                self.assertIn(text, message)

    def assert_goes_on(self, step: int) -> None:
        self.assertEqual(self.world.call("save_own", uri=self.uri, step=step, seed=step), [OK] * 4)
        self.assertEqual(self.world.call("load_own", uri=self.uri, step=step), [["ok", [step, True]]] * 4)

    def test_tensors_that_cannot_be_saved(self) -> None:
        cases = [
            ("meta", "InvalidArgument", "tensor 'odd' is on the meta device, so it has no elements to save"),
            ("quantized", "InvalidArgument", "tensor 'odd' is quantized; save its int_repr and its scales"),
            ("complex128", "InvalidArgument", "tensor 'odd' has the type torch.complex128, which safetensors does not have"),
            ("wrapper", "InvalidArgument", "tensor 'odd' is a TwoTensor, which wraps other tensors"),
            ("freed", "InvalidArgument", "array 'odd', a Tensor, has no memory of its own"),
            ("sparse", "InvalidArgument", "tensor 'odd' has the layout torch.sparse_coo; save a dense tensor"),
            ("unpicklable", "AttributeError", "pickle"),
        ]
        for place, (kind, name, text) in enumerate(cases):
            for rank in (0, 2):
                step = 10 * (2 * place + rank + 1)
                answers = self.world.call("save_odd_value", uri=self.uri, step=step, kind=kind, rank=rank)
                self.assert_failed(answers, [rank], name, text)
                self.assert_goes_on(step + 1)

    def test_a_name_that_safetensors_has_taken(self) -> None:
        answers = self.world.call("save_odd_name", uri=self.uri, step=1)
        self.assert_failed(answers, None, "InvalidArgument", "tensor '__metadata__': safetensors keeps this name")
        self.assert_goes_on(2)

    def test_plans_and_results_that_disagree(self) -> None:
        every = [0, 1, 2, 3]
        cases = [
            ("two ranks", [1], "ValueError", "Could not find FQN: 'own-0'"),
            ("twice", [0], "InvalidArgument", "planner: the plan of this rank has 'own-0' at [0, 0] twice"),
            ("not written", [0], "InvalidArgument", "planner: no rank has written 'own-0' at [0, 0], which is in the plan"),
            ("not planned", [0], "InvalidArgument", "planner: a rank has written 'own-0' at [0, 0], which is not in the plan"),
            ("planner data", [0], "InvalidArgument", "planner: its planner_data is a Custom"),
            ("shape", every, "InvalidArgument", "is torch.float32 [1, 2], and the plan says torch.float32 [3, 2]"),
            ("type", every, "InvalidArgument", "is torch.float64 [3, 2], and the plan says torch.float32 [3, 2]"),
            ("tensor as object", every, "InvalidArgument", "is a tensor in the plan, and resolve_data returned a int"),
            ("object as tensor", None, "InvalidArgument", "'step' is an object in the plan, and resolve_data returned a Tensor"),
        ]
        for place, (kind, ranks, name, text) in enumerate(cases):
            step = 10 * (place + 1)
            answers = self.world.call("save_odd_plan", uri=self.uri, step=step, kind=kind)
            self.assert_failed(answers, ranks, name, text)
            self.assert_goes_on(step + 1)

    def test_a_failed_save_is_repeated_with_other_values(self) -> None:
        for step in (5, 6, 7):
            # The parts of ranks 1 to 3 are delivered.
            answers = self.world.call("save_odd_value", uri=self.uri, step=step, kind="meta", rank=0)
            self.assert_failed(answers, [0], "InvalidArgument", "meta")
            self.assertEqual(self.world.call("save_own", uri=self.uri, step=step, seed=70 + step), [OK] * 4)
            self.assertEqual(self.world.call("load_own", uri=self.uri, step=step), [["ok", [70 + step, True]]] * 4)

    def test_ranks_that_save_different_versions(self) -> None:
        answers = self.world.call("save_different_versions", uri=self.uri)
        self.assert_failed(answers, [0], "InvalidArgument", "checkpoint_id: rank 1 saves version 11, and rank 0 saves version 10")
        self.assert_goes_on(20)

    def test_a_rank_that_saves_nothing(self) -> None:
        for step, rank in ((1, 0), (2, 3)):
            answers = self.world.call("save_nothing_on_a_rank", uri=self.uri, step=step, rank=rank)
            self.assertEqual(answers, [OK] * 4)
            self.assertEqual(self.world.call("load_alone", uri=self.uri, step=step, names={"w": [2, 2]})[0], ["ok", []])

    def test_one_rank_saves_a_tensor_of_several(self) -> None:
        answer = self.world.call("save_shards_alone", uri=self.uri)[0]
        self.assert_failed([answer], [0], "InvalidArgument", "tensor 'w' has 16 elements, and the ranks that save have 4")

    def test_groups_that_do_not_fit(self) -> None:
        answers = self.world.call("save_by_writer_of_one", uri=self.uri)
        for answer in answers:
            self.assertEqual([one[0] for one in answer[1]], [1, 2, 3])
            self.assertIn("this writer is rank 0 of its group, and saves as rank 1", answer[1][0][2])
        for answer in self.world.call("save_outside_of_group", uri=self.uri)[2:]:
            for one in answer:
                self.assertEqual(one, ["InvalidArgument", "process_group: this process is not in it, so it cannot save or load there"])
        first, second = self.world.call("save_by_two_groups", uri=f"{self.uri}-b")[0]
        self.assertEqual((first, second[0]), (OK, "InvalidArgument"))
        self.assertIn("is saved by another group of this process", second[1])

    def test_a_rank_that_cannot_join_fails_on_all(self) -> None:
        for answer in self.world.call("join_without_agent", uri=self.uri, rank=2):
            self.assertIn(answer[0], ("AgentUnavailable", "InvalidConfig"))
            self.assertIn("holdfast-no-agent", answer[1])

    def test_a_rank_whose_segments_are_in_use(self) -> None:
        for first, second in self.world.call("save_while_busy", uri=self.uri, rank=1):
            self.assert_failed([first], [1], "Unavailable", "two earlier saves still use both segments")
            self.assertEqual(second, OK)

    def test_arguments_that_all_ranks_refuse(self) -> None:
        expected = {
            "no id": "checkpoint_id: expected one for each save",
            "latest": "checkpoint_id: 'latest' can only be loaded",
            "no run": "names no run; expected as in s3://bucket/run/step-100",
            "other run": "is in another run than this writer's",
            "no writer": "storage_writer: expected a Writer, got object",
            "layout": "layout: expected one of safetensors, distcp, got 'zip'",
            "timeout": "timeout: expected seconds above 0, got 0",
            "timeout of a writer": "timeout: expected seconds above 0, got nan",
            "busy": "when_busy: expected wait or raise, got 'skip'",
            "pickle": "a Writer belongs to its process",
            "metrics": "metric 'loss' is nan; expected a finite number",
            "load no id": "checkpoint_id: None names no run",
            "load no run": "checkpoint_id: 'step-1' names no run",
            "no reader": "storage_reader: expected a Reader, got object",
        }
        for answer in self.world.call("arguments", uri=self.uri):
            self.assertEqual(set(answer), set(expected))
            for kind, text in expected.items():
                name, message = answer[kind]
                if name == "CheckpointException":
                    _, name, message = message[0]
                self.assertEqual(name, "InvalidArgument", kind)
                self.assertIn(text, message)


class Loads(WorldCase):
    def put(self, version: int, **files: bytes) -> None:
        """A version that another program has saved."""
        import holdfast

        with holdfast.connect(self.uri, agent=self.agent.socket) as run:
            run.save(version, buffers={name.replace("_", "."): data for name, data in files.items()}).wait()

    def assert_refused(self, step: int, name: str, text: str) -> None:
        for answer in self.world.call("load_own", uri=self.uri, step=step):
            self.assertEqual(answer[0], name, answer)
            self.assertIn(text, answer[1])

    def test_versions_that_are_not_there(self) -> None:
        self.assert_refused(1, "NotFound", "")
        for answer in self.world.call("load", checkpoint_id=f"{self.uri}/latest", seed=1):
            self.assertEqual(answer, ["NotFound", f"{self.uri} has no checkpoint yet"])

    def test_checkpoints_of_other_programs(self) -> None:
        self.put(1, _metadata=b"\x80\x04cos\nsystem\n.", __0_0_distcp=b"1")
        self.put(2, model_safetensors=b"1")
        self.assert_refused(1, "Unsupported", "was not saved by holdfast.torch: it has a .metadata of another program")
        self.assert_refused(2, "Unsupported", "was not saved by holdfast.torch: it has no metadata.json")

    def test_records_that_are_newer_or_no_records(self) -> None:
        newer = {"format": "holdfast-dcp", "major": 2}
        for version, data, name, text in (
            (1, json.dumps(newer).encode(), "UnsupportedFormat", "has version 2 of its format, and this client reads 1"),
            (2, b"{}", "Corrupt", "metadata.json of version 2 is no record of a DCP checkpoint"),
            (3, b"[", "Corrupt", "metadata.json of version 3 is no record of a DCP checkpoint"),
        ):
            self.put(version, metadata_json=data)
            self.assert_refused(version, name, text)
            # DCP of torch loses the class, and has to keep the reason.
            for answer in self.world.call("caught_stock_load", uri=self.uri, step=version):
                self.assertEqual([one[1] for one in answer[1]], ["AssertionError"] * 4)
                self.assertEqual(answer[1][0][2].count(text), 2, answer)

    def test_tensors_that_the_checkpoint_has_not(self) -> None:
        self.world.call("save_own", uri=self.uri, step=1, seed=1)
        for names, text in (
            ({"own-0": [3, 2], "other": [1]}, "Missing key in checkpoint state_dict: other"),
            ({"own-1": [3, 3]}, "Size mismatch between saved torch.Size([3, 2]) and current: torch.Size([3, 3]) for own-1"),
        ):
            for answer in self.world.call("load_names", uri=self.uri, names=names):
                self.assertEqual(answer[0], "CheckpointException")
                self.assertIn(text, answer[1][0][2])

    def test_a_reader_of_other_ranks(self) -> None:
        self.world.call("save_own", uri=self.uri, step=1, seed=1)
        for answer in self.world.call("load_by_reader_of_one", uri=self.uri):
            self.assertEqual(answer[0], "InvalidArgument")
            self.assertIn("storage_reader: it was made for 1 ranks, and 4 load", answer[1])
        for answer in self.world.call("stock_load_by_reader_of_one", uri=self.uri):
            self.assertEqual([one[0] for one in answer[1]], [1, 2, 3])
            self.assertIn("this reader is rank 0 of its group, and loads as rank 1", answer[1][0][2])

    def test_a_rank_whose_environment_is_wrong(self) -> None:
        self.world.call("save_own", uri=self.uri, step=1, seed=1)
        for variable in ("HOLDFAST_AGENT_UID", "HOLDFAST_AGENT_TOKEN_FILE"):
            arguments: dict[str, Any] = {"uri": self.uri, "rank": 2, "variable": variable}
            for answer in self.world.call("load_in_a_wrong_environment", **arguments):
                self.assertEqual(answer[0], "InvalidConfig")
                self.assertIn(variable, answer[1])

    def test_an_object_that_could_run_code(self) -> None:
        for refused, is_loaded in self.world.call("unsafe_object", uri=self.uri):
            self.assertIn("'custom' is an object whose class torch does not load as weights", refused[1][0][2])
            self.assertTrue(is_loaded)

    def test_parts_that_a_save_without_collectives_has_not(self) -> None:
        for answer in self.world.call("other_sharding_without_collectives", uri=self.uri):
            # Without collectives each rank raises its own error.
            self.assertEqual(answer[0], "InvalidArgument", answer)
            self.assertIn("the checkpoint has 4 of the 16 elements that this rank loads", answer[1])
        for answer in self.world.call("moved_shards_without_collectives", uri=f"{self.uri}-b"):
            self.assertEqual(answer[0], "InvalidArgument", answer)
            self.assertIn("tensor 's': the checkpoint has 0 of the 6 elements", answer[1])


class Requirements(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        require_torch()

    def test_an_older_torch_is_named(self) -> None:
        import holdfast.torch

        for found in ("2.14.1+cpu", "1.13"):
            with mock.patch("holdfast._requirements.version", return_value=found):
                with self.assertRaisesRegex(Unsupported, f"torch {re.escape(found)} is installed, and holdfast needs 2.15"):
                    importlib.reload(holdfast.torch)
        with mock.patch("holdfast._requirements.version", side_effect=PackageNotFoundError):
            with self.assertRaisesRegex(Unsupported, r"torch is not installed: pip install 'holdfast\[torch\]'"):
                importlib.reload(holdfast.torch)


class Ids(unittest.TestCase):
    """These need no ranks. They need torch, which the package of the parser imports."""

    @classmethod
    def setUpClass(cls) -> None:
        require_torch()

    def test_ids_and_their_versions(self) -> None:
        from pathlib import Path, PurePosixPath

        from holdfast.torch._ids import parse_id

        for given, expected in (
            (100, (None, 100)),
            ("step-100", (None, 100)),
            ("s3://bucket/run/step-100/", ("s3://bucket/run", 100)),
            ("s3://bucket/run/latest", ("s3://bucket/run", None)),
            ("file:///a/run/0005", ("file:///a/run", 5)),
            ("prod/epoch=1-step=20", ("prod", 20)),
            ("s3://b/run?endpoint=http://127.0.0.1:9000/step-7", ("s3://b/run?endpoint=http://127.0.0.1:9000", 7)),
            (PurePosixPath("step-3"), (None, 3)),
        ):
            self.assertEqual(tuple(parse_id(given)), expected)
        cases: list[tuple[Any, str]] = [
            ("s3://bucket/run/final", "has no version; its last part has to end in a number"),
            ("s3://bucket/run/step-1.5", "has no version"),
            ("s3://bucket/run/100.ckpt", "has no version"),
            ("", "has no version"),
            ("s3://100", "names no run"),
            ("s3://latest", "names no run"),
            (Path("s3://bucket/run/step-1"), "was a URI before pathlib removed a slash; pass it as str"),
            (Path("/data/run/step-1"), "is a path, and a run has a URI; for a directory, pass file:///path"),
            ("/step-1", "is a path"),
            ("s3://b/run/step-100?region=eu-1", "has its version before the settings of the store"),
            ("s3://b/run/step-100?endpoint=http://127.0.0.1:9000", "names no run"),
            (True, "version: expected an integer, got True"),
            (-1, "version: expected 0 to"),
            (f"run/{1 << 63}", "version: expected 0 to"),
            (None, "checkpoint_id: expected str or int, got NoneType"),
            (b"step-1", "checkpoint_id: expected str or int, got bytes"),
        ]
        for odd, text in cases:
            with self.assertRaises(InvalidArgument, msg=repr(odd)) as caught:
                parse_id(odd)
            self.assertIn(text, str(caught.exception))
