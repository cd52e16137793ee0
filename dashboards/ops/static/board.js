// The week board with a script: a cell opens beside it, a search answers while one types, arrows move between cells.
"use strict";

const side = document.querySelector("[data-side]");
const wait = { search: 0, ask: 0 };

async function main_of(address, options) {
  const answer = await fetch(address, { headers: { Accept: "text/html" }, ...options });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return { main: page.getElementById("main"), address: answer.url, ok: answer.ok };
}

// --- a cell's panel
let opener = null;

async function open_panel(address, options) {
  const { main, address: shown } = await main_of(address, options);
  const panel = document.createElement("aside");
  panel.className = "panel";
  panel.setAttribute("aria-label", main.querySelector("h1").textContent);
  const bar = document.querySelector("#panel-bar").content.firstElementChild.cloneNode(true);
  bar.querySelector("a").href = shown;
  bar.querySelector("button").addEventListener("click", close_panel);
  for (const line of main.querySelectorAll("[data-offline]")) line.remove();
  const heading = main.querySelector("h1");
  heading.outerHTML = heading.outerHTML.replace(/^<h1/, "<h2").replace(/h1>$/, "h2>");
  panel.append(bar, ...main.children);
  rename(panel);
  for (const child of side.children) child.hidden = true;
  side.querySelector(".panel")?.remove();
  side.append(panel);
  wire(panel);
  bar.querySelector("button").focus({ preventScroll: true });
  if (side.getBoundingClientRect().top < 0 || side.getBoundingClientRect().top > 200) side.scrollIntoView();
}

// Ids of a page are unique: those of the panel get a letter in front.
function rename(part) {
  for (const element of part.querySelectorAll("[id]")) element.id = `p-${element.id}`;
  for (const name of ["aria-labelledby", "aria-describedby", "for"]) {
    for (const element of part.querySelectorAll(`[${name}]`)) {
      element.setAttribute(name, element.getAttribute(name).replace(/\S+/g, "p-$&"));
    }
  }
}

function close_panel() {
  side.querySelector(".panel")?.remove();
  for (const child of side.children) child.hidden = false;
  opener?.focus();
}

function wire(part) {
  for (const form of part.querySelectorAll("form[data-ask]")) {
    form.addEventListener("input", () => {
      clearTimeout(wait.ask);
      wait.ask = setTimeout(() => ask(form), 250);
    });
    form.addEventListener("submit", (event) => { event.preventDefault(); ask(form); });
    const number = form.querySelector("[name=value]"), slider = number.cloneNode();
    Object.assign(slider, { type: "range", name: "", min: -50, max: 50, step: 1, value: 0 });
    slider.setAttribute("aria-label", form.querySelector("[value=percent]")?.textContent ?? "");
    slider.addEventListener("input", () => { form.elements.kind.value = "percent"; number.value = slider.value; });
    if (form.querySelector("[value=percent]")) number.after(slider);
  }
  for (const field of part.querySelectorAll("[data-remember]")) {
    field.value ||= localStorage.getItem(field.dataset.remember) ?? "";
    field.addEventListener("change", () => localStorage.setItem(field.dataset.remember, field.value));
  }
  for (const form of part.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      await open_panel(form.action, { method: "POST", body: new URLSearchParams(new FormData(form, event.submitter)) });
      refresh_board(location.href);
    });
  }
}

async function ask(form) {
  const question = new URLSearchParams(new FormData(form));
  const { main } = await main_of(`${form.getAttribute("action").split("#")[0]}?${question}`);
  const answer = main.querySelector("[data-answer]") ?? main.querySelector("section");
  const place = form.closest("section").querySelector("[data-answer]");
  place.replaceChildren(...answer.children);
  if (place.closest(".panel")) rename(place);
  wire(place);
}

// --- the board itself
async function refresh_board(address) {
  const { main } = await main_of(address);
  document.querySelector("[data-results]").replaceWith(main.querySelector("[data-results]"));
  const rail = side.querySelector(".rail"), renewed = main.querySelector(".rail");
  if (rail && renewed) renewed.hidden = rail.hidden;
  if (rail) rail.replaceWith(...(renewed ? [renewed] : []));
}

document.querySelector("form[data-filter]")?.addEventListener("input", (event) => {
  if (event.target.type !== "search") return;
  clearTimeout(wait.search);
  wait.search = setTimeout(() => {
    const query = new URLSearchParams(new FormData(event.target.form));
    for (const [name, value] of [...query]) if (!value) query.delete(name);
    const address = `${event.target.form.getAttribute("action")}?${query}`;
    history.replaceState(null, "", address);
    refresh_board(address);
  }, 200);
});

// --- the rail
async function accept(link) {
  const { csrf } = await (await fetch(link.dataset.accept.replace("/accepted", "/api/v1/me"))).json();
  const crew = { depot_id: link.dataset.depot, target_date: link.dataset.day, drivers: link.dataset.drivers };
  if (link.dataset.crew) Object.assign(crew, { set: "1", "crew.": link.dataset.crew });
  const name = localStorage.getItem("name");
  const body = new URLSearchParams(name ? { ...crew, by: name } : crew);
  const answer = await fetch(link.dataset.accept, { method: "POST", headers: { "X-CSRF-Token": csrf }, body });
  if (!answer.ok) throw new Error(answer.statusText);
  await refresh_board(location.href);
}

document.addEventListener("click", (event) => {
  const accepted = event.target.closest("[data-accept]");
  if (accepted && localStorage.getItem("name") !== null) {
    event.preventDefault();
    accept(accepted).catch(() => { location.href = accepted.href; });
    return;
  }
  const link = event.target.closest(".cells td > a, .rail a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  opener = link;
  open_panel(link.href).catch(() => { location.href = link.href; });
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && side.querySelector(".panel")) return close_panel();
  const cell = event.target.closest?.(".cells td");
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!cell || !step) return;
  const rows = [...cell.closest("table").querySelectorAll("tbody:not(.totals) tr:not(.name)")];
  const along = document.documentElement.dir === "rtl" ? -step[1] : step[1];
  const row = rows[rows.indexOf(cell.parentElement) + step[0]];
  const next = row?.children[cell.cellIndex + along]?.querySelector("a");
  if (next) { event.preventDefault(); next.focus(); }
});

wire(document);
