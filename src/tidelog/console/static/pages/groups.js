// All consumer groups.
import { html, useState } from "../lib/preact.js";
import { get } from "../lib/api.js";
import { Sparkline } from "../lib/charts.js";
import { count } from "../lib/format.js";
import { link, useLoad } from "../lib/hooks.js";
import { Badge, Empty, Loaded, Page, Panel, Table } from "../lib/ui.js";

export const stateKind = (state) => ({ Stable: "good", Empty: "", Dead: "bad" })[state] ?? "warn";

const COLUMNS = [
  { name: "group", head: "Group", sort: (row) => row.group, cell: (row) => html`<a href=${link("groups", row.group)}>${row.group}</a>` },
  { name: "state", head: "State", sort: (row) => row.state, cell: (row) => html`<${Badge} kind=${stateKind(row.state)}>${row.state || "unknown"}<//>` },
  { name: "type", head: "Protocol", sort: (row) => row.type, cell: (row) => row.type || "–" },
  { name: "members", head: "Members", number: true, sort: (row) => row.members, cell: (row) => count(row.members) },
  { name: "lag", head: "Lag", number: true, sort: (row) => row.lag, cell: (row) => count(row.lag) },
  { name: "trend", head: "Trend", cell: (row) => html`<${Sparkline} values=${row.trend} label="Lag of ${row.group}" />` },
];

export function Groups() {
  const [wanted, setWanted] = useState("");
  const state = useLoad((signal) => get("/groups", signal), [], 5000);
  return html`<${Page} title="Groups">
    <div class="toolbar"><input type="search" aria-label="Filter groups by name" placeholder="Filter by name" value=${wanted}
      onInput=${(event) => setWanted(event.target.value)} /></div>
    <${Loaded} state=${state}>${(groups) => {
      const rows = groups.filter((each) => each.group.toLowerCase().includes(wanted.toLowerCase()));
      const empty = groups.length
        ? html`<${Empty} title="No group has “${wanted}” in its name." />`
        : html`<${Empty} title="There are no consumer groups yet.">A group appears when a consumer joins it:
            <pre>tidelog consume orders --group billing</pre><//>`;
      return html`<${Panel} flush><${Table} label="Groups" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.group} empty=${empty} /><//>`;
    }}<//>
  <//>`;
}
