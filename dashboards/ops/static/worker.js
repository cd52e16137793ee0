// Keeps the last answer of each page, and shows it when the server cannot be reached. What somebody saw who had signed in
// is forgotten as soon as they sign out, or the server says that nobody is signed in.
"use strict";

const KEPT = "pages-1";
const MOST = 200; // answers
const WAIT = 8000; // milliseconds for a server before what is kept is shown

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(KEPT).then((kept) => kept.add("/")).catch(() => {}).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches.keys()
      .then((names) => Promise.all(names.filter((name) => name !== KEPT).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const asked = event.request;
  const address = new URL(asked.url);
  if (asked.method === "POST" && ["/sign-out", "/sessions"].includes(address.pathname)) event.waitUntil(caches.delete(KEPT));
  if (asked.method !== "GET" || address.origin !== location.origin || /^(\/p\/[^/]+)?\/api\//.test(address.pathname)) return;
  event.respondWith(answer(asked, address, event));
});

async function answer(asked, address, event) {
  const asking = fetch(asked);
  let fresh;
  try {
    fresh = await within(asking);
  } catch {
    asking.catch(() => {});
    const kept = await caches.open(KEPT);
    const found = await kept.match(asked) || (asked.mode === "navigate" && await kept.match(address.pathname));
    if (found) return /^text\/html/.test(found.headers.get("Content-Type")) ? marked(found) : found;
    fresh = await asking; // a slow answer is better than none
  }
  if (isNobody(fresh, address)) await caches.delete(KEPT);
  const mayBeKept = fresh.ok && !fresh.redirected && !/no-store/.test(fresh.headers.get("Cache-Control") || "");
  if (mayBeKept) event.waitUntil(keep(asked, fresh.clone()));
  return fresh;
}

// A page that leads elsewhere leads to where one signs in; the ways in themselves lead on to the page.
function isNobody(fresh, address) {
  const elsewhere = fresh.type === "opaqueredirect" && !/^(\/p\/[^/]+)?\/(sign-in|link)\b/.test(address.pathname);
  return fresh.status === 401 || elsewhere;
}

function within(asking) {
  const limit = new Promise((_, fail) => setTimeout(() => fail(new Error("the server does not answer")), WAIT));
  return Promise.race([asking, limit]);
}

async function keep(asked, answered) {
  const kept = await caches.open(KEPT);
  await kept.put(asked, answered);
  const all = await kept.keys();
  await Promise.all(all.slice(0, Math.max(all.length - MOST, 0)).map((each) => kept.delete(each)));
}

// The page brings the sentence along, hidden.
async function marked(found) {
  const text = (await found.text()).replace(" hidden data-offline", " data-offline");
  const headers = new Headers(found.headers);
  headers.delete("Content-Encoding");
  headers.delete("Content-Length");
  return new Response(text, { status: found.status, headers });
}
