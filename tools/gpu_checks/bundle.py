"""Makes the bundle: everything a machine with a GPU needs, packed.

DIR/gpu_check, DIR/gpu_checks/   this tool
DIR/manifest.json                what is in it, and the CPU's results
DIR/NAME.tar.xz                  the programs and their libraries; checkpoints
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

MIB = 1 << 20
PROGRAMS = ["fathom", "kernels_test", "gpu_test"]
# Left out where the build has none of them; a step that needs one says so.
OPTIONAL = {"cuda": ["fathom_cuda.so", "arithmetic_probe", "gpu_probe"], "hip": ["fathom_hip.so"]}
# The machine's own: they belong to its C library.
OF_THE_SYSTEM = re.compile(
    r"(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|resolv|nsl|util)\.so)")
# The runtime of the compiler, used only where the machine has none that is new enough.
RUNTIME = re.compile(r"lib(stdc\+\+|gcc_s|atomic|gomp)\.so")
# By worth: each is taken that fits into what the ones before have left.
CHECKPOINTS = ["flash-mini", "dspark-mini", "base-mini", "pro-mini"]
PROMPT = "Once upon a time"


class BundleError(Exception):
    """One sentence: what was expected and found."""


def libraries_of(files):
    """The shared libraries that the files need, but those of the C library: {name: path}."""
    found = {}
    for file in files:
        done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)
        for name, path in re.findall(r"(\S+) => (\S+)", done.stdout):
            if OF_THE_SYSTEM.match(name):
                continue
            if not os.path.exists(path):
                raise BundleError(f"{file}: expected the library {name}, found none")
            found[name] = Path(path)
    return found


def add_file(tar, source, name, strip=False):
    """Adds a file, without symbols if `strip`; the same bytes for the same file."""
    data = Path(source).read_bytes()
    if strip and shutil.which("strip"):
        with tempfile.TemporaryDirectory() as work:
            stripped = Path(work) / "stripped"
            if subprocess.run(["strip", "-o", str(stripped), str(source)], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0:
                data = stripped.read_bytes()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o755 if os.access(source, os.X_OK) else 0o644
    tar.addfile(info, io.BytesIO(data))


def pack_programs(build, vendor, path, quick):
    missing = [name for name in PROGRAMS if not (build / name).exists()]
    if missing:
        raise BundleError(f"{build}: expected {', '.join(PROGRAMS)}, found no "
                          f"{', '.join(missing)} (cmake --build {build} --target ...)")
    files = [build / name for name in PROGRAMS + OPTIONAL[vendor] if (build / name).exists()]
    # With a dictionary longer than all programs, which have much in common.
    with tarfile.open(path, "w:xz", preset=0 if quick else 9) as tar:
        for file in files:
            add_file(tar, file, f"bin/{file.name}", strip=True)
        for name, library in sorted(libraries_of(files).items()):
            folder = "runtime" if RUNTIME.match(name) else "lib"
            add_file(tar, library, f"{folder}/{name}", strip=True)
    return [file.name for file in files]


def pack_folder(folder, prefix, path):
    with tarfile.open(path, "w:xz", preset=1) as tar:  # weights have hardly anything in common
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                add_file(tar, file, f"{prefix}/{file.relative_to(folder)}")


def hash_of(file):
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def logits_command(fathom, model, out, quick):
    """Writes the logits of some tokens, the last ones computed one by one."""
    n, prefill = (12, 10) if quick else (150, 140)
    return [str(fathom), "logits", "--model", str(model), "--tokens",
            ",".join(str(7 * i % 256) for i in range(n)), "--prefill", str(prefill),
            "--out", str(out)]


def greedy_command(fathom, model, quick):
    return [str(fathom), "generate", PROMPT, "--model", str(model), "--temperature", "0", "-n",
            "8" if quick else "64"]


def on_cpu(command):
    """The output of a command on this machine's CPU; its error ends the bundle."""
    done = subprocess.run([*command, "--backend", "cpu"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise BundleError(f"{' '.join(command[:2])}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def expected_of(fathom, models, quick):
    """Returns what the CPU computes here for each model that is bundled or in the tree."""
    expected = {}
    with tempfile.TemporaryDirectory() as work:
        for name, folder in models.items():
            out = Path(work) / "logits.safetensors"
            on_cpu(logits_command(fathom, folder, out, quick))
            expected[name] = {"logits_sha256": hash_of(out)}
    if "fairy" in models:
        expected["fairy"]["greedy"] = on_cpu(
            greedy_command(fathom, models["fairy"], quick))
    return expected


def git(root, *arguments):
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True,
                          check=False)
    return done.stdout if done.returncode == 0 else ""


def tracked_bytes(root, folder):
    """The bytes that git tracks, if the folder lies in the project."""
    if root.resolve() not in folder.resolve().parents:
        return 0
    files = [root / name for name in git(root, "ls-files", "-z").split("\0") if name]
    return sum(file.lstat().st_size for file in files if file.exists() or file.is_symlink())


def make(options):
    try:
        manifest = fill(options)
    except BundleError as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 1
    sizes = manifest["bytes"]
    parts = ", ".join(f"{name} {size / MIB:.1f}" for name, size in sizes.items() if size)
    print(f"{options.bundle}: {sum(sizes.values()) / MIB:.1f} MiB: {parts}")
    if manifest["left_out"]:
        print(f"left out: {', '.join(manifest['left_out'])}")
    return 0


def copy_tool(folder):
    source = Path(__file__).resolve().parent
    shutil.copy(source.parent / "gpu_check", folder / "gpu_check")
    shutil.rmtree(folder / "gpu_checks", ignore_errors=True)
    (folder / "gpu_checks").mkdir()
    for module in source.glob("*.py"):
        shutil.copy(module, folder / "gpu_checks")


def pack_checkpoints(options, has_tree, room):
    """Packs the checkpoints that fit into the room: {name: folder}, {name: bytes}, and a sentence
    on each that was left out."""
    candidates = [(name, options.shared / "oracle" / name, f"shared/oracle/{name}")
                  for name in CHECKPOINTS]
    models, sizes, left_out = {}, {}, []
    fairy = options.source / "models" / "fairy"
    if has_tree:
        models["fairy"] = fairy  # it travels with the tree
    else:
        candidates.insert(0, ("fairy", fairy, "models/fairy"))
    for name, place, prefix in candidates:
        if not place.is_dir():
            left_out.append(f"{name} (not there)")
            continue
        path = options.bundle / f"{name}.tar.xz"
        pack_folder(place, prefix, path)
        size = path.stat().st_size
        if size > room:
            path.unlink()
            left_out.append(f"{name} ({size / MIB:.1f} MiB, {room / MIB:.1f} left)")
            continue
        room -= size
        sizes[name] = size
        models[name] = place
    return models, sizes, left_out


def fill(options):
    root, folder = options.source, options.bundle
    if folder.exists() and any(folder.iterdir()) and not (folder / "gpu_check").exists():
        raise BundleError(f"{folder}: expected an empty directory or a bundle, found files")
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.tar.xz"), folder / "manifest.json"):
        old.unlink(missing_ok=True)
    copy_tool(folder)
    vendor = options.device.partition(":")[0]
    archive = folder / "programs.tar.xz"
    programs = pack_programs(options.build, vendor, archive, options.quick)
    size = archive.stat().st_size
    tree = tracked_bytes(root, folder)
    room = options.limit_mib * MIB - tree - size - MIB  # for the tool and the manifest
    if room < 0:
        raise BundleError(f"expected at most {options.limit_mib:g} MiB, found "
                          f"{(options.limit_mib * MIB - room) / MIB:.1f} with the programs alone")
    models, sizes, left_out = pack_checkpoints(options, tree > 0, room)
    manifest = {"commit": git(root, "rev-parse", "HEAD").strip(),
                "changed": bool(git(root, "status", "--porcelain", "-uno")),
                "vendor": vendor, "quick": options.quick, "programs": programs,
                "bytes": {"tree": tree, "programs": size, **sizes}, "left_out": left_out,
                "expected": expected_of(options.build / "fathom", models, options.quick)}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest
