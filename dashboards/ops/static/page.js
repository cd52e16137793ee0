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
