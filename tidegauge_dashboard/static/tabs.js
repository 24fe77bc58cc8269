import { html } from "./vendor/preact-htm.js";
import { Heads, Search } from "./controls.js";
import { hrefOf } from "./links.js";
import { clockNow, showMoment, showSpan, Ticking, Time } from "./moments.js";

const Bar = ({ clock }) => clock ? html`<span class="meter"><i class=${clock.tone}
  style=${{ width: `${clock.part}%` }}></i></span> <span class="nowrap">${clock.text}</span>` : "";

const NO_INCARNATION = "–";

function Writers({ tab, place }) {
  const clocks = tab.rows.some((row) => row.silence || row.standing);
  const numbered = tab.rows.some((row) => row.incarnation !== NO_INCARNATION);
  return html`
    <div class="under">
      <${Search} name="prefix" place=${place} hint="Search writers by the beginning of the name" />
      <span class="dim">${tab.caption} · updated <${Ticking} show=${() => showSpan(clockNow() - tab.asked)} /> ago</span>
    </div>
    ${tab.rows.length === 0 ? html`<${Blank} text="No writer." />` : html`<table class="card list writers">
      <${Heads} place=${place} columns=${[
        { name: "writer", text: "writer", first: "" },
        { name: "state", text: "state", first: "" },
        { name: "stand", text: "stands at", first: "" },
        { name: "behind", text: "behind", kind: "right", first: "-" },
        { name: "silent", text: "silent", kind: "right", first: "-" },
        clocks && { name: "silence", text: "silent for / limit", first: "-" },
        clocks && { name: "standing", text: "standing still for / limit", first: "-" },
        numbered && { name: "incarnation", text: "incarnation", kind: "right", first: "-" },
        { name: "remark" },
      ]} />
      <tbody>${tab.rows.map((row) => html`
        <tr key=${row.who}>
          <td class="who" title=${row.who}><b>${row.who}</b></td>
          <td class="ink-${row.tone}">${row.state}</td>
          <td><${Time} time=${row.stand} />${row.registered && html` <small class="dim">start time</small>`}</td>
          <td class="right" data-of="behind">${row.behind}</td>
          <td class="right" data-of="silent">${row.silent}</td>
          ${clocks && html`<td class="clock" data-of="silence"><${Bar} clock=${row.silence} /></td><td class="clock" data-of="standing"><${Bar} clock=${row.standing} /></td>`}
          ${numbered && html`<td class="right" data-of="incarnation">${row.incarnation}</td>`}
          <td class="dim">${row.remark}</td>
        </tr>`)}
      </tbody>
    </table>`}`;
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

/** The key range, and when the segment was opened and sealed: by splits and merges. */
const brief = ({ keys, opened, closed }) => [
  keys, opened && (closed ? `${clockOf(opened)} to ${clockOf(closed)}` : `since ${clockOf(opened)}`),
].filter(Boolean).join(" · ");
const clockOf = (ms) => showMoment(ms, { fine: false });

const Lane = ({ lane }) => html`
  <div class="segment ${lane.sealed ? "sealed" : ""} ${lane.gone ? "gone" : ""}" data-segment=${lane.number}>
    <i class="fill" style=${{ width: `${lane.fill}%` }}></i>
    ${lane.readers.map((one) => html`<i class="reader" title=${one.who} style=${{ left: `min(${one.x}%, calc(100% - 3px))` }}></i>`)}
    <span>${lane.text} <small class="dim">${brief(lane)}</small></span>
  </div>`;

export const Blank = ({ text }) => html`<section class="card blank"><p>${text}</p></section>`;

const Marks = ({ tab }) => tab.rows.length === 0 ? html`<${Blank} text="No mark yet." />` : html`
  <table class="card list">
    <thead><tr><th>revision</th><th>watermark</th><th>noted up to</th><th>marked</th><th>cut</th></tr></thead>
    <tbody>${tab.rows.map((row) => html`
      <tr key=${row.revision}>
        <td><b>${row.revision}</b></td><td data-of="watermark"><${Time} time=${row.lower} /></td><td data-of="noted up to"><${Time} time=${row.upper} /></td>
        <td data-of="marked">${row.marked && html`<${Time} time=${row.marked} />`}</td><td class="mono wide">${row.cut}</td>
      </tr>`)}</tbody>
  </table>`;

const Readers = ({ tab }) => tab.rows.length === 0 ? html`<${Blank} text="No reader group reads this stream." />` : html`
  <table class="card list">
    <thead><tr><th>group</th><th>behind</th><th>window lower</th><th>upper</th><th class="right">readers</th><th>position</th></tr></thead>
    <tbody>${tab.rows.map((row) => html`
      <tr key=${row.group}>
        <td class="who" title=${row.group}><a data-row href=${hrefOf({ group: row.group })}>${row.group}</a></td>
        <td class="ink-${row.tone}">${row.text}</td>
        <td data-of="window lower">${row.lower ? html`<${Time} time=${row.lower} />` : "before the first mark"}</td><td data-of="upper"><${Time} time=${row.upper} /></td>
        <td class="right" data-of="readers">${row.readers}</td><td class="mono wide">${row.position}</td>
      </tr>`)}</tbody>
  </table>`;

const Settings = ({ tab }) => html`
  ${tab.transactions.length > 0 && html`
    <table class="card list">
      <thead><tr><th>open transaction</th><th>writer</th><th>staged</th><th>lease left</th></tr></thead>
      <tbody>${tab.transactions.map((one) => html`<tr key=${one.id}><td class="mono">${one.id}</td><td class="who" title=${one.who} data-of="writer"><b>${one.who}</b></td><td data-of="staged">${one.events}</td><td data-of="lease left">${one.left}</td></tr>`)}</tbody>
    </table>`}
  ${tab.actions.length > 0 && html`
    <table class="card list">
      <thead><tr><th>scaled</th><th>segments</th><th>why</th></tr></thead>
      <tbody>${tab.actions.map((one) => html`<tr><td><${Time} time=${one.at} /></td><td><b>${one.text}</b></td><td class="wide">${one.reason}</td></tr>`)}</tbody>
    </table>`}
  <table class="card list">
    <thead><tr><th>setting</th><th>value</th><th>name</th></tr></thead>
    <tbody>
      ${tab.rows.map((row) => html`<tr key=${row.name}><td>${row.text}</td><td class="wide">${row.default == null ? row.value : html`<b>${row.value}</b> <small class="dim">default ${row.default}</small>`}</td><td class="mono dim">${row.name}</td></tr>`)}
      <tr><td>created</td><td><${Time} time=${{ ms: tab.created }} /></td><td class="mono dim">stream_id ${tab.id}</td></tr>
    </tbody>
  </table>`;

export const tabs = { writers: Writers, segments: Segments, marks: Marks, readers: Readers, settings: Settings };
