// What a page does beyond what it says: it can be read again without a connection, it says so, and filters as one types.
"use strict";

if ("serviceWorker" in navigator) {
  navigator.serviceWorker.register("/worker.js").catch(() => {}); // a page that may not have one works without
}

function connection() {
  for (const line of document.querySelectorAll("[data-offline]")) {
    if (!navigator.onLine) line.hidden = false;
  }
}
addEventListener("offline", connection);
addEventListener("online", () => location.reload());
connection();

for (const form of document.querySelectorAll("form[data-filter]")) {
  form.addEventListener("change", (event) => {
    if (event.target.tagName === "SELECT") form.requestSubmit();
  });
}

// A screen on a wall: what is new takes the place of what is shown, and a line tells where that cannot be had.
const sky = document.querySelector("[data-refresh]");
const renewing = sky && setInterval(renew, 1000 * Number(sky.dataset.refresh));

async function renew() {
  const main = document.getElementById("main");
  try {
    const answered = await fetch(location.href, { cache: "no-cache" });
    const made = new DOMParser().parseFromString(await answered.text(), "text/html");
    main.replaceWith(made.getElementById("main"));
    document.title = made.title;
    if (!document.querySelector("[data-refresh]")) clearInterval(renewing);
  } catch (error) {
    main.querySelector("[data-offline]").hidden = false;
  }
}

// Colours of day or night: as the device has them, until one is chosen here.
const THEMES = ["", "light", "dark"];
const theme = document.querySelector("[data-theme-switch]");
function show_theme() {
  const chosen = localStorage.getItem("theme") ?? "";
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  if (theme) theme.textContent = theme.dataset[chosen || "system"];
}
show_theme();
if (theme) {
  theme.hidden = false;
  theme.addEventListener("click", () => {
    localStorage.setItem("theme", THEMES[(THEMES.indexOf(localStorage.getItem("theme") ?? "") + 1) % THEMES.length]);
    show_theme();
  });
}

// A file that is too large is told before it is sent.
for (const input of document.querySelectorAll("input[data-most]")) {
  input.addEventListener("change", () => {
    const isTooLarge = [...input.files].some((file) => file.size > Number(input.dataset.most));
    input.setCustomValidity(isTooLarge ? input.dataset.tooLarge : "");
    input.reportValidity();
  });
}

// The numbers of a chart's day, under the pointer or by the arrow keys: they are those of the tables of its page.
function read_day(chart, at) {
  const [left, border, right, behind, ahead] = chart.dataset.days.split(" ").map(Number);
  const day = Math.max(-behind, Math.min(ahead - 1, at)), page = chart.closest(".panel") ?? document;
  const [came, expected] = [".behind tbody tr", "tr:has(a.day)"].map((rows) => page.querySelectorAll(rows));
  const row = day < 0 ? came[-1 - day] : expected[day], place = chart.closest("figure").querySelector(".reading");
  chart.dataset.day = day;
  place.textContent = row ? numbers_of(row, page).join(" · ") : "";
  const x = border + (day + 0.5) * (day < 0 ? (border - left) / behind : (right - border) / ahead);
  chart.querySelector(".day-read").setAttribute("transform", `translate(${x - left})`);
}
function numbers_of(row, page) {
  const [day, ...numbers] = row.cells, head = row.closest("table").tHead ?? page.querySelector("table:has(a.day)").tHead;
  if (numbers[0].colSpan > 1) return [day.textContent.trim(), numbers[0].textContent];
  const named = numbers.map((number, place) => `${head.rows[0].cells[place + 1].textContent} ${number.textContent.trim()}`);
  return [day.textContent.trim().replace(/\s+/g, " "), ...named];
}
document.addEventListener("pointermove", (event) => {
  const chart = event.target.closest?.("svg[data-days]");
  if (!chart) return;
  const [left, border, right, behind, ahead] = chart.dataset.days.split(" ").map(Number);
  const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
  read_day(chart, Math.floor(x < border ? ((x - border) / (border - left)) * behind : ((x - border) / (right - border)) * ahead));
});
document.addEventListener("keydown", (event) => {
  const chart = event.target.closest?.("svg[data-days]"), steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  if (!chart || !(event.key in steps)) return;
  event.preventDefault();
  read_day(chart, Number(chart.dataset.day ?? -1) + steps[event.key]);
});
// A pipeline file is checked while one types: what its button would load takes the place of the last answer.
for (const form of document.querySelectorAll("form[data-check]")) {
  let wait = 0, last = 0;
  form.addEventListener("input", () => {
    const turn = ++last;
    clearTimeout(wait);
    wait = setTimeout(async () => {
      const answered = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      const answer = new DOMParser().parseFromString(await answered.text(), "text/html").querySelector("[data-answer]");
      if (answer && turn === last) form.querySelector("[data-answer]").replaceChildren(...answer.childNodes);
    }, 500);
  });
}

// A chart as a picture: its colours are those of the style sheet, which a file of its own has not.
function save_chart(button) {
  const chart = [...button.closest("figure").querySelectorAll("svg.chart")].find((svg) => svg.checkVisibility());
  const copy = chart.cloneNode(true), box = chart.viewBox.baseVal;
  const drawn = [chart, ...chart.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  drawn.forEach((element, place) => {
    const style = getComputedStyle(element);
    for (const name of ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font", "text-anchor"]) {
      copies[place].setAttribute(name === "font" ? "style" : name, name === "font" ? `font:${style.font}` : style.getPropertyValue(name));
    }
  });
  const picture = new Image(), canvas = document.createElement("canvas");
  Object.assign(canvas, { width: 2 * box.width, height: 2 * box.height });
  picture.addEventListener("load", () => {
    const pen = canvas.getContext("2d");
    pen.fillStyle = getComputedStyle(button.closest("section")).backgroundColor;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
    Object.assign(document.createElement("a"), { href: canvas.toDataURL(), download: `${button.dataset.png}.png` }).click();
  });
  copy.setAttribute("width", canvas.width);
  copy.setAttribute("height", canvas.height);
  picture.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
}
for (const button of document.querySelectorAll("[data-png]")) {
  button.hidden = false;
  button.addEventListener("click", () => save_chart(button));
}

for (const link of document.querySelectorAll(".crumbs a")) {
  if (link.pathname === location.pathname) link.setAttribute("aria-current", "page");
}
