// One topic: its messages, its partitions, its settings.
import { html, useState } from "../lib/preact.js";
import { call, get, path, query } from "../lib/api.js";
import { bytes, count, plural } from "../lib/format.js";
import { go, link, useLoad } from "../lib/hooks.js";
import { Badge, ConfirmDialog, Field, FormDialog, Loaded, Page, Panel, say, Table, Tabs, WriteButton } from "../lib/ui.js";
import { Messages } from "./messages.js";
import { Settings } from "./settings.js";

export function Topic({ place }) {
  const [, topic, tab = "messages"] = place.parts;
  const [dialog, setDialog] = useState(null);
  const state = useLoad((signal) => get(`/topics${path(topic)}`, signal), [topic], 8000);
  const close = () => setDialog(null);
  const actions = state.data && html`
    <${WriteButton} class="quiet" onClick=${() => setDialog("grow")}>Add partitions<//>
    <${WriteButton} class="quiet danger-text" onClick=${() => setDialog("delete")}>Delete<//>`;
  const tabs = [
    ["messages", "Messages", link("topics", topic)],
    ["partitions", "Partitions", link("topics", topic, "partitions")],
    ["settings", "Settings", link("topics", topic, "settings")],
  ];
  return html`<${Page} title=${topic} crumbs=${[["Topics", link("topics")]]} actions=${actions}
      lead=${state.data && html`<${Facts} topic=${state.data} />`}>
    <${Tabs} label="Parts of the topic" tabs=${tabs} chosen=${tab} />
    <${Loaded} state=${state}>${(data) => {
      if (tab === "partitions") return html`<${Partitions} topic=${data} />`;
      if (tab === "settings") return html`<${Settings} what="topic" where=${`/topics${path(topic)}/settings`} />`;
      return html`<${Messages} topic=${topic} partitions=${data.partitions.length} search=${place.search} />`;
    }}<//>
    ${dialog === "grow" && html`<${Grow} topic=${topic} now=${state.data.partitions.length} close=${close} done=${state.reload} />`}
    ${dialog === "delete" && html`<${ConfirmDialog} title="Delete topic ${topic}" name=${topic} verb="Delete the topic" close=${close}
      warning="All its messages are deleted, on all brokers. This cannot be undone."
      submit=${async () => {
        await call("DELETE", `/topics${path(topic)}${query({ confirmed: topic })}`);
        say(`Deleted topic ${topic}.`);
        go(link("topics"));
      }} />`}
  <//>`;
}

function Facts({ topic }) {
  const known = topic.partitions.filter((each) => each.end !== null);
  const messages = known.reduce((sum, each) => sum + each.end - each.begin, 0);
  const sizes = topic.partitions.filter((each) => each.size !== null);
  const size = sizes.length ? bytes(sizes.reduce((sum, each) => sum + each.size, 0)) : "size unknown";
  return html`${plural(topic.partitions.length, "partition")} · ${plural(messages, "message")} · ${size}
    ${topic.is_internal && html` <${Badge}>internal<//>`}`;
}

function Partitions({ topic }) {
  const columns = [
    { name: "partition", head: "Partition", sort: (row) => row.partition, cell: (row) => row.partition },
    { name: "leader", head: "Leader", number: true, sort: (row) => row.leader,
      cell: (row) => (row.leader < 0 ? html`<${Badge} kind="bad">none<//>` : row.leader) },
    { name: "replicas", head: "Replicas", cell: (row) => row.replicas.join(", ") },
    { name: "isr", head: "In sync", cell: (row) => html`${row.isr.join(", ") || "–"} ${
      row.isr.length < row.replicas.length && html`<${Badge} kind="warn">${row.replicas.length - row.isr.length} behind<//>`}` },
    { name: "begin", head: "Begin", number: true, sort: (row) => row.begin, cell: (row) => count(row.begin) },
    { name: "end", head: "End", number: true, sort: (row) => row.end, cell: (row) => count(row.end) },
    { name: "messages", head: "Messages", number: true, sort: (row) => row.end - row.begin,
      cell: (row) => (row.end === null ? "–" : count(row.end - row.begin)) },
    { name: "size", head: "Size", number: true, sort: (row) => row.size, cell: (row) => bytes(row.size) },
  ];
  return html`<${Panel} flush><${Table} label="Partitions" columns=${columns} rows=${topic.partitions} rowKey=${(row) => row.partition} /><//>`;
}

function Grow({ topic, now, close, done }) {
  const [total, setTotal] = useState(now + 1);
  const submit = async () => {
    await call("POST", `/topics${path(topic)}/partitions`, { total: Number(total) });
    say(`Topic ${topic} has ${total} partitions.`);
    done();
    close();
  };
  return html`<${FormDialog} title="Add partitions to ${topic}" verb="Add" submit=${submit} close=${close}>
    <p>It has ${now}. Keys are spread anew: what comes under a key from now on may go to another partition. There is no way back.</p>
    <${Field} label="Partitions in all">${(field) => html`<input ...${field} type="number" required min=${now + 1} max="10000" value=${total}
      onInput=${(event) => setTotal(event.target.value)} />`}<//>
  <//>`;
}
