"use strict";
// What the scripts of a page have in common. Text is only ever put in as text.
const dashboard = {
  starters: [], // functions that bring to life what they find in an element
  watchers: [], // functions that show the state of the view, called when the address changes

  /** An element with properties and children; children are elements or text. */
  element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  },

  /** A select or an input after its label. */
  labelled(words, control) {
    return dashboard.element("span", { className: "field" }, dashboard.element("label", { htmlFor: control.id }, words), control);
  },

  /** A select. options: [value, words]. */
  select(id, options, chosen) {
    const select = dashboard.element("select", { id });
    select.append(...options.map(([value, text]) => dashboard.element("option", { value, textContent: text })));
    select.addEventListener("change", () => chosen(select.value));
    return select;
  },

  /** A button. Its id lets it keep the focus when the page is fetched anew. */
  button(id, words, pressed) {
    const button = dashboard.element("button", { type: "button", id, textContent: words });
    button.addEventListener("click", pressed);
    return button;
  },

  download(name, blob) {
    const link = dashboard.element("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  },

  // The state of the view (order, filters, what is compared) is in the address, behind the #, so that a link tells it to others.
  state: {
    all: () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""),
    get: (name) => dashboard.state.all().get(name) ?? "",
    set(name, value) {
      const all = dashboard.state.all();
      if (value) all.set(name, value);
      else all.delete(name);
      const [page] = location.href.split("#");
      history.replaceState(null, "", all.size ? `${page}#${all}` : page);
    },
  },

  /** Bring a page's content to life. */
  start(content) {
    dashboard.watchers = [];
    for (const starter of dashboard.starters) starter(content);
  },
};

document.addEventListener("DOMContentLoaded", () => {
  const main = document.querySelector("main");
  dashboard.start(main);
  // A plain anchor names a place of the page and says nothing of its state.
  addEventListener("hashchange", () => {
    if (!location.hash || location.hash.includes("=")) for (const watcher of dashboard.watchers) watcher();
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // an anchor would take the place of the state
    main.focus();
    main.scrollIntoView();
  });
});
