"use strict";
// In the head and not deferred, so that a page is never seen in the other colours first.
(() => {
  const STATES = ["auto", "light", "dark"];
  const root = document.documentElement;

  function kept() {
    try {
      return localStorage.getItem("metalbench-theme");
    } catch { // the browser keeps nothing for this page
      return null;
    }
  }

  function keep(state) {
    try {
      localStorage.setItem("metalbench-theme", state);
    } catch { // then it lasts as long as the page
    }
  }

  root.dataset.theme = STATES.includes(kept()) ? kept() : "auto";

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("button.theme");
    const said = document.querySelector(".theme-said");
    button.textContent = `Theme: ${root.dataset.theme}`;
    button.hidden = false;
    button.addEventListener("click", () => {
      const state = STATES[(STATES.indexOf(root.dataset.theme) + 1) % STATES.length];
      root.dataset.theme = state;
      keep(state);
      button.textContent = said.textContent = `Theme: ${state}`;
      document.dispatchEvent(new Event("theme"));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));
  });
})();
