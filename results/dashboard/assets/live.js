"use strict";
// A served page follows the run that is being measured: a line above the content, and the content anew as cells come in.
(() => {
  const PAUSE = 2000; // ms between two looks at a page at the least
  const SPOKEN = 2000; // ms between two changes of the line: a screen reader says each of them
  const SHARE = 10; // a page is not fetched for more than one part in so many of the time: the machine is measuring

  function words(run) {
    const done = `${run.done} of ${run.total} launches`;
    if (run.silent) return `: ${done}, and nothing new for some minutes`;
    if (run.state === "running") return `: ${done}${run.left ? `, about ${run.left} left` : ""}`;
    return ` ${run.state}: ${done}`;
  }

  /** The content as it is now, with what the reader had opened, written and scrolled to. */
  function replace(fresh) {
    const main = document.querySelector("main");
    const [focus, start, end] = [document.activeElement, document.activeElement.selectionStart, document.activeElement.selectionEnd];
    const scrolled = new Map([...main.querySelectorAll("section[id] .scroll")].map((box) => [box.closest("section").id, box]));
    const charts = new Map([...main.querySelectorAll(".chart")].map((chart) => [chart.id, chart]));
    const open = [...main.querySelectorAll("details")].map((details) => details.open);
    const places = new Map([...scrolled].map(([id, box]) => [id, [box.scrollLeft, box.scrollTop]]));
    for (const chart of fresh.querySelectorAll(".chart")) {
      const same = charts.get(chart.id)?.querySelector("script").textContent === chart.querySelector("script").textContent;
      chart.classList.toggle("kept", same);
    }
    main.replaceChildren(...fresh.childNodes);
    dashboard.start(main);
    for (const chart of main.querySelectorAll(".chart.kept")) chart.replaceWith(charts.get(chart.id));
    main.querySelectorAll("details").forEach((details, place) => { details.open = open[place] ?? details.open; });
    for (const [id, [left, top]] of places) document.getElementById(id)?.querySelector(".scroll")?.scrollTo(left, top);
    const again = focus.id && !focus.isConnected ? document.getElementById(focus.id) : null;
    again?.focus({ preventScroll: true });
    if (again && start !== null && start !== undefined) again.setSelectionRange(start, end);
  }

  function follow(events) {
    const line = document.querySelector(".progress");
    const about = document.querySelector("main").dataset;
    let source = null;
    let run = null;
    let seen = null; // what the page shows of the run
    let waiting = null;
    let next = 0;
    let speaking = null;

    function say() {
      speaking = null;
      const link = dashboard.element("a", { href: document.body.dataset.root + run.path, textContent: `Run ${run.title}` });
      line.replaceChildren(link, words(run));
      line.hidden = false;
    }

    const now = () => `${run.path} ${run.done} ${run.state}`;

    /** Have the page anew, soon, if it is about the run and behind it. */
    function wish() {
      if (now() === seen || waiting || !(about.run === "any" || about.run === run.path)) return;
      waiting = setTimeout(look, Math.max(0, next - performance.now()));
    }

    async function look() {
      const [began, shown] = [performance.now(), now()];
      let fresh = null;
      try {
        const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
        if (answer.ok) fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
      } catch { // the server is gone; the stream of events notices when it is back
      }
      next = performance.now() + Math.max(PAUSE, SHARE * (performance.now() - began));
      waiting = null;
      if (!fresh) return;
      replace(fresh);
      seen = shown;
      wish();
    }

    function heard(event) {
      const message = JSON.parse(event.data);
      if (!message) return;
      const first = !run;
      run = message;
      if (first && about.state === run.state) seen = now(); // the page has just been made
      if (run.state !== "running") {
        clearTimeout(speaking);
        if (speaking || !line.hidden) say();
      } else if (line.hidden) say();
      else speaking ??= setTimeout(say, SPOKEN);
      wish();
    }

    function listen() {
      source?.close();
      source = null;
      if (document.hidden) return; // a page that nobody sees takes nothing from the machine that measures
      source = new EventSource(events);
      source.addEventListener("message", heard);
    }

    document.addEventListener("visibilitychange", listen);
    listen();
  }

  document.addEventListener("DOMContentLoaded", () => document.body.dataset.events && follow(document.body.dataset.events));
})();
