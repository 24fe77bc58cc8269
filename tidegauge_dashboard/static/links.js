// Addresses: all of them are queries of one path, so that a prefix behind a proxy works.
export function hrefOf(place) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(place)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString().replaceAll("%2F", "/");
  return text ? `?${text}` : "./";
}

const TABS = ["writers", "segments", "marks", "readers", "settings"];

const ROOMS = ["groups", "help"];

const MOST_LETTERS = 600; // of one value, as the process of this page has it

/** What an address shows; whatever else somebody typed is left out. */
export function placeOf(search) {
  const place = Object.fromEntries([...new URLSearchParams(search)].map(([name, value]) => [name, value.slice(0, MOST_LETTERS)]));
  if (place.stream) return { ...place, kind: "stream", tab: TABS.includes(place.tab) ? place.tab : TABS[0] };
  if (place.group) return { ...place, kind: "group" };
  return { ...place, kind: ROOMS.includes(place.show) ? place.show : "overview" };
}

/** Go somewhere within the page; links do so by themselves. */
export function go(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  dispatchEvent(new PopStateEvent("popstate"));
}
