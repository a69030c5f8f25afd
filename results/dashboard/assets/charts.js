"use strict";
// Charts: drawn by Vega when they come into sight, in the page's colours, and downloaded as SVG and PNG on white.
(() => {
  const WIDTH = 680; // of a download; on the page a chart is as wide as its place
  const LINE = /(.{1,100})(?:\s+|$)/g;
  const source = new URL("vega.js", document.currentScript.src);
  const drawers = new WeakMap(); // figure → what draws it anew, once it has been drawn
  let vega = null;

  /** Vega's script, loaded when the first chart wants it. */
  function loaded() {
    vega ??= new Promise((resolve, reject) => {
      const script = dashboard.element("script", { src: source.href });
      script.addEventListener("load", () => resolve(window.vegaEmbed));
      script.addEventListener("error", () => reject(new Error("Vega’s script can’t be loaded")));
      document.head.append(script);
    });
    return vega;
  }

  function themes() {
    return JSON.parse(document.getElementById("chart-themes").textContent);
  }

  function dark() {
    const { theme } = document.documentElement.dataset;
    return theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  }

  /** Without evaluating text as code, without styles and actions of its own: the policy of the page forbids the one, and we have the other. */
  async function draw(place, spec, config) {
    const embed = await loaded();
    return embed(place, spec, {
      ast: true,
      actions: false,
      defaultStyle: false,
      renderer: "svg",
      tooltip: { disableDefaultStyle: true },
      config,
    });
  }

  function chart(figure) {
    const plot = figure.querySelector(".plot");
    const place = dashboard.element("div", { ariaHidden: "true" }); // a description in words stands for the drawing
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const caption = figure.querySelector("figcaption").textContent;
    let drawn = null;

    async function show() {
      try {
        drawn?.finalize();
        drawn = await draw(place, spec, themes()[dark() ? "dark" : "light"]);
        drawers.set(figure, show);
      } catch (error) {
        plot.textContent = `The chart can’t be drawn: ${error.message}.`;
        plot.removeAttribute("role");
        plot.removeAttribute("aria-label");
      }
    }

    async function save(format) {
      const title = { text: [...caption.matchAll(LINE)].map((line) => line[1]) };
      const alone = await draw(document.createElement("div"), { ...spec, width: WIDTH, title, background: "white" }, themes().light);
      const content = format === "svg" ? await alone.view.toSVG() : await alone.view.toCanvas(2);
      alone.finalize();
      if (format === "svg") dashboard.download(`${figure.id}.svg`, new Blob([content], { type: "image/svg+xml" }));
      else content.toBlob((blob) => dashboard.download(`${figure.id}.png`, blob), "image/png");
    }

    plot.replaceChildren(place);
    const tools = figure.querySelector(".tools");
    const buttons = ["svg", "png"].map((format) => {
      const button = dashboard.button(`${figure.id}-${format}`, format.toUpperCase(), () => save(format));
      button.setAttribute("aria-label", `Download ${caption} as ${format.toUpperCase()}`);
      return button;
    });
    tools.replaceChildren(...buttons);
    tools.hidden = false;

    const seen = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        seen.disconnect();
        show();
      },
      { rootMargin: "300px" },
    );
    seen.observe(plot);
  }

  document.addEventListener("theme", () => document.querySelectorAll(".chart").forEach((figure) => drawers.get(figure)?.()));
  dashboard.starters.push((content) => content.querySelectorAll(".chart").forEach(chart));
})();
