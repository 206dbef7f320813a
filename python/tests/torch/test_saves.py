"""Saves and loads of ``holdfast.torch`` with real ranks and a real agent."""

from __future__ import annotations

from .ranks import WorldCase

OK = ["ok", None]


class Saves(WorldCase):
    def test_two_ranks_save_and_one_two_and_three_load(self) -> None:
        self.assertEqual(self.world.call("save", checkpoint_id=f"{self.uri}/step-5", seed=5, count=2), [OK, OK, None])
        for count in (1, 2, 3):
            answers = self.world.call("load", checkpoint_id=f"{self.uri}/latest", seed=5, count=count)
            self.assertEqual(answers[:count], [["ok", [5, []]]] * count)

    def test_background_saves_that_follow_each_other_are_all_committed(self) -> None:
        for step in (1, 2, 3, 4):
            answers = self.world.call("begin_async_save", checkpoint_id=f"{self.uri}/step-{step}", seed=step, step=step)
            self.assertEqual(answers, [OK] * 3)
        for step in (1, 2, 3, 4):
            self.assertEqual(self.world.call("end_async_save", step=step), [["ok", "Metadata"]] * 3)
            answers = self.world.call("load", checkpoint_id=f"{self.uri}/step-{step}", seed=step)
            self.assertEqual(answers, [["ok", [step, []]]] * 3)
