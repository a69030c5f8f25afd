"""Run the quick suite and put its tables into the README, between the two marks.

make readme
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parent.parent.parent / "README.md"
MARKS = ("<!-- the quick suite -->", "<!-- end of it -->")
TABLES = ("amp_step", "attention", "fft", "int4_matmul")  # its memory table is long; `bench show` prints it


def bench(*arguments):
    command = [str(Path(sys.executable).with_name("bench")), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8").stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "results.sqlite")
        bench("run", "--suite", "quick", "--store", store)
        shown = bench("show", "--store", store, "--format", "markdown")
    head, *sections = re.split(r"^### ", shown, flags=re.MULTILINE)
    facts = "\n".join(line for line in head.splitlines() if line.startswith("- "))
    kept = [section.rstrip() for section in sections if section.splitlines()[0].replace("\\", "") in TABLES]
    tables = "\n\n".join(f"**{section.splitlines()[0]}**\n\n" + "\n".join(section.splitlines()[2:]) for section in kept)
    before, _, rest = README.read_text("utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    README.write_text(f"{before}{MARKS[0]}\n\n{facts}\n\n{tables}\n\n{MARKS[1]}{after}", "utf-8")
