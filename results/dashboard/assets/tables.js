"use strict";
// Tables: sorted by their headings, filtered by words, downloaded as CSV.
(() => {
  const order = new Intl.Collator("en", { numeric: true });

  /** What a field sorts by and what its CSV holds: a number, a text, or null for nothing. */
  function value(field) {
    if (!("value" in field.dataset)) return null;
    return "number" in field.dataset ? Number(field.dataset.value) : field.dataset.value;
  }

  /** Numbers before texts; what has no value is last in either direction. */
  function compare(one, other, direction) {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
    return direction * (typeof one === "number" ? one - other : order.compare(one, other));
  }

  /** A field of CSV (RFC 4180). A spreadsheet takes a text that begins like a formula for one. */
  function quoted(found) {
    if (typeof found === "number") return String(found);
    const text = /^[=+\-@\t\r]/.test(found) ? `'${found}` : found;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function words(field) {
    return field.textContent.trim().replace(/\s+/g, " ");
  }

  function grid(section) {
    const table = section.querySelector("table");
    const body = table.tBodies[0];
    const rows = [...body.rows]; // as they came
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const headings = [...table.tHead.rows[0].cells];
    const names = headings.map(words);
    const [sort, find] = [`${section.id}.sort`, `${section.id}.find`];

    function show() {
      const column = Number(dashboard.state.get(sort)); // counted from 1, negative for descending
      const at = Math.abs(column) - 1;
      const sorted = headings[at] ? rows.toSorted((a, b) => compare(value(a.cells[at]), value(b.cells[at]), Math.sign(column))) : rows;
      headings.forEach((heading, place) => {
        if (place === at) heading.ariaSort = column > 0 ? "ascending" : "descending";
        else heading.removeAttribute("aria-sort");
      });
      if (sorted.some((row, place) => row !== body.rows[place])) body.append(...sorted);
      const wanted = dashboard.state.get(find).toLowerCase().split(/\s+/);
      for (const row of rows) row.hidden = !wanted.every((word) => texts.get(row).includes(word));
      const count = rows.filter((row) => !row.hidden).length;
      status.textContent = count === rows.length ? `${count} rows` : `${count} of ${rows.length} rows`;
      if (input.value !== dashboard.state.get(find)) input.value = dashboard.state.get(find);
    }

    headings.forEach((heading, place) => {
      heading.replaceChildren(
        dashboard.button(`${section.id}-sort-${place + 1}`, names[place], () => {
          const next = { [place + 1]: -(place + 1), [-(place + 1)]: "" }; // up, down, as it came
          dashboard.state.set(sort, String(next[dashboard.state.get(sort)] ?? place + 1));
          show();
        }),
      );
    });

    const input = dashboard.element("input", { type: "search", id: `${section.id}-find`, autocomplete: "off", spellcheck: false });
    input.addEventListener("input", () => {
      dashboard.state.set(find, input.value.trim() && input.value);
      show();
    });
    const status = dashboard.element("span", { className: "count" });
    status.setAttribute("role", "status");

    const csv = dashboard.button(`${section.id}-csv`, "CSV", () => {
      const shown = [...body.rows].filter((row) => !row.hidden);
      const lines = [names, ...shown.map((row) => [...row.cells].map((field) => value(field) ?? ""))];
      const text = lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
      dashboard.download(`${section.id}.csv`, new Blob([text], { type: "text/csv;charset=utf-8" }));
    });
    csv.setAttribute("aria-label", `Download ${section.querySelector("h2").textContent} as CSV`);

    const tools = section.querySelector(".tools");
    tools.replaceChildren(dashboard.labelled("Filter", input), status, csv);
    tools.hidden = false;
    dashboard.watchers.push(show);
    show();
  }

  dashboard.starters.push((content) => content.querySelectorAll(".grid").forEach(grid));
})();
