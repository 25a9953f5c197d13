// The cluster at a glance.
import { html } from "../lib/preact.js";
import { get } from "../lib/api.js";
import { LineChart } from "../lib/charts.js";
import { byteRate, bytes, count, rate, short } from "../lib/format.js";
import { link, useLoad } from "../lib/hooks.js";
import { Badge, Empty, Loaded, Notice, Page, Panel, Table } from "../lib/ui.js";

export function Overview() {
  const state = useLoad((signal) => get("/overview", signal), [], 5000);
  const series = useLoad((signal) => get("/rates", signal), [], 5000);
  return html`<${Page} title="Overview" lead=${state.data && html`Cluster <code>${state.data.cluster_id || "unknown"}</code>`}>
    <${Loaded} state=${state}>${(data) => html`
      ${data.problem && html`<${Notice} kind="warn" text="No rates at the moment: ${data.problem}" />`}
      <dl class="tiles">
        <${Tile} name="Brokers" value=${count(data.brokers.length)} note="controller ${data.controller}" />
        <${Tile} name="Topics" value=${count(data.topics)} note="${count(data.partitions)} partitions" href=${link("topics")} />
        <${Tile} name="Groups" value=${count(data.groups)} href=${link("groups")} />
        <${Tile} name="Messages in" value=${rate(data.messages_per_second)} note=${byteRate(data.bytes_per_second)} />
        <${Tile} name="Under-replicated" value=${count(data.under_replicated_count)} kind=${data.under_replicated_count ? "warn" : "good"} />
        <${Tile} name="Without a leader" value=${count(data.leaderless_count)} kind=${data.leaderless_count ? "bad" : "good"} />
      </dl>
      <div class="pair"><${Rates} series=${series.data} /></div>
      <${Panel} title="Brokers" id="brokers" flush><${BrokerTable} brokers=${data.brokers} /><//>
      <${Panel} title="Partitions that need attention" id="attention" flush>
        <${Attention} data=${data} />
      <//>`}
    <//>
  <//>`;
}

function Tile({ name, value, note, kind = "", href }) {
  const inside = html`<dt>${name}</dt><dd class="value">${value}</dd><dd class="note">${note || "\u00a0"}</dd>`;
  return href
    ? html`<div class="tile ${kind}">${inside}<a class="cover" href=${href} aria-label=${name}></a></div>`
    : html`<div class="tile ${kind}">${inside}</div>`;
}

function Rates({ series }) {
  if (!series || series.times.length < 2) {
    return html`<${Panel} title="Throughput" id="rates"><${Empty} title="The first rates are being measured.">
      They are differences between two looks at the logs, five seconds apart.<//><//>`;
  }
  return html`
    <${Panel} title="Messages in" id="messages-in">
      <${LineChart} label="messages/s" times=${series.times} values=${series.messages_per_second} format=${(each) => short(each)} /><//>
    <${Panel} title="Bytes in" id="bytes-in">
      <${LineChart} label="bytes/s" times=${series.times} values=${series.bytes_per_second} format=${bytes} stroke="--second" /><//>`;
}

function BrokerTable({ brokers }) {
  const columns = [
    { name: "id", head: "Broker", cell: (row) => html`<a href=${link("brokers", row.id)}>${row.id}</a>`, sort: (row) => row.id },
    { name: "where", head: "Address", cell: (row) => html`<code>${row.host}:${row.port}</code>` },
    { name: "role", head: "Role", cell: (row) => (row.is_controller ? html`<${Badge} kind="good">controller<//>` : "") },
    { name: "rack", head: "Rack", cell: (row) => row.rack || "–" },
    { name: "leads", head: "Leads", number: true, cell: (row) => count(row.leads), sort: (row) => row.leads },
    { name: "replicas", head: "Replicas", number: true, cell: (row) => count(row.replicas), sort: (row) => row.replicas },
    { name: "size", head: "Logs", number: true, cell: (row) => bytes(row.size), sort: (row) => row.size },
    { name: "free", head: "Disk free", number: true, cell: (row) => bytes(row.usable_bytes), sort: (row) => row.usable_bytes },
  ];
  return html`<${Table} label="Brokers" columns=${columns} rows=${brokers} rowKey=${(row) => row.id} />`;
}

function Attention({ data }) {
  const seen = new Set(data.leaderless.map((each) => `${each.topic}-${each.partition}`));
  const rows = [...data.leaderless, ...data.under_replicated.filter((each) => !seen.has(`${each.topic}-${each.partition}`))];
  const empty = html`<${Empty} title="Every partition has a leader and all its replicas in sync." />`;
  const columns = [
    { name: "topic", head: "Topic", cell: (row) => html`<a href=${link("topics", row.topic, "partitions")}>${row.topic}</a>` },
    { name: "partition", head: "Partition", number: true, cell: (row) => row.partition },
    { name: "leader", head: "Leader", number: true, cell: (row) => (row.leader < 0 ? html`<${Badge} kind="bad">none<//>` : row.leader) },
    { name: "replicas", head: "Replicas", cell: (row) => row.replicas.join(", ") },
    { name: "isr", head: "In sync", cell: (row) => row.isr.join(", ") || "–" },
  ];
  return html`<${Table} label="Partitions that need attention" columns=${columns} rows=${rows} empty=${empty}
    rowKey=${(row) => `${row.topic}-${row.partition}`} />`;
}
