"""Put what gpu_kernels.py measured on an H200 into docs/h200.md, between its marks, and the raw figures into docs/h200/.

python tests/benchmarks/kernels_page.py KERNELS.jsonl…

Each KERNELS.jsonl is what one run of ``gpu_kernels.py --out`` wrote.
"""

import json
import sys
from pathlib import Path

from gpu_kernels import FRAMEWORKS
from h200_page import PAGE, between


def field(found):
    if found is None:
        return "–"
    median, least, greatest, further = found
    return f"{median:.1f} µs ({least:.1f} … {greatest:.1f})<br>{further:.1f} µs"


def table(records):
    """The frameworks' facts, and a row a way of each work, in the order in which they were measured."""
    found = {(record["framework"], record["name"]): record["found"] for record in records}
    rows = list(dict.fromkeys(record["name"] for record in records if isinstance(record["found"], list)))
    lines = [f"- {name}: {', '.join(f'{fact} {value}' for fact, value in found[name, 'facts'].items())}" for name in FRAMEWORKS]
    lines += ["", f"| work | way | {' | '.join(FRAMEWORKS)} |", "| --- | --- |" + " --- |" * len(FRAMEWORKS)]
    for row in rows:
        work, _, way = row.partition(", ")
        lines.append(f"| {work} | {way} | {' | '.join(field(found.get((name, row))) for name in FRAMEWORKS)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    text = "".join(Path(file).read_text("utf-8") for file in sys.argv[1:])
    (PAGE.with_suffix("") / "kernels.jsonl").write_text(text, "utf-8")
    made = table([json.loads(line) for line in text.splitlines()])
    PAGE.write_text(between(PAGE.read_text("utf-8"), "the kernels", made), "utf-8")
