"""Tests of the Python client. Run them with: python3 -m unittest discover -s tests -t ."""

import logging

logging.getLogger("holdfast").addHandler(logging.NullHandler())
