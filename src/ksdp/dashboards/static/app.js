// Keys for whoever reviews many documents, and progress that keeps itself up to date. Everything works without it.
"use strict";
(() => {
  const store = { get on() { try { return localStorage.getItem("ksdp-keys") !== "off"; } catch { return true; } },
    set on(value) { try { localStorage.setItem("ksdp-keys", value ? "on" : "off"); } catch { /* private mode */ } } };
  const box = document.getElementById("keys-on");
  if (box) {
    box.closest("details").hidden = false;
    box.checked = store.on;
    box.addEventListener("change", () => { store.on = box.checked; });
  }
  const all = document.getElementById("choose-all");
  if (all) {
    all.hidden = false;
    const boxes = () => [...document.querySelectorAll('input[name="chosen"]')];
    all.addEventListener("change", () => boxes().forEach((one) => { one.checked = all.checked; }));
  }
  const follow = (selector) => { const link = document.querySelector(selector); if (link) link.click(); return !!link; };
  const step = (by) => {
    if (follow(`a[data-step][rel="${by > 0 ? "next" : "prev"}"]`)) return;
    const rows = [...document.querySelectorAll("a[data-row]")];
    const at = rows.indexOf(document.activeElement);
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  };
  const choose = (key) => { const one = document.querySelector(`input[data-key="${key}"]`); if (one) { one.checked = true; one.focus(); } };
  const keys = {
    j: () => step(1), k: () => step(-1),
    n: () => follow('.pager a[rel="next"]:not([data-step])'), p: () => follow('.pager a[rel="prev"]:not([data-step])'),
    "/": () => { const field = document.getElementById("search"); if (field) { field.focus(); field.select(); } },
    e: () => choose("e"), a: () => choose("a"), m: () => choose("m"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !store.on || !(event.key in keys)) return;
    const tag = event.target instanceof HTMLInputElement && /^(radio|checkbox)$/.test(event.target.type) ? "" : event.target.tagName;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(tag)) return;
    event.preventDefault();
    keys[event.key]();
  });
  const watch = async () => {
    const shown = document.querySelector("[data-poll]");
    if (!shown) return;
    try {
      const answer = await fetch(shown.dataset.poll, { cache: "no-store", redirect: "error" });
      if (!answer.ok) return;
      const part = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-more-runs]");
      if (!part) return;
      if (part.dataset.moreRuns !== shown.dataset.moreRuns) document.getElementById("more-runs-news").textContent = part.querySelector(".state").textContent;
      const link = shown.contains(document.activeElement);
      shown.replaceWith(part);
      if (link) { const again = part.querySelector("a, button"); if (again) again.focus(); }
    } catch { /* the server is gone for now: tried again */ }
    setTimeout(watch, 2000);
  };
  setTimeout(watch, 1000);
})();
