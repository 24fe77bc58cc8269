import { html } from "./vendor/preact-htm.js";
import { hrefOf } from "./links.js";
import { Since, showMoment, Time } from "./moments.js";
import { Search } from "./overview.js";

const Bar = ({ clock }) => clock ? html`<span class="meter"><i class=${clock.part > 75 ? "red" : "amber"}
  style=${{ width: `${clock.part}%` }}></i></span> <span class="nowrap">${clock.text}</span>` : "";

function Writers({ tab, place }) {
  const clocks = tab.rows.some((row) => row.silent || row.standing);
  return html`
    <div class="under">
      <${Search} name="prefix" place=${place} hint="writer" />
      <span class="dim">${tab.caption}, as of <${Since} ms=${tab.asked} /> ago</span>
    </div>
    <table class="card list writers">
      <thead><tr><th>writer</th><th>state</th><th>stands at</th><th>behind</th><th>silent</th>
        ${clocks && html`<th>silence, of its limit</th><th>standing, of its limit</th>`}<th>incarnation</th><th></th></tr></thead>
      <tbody>${tab.rows.map((row) => html`
        <tr key=${row.who}>
          <td><b>${row.who}</b></td>
          <td class="ink-${row.tone}">${row.state}</td>
          <td><${Time} time=${row.stand} />${row.told && html` <small class="dim">told</small>`}</td>
          <td data-of="behind">${row.behind}</td>
          <td data-of="silent">${row.heard != null && html`<${Since} ms=${row.heard} />`}</td>
          ${clocks && html`<td><${Bar} clock=${row.silent} /></td><td><${Bar} clock=${row.standing} /></td>`}
          <td data-of="incarnation">${row.incarnation}</td>
          <td class="dim">${row.remark}</td>
        </tr>`)}
      </tbody>
    </table>
    ${tab.rows.length === 0 && html`<p class="dim waiting">No writer.</p>`}`;
}

function Segments({ tab }) {
  return html`
    <section class="card">
      <header><h2>${tab.caption}</h2></header>
      ${tab.boxes ? html`
        ${tab.older > 0 && html`<p class="dim">${tab.older} older generations are not drawn.</p>`}
        <div class="boxes" style=${{ height: `${Math.max(120, tab.rows * 38)}px` }}>
          ${tab.boxes.map((box) => html`<div key=${box.number} class="box" title=${describe(box)}
            style=${{ left: `${box.x}%`, width: `${box.wide}%`, top: `${box.y}%`, height: `${box.high}%` }}><${Lane} lane=${box} /></div>`)}
        </div>`
      : html`<div class="stack">${tab.lanes.map((lane) => html`<div key=${lane.number} class="box" title=${describe(lane)}><${Lane} lane=${lane} /></div>`)}</div>`}
    </section>`;
}

const describe = (one) => [
  one.keys, one.opened && `opened ${showMoment(one.opened)}`, one.closed && `sealed ${showMoment(one.closed)}`,
].filter(Boolean).join(" · ");

const Lane = ({ lane }) => html`
  <div class="segment ${lane.sealed ? "sealed" : ""} ${lane.gone ? "gone" : ""}" data-segment=${lane.number}>
    <i class="fill" style=${{ width: `${lane.fill}%` }}></i>
    ${lane.readers.map((one) => html`<i class="reader" title=${one.who} style=${{ left: `min(${one.x}%, calc(100% - 3px))` }}></i>`)}
    <span>${lane.text}</span>
  </div>`;

const Marks = ({ tab }) => html`
  <table class="card list">
    <thead><tr><th>revision</th><th>watermark</th><th>noted up to</th><th>marked</th><th>cut</th></tr></thead>
    <tbody>${tab.rows.map((row) => html`
      <tr key=${row.revision}>
        <td><b>${row.revision}</b></td><td><${Time} time=${row.lower} /></td><td><${Time} time=${row.upper} /></td>
        <td>${row.marked && html`<${Time} time=${row.marked} />`}</td><td class="mono wide">${row.cut}</td>
      </tr>`)}</tbody>
  </table>
  ${tab.rows.length === 0 && html`<p class="dim waiting">No mark yet.</p>`}`;

const Readers = ({ tab }) => html`
  <table class="card list">
    <thead><tr><th>group</th><th>behind</th><th>window lower</th><th>upper</th><th>readers</th><th>position</th></tr></thead>
    <tbody>${tab.rows.map((row) => html`
      <tr key=${row.group}>
        <td><a data-row href=${hrefOf({ group: row.group })}>${row.group}</a></td>
        <td class="ink-${row.tone}">${row.text}</td>
        <td>${row.lower ? html`<${Time} time=${row.lower} />` : "before the first mark"}</td><td><${Time} time=${row.upper} /></td>
        <td>${row.readers}</td><td class="mono wide">${row.position}</td>
      </tr>`)}</tbody>
  </table>
  ${tab.rows.length === 0 && html`<p class="dim waiting">No reader group reads this stream.</p>`}`;

const Settings = ({ tab }) => html`
  ${tab.transactions.length > 0 && html`
    <table class="card list">
      <thead><tr><th>open transaction</th><th>writer</th><th>staged</th><th>lease left</th></tr></thead>
      <tbody>${tab.transactions.map((one) => html`<tr key=${one.id}><td class="mono">${one.id}</td><td><b>${one.who}</b></td><td>${one.events}</td><td>${one.left}</td></tr>`)}</tbody>
    </table>`}
  ${tab.actions.length > 0 && html`
    <table class="card list">
      <thead><tr><th>scaled</th><th>segments</th><th>why</th></tr></thead>
      <tbody>${tab.actions.map((one) => html`<tr><td><${Time} time=${one.at} /></td><td><b>${one.text}</b></td><td class="wide">${one.reason}</td></tr>`)}</tbody>
    </table>`}
  <table class="card list">
    <thead><tr><th>setting</th><th>value</th><th>name</th></tr></thead>
    <tbody>
      ${tab.rows.map((row) => html`<tr key=${row.name}><td>${row.text}</td><td><b>${row.value}</b></td><td class="mono dim">${row.name}</td></tr>`)}
      <tr><td>created</td><td><b><${Time} time=${{ ms: tab.created }} /></b></td><td class="mono dim">stream_id ${tab.id}</td></tr>
    </tbody>
  </table>`;

export const tabs = { writers: Writers, segments: Segments, marks: Marks, readers: Readers, settings: Settings };
