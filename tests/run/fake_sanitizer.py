"""A compute-sanitizer without a GPU: a program that writes what a scenario says, in place of running anything.

The scenario is JSON in the file that KVCHECK_FAKE names: what is saved, printed and exited with, and what the launch
left, by tool. Without one it runs its program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

VERSION = "2025.3.1"


def main(arguments: list[str]) -> int:
    """As compute-sanitizer is called."""
    if arguments == ["--version"]:
        print(f"NVIDIA (R) Compute Sanitizer\nVersion {VERSION} (build 36400806) (public-release)")  # noqa: T201
        return 0
    options = {}
    arguments = [argument for argument in arguments if argument != "--xml"]
    while arguments and arguments[0].startswith("--"):
        options[arguments[0]], arguments = arguments[1], arguments[2:]
    if "KVCHECK_FAKE" not in os.environ:
        return subprocess.run(arguments, check=False).returncode
    every = json.loads(Path(os.environ["KVCHECK_FAKE"]).read_text(encoding="utf-8"))
    said = every.get(f"{options['--tool']} {_kernel(arguments)}", every.get(options["--tool"]))
    time.sleep(said.get("sleeps", 0))
    if "saved" in said:
        Path(options["--save"]).write_text(said["saved"], encoding="utf-8")
    result = Path(arguments[-1])
    if "result" in said:
        result.write_text(json.dumps(said["result"]), encoding="utf-8")
        result.with_name(f"{result.name}.data").write_bytes(bytes.fromhex(said.get("rows", "")))
    Path(options["--log-file"]).write_text(said.get("printed", ""), encoding="utf-8")
    return int(said.get("exit", 0))


def _kernel(arguments: list[str]) -> str:
    """The first kernel of a plan; empty where the program is asked for a whole launch."""
    asked = json.loads(Path(arguments[-2]).read_text(encoding="utf-8"))
    return str(asked["kernels"][0]["name"]) if asked.get("kernels") else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
