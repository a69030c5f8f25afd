"use strict";
// The heat map: compared with the fastest or with a column of one's choice, and filtered. All it needs stands in the table.
(() => {
  const SAME = "same:"; // of the square's own run
  const ALL = "all:"; // of all runs side by side

  /** As it is printed elsewhere; two digits of what is less than a tenth. */
  function ratioText(ratio) {
    return `${ratio < 0.1 ? Number(ratio.toPrecision(2)) : ratio.toFixed(ratio < 10 ? 2 : 0)}×`;
  }

  function look(ratio, steps) {
    const step = steps.filter((edge) => Math.max(ratio, 1 / ratio) >= edge).length;
    return step ? `${ratio > 1 ? "slower" : "faster"}-${step}` : "even";
  }

  function distinct(values) {
    return [...new Set(values)].filter(Boolean);
  }

  function map(section) {
    const steps = section.dataset.steps.split(" ").map(Number);
    const table = section.querySelector("table");
    const parts = [...table.querySelectorAll("tr.parts th[scope=colgroup]")];
    const columns = [...table.querySelectorAll("tr.columns th")].map((heading) => ({
      heading,
      name: heading.firstChild.textContent,
      ...heading.dataset,
    }));
    for (const column of columns) column.title = `${column.name}, ${column.part}`;
    const rows = [...table.querySelectorAll("tr.row")].map((row) => {
      const squares = [...row.querySelectorAll("td")].map((field) => ({ field, ...field.dataset, ns: Number(field.dataset.ns) || null }));
      return { row, squares, ...row.dataset, split: "split" in row.dataset };
    });
    const squares = rows.flatMap((row) => row.squares);
    const several = parts.length > 1;
    const stated = (name) => `${section.id}.${name}`;

    /** The time that a square is compared with; null where there is none. */
    function base(row, place, relative) {
      const [scope, name] = [relative.startsWith(ALL) ? ALL : SAME, relative.replace(/^(same|all):/, "")];
      const among = row.squares.filter((square, other) => {
        if (scope === SAME && columns[other].part !== columns[place].part) return false;
        return square.ns && (!name || (scope === SAME ? columns[other].name : columns[other].title) === name);
      });
      return among.length ? Math.min(...among.map((square) => square.ns)) : null;
    }

    function compare(relative) {
      for (const row of rows) {
        row.squares.forEach((square, place) => {
          if (!square.ns) return;
          const against = base(row, place, relative);
          square.field.className = against ? look(square.ns / against, steps) : "incomparable";
          square.field.querySelector(".ratio").textContent = against ? ratioText(square.ns / against) : "no base";
        });
      }
    }

    /** A row has each backend's own choice of variant; if one is asked for, rows by variant take the place of those that have them. */
    function filter(wanted) {
      const admits = (name, found) => !wanted[name] || wanted[name] === found;
      const shown = rows.map((row) => {
        const asked = admits("dtype", row.dtype) && (row.split ? row.variant === wanted.variant : true);
        return row.squares.map(
          (square, place) =>
            asked &&
            "status" in square &&
            admits("machine", columns[place].machine) &&
            admits("suite", columns[place].suite) &&
            admits("variant", square.variant) &&
            admits("version", square.version),
        );
      });
      rows.forEach((row, number) => {
        row.row.hidden = !shown[number].some(Boolean);
        row.squares.forEach((square, place) => {
          square.field.hidden = !shown.some((found) => found[place]);
          square.field.classList.toggle("filtered", "status" in square && !shown[number][place]);
        });
      });
      columns.forEach((column, place) => {
        column.heading.hidden = !shown.some((found) => found[place]);
      });
      for (const part of parts) {
        const width = columns.filter((column) => column.part === part.dataset.part && !column.heading.hidden).length;
        part.hidden = !width;
        part.colSpan = width || 1;
      }
      for (const body of table.tBodies) body.hidden = ![...body.querySelectorAll("tr.row")].some((row) => !row.hidden);
      const count = shown.flat().filter(Boolean).length;
      status.textContent = count === 1 ? "1 cell" : `${count} cells`;
    }

    const filters = {
      machine: distinct(columns.map((column) => column.machine)),
      suite: distinct(columns.map((column) => column.suite)),
      dtype: distinct(rows.map((row) => row.dtype)),
      variant: distinct(rows.some((row) => row.split) ? squares.map((square) => square.variant) : []),
      version: distinct(squares.map((square) => square.version)),
    };
    const fastest = [[SAME, several ? "the fastest of its run" : "the fastest"], ...(several ? [[ALL, "the fastest of all"]] : [])];
    const own = distinct(columns.map((column) => column.name)).map((name) => [SAME + name, several ? `${name} of its run` : name]);
    const others = several ? columns.map((column) => [ALL + column.title, column.title]) : [];
    const controls = [["relative", "relative to", [...fastest, ...own, ...others]]];
    for (const [name, values] of Object.entries(filters)) {
      const whole = name === "variant" ? "each backend’s own" : "all";
      if (values.length > 1) controls.push([name, name, [["", whole], ...values.map((found) => [found, found])]]);
    }

    const selects = {};
    const tools = section.querySelector(".tools");
    const status = dashboard.element("span", { className: "count" });
    status.setAttribute("role", "status");
    tools.replaceChildren();
    for (const [name, words, options] of controls) {
      selects[name] = dashboard.select(`${section.id}-${name}`, options, (chosen) => {
        dashboard.state.set(stated(name), chosen === SAME ? "" : chosen);
        show();
      });
      tools.append(dashboard.labelled(words, selects[name]));
    }
    tools.append(status);
    tools.hidden = false;

    function show() {
      for (const [name, select] of Object.entries(selects)) {
        const asked = dashboard.state.get(stated(name));
        select.value = [...select.options].some((option) => option.value === asked) ? asked : select.options[0].value;
      }
      compare(selects.relative.value);
      filter(Object.fromEntries(Object.keys(filters).map((name) => [name, selects[name]?.value ?? ""])));
    }

    dashboard.watchers.push(show);
    show();
  }

  dashboard.starters.push((content) => content.querySelectorAll(".heatmap").forEach(map));
})();
