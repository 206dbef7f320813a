"""Saves and loads of ``holdfast.torch`` with real ranks and a real agent."""

from __future__ import annotations

from typing import Any

from .ranks import WorldCase

OK = ["ok", None]


class Saves(WorldCase):
    def test_two_ranks_save_and_one_two_and_three_load(self) -> None:
        for layout in ("safetensors", "distcp"):
            uri = f"{self.uri}-{layout}"
            writer = {"uri": uri, "layout": layout}
            answers = self.world.call("save", checkpoint_id="step-5", seed=5, count=2, writer=writer)
            self.assertEqual(answers, [OK, OK, None, None])
            for count in (1, 2, 3):
                answers = self.world.call("load", checkpoint_id=f"{uri}/latest", seed=5, count=count)
                self.assertEqual(answers[:count], [["ok", [5, []]]] * count)

    def test_background_saves_that_follow_each_other_are_all_committed(self) -> None:
        for step in (1, 2, 3, 4):
            checkpoint_id = f"{self.uri}/step-{step}"
            answers = self.world.call("begin_async_save", checkpoint_id=checkpoint_id, seed=step, step=step)
            self.assertEqual(answers, [OK] * 4)
        for step in (1, 2, 3, 4):
            self.assertEqual(self.world.call("end_async_save", step=step), [["ok", "Metadata"]] * 4)
            answers = self.world.call("load", checkpoint_id=f"{self.uri}/step-{step}", seed=step)
            self.assertEqual(answers, [["ok", [step, []]]] * 4)

    def test_dcp_of_torch_saves_and_loads_with_writer_and_reader(self) -> None:
        for step in (1, 2):
            answers = self.world.call("stock_save", uri=self.uri, step=step, seed=step)
            self.assertEqual(answers, [["ok", "Metadata"]] * 4)
            # One reader, which finds the new latest.
            self.assertEqual(self.world.call("stock_load_latest", uri=self.uri, seed=step), [[step, []]] * 4)
        self.assertEqual(self.world.call("stock_load", uri=self.uri, seed=1, step=1), [[1, []]] * 4)
        self.assertEqual(self.run_of().latest().metrics, {"loss": 0.5})

    def test_dcp_async_save_of_torch_with_and_without_a_stager(self) -> None:
        for step, is_shared in ((1, False), (2, True), (3, False)):
            answers = self.world.call("stock_async_save", uri=self.uri, step=step, seed=step, is_shared=is_shared)
            self.assertEqual(answers, [["ok", "Metadata"]] * 4)
            self.assertEqual(self.world.call("stock_load", uri=self.uri, seed=step), [[step, []]] * 4)

    def test_cached_plans_that_stay_and_that_change(self) -> None:
        for step, rows, is_wide in ((1, 3, False), (2, 3, False), (3, 3, True), (4, 3, True), (5, 6, True)):
            shape: dict[str, Any] = {"rows": rows, "is_wide": is_wide}
            self.assertEqual(self.world.call("cached_plan_save", uri=self.uri, step=step, **shape), [OK] * 4, step)
            self.assertEqual(self.world.call("cached_plan_load", uri=self.uri, step=step, **shape), [[]] * 4, step)

    def test_a_group_without_rank_0_saves(self) -> None:
        for step in (1, 2):
            answers = self.world.call("sub_group_save", uri=f"{self.uri}{step}", step=step, members=[3, 1], timeout=300)
            self.assertEqual(answers, [None, OK, None, OK])
            loaded = self.world.call("load_alone", uri=f"{self.uri}{step}", step=step, names={"w": [9, 2]})
            self.assertEqual(loaded[0], ["ok", []])

    def test_each_rank_saves_for_itself_without_collectives(self) -> None:
        answers = self.world.call("save", checkpoint_id=f"{self.uri}/step-1", seed=1, count=2, use_collectives=False)
        self.assertEqual(answers, [OK, OK, None, None])
        kinds = ("__{0}.metadata", "metadata-0000{0}.json", "rank-0000{0}.objects", "rank-0000{0}.safetensors")
        expected = {kind.format(rank) for kind in kinds for rank in (0, 1)}
        self.assertEqual({file.name for file in self.run_of().files(1)}, expected)
        answers = self.world.call("load", checkpoint_id=f"{self.uri}/step-1", seed=1, count=2)
        self.assertEqual(answers, [["ok", [1, []]]] * 2 + [None] * 2)
        answers = self.world.call("load", checkpoint_id=f"{self.uri}/step-1", seed=1, count=3)
        for answer in answers[:3]:
            self.assertEqual(answer[0], "Unsupported")
            self.assertIn("was saved without collectives by 2 ranks", answer[1])

    def test_one_rank_saves_and_loads_alone(self) -> None:
        names = {"a": [2, 3], "b": [5]}
        self.assertEqual(self.world.call("save_alone", uri=self.uri, step=1, names=names)[0], OK)
        self.assertEqual(self.world.call("load_alone", uri=self.uri, step=1, names=names)[0], ["ok", []])

    def test_tensors_that_know_their_parts(self) -> None:
        for layout in ("safetensors", "distcp"):
            answers = self.world.call("checkpointable", uri=f"{self.uri}{layout}", layout=layout)
            self.assertEqual(answers, [[True, True]] * 4)

    def test_all_types_shapes_and_strides_come_back(self) -> None:
        for layout in ("safetensors", "distcp"):
            wrong, count = self.world.call("kinds_of_tensors", uri=f"{self.uri}{layout}", layout=layout)[0]
            self.assertEqual((wrong, count), ([], 28), layout)

    def test_other_parts_than_were_saved_are_read_in_blocks(self) -> None:
        self.assertTrue(self.world.call("in_blocks", uri=self.uri)[0])

    def test_sharded_models_with_their_optimizers_on_other_meshes(self) -> None:
        for shape, is_stateful in (([4], False), ([2, 2], False), ([2, 2], True)):
            uri = f"{self.uri}{len(shape)}{is_stateful}"
            for count, wrong in self.world.call("fsdp", uri=uri, shape=shape, is_stateful=is_stateful):
                self.assertEqual(wrong, [])
                self.assertGreaterEqual(count, 16)

    def test_a_state_is_rebuilt_from_the_metadata_alone(self) -> None:
        self.world.call("save", checkpoint_id=f"{self.uri}/step-3", seed=3)
        names = ["columns", "few", "plain", "replicated", "rows"]
        self.assertEqual(self.world.call("load_keys", uri=self.uri, step=3), [[names, True, 3]] * 4)

    def test_a_group_that_was_made_again_saves_under_a_new_attempt(self) -> None:
        world = self.own_world(2)
        self.assertEqual(world.call("save", checkpoint_id=f"{self.uri}/step-1", seed=1), [OK] * 2)
        before = world.call("attempt_of", uri=self.uri)
        self.assertEqual(world.call("group_again", uri=self.uri, step=2), [OK] * 2)
        after = world.call("attempt_of", uri=self.uri)
        self.assertEqual((len(set(before)), len(set(after)), len({*before, *after})), (1, 1, 2))
        self.assertEqual(world.call("load", checkpoint_id=f"{self.uri}/latest", seed=2), [["ok", [2, []]]] * 2)
