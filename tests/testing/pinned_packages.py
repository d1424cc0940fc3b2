"""Packages of tests/requirements.txt for the scripts that ctest runs."""

import importlib
import os
import sys
from pathlib import Path

SKIPPED = 77  # SKIP_RETURN_CODE of these tests
VENV = Path(__file__).resolve().parents[2] / "build/venv"


def require(name):
    """Returns the module of build/venv, in which the script begins again where it is not yet. Where
    the module is not installed there, the script ends as skipped."""
    python = VENV / "bin/python"
    if python.exists() and Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(python, [str(python), *sys.argv])
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        print(f"skipped: {name} is not installed (tools/make_venv installs it)")
        sys.exit(SKIPPED)
