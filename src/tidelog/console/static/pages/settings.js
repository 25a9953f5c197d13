// Settings of a topic or a broker: what they are, and changing those that can be.
import { html, useState } from "../lib/preact.js";
import { call, get } from "../lib/api.js";
import { useLoad, useSession } from "../lib/hooks.js";
import { Badge, Empty, Field, FormDialog, Loaded, Panel, say, Table } from "../lib/ui.js";

export function Settings({ what, where }) {
  const [wanted, setWanted] = useState("");
  const [changed, setChanged] = useState(false);
  const [editing, setEditing] = useState(null);
  const session = useSession();
  const state = useLoad((signal) => get(where, signal), [where]);
  const columns = [
    { name: "name", head: "Setting", sort: (row) => row.name, cell: (row) => html`<code>${row.name}</code>` },
    { name: "value", head: "Value", cell: (row) => (row.is_secret ? html`<span class="muted">hidden</span>` : html`<code class="value">${row.value === "" ? "“”" : row.value}</code>`) },
    { name: "from", head: "From", sort: (row) => source(row, what), cell: (row) => html`<${Badge} kind=${row.is_default ? "" : "info"}>${source(row, what)}<//>` },
    {
      name: "edit",
      number: true,
      head: html`<span class="unseen">Change</span>`,
      cell: (row) => row.is_read_only || session.read_only
        ? html`<span class="muted">${row.is_read_only ? "fixed at start" : ""}</span>`
        : html`<button class="quiet small" aria-label="Change ${row.name}" onClick=${() => setEditing(row)}>Change</button>`,
    },
  ];
  return html`
    <div class="toolbar">
      <input type="search" aria-label="Filter settings" placeholder="Filter by name or value" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
      <label class="check"><input type="checkbox" checked=${changed} onChange=${(event) => setChanged(event.target.checked)} /> Only what is not the default</label>
    </div>
    <${Loaded} state=${state}>${(entries) => {
      const text = wanted.toLowerCase();
      const rows = entries.filter((each) => (!changed || !each.is_default) && (each.name.includes(text) || (each.value || "").toLowerCase().includes(text)));
      const empty = html`<${Empty} title=${changed && !wanted ? "Everything has its default." : "No setting fits."} />`;
      return html`<${Panel} flush><${Table} label="Settings" columns=${columns} rows=${rows} rowKey=${(row) => row.name} empty=${empty} /><//>`;
    }}<//>
    ${editing && html`<${Edit} what=${what} where=${where} entry=${editing} close=${() => setEditing(null)} done=${state.reload} />`}`;
}

// A topic's setting may be its own or its broker's; a broker's is simply set.
const source = (row, what) => (row.is_default ? "default" : row.is_own || what === "broker" ? "set here" : "set by the broker");

function Edit({ what, where, entry, close, done }) {
  const [value, setValue] = useState(entry.value || "");
  const [back, setBack] = useState(false);
  const submit = async () => {
    await call("PATCH", where, { changes: { [entry.name]: back ? null : value } });
    say(back ? `${entry.name} is back to its default.` : `${entry.name} is ${value}.`);
    done();
    close();
  };
  return html`<${FormDialog} title="Change ${entry.name}" submit=${submit} close=${close} verb="Change">
    <${Field} label="Value">${(field) => html`<input ...${field} class="code" autofocus spellcheck=${false} autocomplete="off" disabled=${back} value=${value}
      onInput=${(event) => setValue(event.target.value)} />`}<//>
    <label class="check"><input type="checkbox" checked=${back} onChange=${(event) => setBack(event.target.checked)} /> Back to what holds without this ${what}'s own value</label>
  <//>`;
}
