// Keeps the page of a run up to date: puts newer parts in the place of older ones, and counts down what is left of waits.
// The parts are HTML from the server, where every value in them was escaped. Without this script the page stands as it is.

const run = document.getElementById("run");
const lines = document.getElementById("lines");
const connection = document.getElementById("connection");

const LINES_MAX = 200; // as many as the server sends
const RETRY_MS = [1000, 2000, 5000, 10000]; // and from then on the last

// The server's clock, from its own word and the time that has passed here since: the clock of this machine may be wrong.
let serverNow = Number(run.dataset.now);
let heardAt = performance.now();

let source = null;
let failures = 0;
let again = 0;
let over = false;

function now() {
  return serverNow + (performance.now() - heardAt);
}

// "4 min 59 s". A second that has begun counts.
function left(ms) {
  const all = Math.max(0, Math.ceil(ms / 1000));
  const [hours, minutes, seconds] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  if (hours > 0) return `${hours} h ${minutes} min ${seconds} s`;
  return minutes > 0 ? `${minutes} min ${seconds} s` : `${seconds} s`;
}

function tick() {
  for (const notice of document.querySelectorAll("[data-until]")) {
    const place = notice.querySelector(".left");
    const rest = Number(notice.dataset.until) - now();
    const text = rest > 0 ? left(rest) : "any moment now";
    // The text node is changed, not replaced, so that nobody is told of it each second.
    if (place && place.firstChild && place.firstChild.data !== text) place.firstChild.data = text;
  }
}

// Puts a newer part into its place. Whoever stands on a button stays there, and what was opened stays open. What says the
// same stays as it is: somebody may be about to click on it.
function swap(id, html) {
  const place = document.getElementById(id);
  const made = document.createElement("template");
  made.innerHTML = html;
  if (made.innerHTML.trim() === place.innerHTML.trim()) return;
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  const opened = [...place.querySelectorAll("details[open][id]")].map((one) => one.id);
  place.innerHTML = html;
  for (const one of opened) document.getElementById(one)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  tick();
}

// Lines that are known have grown; the others are new, the oldest first.
function addLines(html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  for (const line of [...made.content.children]) {
    const known = document.getElementById(line.id);
    if (known) known.replaceWith(line);
    else lines.prepend(line);
  }
  while (lines.childElementCount > LINES_MAX) lines.lastElementChild.remove();
}

function titled() {
  const [name, status] = [document.querySelector("#head h1")?.firstChild?.data, document.querySelector("#head .badge")];
  if (name && status) document.title = `${name.trim()}: ${status.textContent} - Abide`;
}

function say(text) {
  if (connection.textContent !== text) connection.textContent = text;
}

function connect() {
  if (source || over || document.hidden) return;
  clearTimeout(again);
  source = new EventSource(run.dataset.events);
  source.addEventListener("now", (event) => {
    [serverNow, heardAt, failures] = [Number(event.data), performance.now(), 0];
    say("");
    tick();
  });
  source.addEventListener("head", (event) => {
    swap("head", event.data);
    titled();
  });
  source.addEventListener("notices", (event) => swap("notices", event.data));
  source.addEventListener("nodes", (event) => swap("nodes", event.data));
  source.addEventListener("lines", (event) => addLines(event.data));
  source.addEventListener("end", () => {
    over = true;
    disconnect();
  });
  source.addEventListener("error", () => {
    disconnect();
    say("The connection to the server is lost. This page shows how the run stood before; it goes on trying.");
    again = setTimeout(connect, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
  });
}

function disconnect() {
  source?.close();
  source = null;
}

// A page that nobody looks at gives its connection back: browsers have few of them for one server.
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
window.addEventListener("pagehide", disconnect);
window.addEventListener("pageshow", connect);

setInterval(tick, 250);
tick();
connect();
