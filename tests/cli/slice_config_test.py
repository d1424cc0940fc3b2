#!/usr/bin/env python3
"""Reads the config.json of slices with the configuration class of transformers, which is strict about
integers in the place of floats.

    slice_config_test.py FATHOM

Needs no torch. Exit code 77: the package is not installed.
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "testing"))
from pinned_packages import require  # noqa: E402

os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # it warns that there is no torch
os.environ["HF_HUB_OFFLINE"] = "1"
transformers = require("transformers")


class SliceConfigTest(unittest.TestCase):
    def test_transformers_reads_it(self):
        for shape, draft, hidden_size in (("flash", "none", 4096), ("flash", "dspark", 4096),
                                          ("pro", "mtp", 7168)):
            with self.subTest(shape=shape, draft=draft), tempfile.TemporaryDirectory() as folder:
                subprocess.run([FATHOM, "make-slice", "--shape", shape, "--layers", "0", "--draft",
                                draft, "--experts", "6", "--vocab", "275", "--out", folder],
                               check=True, stdout=subprocess.DEVNULL)
                config = transformers.AutoConfig.from_pretrained(folder)
                self.assertEqual(config.model_type, "deepseek_v4")
                self.assertEqual(config.hidden_size, hidden_size)
                self.assertEqual(config.n_routed_experts, 6)
                self.assertIsInstance(config.swiglu_limit, float)


if __name__ == "__main__":
    FATHOM = sys.argv.pop(1)
    unittest.main()
