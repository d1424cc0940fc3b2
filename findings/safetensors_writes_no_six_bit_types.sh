#!/usr/bin/env bash
# safetensors 0.8.0 has 22 types, of which its Python writer knows 20, and it changes a shape.
#
# The format lists F6_E2M3 and F6_E3M2, and the library reads files that have them; but no name that a
# caller can give to TensorSpec makes one. Of float4_e2m1fn_x2 the writer takes the shape in bytes, and
# the header has twice as many columns: it counts elements. A program that rewrites files as it reads
# them cannot hand on the first, and doubles the columns of the second unless it halves them. So files
# of 6 bits come from other writers, and a reader of F4 has to count elements, as the format says.
#
# Seen with: safetensors 0.8.0, Python 3.11. Needs python3 with venv, and 50 MB of disk.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check safetensors==0.8.0

cat > "$work/run.py" <<'CODE'
import ctypes
import json
import struct
import sys

from safetensors import TensorSpec, deserialize, serialize

SIX_BITS = ["float6_e2m3fn", "float6_e3m2fn", "float6_e2m3", "float6_e3m2", "F6_E2M3", "F6_E3M2"]


def header_of(file):
    return json.loads(file[8:8 + struct.unpack_from("<Q", file)[0]])


def written(dtype):
    place = ctypes.create_string_buffer(6)
    try:
        spec = TensorSpec(dtype=dtype, shape=[2, 3], data_ptr=ctypes.addressof(place), data_len=6)
        return header_of(serialize({"a": spec}))["a"]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def read(dtype):
    header = json.dumps({"a": {"dtype": dtype, "shape": [2, 4], "data_offsets": [0, 6]}}).encode()
    (_, tensor), = deserialize(struct.pack("<Q", len(header)) + header + bytes(6))
    return tensor["dtype"], tensor["shape"]


refusals = [written(name) for name in SIX_BITS]
print(refusals[0])
forms = [read(name) for name in ("F6_E2M3", "F6_E3M2")]
print("read:", forms)
packed = written("float4_e2m1fn_x2")
print("float4_e2m1fn_x2 [2, 3]:", packed)
if not all(isinstance(refusal, str) for refusal in refusals) or packed["shape"] != [2, 6]:
    sys.exit("Changed: expected types of 6 bits to be refused, and twice the columns")
print("As found: types of 6 bits are read and not written; columns of F4 are doubled.")
CODE
"$work/venv/bin/python" "$work/run.py"
