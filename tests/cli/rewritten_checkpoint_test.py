#!/usr/bin/env python3
"""Rewrites the embedded model with the PyPI package safetensors, in every spelling that writers of
today have for the same bytes, and compares the logits with those of the original, byte by byte.

    rewritten_checkpoint_test.py FATHOM

The package writes all of its types but those of 6 bits, which it only reads: the header is edited for
them. Exit code 77: the package is not installed.
"""
import ctypes
import json
import math
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "testing"))
from pinned_packages import require  # noqa: E402

safetensors = require("safetensors")

MODEL = Path(__file__).resolve().parents[2] / "models/fairy"
WRITTEN = {  # name in a file: name for the writer
    "BOOL": "bool", "I8": "int8", "U8": "uint8", "I16": "int16", "U16": "uint16", "I32": "int32",
    "U32": "uint32", "I64": "int64", "U64": "uint64", "F16": "float16", "BF16": "bfloat16",
    "F32": "float32", "F64": "float64", "C64": "complex64", "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2": "float8_e5m2", "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn_x2"}
READ_ONLY = ("F6_E2M3", "F6_E3M2")
TOKENS = "0 " + " ".join(str((i * 2654435761 >> 7) % 4096) for i in range(1, 40))


class Tensor:
    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, list(shape), bytearray(data)

    def spec(self):
        """Describes the tensor for the writer, which counts bytes where two values share one, and
        reads the data from where they are."""
        shape = list(self.shape)
        if self.dtype == "F4":
            shape[-1] //= 2
        place = (ctypes.c_char * len(self.data)).from_buffer(self.data)
        return safetensors.TensorSpec(dtype=WRITTEN[self.dtype], shape=shape,
                                      data_ptr=ctypes.addressof(place), data_len=len(self.data))


def read_model(model):
    return {name: Tensor(**tensor) for path in sorted(model.glob("model-*.safetensors"))
            for name, tensor in safetensors.deserialize(path.read_bytes())}


def split(file):
    """Returns the header and the data of a file."""
    size, = struct.unpack_from("<Q", file)
    return json.loads(file[8:8 + size]), file[8 + size:]


def rename_types(file, renamed):
    """renamed: {tensor: (dtype, shape)}. Checks that the package reads the result."""
    header, data = split(file)
    for name, (dtype, shape) in renamed.items():
        header[name].update(dtype=dtype, shape=shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    edited = struct.pack("<Q", len(text)) + text + data
    found = dict(safetensors.deserialize(edited))
    assert all((found[name]["dtype"], found[name]["shape"]) == form for name, form in renamed.items())
    return edited


# --- Spellings: each changes a tensor, if it is one of its kind ---

def packed_as(dtype):
    def change(tensor):
        if tensor.dtype == "I8":
            tensor.dtype = dtype
            if dtype == "F4":
                tensor.shape[-1] *= 2
    return change


def scales_as_u8(tensor):
    if tensor.dtype == "F8_E8M0":
        tensor.dtype = "U8"


def ids_as(dtype):
    def change(tensor):
        if tensor.dtype == "I64":
            n = math.prod(tensor.shape)
            tensor.dtype = dtype
            tensor.data = bytearray(struct.pack(f"<{n}i", *struct.unpack(f"<{n}q", tensor.data)))
    return change


SPELLINGS = {  # changes, and the types of which the file then has some and none
    "as published": ([], {"I8", "F8_E8M0", "I64"}, {"F4", "U8", "I32", "U32"}),
    "torch": ([packed_as("F4")], {"F4", "F8_E8M0"}, {"I8"}),
    "compressed-tensors": ([packed_as("U8"), scales_as_u8], {"U8"}, {"I8", "F8_E8M0"}),
    "scales alone": ([scales_as_u8], {"I8", "U8"}, {"F8_E8M0"}),
    "signed ids": ([ids_as("I32")], {"I32"}, {"I64"}),
    "unsigned ids": ([ids_as("U32"), packed_as("F4"), scales_as_u8], {"U32", "F4", "U8"},
                     {"I64", "I8", "F8_E8M0"}),
}


class RewrittenCheckpointTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("config.json", "generation_config.json", "tokenizer.json"):
            shutil.copy(MODEL / name, self.folder)
        self.tensors = read_model(MODEL)

    def write(self, renamed=None):
        file = safetensors.serialize({name: tensor.spec() for name, tensor in self.tensors.items()})
        (self.folder / "model.safetensors").write_bytes(rename_types(file, renamed or {}))
        return {entry["dtype"] for entry in split(file)[0].values()}

    def logits(self, model):
        """Returns the bytes of the file, or None, and the errors."""
        out = self.folder / "logits.out"
        out.unlink(missing_ok=True)
        run = subprocess.run([FATHOM, "logits", "--model", str(model), "--tokens", TOKENS, "--mtp",
                              "--out", str(out)], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0 if out.exists() else 1, run.stderr)
        return out.read_bytes() if out.exists() else None, run.stderr

    def expect_same_logits(self):
        expected, error = self.logits(MODEL)
        self.assertGreater(len(expected or ""), 4 * 4096 * 40, error)
        found, error = self.logits(self.folder)
        self.assertIsNotNone(found, error)
        self.assertTrue(found == expected, "other logits")

    def test_every_spelling_is_the_same_model(self):
        for name, (changes, some, none) in SPELLINGS.items():
            with self.subTest(spelling=name):
                self.tensors = read_model(MODEL)
                for tensor in self.tensors.values():
                    for change in changes:
                        change(tensor)
                types = self.write()
                self.assertTrue(some <= types and not none & types, types)
                self.expect_same_logits()

    def test_tensors_that_are_not_needed_have_any_type(self):
        for dtype in WRITTEN:
            bits = 8 if dtype == "BOOL" else int(re.search(r"\d+", dtype)[0])
            self.tensors[f"other.{dtype}"] = Tensor(dtype, [2, 8], b"\x7f" * (2 * bits))
        for dtype in READ_ONLY:
            self.tensors[f"other.{dtype}"] = Tensor("U8", [2, 6], b"\x7f" * 12)
        self.write({f"other.{dtype}": (dtype, [2, 8]) for dtype in READ_ONLY})
        self.expect_same_logits()

    def test_wrong_counts_name_both_shapes(self):
        wrong = {  # tensor: its wrong form, and what is said
            "layers.1.ffn.experts.0.w1.weight":
                (Tensor("F4", [256, 128], bytes(256 * 64)), "I8 or U8 [256, 128] or F4 [256, 256]"),
            "layers.1.ffn.experts.1.w1.weight":
                (Tensor("U8", [256, 256], bytes(256 * 256)), "I8 or U8 [256, 128] or F4 [256, 256]"),
            "layers.1.ffn.experts.1.w1.scale":
                (Tensor("U8", [256, 4], bytes(256 * 4)), "F8_E8M0 or U8 [256, 8]"),
            "layers.1.ffn.gate.tid2eid":
                (Tensor("U32", [4096, 4], bytes(4 * 4096 * 4)), "I64 or I32 or U32 [4096, 2]"),
        }
        self.tensors |= {name: tensor for name, (tensor, _) in wrong.items()}
        self.write()
        found, error = self.logits(self.folder)
        self.assertIsNone(found)
        for name, (tensor, expected) in wrong.items():
            self.assertIn(f"{name}: expected {expected}, found {tensor.dtype} {tensor.shape}", error)


if __name__ == "__main__":
    FATHOM = sys.argv.pop(1)
    unittest.main()
