#!/usr/bin/env bash
# safetensors 0.8.0 reads headers that the description of its format does not allow.
#
# The format says that a header is an object whose values are objects with dtype, shape and
# data_offsets, and that duplicate keys are disallowed. The library also reads a value that is the list
# of these three in this order, and an entry that stands in the header twice as it is; of two entries
# that differ it says that the offsets are invalid, not that a name is repeated. So a file that the
# library opens may be refused by every other reader, and a reader that wants to open what the library
# opens needs both.
#
# Seen with: safetensors 0.8.0 and numpy, Python 3.11. Needs python3 with venv, and 100 MB of disk.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check safetensors==0.8.0 numpy==2.3.4

cat > "$work/run.py" <<'CODE'
import struct
import sys

from safetensors.numpy import load

ENTRY = '{"dtype":"U8","shape":[2],"data_offsets":[0,2]}'
OTHER = '{"dtype":"U8","shape":[2],"data_offsets":[2,4]}'


def read(header, data):
    try:
        tensors = load(struct.pack("<Q", len(header)) + header.encode() + data)
        found = {name: tensor.tolist() for name, tensor in tensors.items()}
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(f"{header}: {found}")
    return found


as_list = read('{"a":["U8",[2],[0,2]]}', b"\x01\x02")
repeated = read('{"a":%s,"a":%s}' % (ENTRY, ENTRY), b"\x01\x02")
differing = read('{"a":%s,"a":%s}' % (ENTRY, OTHER), b"\x01\x02\x03\x04")
if as_list != {"a": [1, 2]} or repeated != {"a": [1, 2]} or not isinstance(differing, str):
    sys.exit("Changed: expected a list and a repeated entry to be read, and differing ones refused")
print("As found: lists and repeated entries are read.")
CODE
"$work/venv/bin/python" "$work/run.py"
