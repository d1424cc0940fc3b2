#!/usr/bin/env bash
# transformers 5.24.0 refuses a config.json in which a float has lost its point, for some fields.
#
# The configuration classes check types strictly: an integer is no float. JSON knows only numbers, and
# JavaScript, Go and many other writers print 10.0 as 10. A config.json of DeepSeek-V4 that such a
# program has rewritten is refused for swiglu_limit, although the value is the same; so it is for hc_eps
# and seven others, while rope_theta and compress_rope_theta may be integers. A program that writes
# configurations must keep the point of every float: json.dumps(json.loads(text)) does, JSON.stringify
# does not.
#
# Seen with: transformers 5.24.0 with huggingface_hub 2.4.0, Python 3.11, no torch. Needs python3 with
# venv, and 300 MB of disk.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check transformers==5.24.0 huggingface_hub==2.4.0

cat > "$work/run.py" <<'CODE'
import json
import sys
from pathlib import Path

from transformers import AutoConfig, DeepseekV4Config

FOLDER = Path(sys.argv[1]) / "model"
DeepseekV4Config(swiglu_limit=10.0).save_pretrained(FOLDER)
FILE = FOLDER / "config.json"
PUBLISHED = json.loads(FILE.read_text())


def is_read(changes):
    FILE.write_text(json.dumps({**PUBLISHED, **changes}))
    try:
        AutoConfig.from_pretrained(FOLDER)
    except Exception as error:
        print(f"{changes}: {type(error).__name__}: {str(error).splitlines()[-1].strip()}")
        return False
    return True


floats = [key for key, value in PUBLISHED.items() if type(value) is float]
print("floats at the top:", ", ".join(floats))
assert is_read({})
refused = [key for key in floats if not is_read({key: int(PUBLISHED[key]) or 1})]
taken = [key for key in floats if key not in refused]
print("refused as integers:", ", ".join(refused), "- taken:", ", ".join(taken))
if "swiglu_limit" not in refused or "rope_theta" not in taken or is_read({"swiglu_limit": 10}) \
        or not is_read({"swiglu_limit": 10.0}):
    sys.exit("Changed: expected swiglu_limit to be refused as 10, and rope_theta taken as 10000")
print("As found: 10 is refused where 10.0 is read.")
CODE
HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error "$work/venv/bin/python" "$work/run.py" "$work"
