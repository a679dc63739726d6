"""Lists the parts of a program: `parts.py TARGET VERSION SBOM LICENCES` writes a CycloneDX list of
the crates in the program and in its components, and the texts of their licences, which must be
distributed with it.

cargo-cyclonedx would list all targets, and dependencies of builds and tests. This script lists only
the linked crates.
"""

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def linked(manifest, target):
    """Returns the packages that are linked for a target by id, and the ids of their dependencies."""
    said = subprocess.run(["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target,
                           "--manifest-path", manifest], check=True, capture_output=True, text=True, cwd=Path(manifest).parent).stdout
    known = json.loads(said)
    packages = {package["id"]: package for package in known["packages"]}
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    is_macro = lambda id: any("proc-macro" in made["kind"] for made in packages[id]["targets"])
    edges, todo = {}, list(known["workspace_members"])
    while todo:
        id = todo.pop()
        if id in edges:
            continue
        # Dependencies of builds and tests and macros are not part of the program.
        normal = (one["pkg"] for one in nodes[id]["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"]))
        edges[id] = sorted(one for one in normal if not is_macro(one))
        todo += edges[id]
    return {id: packages[id] for id in edges}, edges


def checksums(lock):
    """Returns the SHA-256 of each crate in a lock file."""
    found, name = {}, None
    for line in lock.read_text().splitlines():
        key, _, value = line.partition(" = ")
        if key == "name":
            name = value.strip('"')
        elif key == "version":
            version = value.strip('"')
        elif key == "checksum":
            found[name, version] = value.strip('"')
    return found


def component(package, sums):
    purl = f"pkg:cargo/{package['name']}@{package['version']}"
    entry = {"type": "library", "bom-ref": purl, "name": package["name"], "version": package["version"], "purl": purl}
    if package.get("license"):
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if (sum := sums.get((package["name"], package["version"]))):
        entry["hashes"] = [{"alg": "SHA-256", "content": sum}]
    return entry


def texts(packages):
    """Returns the distinct licence texts of the packages, each with the packages that use it."""
    by_text, without = {}, []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        folder = Path(package["manifest_path"]).parent
        found = sorted(path for path in folder.iterdir() if path.is_file() and path.name.upper().startswith(("LICEN", "COPYING", "NOTICE", "UNLICENSE")))
        for path in found:
            by_text.setdefault(path.read_text(errors="replace").strip(), set()).add(name)
        if not found:
            without.append(f"{name}: {package.get('license')}")
    rule = "\n\n" + "=" * 78 + "\n\n"
    whole = ["Aetheel contains these crates under their own licences.",
             "Without a text of their own, under the licence they name:\n" + "\n".join(sorted(without))]
    whole += sorted(f"{', '.join(sorted(names))}:\n\n{text}" for text, names in by_text.items())
    return rule.join(whole) + "\n"


def main(target, version, sbom, licences):
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    parts, dependencies, foreign = {}, {}, {}
    for manifest, of in ((ROOT / "Cargo.toml", target), (ROOT / "guest-backends/Cargo.toml", "wasm32-wasip2")):
        packages, edges = linked(str(manifest), of)
        sums = checksums(manifest.parent / "Cargo.lock")
        for id, package in packages.items():
            entry = component(package, sums)
            parts[entry["bom-ref"]] = entry
            depends = dependencies.setdefault(entry["bom-ref"], set())
            depends |= {f"pkg:cargo/{packages[one]['name']}@{packages[one]['version']}" for one in edges[id]}
            if package.get("source"):
                foreign[entry["bom-ref"]] = package
    program = parts.pop(f"pkg:cargo/aetheel@{version}")
    program["type"] = "application"
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
            "component": program,
            "properties": [{"name": "aetheel:target", "value": target}],
        },
        "components": [parts[name] for name in sorted(parts)],
        "dependencies": [{"ref": name, "dependsOn": sorted(dependencies[name])} for name in sorted(dependencies)],
    }
    # The serial number is derived from the content, so that it is reproducible.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    content["serialNumber"] = f"urn:uuid:{number}"
    Path(sbom).write_text(json.dumps(content, indent=1) + "\n")
    Path(licences).write_text(texts([foreign[name] for name in sorted(foreign)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
