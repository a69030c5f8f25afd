"""Put what was measured on an H200 into docs/h200.md, between its marks, and the raw figures into docs/h200/.

    python tests/benchmarks/h200_page.py STORE ANCHORS.jsonl…

STORE has runs with the labels in ``RUNS``; each ANCHORS.jsonl is what one run of ``anchors.py --out`` wrote.
"""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
from anchors import BOUND, FRAMEWORKS, LEAST

from metalbench.results.quantities import format_duration

PAGE = Path(__file__).parent.parent.parent / "docs" / "h200.md"
RUNS = ("int4_matmul", "attention", "fft")


def bench(*arguments):
    command = [str(Path(sys.executable).with_name("bench")), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8").stdout


def exported(document):
    """A run's JSON without the name of the machine it was made on."""
    parsed = json.loads(document)
    del parsed["host"]["name"]
    return msgspec.json.format(msgspec.json.encode(parsed), indent=1).decode() + "\n"


def compared(record):
    """A table's field: both medians, the ratio with the difference, and the device's own time where there is one."""
    if record is None or "reason" in record:
        return "–" if record is None else record["reason"]
    harness, idiom = (format_duration(record[side] * 1e9) for side in ("harness_s", "idiom_s"))
    beyond = record["idiom_s"] >= LEAST and abs(record["ratio"] - 1) > BOUND
    return "<br>".join(
        [
            f"{harness} / {idiom}",
            f"{record['ratio']:.3f}{' (beyond 5 %)' if beyond else ''}, {record['extra_s'] * 1e6:+.2f} µs",
            *([] if record["event_s"] is None else [f"event {format_duration(record['event_s'] * 1e9)}"]),
            *(f"{side} {words}" for side, words in record["checks"].items() if words != "right"),
        ]
    )


def anchors_table(records):
    """The frameworks' facts, and a row a work, with one more where it was measured again; what begins with the same word together."""
    rows, facts = {}, {}
    for record in records:
        framework, turn = record["framework"], 1
        facts[framework] = ", ".join(f"{name} {value}" for name, value in record["facts"].items())
        while framework in rows.setdefault((record["work"], turn), {}):
            turn += 1
        rows[record["work"], turn][framework] = record
    kinds = list(dict.fromkeys(work.split()[0] for work, _ in rows))
    lines = [f"- {framework}: {words}" for framework, words in facts.items()]
    lines += ["", f"| work | {' | '.join(FRAMEWORKS)} |", "| --- |" + " --- |" * len(FRAMEWORKS)]
    for (work, turn), row in sorted(rows.items(), key=lambda item: kinds.index(item[0][0].split()[0])):
        name = work.replace("_", "\\_") + ("" if turn == 1 else ", measured again")
        lines.append(f"| {name} | {' | '.join(compared(row.get(framework)) for framework in FRAMEWORKS)} |")
    return "\n".join(lines)


def between(text, name, made):
    """``text`` with ``made`` between the marks of this name."""
    before, begin, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->")
    return f"{before}{begin}\n{made.strip()}\n\n{end}{after}"


if __name__ == "__main__":
    store, *files = sys.argv[1:]
    folder = PAGE.with_suffix("")
    folder.mkdir(exist_ok=True)
    records = [
        {"run": number, **json.loads(line)} for number, file in enumerate(files, 1) for line in Path(file).read_text("utf-8").splitlines()
    ]
    (folder / "anchors.jsonl").write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf-8")
    for run in RUNS:
        (folder / f"{run}.json").write_text(exported(bench("show", run, "--store", store, "--format", "json")), "utf-8")
    shown = "\n\n".join(bench("show", run, "--store", store, "--format", "markdown").strip() for run in RUNS)
    PAGE.write_text(between(between(PAGE.read_text("utf-8"), "the anchors", anchors_table(records)), "the runs", shown), "utf-8")
