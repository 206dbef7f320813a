"""DeepSpeed, Megatron-core, and a loop of its own, each on two ranks: programs of the documents.

DeepSpeed and Megatron-core are the real ones, without a GPU. Two calls of Megatron-core that need
one are replaced.
"""

from __future__ import annotations

import json
import os

from .jobs import JobCase


class Ranks(JobCase):
    def begun(self, document: str, *steps: str) -> list[list[str]]:
        """Where each rank has begun, each time on another machine. Then what came after it."""
        path = self.program(document, self.uri)
        return self.job("rank_programs", document, path, self.directory, *steps)

    def versions(self) -> list[int]:
        return [one.version for one in self.connect(writer=None).versions()]

    def left(self, number: int) -> list[str]:
        """What is on a machine, without hidden files."""
        names = os.listdir(os.path.join(self.directory, str(number)))
        return sorted(name for name in names if not name.startswith("."))

    def read(self, name: str) -> str:
        with open(os.path.join(self.directory, name), encoding="utf-8") as file:
            return file.read()

    def test_deepspeed(self) -> None:
        first, second = self.begun("deepspeed", "10", "20")
        self.assertEqual([first[0], second[0]], ["begins at 0", "begins at 10"])
        for line in (first[1], first[3], second[1], second[3]):
            kind, message, written = json.loads(line.removeprefix("after: "))
            self.assertEqual(kind, "InvalidArgument")
            self.assertIn("tag: 'last' has no version", message)
            self.assertEqual(written, ["pytorch_model.bin"])
        self.assertEqual(self.versions(), [20, 10])
        self.assertEqual(self.read("1/latest"), "global_step20")
        names = [file.name for file in self.connect(writer=None).files(20)]
        self.assertEqual(
            sorted(names),
            [
                "mp_rank_00_model_states.pt",
                "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                "zero_pp_rank_1_mp_rank_00_optim_states.pt",
            ],
        )

    def test_megatron(self) -> None:
        first, second = self.begun("megatron", "10", "20")
        self.assertEqual(first, ["begins at 0 0.0"] * 2)
        self.assertEqual(second, ["begins at 10 10.0"] * 2)
        self.assertEqual(self.versions(), [20, 10])
        self.assertEqual(self.read("1/latest_checkpointed_iteration.txt"), "10")
        names = [file.name for file in self.connect(writer=None).files(20)]
        self.assertEqual(sorted(names), [".metadata", "__0_0.distcp", "__1_0.distcp", "metadata.json"])

    def test_a_loop_of_reinforcement_learning(self) -> None:
        first, second = self.begun("rl", "5", "10")
        self.assertEqual([first, second], [["begins at 0"] * 2, ["begins at 5"] * 2])
        run = self.connect(writer=None)
        self.assertEqual([one.version for one in run.versions()], [10, 5])
        self.assertEqual(sorted(run.versions()[0].metrics), ["reward"])
        names = [file.name for file in run.files(10)]
        self.assertEqual(sorted(names), ["actor/shard_2_0.pt", "actor/shard_2_1.pt"])
        # What is committed goes. What was resumed from stays, and the tracker names it.
        self.assertEqual(self.left(0), [])
        self.assertEqual(self.left(1), ["global_step_5", "latest_checkpointed_iteration.txt"])
        self.assertEqual(self.read("1/latest_checkpointed_iteration.txt"), "5")
