// Before the first paint, so that a dark page does not begin with a white flash.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
