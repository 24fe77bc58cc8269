// Before the first paint, so that a dark page does not begin with a white flash.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // The browser keeps nothing for this page: it begins as the system is.
}
