"""Finds the disassemblers of both vendors."""

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

NO_NVDISASM = "nvdisasm 13 or later is not installed (tools/make_venv)"
NO_LLVM_OBJDUMP = "llvm-objdump-19 is not installed (tools/install_packages gpu)"


def release(program):
    """The major number of a program of CUDA, or 0."""
    try:
        result = subprocess.run([program, "--version"], capture_output=True, text=True)
    except OSError:
        return 0
    match = re.search(r"release (\d+)\.", result.stdout)
    return int(match.group(1)) if match else 0


def find_nvdisasm():
    """The pinned one of build/venv first; None if there is none that reads code of nvcc 13."""
    pinned = sorted(ROOT.glob("build/venv/lib/python*/site-packages/nvidia/*/bin/nvdisasm"))
    others = [shutil.which("nvdisasm"), shutil.which("/usr/local/cuda/bin/nvdisasm")]
    return next((program for program in [*map(str, pinned), *others]
                 if program and release(program) >= 13), None)


def find_llvm_objdump():
    return shutil.which("llvm-objdump-19") or shutil.which("/usr/lib/llvm-19/bin/llvm-objdump")
