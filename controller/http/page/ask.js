// Asking the service: the token, the clock, and one place for what goes wrong.
import { useEffect, useLayoutEffect, useState } from "./vendor/preact-htm.js";

const SLOWEST_MS = 10_000;
const OWN_VERSION = document.querySelector("meta[name=version]").content;
const KINDS = { 401: "token", 403: "forbidden", 404: "missing" };
const OF_THE_PAGE = ["away", "standby", "token"];
const listeners = new Set();

/** What the whole page shows: `trouble` is null while the service answers. */
export const service = { trouble: null, skewMs: 0, about: null };

/** The clock of the service; it stands in an outage, since nothing is known of later. */
export const serverNow = () => (service.trouble?.sinceMs ?? Date.now()) + service.skewMs;

/** Read or write what this tab keeps, or this browser; one that keeps nothing throws. */
export function keep(where, name, text) {
  try {
    if (text !== undefined) window[where].setItem(name, text);
    return window[where].getItem(name);
  } catch {
    return null;
  }
}
let shownToken = keep("sessionStorage", "token");
export const token = () => shownToken;
export function setToken(text) {
  shownToken = text;
  keep("sessionStorage", "token", text);
  service.trouble = null;
  dispatchEvent(new Event("again"));
  tell();
}

const tell = () => listeners.forEach((listener) => listener());

/** Draw again whenever all of these listeners are called. */
export function useDrawnBy(callbacks) {
  const [, draw] = useState(0);
  useLayoutEffect(() => { // at once: the first call may come before the first frame
    const callback = () => draw((n) => n + 1);
    callbacks.add(callback);
    return () => callbacks.delete(callback);
  }, []);
}
export function useService() {
  useDrawnBy(listeners);
  return service;
}

const refusal = (kind, text) => Object.assign(new Error(text), { kind });

/** Integers that a double would round stay whole: times of logical clocks. */
const exact = (_name, value, context) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source)
    ? BigInt(context.source) : value;

export async function ask(path) {
  const headers = { accept: "application/json" };
  if (token()) headers.authorization = `Bearer ${token()}`;
  if (/[^!-~]/.test(token() || "")) throw refusal("token", "it has characters that no token has");
  let answer, text;
  try {
    // A controller that stands by sends callers to another origin, where a page may not follow.
    const signal = AbortSignal.timeout(SLOWEST_MS);
    answer = await fetch(path, { headers, redirect: "manual", signal });
    text = await answer.text();
  } catch (error) {
    throw refusal("away", error.name === "TimeoutError" ? "it takes longer than 10 s"
      : "there is no connection");
  }
  if (answer.type === "opaqueredirect") throw refusal("away", "this controller stands by");
  let found = {};
  try {
    found = JSON.parse(text, exact);
  } catch {
    if (answer.ok) throw refusal("away", "something else answers");
  }
  if (answer.ok) return found;
  const kind = KINDS[answer.status] || (answer.status >= 500 ? "away" : "refused");
  throw refusal(kind, found.detail || `HTTP ${answer.status}`);
}

/** Read a whole list, page by page. */
export async function askAll(path, name, cursor = "") {
  const page = await ask(path + cursor);
  if (!page.cursor) return page;
  const rest = await askAll(path, name, `&cursor=${encodeURIComponent(page.cursor)}`);
  return { ...page, [name]: [...page[name], ...rest[name]] };
}

/**
 * Ask again and again while the tab is seen. Returns the answer and the refusal. `next` makes the
 * path from the former answer, `merge` joins both; with `stays`, that of a former path stays.
 */
export function usePolled(path, everyMs, { merge, next, read = ask, stays = false } = {}) {
  const [seen, setSeen] = useState([null, null, null]);
  useEffect(() => {
    if (!path) return undefined;
    let isOver = false, timer = null, former = null, asking = 0;
    const show = (error) => {
      recover(); // also where it refuses: it answers
      setSeen([path, former, error]);
    };
    const turn = async () => {
      clearTimeout(timer);
      if (isOver || document.hidden) return;
      const mine = ++asking;
      try {
        const news = await read(next && former ? next(former) : path);
        if (isOver || mine !== asking) return;
        if (news.now_ms && !news.judged_ms) service.skewMs = news.now_ms - Date.now();
        former = merge && former ? merge(former, news) : news;
        show(null);
      } catch (error) {
        if (isOver || mine !== asking) return;
        if (OF_THE_PAGE.includes(error.kind)) await report(error);
        else show(error);
      }
      if (!isOver && mine === asking) timer = setTimeout(turn, everyMs);
    };
    turn();
    document.addEventListener("visibilitychange", turn);
    addEventListener("again", turn);
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", turn);
      removeEventListener("again", turn);
    };
  }, [path, everyMs]);
  return seen[0] === path || stays ? [seen[1], seen[2]] : [null, null];
}

/** Show what keeps all calls from being answered, and who holds if this one stands by. */
async function report(error) {
  const about = error.kind === "away" ? await ask("./").catch(() => null) : null;
  const sinceMs = service.trouble?.sinceMs ?? Date.now();
  service.trouble = about?.standby
    ? { kind: "standby", text: about.standby, holder: about.links.holder, sinceMs }
    : { kind: error.kind, text: error.message, sinceMs };
  tell();
}

function recover() {
  if (!service.trouble) return;
  service.trouble = null;
  tell();
  learn(); // it may have become another version
}

/** Read what the service says; a page of another version is loaded again, once for each. */
export async function learn() {
  const about = await ask("./").catch(() => null);
  if (!about) return;
  const isNew = ![OWN_VERSION, keep("sessionStorage", "version")].includes(about.version);
  if (isNew && keep("sessionStorage", "version", about.version)) location.reload();
  service.about = about;
  tell();
}
