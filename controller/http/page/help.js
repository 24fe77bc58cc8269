// What is shown, what the keys do, and what to type first.
import { html } from "./vendor/preact-htm.js";
import { service } from "./ask.js";
import { Command, firstSteps } from "./words.js";

const KEYS = [["/", "search"], ["j, k", "next row, row before"], ["Enter", "open the row"],
  ["Esc", "leave the search; from a stream, back to all"], ["o", "all streams"],
  ["g", "reader groups"], ["?", "this help"]];
export const WATERMARK = `A watermark is the event time up to which a stream is complete: its
  writers have declared that they will write nothing older.`;

export const FirstSteps = () => html`<ol>${firstSteps().map((text) =>
  html`<li><${Command} text=${text} /></li>`)}</ol>`;

export function Help() {
  document.title = "Help · Tidegauge";
  const states = service.about?.states || [];
  return html`<section class="card steps"><h1>Help</h1>
    <p>${WATERMARK} One writer is always last, so a live stream always has a holder; it counts as
      held only once it stands for longer than usual.</p>
    <div class="halves"><div><h2>States of a stream, trouble first</h2>
    <dl class="words">${states.map(({ label, tone, meaning }) => html`<div><dt><span
      class="pill ${tone}">${label}</span></dt><dd>${meaning}</dd></div>`)}</dl></div>
    <div><h2>Keys</h2><dl class="words">${KEYS.map(([key, text]) =>
      html`<div><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
    <h2>First steps</h2><${FirstSteps} />
    <p><a href="docs">All calls of the service</a></p></div></div></section>`;
}
