"""Which node saves which file."""

from __future__ import annotations

import unittest

from holdfast._directory_saver import Listing, shares
from holdfast._tree import FileFacts


class Shares(unittest.TestCase):
    def assert_shares(self, listings: list[Listing], expected: list[list[str]]) -> None:
        self.assertEqual([sorted(each) for each in shares(listings)], expected)

    def test_nodes_that_share_a_directory_share_the_work(self) -> None:
        sizes = {"model": 100, "optimizer": 200, "rng_0": 1, "rng_1": 1}
        seen = {name: FileFacts(size, 1) for name, size in sizes.items()}
        self.assert_shares([seen, seen], [["optimizer"], ["model", "rng_0", "rng_1"]])

    def test_each_node_saves_what_it_alone_has(self) -> None:
        self.assert_shares(
            [{"model": FileFacts(100, 1), "rng_0": FileFacts(1, 1)}, {"rng_1": FileFacts(1, 2)}],
            [["model", "rng_0"], ["rng_1"]],
        )

    def test_a_file_that_differs_is_that_of_the_first_node(self) -> None:
        seen: list[Listing] = [{"state": FileFacts(5, 1)}, {"state": FileFacts(5, 2)}, {"state": FileFacts(5, 1)}]
        self.assert_shares(seen, [["state"], [], []])

    def test_a_node_may_have_nothing(self) -> None:
        self.assert_shares([{}, {"model": FileFacts(1, 1)}], [[], ["model"]])
