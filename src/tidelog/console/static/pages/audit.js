// Whether everything arrived: a row for each topic, a square for each window.
import { html, useState } from "../lib/preact.js";
import { get, query } from "../lib/api.js";
import { clock, count, time } from "../lib/format.js";
import { link, useLoad } from "../lib/hooks.js";
import { Badge, Empty, Field, Loaded, Notice, Page, Panel, Table } from "../lib/ui.js";

const KINDS = { complete: "good", incomplete: "bad", open: "" };
const SIGNS = { complete: "✓", incomplete: "!", open: "·" };

export function Audit() {
  const [limit, setLimit] = useState("48");
  const [chosen, setChosen] = useState(null);
  const state = useLoad((signal) => get(`/audit${query({ limit })}`, signal), [limit], 10000);
  return html`<${Page} title="Audit" lead="Does every tier have as many messages as were produced?">
    <${Loaded} state=${state}>${(data) => {
      if (data.windows.length === 0) {
        return html`<${Empty} title="Nothing has been counted yet.">A producer counts with <code>audit=True</code>; a consumer, a mirror and Spark jobs are further tiers:
          <pre>tidelog mirror --audit …${"\n"}tidelog audit report</pre><//>`;
      }
      const rows = data.topics.map((topic) => ({ topic, windows: data.windows.filter((each) => each.topic === topic) }));
      const one = chosen && data.windows.find((each) => each.topic === chosen.topic && each.start_ms === chosen.start_ms);
      return html`
        ${!data.read_to_the_end && html`<${Notice} kind="warn" text="The audit topic is still being read; what is shown is not all." />`}
        <div class="toolbar"><${Field} label="Windows">${(field) => html`<select ...${field} value=${limit} onChange=${(event) => setLimit(event.target.value)}>
          <option value="24">24</option><option value="48">48</option><option value="144">144</option><option value="500">500</option></select>`}<//>
          <span class="legend" aria-hidden="true"><span class="cell good">✓</span> complete <span class="cell bad">!</span> incomplete <span class="cell">·</span> open</span></div>
        <${Panel} title="Completeness" id="heat" flush><div class="table-scroll"><table class="heat" aria-label="Completeness by topic and window">
          <thead><tr><th scope="col">Topic</th><th scope="col">Complete up to</th><th scope="col">Windows, oldest first</th></tr></thead>
          <tbody>${rows.map((row) => html`<tr key=${row.topic}>
            <th scope="row"><a href=${link("topics", row.topic)}>${row.topic}</a></th>
            <td class="nowrap">${data.complete_until[row.topic] ? time(data.complete_until[row.topic], { millis: false }) : "–"}</td>
            <td><div class="cells">${row.windows.map((each) => html`<button key=${each.start_ms} class="cell ${KINDS[each.state]} ${each === one ? "chosen" : ""}"
              aria-pressed=${each === one} title="${clock(each.start_ms)}–${clock(each.end_ms)}: ${count(each.expected)}, ${each.state}"
              aria-label="${row.topic}, ${time(each.start_ms, { millis: false })}, ${each.state}" onClick=${() => setChosen(each)}>${SIGNS[each.state]}</button>`)}</div></td>
          </tr>`)}</tbody></table></div><//>
        ${one ? html`<${Window} window=${one} tiers=${data.tiers} />` : html`<p class="muted">Choose a square to see its counts.</p>`}`;
    }}<//>
  <//>`;
}

function Window({ window, tiers }) {
  const rows = tiers.filter((tier) => tier in window.counts).map((tier) => ({ tier }));
  const number = (found) => (row) => (found[row.tier] ? html`<strong>${count(found[row.tier])}</strong>` : "–");
  const columns = [
    { name: "tier", head: "Tier", cell: (row) => row.tier },
    { name: "count", head: "Counted", number: true, cell: (row) => count(window.counts[row.tier]) },
    { name: "missing", head: "Missing", number: true, cell: number(window.missing) },
    { name: "twice", head: "Twice", number: true, cell: number(window.duplicated) },
    { name: "late", head: "Late", number: true, cell: number(window.late) },
  ];
  const title = html`${window.topic}, ${time(window.start_ms, { millis: false })} to ${time(window.end_ms, { day: false, millis: false })} <${Badge} kind=${KINDS[window.state]}>${window.state}<//>`;
  return html`<${Panel} title=${title} id="window" flush><${Table} label="Counts of the window" columns=${columns} rows=${rows} rowKey=${(row) => row.tier} /><//>`;
}
