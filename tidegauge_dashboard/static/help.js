import { html } from "./vendor/preact-htm.js";
import { FirstSteps } from "./controls.js";
import { Keys } from "./keys.js";

export default function Help({ parts }) {
  const { help } = parts;
  if (!help) return null;
  return html`
    <section class="card teach"><h1>Help</h1><${FirstSteps} steps=${help} service=${parts.service} /></section>
    <section class="card teach">
      <h2>The state of a stream</h2>
      <dl class="states">${help.states.map((one) => html`<div><dt><span class="pill ${one.tone}">${one.label}</span></dt><dd>${one.text}</dd></div>`)}</dl>
    </section>
    <section class="card teach"><h2>Keys</h2><${Keys} /></section>`;
}
