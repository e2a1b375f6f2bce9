# SPDX-License-Identifier: Apache-2.0
"""Writes the metadata that a wheel of Ingot has beside the package of a build tree, so that its entry points are found wherever that is in the path.

usage: metadata.py PYPROJECT FOLDER
"""

import pathlib
import shutil
import sys
import tomllib
import typing


def entry_points(project: "dict[str, typing.Any]") -> str:
    """Groups of names, as ``entry_points.txt`` has them."""
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    return "\n".join(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items()) for group, names in groups.items())


def main(pyproject: str, folder: str) -> None:
    project = tomllib.loads(pathlib.Path(pyproject).read_text(encoding="utf-8"))["project"]
    for before in pathlib.Path(folder).glob("ingot-*.dist-info"):
        shutil.rmtree(before)
    written = pathlib.Path(folder) / f"{project['name']}-{project['version']}.dist-info"
    written.mkdir(parents=True)
    (written / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\nSummary: {project['description']}\n")
    (written / "entry_points.txt").write_text(entry_points(project))


main(*sys.argv[1:])
