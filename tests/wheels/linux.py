"""Install each Linux wheel of dist/ into a separate root, and run the examples and some tests there.

Usage, as root on Debian: `python tests/wheels/linux.py`. Words select wheels by name: `... linux.py musllinux aarch64`.

A root contains Python, the dependencies and the tests, but no compiler and no source of parsieve, and it has no
network. Its Python is Debian's. Debian has none for musl, so musl_python.sh builds it. qemu runs the programs of other
architectures.
"""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
CACHE = REPOSITORY / ".tools/wheels"
MUSL_RELEASE = "trixie"
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
NAME = re.compile(
    r"parsieve-(?P<version>.+)-cp311-abi3-"
    r"(?P<tag>(?P<libc>many|musl)linux_(?P<major>\d+)_(?P<minor>\d+)_(?P<architecture>x86_64|aarch64))\.whl"
)

# These programs need no library except pyarrow and the TEST_PACKAGES.
TESTS = [
    "core/test_hash_vectors.py",
    "core/test_filter.py",
    "filters/test_check_filters.py",
    "filters/test_encrypted_files.py",
    "index/test_column_types.py",
    "plan/same_rows/test_int96_batches.py",
    "plan/test_row_ranges.py",
    "test_examples.py",
]
TEST_PACKAGES = ["hypothesis", "numpy", "pip", "pytest", "pytest-timeout", "tzdata", "xxhash"]

PROGRAMS = ["apt-get", "mmdebstrap", "readelf", "unshare"]

# The namespaces have no network and their own processes. Registering qemu changes nothing outside of them, if Linux is
# 6.7 or newer.
ENTER = """
if [ -n "$1" ]; then
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    cat "$1" >/proc/sys/fs/binfmt_misc/register
fi
mount -t proc proc "$0/proc"
root=$0; shift
exec env --ignore-environment PATH="$PATH" HOME=/root chroot "$root" "$@"
"""

SSL = """
from types import SimpleNamespace

SSLError = SSLSyscallError = SSLWantReadError = OSError


def get_default_verify_paths():
    return SimpleNamespace(cafile=None, capath=None)
"""


def main(words: Sequence[str]) -> int:
    wheels = [path for path in sorted(REPOSITORY.glob("dist/*linux*.whl")) if all(word in path.name for word in words)]
    if not wheels:
        raise SystemExit("no such wheels in dist/. Build them with `make linux-wheels`.")
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}. CONTRIBUTING.md lists the Debian packages to install.")
    for wheel in wheels:
        check(wheel)
    return 0


def check(wheel: Path) -> None:
    match = NAME.fullmatch(wheel.name)
    assert match is not None, f"unexpected tags: {wheel.name}"
    tag, architecture = match["tag"], match["architecture"]
    glibc = (0, 0) if match["libc"] == "musl" else (int(match["major"]), int(match["minor"]))
    root = CACHE / "roots" / tag
    make_root(root, architecture, match["libc"])
    version = (root / "usr/bin/python3").readlink().name.removeprefix("python")

    # The tags of this libc and older ones, since `pip download` accepts exactly the given tags.
    family = f"{match['libc']}linux_{match['major']}"
    platforms = [f"--platform={family}_{minor}_{architecture}" for minor in range(int(match["minor"]) + 1)]
    run(
        *[sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version", version],
        *platforms,
        "--dest",
        root / "packages",
        wheel,
        *TEST_PACKAGES,
    )

    def run_inside(*command: str) -> str:
        return run_in_root(root, architecture, *command)

    run_inside("/usr/bin/python3", "-m", "venv", "--without-pip", "/venv")
    [pip] = (root / "packages").glob("pip-*.whl")
    run_inside(
        *["/venv/bin/python", f"/packages/{pip.name}/pip", "install", "--quiet", "--no-index"],
        *["--find-links=/packages", "parsieve", *TEST_PACKAGES],
    )
    if match["libc"] == "musl":
        # This Python has no OpenSSL. pyarrow asks it for the places of certificates when it is imported.
        (root / f"usr/lib/python{version}/ssl.py").write_text(SSL)
    reported = run_inside("/venv/bin/parsieve", "--version").strip()
    assert reported.startswith(f"parsieve {match['version']} "), reported
    [module] = root.glob("venv/lib/python3*/site-packages/parsieve/_core.abi3.so")
    assert newest_glibc(module) <= glibc, f"{wheel.name} needs glibc {newest_glibc(module)}"
    tests = [f"/parsieve/tests/python/{test}" for test in TESTS]
    output = run_inside("/venv/bin/python", "-m", "pytest", "-q", *tests)
    print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.2f} MB, python{version}: {output.splitlines()[-1]}", flush=True)
    shutil.rmtree(root)


def make_root(root: Path, architecture: str, libc: str) -> None:
    """Unpack Debian packages in `root`, and copy the tests. No script of a package runs, so no program of the root."""
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    line = "deb $(SITE) $(RELEASE) $(COMPONENT)"
    sources = sorted(set(run("apt-get", "indextargets", "--format", line, "Created-By: Packages").splitlines()))
    if libc == "musl":
        # The wheels of pyarrow need musl 1.2.4 or newer, which the next release of Debian has.
        own = [source for source in sources if f" {release} " in source]
        sources = [source.replace(f" {release} ", f" {MUSL_RELEASE} ") for source in own]
        release = MUSL_RELEASE
    run(
        *["mmdebstrap", "--quiet", "--mode=root", "--variant=extract", f"--architectures={DEBIAN_NAMES[architecture]}"],
        *[f"--include={'musl' if libc == 'musl' else 'python3,libstdc++6'}"],
        release,
        root,
        *sources,
    )
    (root / "proc").mkdir()
    if not (root / "lib").exists():
        # The loader of programs is at /lib in their headers, and in /usr/lib since Debian merged the two.
        (root / "lib").symlink_to("usr/lib")
    if libc == "musl":
        folder = CACHE / f"musl-{architecture}"
        if not (folder / "python/usr/bin/python3").exists():
            run("bash", REPOSITORY / "tests/wheels/musl_python.sh", architecture, folder)
        shutil.copytree(folder / "python", root, symlinks=True, dirs_exist_ok=True)
    for part in ["examples", "tests/python", "tests/vectors", "pyproject.toml"]:
        source, target = REPOSITORY / part, root / "parsieve" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def run_in_root(root: Path, architecture: str, *command: str) -> str:
    qemu = "" if architecture == platform.machine() else f"/usr/lib/binfmt.d/qemu-{architecture}.conf"
    namespaces = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--net"]
    return run("unshare", *namespaces, "sh", "-ec", ENTER, root, qemu, *command)


def newest_glibc(module: Path) -> tuple[int, int]:
    """Return the newest version of glibc that the symbols of an extension module need. It is (0, 0) for musl."""
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "--wide", "--version-info", module))
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def run(*command: str | Path) -> str:
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
