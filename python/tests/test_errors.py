"""The classes of errors agree with docs/errors.md."""

from __future__ import annotations

import copy
import os
import pickle
import re
import unittest

import holdfast
from holdfast.errors import ERROR_CLASSES, error_from

_DOCUMENT = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "errors.md")


class Codes(unittest.TestCase):
    def documented(self) -> dict[str, str]:
        with open(_DOCUMENT, encoding="utf-8") as file:
            rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \d+ \|", file.read(), re.MULTILINE)
        return dict(rows)

    def test_each_documented_code_has_a_class_of_its_name_and_no_other_is_there(self) -> None:
        self.assertEqual(list(ERROR_CLASSES), list(self.documented()))
        for code, cls in ERROR_CLASSES.items():
            self.assertEqual((cls.__name__, cls.code), (code, code))
            self.assertTrue(issubclass(cls, holdfast.HoldfastError))
            self.assertIs(getattr(holdfast, code), cls)

    def test_errors_of_a_temporary_status_are_retryable(self) -> None:
        for code, status in self.documented().items():
            if status == "temporary":
                self.assertTrue(ERROR_CLASSES[code].retryable, code)
            if status == "permanent":
                self.assertFalse(ERROR_CLASSES[code].retryable, code)


class Answers(unittest.TestCase):
    def test_an_answer_becomes_its_class_with_all_that_it_says(self) -> None:
        fields = {"code": "Incomplete", "message": "m", "details": {"a": 1}, "retryable": True}
        error = error_from(fields)
        self.assertIs(type(error), holdfast.Incomplete)
        self.assertEqual((str(error), error.details, error.retryable), ("m", {"a": 1}, True))

    def test_a_code_of_a_newer_agent_is_the_base_class_with_that_code(self) -> None:
        error = error_from({"code": "New", "message": "m"})
        self.assertIs(type(error), holdfast.HoldfastError)
        self.assertEqual((error.code, error.retryable), ("New", False))

    def test_an_error_survives_pickling_and_copying(self) -> None:
        for error in (
            holdfast.NoStagingSpace("m", 12, {"directory": "/d"}),
            error_from({"code": "New", "message": "m", "details": {"a": 1}, "retryable": True}),
            holdfast.AgentUnavailable("m", {"socket": "/s"}),
        ):
            for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
                self.assertIs(type(twin), type(error))
                self.assertEqual(str(twin), str(error))
                self.assertEqual(twin.__dict__, error.__dict__)

    def test_what_is_no_code_of_the_list_has_the_code_of_its_kind(self) -> None:
        self.assertTrue(issubclass(holdfast.AgentUnavailable, holdfast.Unavailable))
        self.assertTrue(issubclass(holdfast.NoStagingSpace, holdfast.StorageFull))
        self.assertTrue(issubclass(holdfast.ProtocolError, holdfast.Unexpected))


if __name__ == "__main__":
    unittest.main()
