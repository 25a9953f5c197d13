// One consumer group: members, lag, and moving it.
import { html, useState } from "../lib/preact.js";
import { call, get, path, query } from "../lib/api.js";
import { LineChart } from "../lib/charts.js";
import { count, duration, plural, short } from "../lib/format.js";
import { go, link, useLoad } from "../lib/hooks.js";
import { Badge, ConfirmDialog, Empty, Field, FormDialog, Loaded, Notice, Page, Panel, say, Table, WriteButton } from "../lib/ui.js";
import { stateKind } from "./groups.js";

export function Group({ group }) {
  const [dialog, setDialog] = useState(null);
  const state = useLoad((signal) => get(`/groups${path(group)}`, signal), [group], 5000);
  const close = () => setDialog(null);
  const actions = state.data && html`
    <${WriteButton} class="primary" onClick=${() => setDialog("reset")}>Reset offsets<//>
    <${WriteButton} class="quiet danger-text" onClick=${() => setDialog("delete")}>Delete<//>`;
  return html`<${Page} title=${group} crumbs=${[["Groups", link("groups")]]} actions=${actions}
      lead=${state.data && html`<${Badge} kind=${stateKind(state.data.state)}>${state.data.state}<//> ${plural(state.data.members.length, "member")} · ${state.data.type} protocol${
        state.data.assignor ? ` · ${state.data.assignor}` : ""}`}>
    <${Loaded} state=${state}>${(data) => html`
      <dl class="tiles">
        <div class="tile"><dt>Lag</dt><dd class="value">${count(data.lag)}</dd><dd class="note">messages not read</dd></div>
        <div class="tile"><dt>Lag in time</dt><dd class="value">${duration(data.lag_seconds)}</dd><dd class="note">the oldest unread has waited</dd></div>
        <div class="tile"><dt>Partitions</dt><dd class="value">${count(data.partitions.length)}</dd><dd class="note">with offsets or members</dd></div>
      </dl>
      ${data.trend.length > 1 && html`<${Panel} title="Lag, last 15 minutes" id="trend">
        <${LineChart} label="lag" times=${data.trend.map((each) => each[0])} values=${data.trend.map((each) => each[1])} format=${short} /><//>`}
      <${Panel} title="Partitions" id="group-partitions" flush><${Partitions} data=${data} /><//>
      <${Panel} title="Members" id="members" flush><${Members} members=${data.members} /><//>
      ${dialog === "reset" && html`<${Reset} data=${data} close=${close} done=${state.reload} />`}`}
    <//>
    ${dialog === "delete" && html`<${ConfirmDialog} title="Delete group ${group}" name=${group} verb="Delete the group" close=${close}
      warning="Its offsets are forgotten. A consumer that comes back under this name begins where its settings say."
      submit=${async () => {
        await call("DELETE", `/groups${path(group)}${query({ confirmed: group })}`);
        say(`Deleted group ${group}.`);
        go(link("groups"));
      }} />`}
  <//>`;
}

