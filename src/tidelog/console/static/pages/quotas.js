// Limits of users, clients and addresses.
import { html, useState } from "../lib/preact.js";
import { call, get } from "../lib/api.js";
import { byteRate, count } from "../lib/format.js";
import { useLoad } from "../lib/hooks.js";
import { Empty, Field, FormDialog, Loaded, Page, Panel, say, Table, WriteButton } from "../lib/ui.js";

const LIMITS = [
  ["producer_byte_rate", "Produce", "bytes a second"],
  ["consumer_byte_rate", "Fetch", "bytes a second"],
  ["request_percentage", "Request time", "percent of one thread"],
  ["controller_mutation_rate", "Mutations", "partitions created or deleted a second"],
  ["connection_creation_rate", "Connections", "new ones a second, of an address"],
];

const shown = (name, value) => {
  if (value === undefined) return html`<span class="muted">–</span>`;
  if (name.endsWith("byte_rate")) return byteRate(value);
  return name === "request_percentage" ? `${count(value)} %` : `${count(value)}/s`;
};

export const entityText = (entity) => Object.entries(entity).map(([kind, name]) => `${kind} ${name === null ? "(default)" : name}`).join(", ");

export function Quotas() {
  const [editing, setEditing] = useState(null);
  const state = useLoad((signal) => get("/quotas", signal), [], 15000);
  const columns = [
    { name: "entity", head: "For whom", sort: (row) => entityText(row.entity), cell: (row) => entityText(row.entity) },
    ...LIMITS.map(([name, head]) => ({ name, head, number: true, sort: (row) => row.limits[name], cell: (row) => shown(name, row.limits[name]) })),
    { name: "edit", number: true, head: html`<span class="unseen">Change</span>`, cell: (row) => html`<${WriteButton} class="quiet small" aria-label="Change the quota of ${entityText(row.entity)}"
      onClick=${() => setEditing(row)}>Change<//>` },
  ];
  const make = html`<${WriteButton} class="primary" onClick=${() => setEditing({ entity: {}, limits: {} })}>Set a quota<//>`;
  return html`<${Page} title="Quotas" actions=${make} lead="The most specific limit holds: user with client id, before user, before client id.">
    <${Loaded} state=${state}>${(quotas) => html`<${Panel} flush><${Table} label="Quotas" columns=${columns} rows=${quotas} rowKey=${(row) => entityText(row.entity)}
      empty=${html`<${Empty} title="Nobody is limited.">Set a quota so that one client cannot take what others need.<//>`} /><//>`}<//>
    ${editing && html`<${Edit} quota=${editing} close=${() => setEditing(null)} done=${state.reload} />`}
  <//>`;
}

const DEFAULT = "";

function Edit({ quota, close, done }) {
  const fresh = Object.keys(quota.entity).length === 0;
  const [kind, setKind] = useState("client-id");
  const [user, setUser] = useState(DEFAULT);
  const [client, setClient] = useState(DEFAULT);
  const [limits, setLimits] = useState(() => Object.fromEntries(LIMITS.map(([name]) => [name, quota.limits[name] ?? ""])));
  const entity = () => {
    if (!fresh) return quota.entity;
    const name = (text) => (text.trim() === DEFAULT ? null : text.trim());
    if (kind === "user") return { user: name(user) };
    if (kind === "client-id") return { "client-id": name(client) };
    if (kind === "ip") return { ip: name(user) };
    return { user: name(user), "client-id": name(client) };
  };
  const submit = async () => {
    const changes = {};
    for (const [name] of LIMITS) {
      const text = String(limits[name]).trim();
      if (text !== "") changes[name] = Number(text);
      else if (quota.limits[name] !== undefined) changes[name] = null;
    }
    if (Object.keys(changes).length === 0) throw new Error("Give at least one limit.");
    await call("POST", "/quotas", { entity: entity(), limits: changes });
    say(`Set the quota of ${entityText(entity())}.`);
    done();
    close();
  };
  return html`<${FormDialog} title=${fresh ? "Set a quota" : `Quota of ${entityText(quota.entity)}`} submit=${submit} close=${close} verb="Set" wide>
    ${fresh && html`<div class="fields">
      <${Field} label="For">${(field) => html`<select ...${field} value=${kind} onChange=${(event) => setKind(event.target.value)}><option value="client-id">a client id</option>
        <option value="user">a user</option><option value="both">a user with a client id</option><option value="ip">an address</option></select>`}<//>
      ${kind !== "client-id" && html`<${Field} label=${kind === "ip" ? "Address" : "User"} hint="Empty: the default of all.">${(field) => html`<input ...${field} value=${user} onInput=${(event) => setUser(event.target.value)} />`}<//>`}
      ${(kind === "client-id" || kind === "both") && html`<${Field} label="Client id" hint="Empty: the default of all.">${(field) => html`<input ...${field} value=${client} onInput=${(event) => setClient(event.target.value)} />`}<//>`}
    </div>`}
    <div class="fields">
      ${LIMITS.map(([name, text, unit]) => html`<${Field} key=${name} label=${text} hint=${unit}>${(field) => html`<input ...${field} type="number" min="0" step="any" value=${limits[name]}
        onInput=${(event) => setLimits({ ...limits, [name]: event.target.value })} />`}<//>`)}
    </div>
    ${!fresh && html`<p class="muted">An empty limit is taken away.</p>`}
  <//>`;
}
