import { html } from "./vendor/preact-htm.js";
import { TideChart } from "./chart.js";
import { Command } from "./controls.js";
import { hrefOf } from "./links.js";
import { Since, Time, Words } from "./moments.js";
import { tabs } from "./tabs.js";

const SPANS = [[300, "5 min"], [1200, "20 min"], [3600, "1 h"]];

export default function Stream({ place, parts }) {
  const { head, chart, strip, race } = parts;
  if (!head) return null;
  const to = (more) => hrefOf({ stream: place.stream, tab: place.tab, span: place.span, ...more });
  const Tab = tabs[place.tab] || tabs.writers;
  return html`
    <${Head} head=${head} />
    <div class="pictures">
      <section class="card chart-card" aria-label="Event time over wall clock">
        <header>
          <h2>Event time over wall clock<span class="wide-only">: the water is what is complete</span></h2>
          <nav class="spans" aria-label="How much of the past">
            ${SPANS.map(([span, text]) => html`<a href=${to({ span: span === 300 ? null : span })}
              aria-current=${span === (Number(place.span) || 300) ? "true" : null}>${text}</a>`)}
          </nav>
        </header>
        ${chart ? html`<${TideChart} chart=${chart} strip=${strip || []} />`
          : html`<p class="dim waiting">The stream is sealed: its watermark is the end of time.</p>`}
      </section>
      <${Race} race=${chart && race} ended=${!chart} />
    </div>
    <nav class="tabs" aria-label="Parts of the stream">
      ${Object.keys(tabs).map((name) => html`<a href=${to({ tab: name === "writers" ? null : name })}
        aria-current=${name === place.tab ? "page" : null}>${name}</a>`)}
    </nav>
    ${parts.tab ? html`<${Tab} tab=${parts.tab} place=${place} />` : html`<p class="dim waiting">Loading …</p>`}`;
}

function Head({ head }) {
  const aside = head.headline.filter((part) => part.tone === "aside");
  const main = head.headline.filter((part) => part.tone !== "aside");
  return html`
    <section class="card head">
      <div>
        <h1 class="sentence"><${Words} parts=${main} />${aside.length ? html` <small><${Words} parts=${aside} /></small>` : ""}</h1>
        <p class="dim"><${Words} parts=${head.sentence} /></p>
        ${head.cure && html`<p class="cure">${head.cure}${head.command && html` <${Command} text=${head.command} />`}</p>`}
        ${head.hint && html`<p class="hint ink-amber">${head.hint}</p>`}
      </div>
      <div class="facts">
        <span class="pill ${head.tone}">${head.label}</span>
        ${head.aged != null && html`<p class="big"><${Since} ms=${head.aged} /> <small>old</small></p>`}
        <p class=${head.aged != null ? "dim" : "big"}><${Time} time=${head.watermark} /></p>
        <p>${head.writers.map((one, at) => html`${at ? html`<span class="dim"> · </span>` : ""}<span class="ink-${one.tone}">${one.text}</span>`)}</p>
        <p class="dim">${head.marks}</p>
        <p class="dim notes">${head.notes.join(" · ")}</p>
      </div>
    </section>`;
}

function Race({ race, ended }) {
  return html`
    <section class="card race" aria-label="The slowest writers">
      <header><h2>Slowest writers, behind the first<span class="wide-only">; line: watermark</span></h2></header>
      ${!race ? html`<p class="dim waiting">${ended ? "The watermark waits for no writer." : "No writer is live."}</p>` : html`
        <div class="lanes">
          ${race.rows.map((row) => html`
            <div class="lane ${row.tone ? `holds ${row.tone}` : ""}" key=${row.who}>
              <span class="who" title=${row.who}>${row.who}</span>
              <span class="track">
                ${race.water != null && html`<i class="complete" style=${{ width: `${race.water}%` }}></i>`}
                <i class="run" style=${{ width: `${row.x}%` }}></i>
                ${race.water != null && html`<i class="line" style=${{ left: `${race.water}%` }}></i>`}
              </span>
              <span class="right dim">${row.text}</span>
            </div>`)}
          ${race.others && html`
            <div class="lane others">
              <span class="who">${race.others.text}</span>
              <span class="track">
                ${race.water != null && html`<i class="complete" style=${{ width: `${race.water}%` }}></i>`}
                <i class="range" style=${{ left: `${race.others.x}%`, right: 0 }}></i>
                ${race.water != null && html`<i class="line" style=${{ left: `${race.water}%` }}></i>`}
              </span>
              <span class="right dim">to first</span>
            </div>`}
          <${Ticks} ticks=${race.ticks} />
        </div>`}
    </section>`;
}

export const Ticks = ({ ticks }) => html`
  <div class="lane ticks" aria-hidden="true"><span></span>
    <span class="track">${ticks.map((tick) => html`<i style=${{ left: `${tick.x}%` }}>${tick.text}</i>`)}</span><span></span>
  </div>`;
