"""Components of the product: reasons, licenses, and a bill of materials for scanners (CycloneDX,
JSON).

`make sbom` writes `build/forecaster.cdx.json` from requirements.lock (names, versions, hashes) and
from the metadata of the installed packages (licenses, requirements); with the file that lists an
image's packages, it writes the bill of that image.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator, Set
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import Licensing, get_spdx_licensing
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
PYPROJECT = ROOT / "pyproject.toml"
BILL = ROOT / "build" / "forecaster.cdx.json"
CHECKOUT = ("docs", "dev")  # extras installed only in a checkout
SPDX: Licensing = get_spdx_licensing()

# SPDX identifiers of classifiers and older fields. A bare "BSD" is ambiguous.
SPDX_NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Artistic License": "Artistic-1.0-Perl",
    "GNU General Public License v2 or later (GPLv2+)": "GPL-2.0-or-later",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Public Domain": "LicenseRef-Public-Domain",
    "Python Software Foundation License": "PSF-2.0",
}
# Their metadata name no license; taken from the license file in each package.
READ_IN_FILES = {"huey": "MIT", "jax2onnx": "Apache-2.0", "promql-parser": "MIT", "skops": "MIT"}
PERMISSIVE = re.compile(
    r"(0BSD|AFL-2\.1|Apache-2\.0|BSD(-\d-Clause)?|CC0-1\.0|CNRI-Python|HPND|ISC|LLVM-exception|MIT(-0|-CMU)?|PSF-2\.0|Zlib"
    r"|Unlicense|LicenseRef-Public-Domain)$"
)


@dataclass(frozen=True)
class Dependency:
    """A direct dependency in pyproject.toml."""

    name: str
    extra: str  # empty for the base install
    reason: str  # its comment there; empty without one


@dataclass(frozen=True)
class LockedPackage:
    name: str
    version: str
    hashes: tuple[str, ...]  # SHA-256 of each installable file


def dependencies(pyproject: str) -> Iterator[Dependency]:
    """Yield the dependencies in the text of a pyproject.toml, each with its comment."""
    project = tomllib.loads(pyproject)["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    for extra, requirements in groups.items():
        start = pyproject.index("\ndependencies = [" if not extra else f"\n{extra} = [")
        for requirement in requirements:
            line = re.search(rf'^ +"{re.escape(requirement)}",(?: # (.+))?$', pyproject[start:], re.M)
            reason = line[1] if line else None
            yield Dependency(canonicalize_name(Requirement(requirement).name), extra, reason or "")


def locked_packages(lock: str) -> Iterator[LockedPackage]:
    """Yield every package of a lock once, with all its hashes, whether listed with or without
    extras."""
    seen = set()
    for line in lock.replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith(("#", "--")):
            continue
        requirement = Requirement(line.split("--hash=")[0].strip())
        name, version = canonicalize_name(requirement.name), next(iter(requirement.specifier)).version
        if (name, version) not in seen:
            seen.add((name, version))
            yield LockedPackage(name, version, tuple(re.findall(r"--hash=sha256:(\w+)", line)))


def licence(name: str) -> str:
    """Return the license of an installed package as an SPDX expression, several joined by OR; empty
    if it is not installed."""
    try:
        fields = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    if expression := fields.get("License-Expression"):
        return expression
    text = (fields.get("License") or "").strip().split("\n")[0]
    text = SPDX_NAMES.get(text, text)
    if _is_spdx(text):
        return text
    classifiers = [line.rpartition(" :: ")[2] for line in fields.get_all("Classifier") or () if "License ::" in line]
    names = [SPDX_NAMES.get(each, each.removesuffix(" License")) for each in classifiers if each != "OSI Approved"]
    return " OR ".join(sorted(set(names))) or READ_IN_FILES.get(canonicalize_name(name), text)


def _is_spdx(text: str) -> bool:
    return re.fullmatch(r"[\w.+()\- ]+", text) is not None and not SPDX.validate(text).errors


def is_permissive(expression: str) -> bool:
    """True if the license requires no more than its notice."""
    alternatives = re.split(r"\s+OR\s+", expression.replace("(", "").replace(")", ""))
    if " AND " in expression:
        alternatives = [expression.replace("(", "").replace(")", "")]
    return any(
        all(PERMISSIVE.match(name) for name in re.split(r"\s+(?:AND|OR|WITH)\s+", alternative))
        for alternative in alternatives
    )


def bill_of_materials(names: Set[str] | None = None, further: str = "") -> Bom:
    """Return the product and every locked package, or the given ones, and those of a `further`
    lock: version, license, SHA-256 of its files, and origin."""
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    product = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        bom_ref=project["name"],
        licenses=[LicenseExpression(project["license"])],
    )
    bom = Bom()
    bom.metadata.component = product
    locked = [package for package in locked_packages(LOCK.read_text("utf-8")) if names is None or package.name in names]
    components = {package.name: _component(package) for package in (*locked, *locked_packages(further))}
    for component in components.values():
        bom.components.add(component)
    direct = {dependency.name for dependency in dependencies(PYPROJECT.read_text("utf-8"))}
    bom.register_dependency(product, [components[name] for name in sorted(direct & components.keys())])
    for name, component in components.items():
        bom.register_dependency(component, [components[need] for need in sorted(_needs(name)) if need in components])
    return bom


def bill_of_wheel(wheel: Path) -> str:
    """Return the bill of a wheel, as JSON: the product with the wheel's SHA-256, and the locked
    packages that it may install.

    Raises ValueError if it is not valid CycloneDX.
    """
    bom = bill_of_materials(_installed_with_wheel())
    product = bom.metadata.component
    assert product is not None
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    product.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=digest))
    product.purl = PackageURL("pypi", name=product.name, version=product.version, qualifiers={"file_name": wheel.name})
    return _json(bom)


def _installed_with_wheel() -> set[str]:
    """Return the packages required by the wheel, including its extras, except those for a checkout
    only."""
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    extras = (lines for name, lines in project["optional-dependencies"].items() if name not in CHECKOUT)
    wanted = [Requirement(line) for lines in (project["dependencies"], *extras) for line in lines]
    names: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        requirement = wanted.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key not in seen:
            seen.add(key)
            names.add(key[0])
            wanted += _requirements(key[0], {"", *requirement.extras})
    return names


def _json(bom: Bom) -> str:
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the bill of materials is not valid CycloneDX: {error}")
    return text


def _component(package: LockedPackage) -> Component:
    expression = licence(package.name)
    terms = (
        LicenseExpression(expression)
        if _is_spdx(expression)
        else DisjunctiveLicense(name=expression or "not installed here")
    )
    url = PackageURL("pypi", name=package.name, version=package.version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(str(url)),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in package.hashes],
    )
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=str(url),
        purl=url,
        licenses=[terms],
        external_references=[files],
    )


def _needs(name: str) -> set[str]:
    """Return the requirements of a package installed here, without its extras."""
    return {canonicalize_name(requirement.name) for requirement in _requirements(name, {""})} - {name}


def _requirements(name: str, extras: Set[str]) -> list[Requirement]:
    """Return the requirements of a package installed here with some extras; "" means without any."""
    try:
        requirements = [Requirement(text) for text in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []
    return [
        requirement
        for requirement in requirements
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
    ]


def main(image: Path | None = None, lock: Path | None = None) -> int:
    """Write the bill of all locked packages, or of those listed in an image's file together with
    its own lock; returns 1 if it is invalid."""
    names = set(image.read_text("utf-8").split()) if image else None
    bill = BILL.parent / "sbom" / f"{(lock or image).stem}.cdx.json" if image else BILL
    bom = bill_of_materials(names, lock.read_text("utf-8") if lock else "")
    try:
        text = _json(bom)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    bill.parent.mkdir(parents=True, exist_ok=True)
    bill.write_text(text, "utf-8")
    print(f"{bill.relative_to(ROOT)}: {len(bom.components)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
