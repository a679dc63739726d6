"""Packs a tree into the formats of a release, reproducibly: the same tree results in the same bytes.

    pack.py libc BINARY...                    `static`, or the required version of glibc, such as 2.36
    pack.py tarball TREE OUT                  a .tar.gz of the folder
    pack.py wheel TREE OUT-FOLDER VERSION ARCH LIBC    a wheel for PyPI
    pack.py npm TREE OUT-FOLDER VERSION ARCH           the npm package of one platform
    pack.py npm-main FOLDER OUT-FOLDER VERSION         the npm package that users install
    pack.py changelog FILE OUT VERSION                 the changes in a version, in Debian's format, with gzip

All times are SOURCE_DATE_EPOCH, all owners are root, and entries are sorted by name.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import textwrap
import time
import zipfile
from email.utils import formatdate
from pathlib import Path

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
NPM_ARCH = {"x86_64": "x64", "aarch64": "arm64"}
SUMMARY = "Work with coding agents in Discord: a gateway whose backends are replaced while it runs"


def files(tree):
    """Returns all files in a folder with their relative paths, sorted."""
    return sorted((path.relative_to(tree).as_posix(), path) for path in Path(tree).rglob("*") if path.is_file())


def mode(path):
    return 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644


def libc(*binaries):
    said = [subprocess.run(["readelf", "-W", "--dynamic", "--version-info", binary], check=True, capture_output=True, text=True).stdout
            for binary in binaries]
    dynamic = "".join(one for one in said if "(NEEDED)" in one)
    if not dynamic:
        return "static"
    return max(re.findall(r"GLIBC_(\d+\.\d+)", dynamic), key=lambda version: [int(part) for part in version.split(".")])


def tarball(entries, out):
    """Writes entries (name, mode, bytes) as a .tar.gz, including their folders."""
    folders = {"/".join(name.split("/")[:depth]) for name, _, _ in entries for depth in range(1, name.count("/") + 1)}
    every = sorted([(name, 0o755, None) for name in folders] + list(entries))
    with open(out, "wb") as file, gzip.GzipFile("", "wb", 9, file, EPOCH) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, permissions, content in every:
            entry = tarfile.TarInfo(name)
            entry.mode, entry.mtime, entry.uname, entry.gname = permissions, EPOCH, "root", "root"
            if content is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def of_tree(tree, prefix):
    return [(f"{prefix}/{name}", mode(path), path.read_bytes()) for name, path in files(tree)]


def python_version(version):
    """Returns the version in PyPI's format: 0.2.0-rc.1 is 0.2.0rc1."""
    return re.sub(r"-(alpha|beta|rc)\.?(\d+)$", lambda found: {"alpha": "a", "beta": "b", "rc": "rc"}[found[1]] + found[2], version)


def wheel_tags(arch, libc_version):
    # A static program runs with every libc. The tags are those of the oldest systems that pip
    # supports.
    if libc_version == "static":
        return [f"manylinux_2_17_{arch}", f"musllinux_1_1_{arch}"]
    return [f"manylinux_{libc_version.replace('.', '_')}_{arch}"]