function Partitions({ data }) {
  const columns = [
    { name: "topic", head: "Topic", sort: (row) => row.topic, cell: (row) => html`<a href=${link("topics", row.topic)}>${row.topic}</a>` },
    { name: "partition", head: "Partition", number: true, sort: (row) => row.partition, cell: (row) => row.partition },
    { name: "offset", head: "Offset", number: true, sort: (row) => row.offset, cell: (row) => count(row.offset) },
    { name: "end", head: "End", number: true, sort: (row) => row.end, cell: (row) => count(row.end) },
    { name: "lag", head: "Lag", number: true, sort: (row) => row.lag, cell: (row) => count(row.lag) },
    { name: "seconds", head: "Lag in time", number: true, sort: (row) => row.lag_seconds, cell: (row) => html`${duration(row.lag_seconds)} ${
      row.lost > 0 && html`<${Badge} kind="bad">${count(row.lost)} lost to retention<//>`}` },
    { name: "member", head: "Member", cell: (row) => (row.member_id ? html`<code class="clip" title=${row.member_id}>${row.member_id}</code>` : "–") },
  ];
  const empty = html`<${Empty} title="The group has committed nothing yet." />`;
  return html`<${Table} label="Partitions of the group" columns=${columns} rows=${data.partitions} rowKey=${(row) => `${row.topic}-${row.partition}`} empty=${empty} />`;
}

function Members({ members }) {
  const columns = [
    { name: "client", head: "Client", cell: (row) => row.client_id },
    { name: "host", head: "Host", cell: (row) => html`<code>${row.host}</code>` },
    { name: "member", head: "Member", cell: (row) => html`<code class="clip" title=${row.member_id}>${row.member_id}</code>` },
    { name: "static", head: "Instance", cell: (row) => row.instance_id || "–" },
    { name: "partitions", head: "Partitions", cell: (row) => row.partitions.join(", ") || "none at the moment" },
  ];
  const empty = html`<${Empty} title="Nobody is in this group at the moment.">So its offsets can be reset.<//>`;
  return html`<${Table} label="Members" columns=${columns} rows=${members} rowKey=${(row) => row.member_id} empty=${empty} />`;
}

// First what would be done, then doing it.
function Reset({ data, close, done }) {
  const topics = [...new Set(data.partitions.map((each) => each.topic))];
  const [to, setTo] = useState("start");
  const [value, setValue] = useState("");
  const [topic, setTopic] = useState("");
  const [plan, setPlan] = useState(null);
  const change = (set) => (event) => {
    setPlan(null);
    set(event.target.value);
  };
  const ask = async (dry) =>
    call("POST", `/groups${path(data.group)}/reset`, {
      to,
      offset: to === "offset" ? Number(value) : null,
      time: to === "time" ? value : null,
      shift: to === "shift" ? Number(value) : null,
      topic: topic || null,
      dry_run: dry,
    });
  const submit = async () => {
    if (plan === null) {
      setPlan((await ask(true)).partitions);
      return;
    }
    await ask(false);
    say(`Group ${data.group} goes on where you said.`);
    done();
    close();
  };
  const names = { offset: "Offset", time: "Time", shift: "By how many messages" };
  const hints = { time: "10m (ago), or 2026-01-31T12:00", shift: "Negative: back." };
  return html`<${FormDialog} title="Reset offsets of ${data.group}" submit=${submit} close=${close} wide danger=${plan !== null}
      verb=${plan === null ? "Show what would be done" : "Reset the offsets"}>
    ${data.members.length > 0 && html`<${Notice} kind="warn" text="The group has ${plural(data.members.length, "member")}. You can look at what would happen; to do it, stop them first." />`}
    <div class="fields">
      <${Field} label="Topic">${(field) => html`<select ...${field} value=${topic} onChange=${change(setTopic)}>
        <option value="">all that it has read</option>${topics.map((each) => html`<option value=${each}>${each}</option>`)}</select>`}<//>
      <${Field} label="Go on at">${(field) => html`<select ...${field} value=${to} onChange=${change(setTo)}>
        <option value="start">the start</option><option value="end">the end</option><option value="offset">an offset</option>
        <option value="time">a time</option><option value="shift">forward or back by …</option></select>`}<//>
      ${names[to] && html`<${Field} label=${names[to]} hint=${hints[to]}>${(field) => html`<input ...${field} required value=${value}
        type=${to === "time" ? "text" : "number"} min=${to === "offset" ? "0" : undefined} onInput=${change(setValue)} />`}<//>`}
    </div>
    ${plan && html`<div role="status"><h3>What would be done</h3>
      <div class="table-scroll short"><table aria-label="What would be done"><thead><tr><th scope="col">Topic</th><th scope="col" class="number">Partition</th>
        <th scope="col" class="number">Now</th><th scope="col" class="number">Then</th><th scope="col" class="number">Difference</th></tr></thead>
      <tbody>${plan.map((each) => html`<tr key=${`${each.topic}-${each.partition}`}><th scope="row">${each.topic}</th><td class="number">${each.partition}</td><td class="number">${count(each.before)}</td>
        <td class="number">${count(each.after)}</td><td class="number">${each.before === null ? "–" : signed(each.after - each.before)}</td></tr>`)}</tbody></table></div></div>`}
  <//>`;
}

const signed = (number) => (number > 0 ? `+${count(number)}` : count(number));
