// All topics, and making one.
import { html, useState } from "../lib/preact.js";
import { call, get, query } from "../lib/api.js";
import { byteRate, bytes, count, rate } from "../lib/format.js";
import { go, link, useLoad, useSession } from "../lib/hooks.js";
import { Badge, Empty, Field, FormDialog, Loaded, Page, Panel, say, Table, WriteButton } from "../lib/ui.js";

export function Topics() {
  const [internal, setInternal] = useState(false);
  const [wanted, setWanted] = useState("");
  const [making, setMaking] = useState(false);
  const session = useSession();
  const state = useLoad((signal) => get(`/topics${query({ internal })}`, signal), [internal], 8000);
  const make = html`<${WriteButton} class="primary" onClick=${() => setMaking(true)}>Create a topic<//>`;
  return html`<${Page} title="Topics" actions=${make}>
    <div class="toolbar">
      <input type="search" aria-label="Filter topics by name" placeholder="Filter by name" value=${wanted}
        onInput=${(event) => setWanted(event.target.value)} />
      <label class="check"><input type="checkbox" checked=${internal} onChange=${(event) => setInternal(event.target.checked)} />
        Internal topics</label>
    </div>
    <${Loaded} state=${state}>${(topics) => {
      const rows = topics.filter((each) => each.name.toLowerCase().includes(wanted.toLowerCase()));
      const empty = topics.length
        ? html`<${Empty} title="No topic has “${wanted}” in its name." />`
        : html`<${Empty} title="There are no topics yet.">
            ${session.read_only ? "They appear when somebody creates one." : html`Create one here, or let a producer do it:
            <pre>echo hi | tidelog produce hello</pre>`}<//>`;
      return html`<${Panel} flush><${Table} label="Topics" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.name} empty=${empty} /><//>`;
    }}<//>
    ${making && html`<${CreateTopic} close=${() => setMaking(false)} />`}
  <//>`;
}

const COLUMNS = [
  {
    name: "name",
    head: "Topic",
    sort: (row) => row.name,
    cell: (row) => html`<a href=${link("topics", row.name)}>${row.name}</a> ${row.is_internal && html`<${Badge}>internal<//>`}`,
  },
  { name: "partitions", head: "Partitions", number: true, sort: (row) => row.partitions, cell: (row) => count(row.partitions) },
  { name: "factor", head: "Replicas", number: true, sort: (row) => row.replication_factor, cell: (row) => row.replication_factor },
  {
    name: "state",
    head: "State",
    cell: (row) => row.messages === null
      ? html`<${Badge} kind="bad">no leader<//>`
      : row.under_replicated
        ? html`<${Badge} kind="warn">${row.under_replicated} under-replicated<//>`
        : html`<${Badge} kind="good">in sync<//>`,
  },
  { name: "messages", head: "Messages", number: true, sort: (row) => row.messages, cell: (row) => count(row.messages) },
  { name: "size", head: "Size", number: true, sort: (row) => row.size, cell: (row) => bytes(row.size) },
  { name: "rate", head: "In", number: true, sort: (row) => row.messages_per_second, cell: (row) => rate(row.messages_per_second) },
  { name: "bytes", head: "Bytes in", number: true, sort: (row) => row.bytes_per_second, cell: (row) => byteRate(row.bytes_per_second) },
];

function CreateTopic({ close }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("");
  const [factor, setFactor] = useState("");
  const [settings, setSettings] = useState("");
  const submit = async () => {
    const given = {};
    for (const line of settings.split("\n").map((each) => each.trim()).filter(Boolean)) {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`“${line}”: write a setting as name=value`);
      given[line.slice(0, at).trim()] = line.slice(at + 1).trim();
    }
    await call("POST", "/topics", {
      name,
      partitions: partitions === "" ? -1 : Number(partitions),
      replication_factor: factor === "" ? -1 : Number(factor),
      settings: given,
    });
    say(`Created topic ${name}.`);
    go(link("topics", name));
  };
  return html`<${FormDialog} title="Create a topic" verb="Create" submit=${submit} close=${close}>
    <${Field} label="Name" hint="Letters, digits, dots, underscores and dashes.">${(field) => html`<input ...${field} required autofocus
      autocomplete="off" spellcheck=${false} pattern="[A-Za-z0-9._\\-]{1,249}" value=${name} onInput=${(event) => setName(event.target.value)} />`}<//>
    <div class="fields">
      <${Field} label="Partitions" hint="Empty: the broker's num.partitions.">${(field) => html`<input ...${field} type="number" min="1" max="10000"
        value=${partitions} onInput=${(event) => setPartitions(event.target.value)} />`}<//>
      <${Field} label="Replicas" hint="Empty: the broker's default.">${(field) => html`<input ...${field} type="number" min="1" max="100"
        value=${factor} onInput=${(event) => setFactor(event.target.value)} />`}<//>
    </div>
    <${Field} label="Settings" hint="One a line, such as retention.ms=3600000.">${(field) => html`<textarea ...${field} rows="3" class="code"
      spellcheck=${false} value=${settings} onInput=${(event) => setSettings(event.target.value)}></textarea>`}<//>
  <//>`;
}