def wheel(tree, out, version, arch, libc_version):
    version, tags = python_version(version), wheel_tags(arch, libc_version)
    data, info = f"aetheel-{version}.data", f"aetheel-{version}.dist-info"
    # pip installs scripts into bin/ and data into the prefix, where the program finds its
    # components as usual.
    entries = []
    for name, path in files(tree):
        if name.startswith("bin/"):
            entries.append((f"{data}/scripts/{path.name}", 0o755, path.read_bytes()))
        elif name.startswith(("lib/aetheel/", "share/man/", "share/bash-completion/", "share/zsh/", "share/fish/")):
            entries.append((f"{data}/data/{name}", mode(path), path.read_bytes()))
    doc = Path(tree, "share/doc/aetheel")
    metadata = (f"Metadata-Version: 2.1\nName: aetheel\nVersion: {version}\nSummary: {SUMMARY}\nLicense: Apache-2.0\n"
                "License-File: LICENSE\nLicense-File: THIRD-PARTY-LICENSES\nClassifier: Operating System :: POSIX :: Linux\n"
                "Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n" + (doc / "README.md").read_text())
    wheel_file = "Wheel-Version: 1.0\nGenerator: aetheel packaging/pack.py\nRoot-Is-Purelib: false\n"
    wheel_file += "".join(f"Tag: py3-none-{tag}\n" for tag in tags)
    entries += [(f"{info}/METADATA", 0o644, metadata.encode()), (f"{info}/WHEEL", 0o644, wheel_file.encode())]
    entries += [(f"{info}/{name}", 0o644, (doc / name).read_bytes()) for name in ("LICENSE", "THIRD-PARTY-LICENSES")]
    entries.sort()
    digest = lambda content: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record = "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, _, content in entries)
    entries.append((f"{info}/RECORD", 0o644, (record + f"{info}/RECORD,,\n").encode()))
    # The first year of zip files is 1980.
    date = time.gmtime(max(EPOCH, 315532800))[:6]
    with zipfile.ZipFile(Path(out, f"aetheel-{version}-py3-none-{'.'.join(tags)}.whl"), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, permissions, content in entries:
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr, entry.create_system, entry.compress_type = (stat.S_IFREG | permissions) << 16, 3, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def npm_package(out, description, entries):
    description |= {"license": "Apache-2.0", "description": SUMMARY, "engines": {"node": ">=18"}}
    text = json.dumps(description, indent=2) + "\n"
    entries = [("package/package.json", 0o644, text.encode()), *entries]
    tarball(entries, Path(out, f"{description['name']}-{description['version']}.tgz"))


def npm(tree, out, version, arch):
    name = f"aetheel-linux-{NPM_ARCH[arch]}"
    tree, doc = Path(tree), Path(tree, "share/doc/aetheel")
    entries = [entry for entry in of_tree(tree, "package") if entry[0].startswith(("package/bin/", "package/lib/aetheel/"))]
    entries += [(f"package/{file}", 0o644, (doc / file).read_bytes()) for file in ("LICENSE", "THIRD-PARTY-LICENSES")]
    entries.append(("package/README.md", 0o644, f"The program of the package `aetheel` for Linux on {NPM_ARCH[arch]}; install that one.\n".encode()))
    npm_package(out, {"name": name, "version": version, "os": ["linux"], "cpu": [NPM_ARCH[arch]]}, entries)


def npm_main(folder, out, version):
    root = Path(__file__).parent.parent
    entries = [("package/aetheel.js", 0o755, Path(folder, "aetheel.js").read_bytes())]
    entries += [(f"package/{name}", 0o644, (root / name).read_bytes()) for name in ("LICENSE", "README.md")]
    platforms = {f"aetheel-linux-{cpu}": version for cpu in sorted(NPM_ARCH.values())}
    npm_package(out, {"name": "aetheel", "version": version, "bin": {"aetheel": "aetheel.js"}, "optionalDependencies": platforms}, entries)


def changelog(file, out, version):
    """Writes a changelog for Debian: headings become `[ … ]`, and links lose their addresses. See deb-changelog(5)."""
    sections = dict(re.findall(r"^## (\S+).*\n((?:(?!## ).*\n?)*)", Path(file).read_text(), re.M))
    text = sections.get(version) or sections["Unreleased"]
    # Indented lines continue an item.
    link = r"\[([^\]]*)\]\([^)]*\)"
    text = re.sub(link, r"\1", re.sub(rf"\s+\({link}\)", "", text))
    items = re.findall(r"^(###|\*) (.*(?:\n  +.*)*)", text, re.M)
    lines = [f"aetheel ({version.replace('-', '~')}) unstable; urgency=medium", ""]
    for mark, item in items:
        item = " ".join(item.split())
        lines += ["", f"  [ {item} ]"] if mark == "###" else textwrap.wrap(item, 78, initial_indent="  * ", subsequent_indent="    ")
    lines += ["", f" -- The authors of Aetheel <authors@aetheel.invalid>  {formatdate(EPOCH).replace('-0000', '+0000')}", ""]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    # Without a time inside, as Debian requires.
    Path(out).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    match what:
        case "libc":
            print(libc(*arguments))
        case "tarball":
            tree, out = arguments
            tarball(of_tree(tree, Path(tree).name), out)
        case "wheel":
            wheel(*arguments)
        case "npm":
            npm(*arguments)
        case "npm-main":
            npm_main(*arguments)
        case "changelog":
            changelog(*arguments)
        case _:
            sys.exit(f"{what}: see the top of {__file__}")
