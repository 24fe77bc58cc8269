import { html } from "./vendor/preact-htm.js";
import { hrefOf } from "./links.js";
import { clockNow, showSpan, Since, Ticking, Time, Words } from "./moments.js";
import { Blank } from "./tabs.js";

export default function Group({ parts }) {
  const { sections, more, readers, progress, gone } = parts;
  if (!sections) return null;
  return html`
    ${sections.map((one) => html`<${Section} key=${one.stream} one=${one} />`)}
    ${more && html`<p class="dim waiting">${more}</p>`}
    ${gone.map((stream) => html`<section class="card"><h1 class="sentence">Deleted</h1><p>${stream}</p></section>`)}
    ${progress && html`<${Progress} progress=${progress} />`}
    ${readers.length === 0 ? html`<${Blank} text="No reader is online." />` : html`<table class="card list">
      <thead><tr><th>reader</th><th class="right">epoch</th><th class="right">segments</th><th class="right">events behind</th><th class="right">heartbeat</th><th class="right">advanced</th></tr></thead>
      <tbody>${readers.map((row) => html`
        <tr key=${row.who}>
          <td class="who" title=${row.who}><i class="dot hue-${row.hue}"></i> <b>${row.who}</b></td><td class="right" data-of="epoch">${row.epoch}</td><td class="right" data-of="segments">${row.segments}</td><td class="right" data-of="behind">${row.behind}</td>
          <td data-of="heartbeat" class="right ink-${row.heard_tone}"><${Since} ms=${row.heard} /> ago</td>
          <td class="right" data-of="advanced">${row.advanced != null ? html`<${Since} ms=${row.advanced} /> ago` : "not since it joined"}</td>
        </tr>`)}</tbody>
    </table>`}`;
}

function Section({ one }) {
  const { ruler } = one;
  return html`
    <section class="card group">
      <div class="head plain">
        <div>
          <p><a class="named" title=${one.stream} href=${hrefOf({ stream: one.stream })}>${one.stream}</a></p>
          <h1 class="sentence ink-${one.tone}">${one.headline}</h1>
          <p class="dim"><${Words} parts=${one.sentence} /></p>
        </div>
        <div class="facts">
          ${one.behind != null && html`<p class="big">${one.behind} <small>${one.behind === "1" ? "event" : "events"} behind</small></p>`}
          <dl>
            <dt>window lower</dt><dd><${Time} time=${one.lower} /></dd>
            <dt>upper</dt><dd><${Time} time=${one.upper} /></dd>
            <dt>watermark</dt><dd><${Time} time=${one.watermark} /></dd>
          </dl>
        </div>
      </div>
      ${ruler && html`
        <div class="ruler" role="img" aria-label="How far the group has read, and how far the stream is complete, on a scale that ends now">
          <div class="over"><i style=${{ left: `${ruler.watermark}%` }}>watermark</i></div>
          <div class="stick">
            <i class="complete" style=${{ width: `${ruler.watermark}%` }}></i>
            <i class="read" style=${{ width: `${ruler.read}%` }}>${ruler.read > 6 && html`<b>read</b>`}</i>
            <i class="line" style=${{ left: `${ruler.watermark}%` }}></i>
          </div>
          <div class="scale">${ruler.ticks.map((tick) => html`<i style=${{ left: `${tick.x}%` }}>${tick.text}</i>`)}</div>
        </div>`}
      <h2>Segments: how far each is read; the line is the offset of the next mark</h2>
      <div class="lanes">
        ${one.segments.map((row) => html`
          <div class="lane ${row.back ? `holds ${row.tone}` : ""}" key=${row.number}>
            <span class="who" title=${row.who}><b>${row.number}</b> <small>${row.who}</small></span>
            <span class="track"><i class="run ${row.hue == null ? "" : `hue-${row.hue}`}" style=${{ width: `${row.fill}%` }}></i>
              ${row.wanted != null && html`<i class="wanted" style=${{ left: `${row.wanted}%` }}></i>`}</span>
            <span class="right dim">${row.text}</span>
          </div>`)}
      </div>
    </section>`;
}

const Progress = ({ progress }) => html`
  <section class="card">
    <header><h2>Progress of the query, <${Ticking} show=${() => showSpan(clockNow() - progress.reported)} /> ago</h2></header>
    <dl class="gauges">${progress.gauges.map((one) => html`<div><dt>${one.name}</dt><dd>${one.time ? html`<${Time} time=${one.time} />` : one.text}</dd></div>`)}</dl>
    ${progress.late_writers.length > 0 && html`
      <h2>Late rows by writer</h2>
      <div class="lanes">${progress.late_writers.map((one) => html`
        <div class="lane" key=${one.who}><span class="who" title=${one.who}>${one.who}</span><span class="track"><i class="run late" style=${{ width: `${one.part}%` }}></i></span><span class="right dim">${one.text}</span></div>`)}
      </div>`}
  </section>`;
