// Who may do what: rules and users.
import { html, useState } from "../lib/preact.js";
import { call, get, path, query } from "../lib/api.js";
import { count } from "../lib/format.js";
import { useLoad } from "../lib/hooks.js";
import { Badge, ConfirmDialog, Empty, Field, FormDialog, Loaded, Notice, Page, Panel, say, Table, WriteButton } from "../lib/ui.js";

const RESOURCES = ["topic", "group", "cluster", "transactional_id"];
const OPERATIONS = ["read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs", "idempotent_write", "cluster_action", "all"];

export function Access() {
  const [dialog, setDialog] = useState(null);
  const rules = useLoad((signal) => get("/acls", signal), [], 15000);
  const users = useLoad((signal) => get("/users", signal), [], 15000);
  const close = () => setDialog(null);
  const remove = (rule) => setDialog({ kind: "remove-rule", rule });
  return html`<${Page} title="Access">
    <${Panel} title="Rules" id="rules" flush actions=${html`<${WriteButton} class="primary small" onClick=${() => setDialog({ kind: "rule" })}>Add a rule<//>`}>
      <${Loaded} state=${rules}>${(data) => html`
        ${!data.enabled && html`<${Notice} kind="warn" text="This broker has no access rules: everybody may do everything. authorizer.class.name switches them on." />`}
        <${Table} label="Access rules" columns=${ruleColumns(remove)} rows=${data.rules} rowKey=${(row) => JSON.stringify(row)}
          empty=${html`<${Empty} title="There are no rules.">With access rules switched on, nobody but super users may do anything that no rule allows.<//>`} />`}<//>
    <//>
    <${Panel} title="Users" id="users" flush actions=${html`<${WriteButton} class="primary small" onClick=${() => setDialog({ kind: "user" })}>Add a user<//>`}>
      <${Loaded} state=${users}>${(data) => html`<${Table} label="Users" rows=${data} rowKey=${(row) => row.user} columns=${userColumns(setDialog)}
        empty=${html`<${Empty} title="No user has a password here.">Users of SCRAM are kept in the cluster's metadata; add the first one.<//>`} />`}<//>
    <//>
    ${dialog?.kind === "rule" && html`<${AddRule} close=${close} done=${rules.reload} />`}
    ${dialog?.kind === "remove-rule" && html`<${FormDialog} title="Remove a rule" verb="Remove the rule" danger close=${close}
      submit=${async () => {
        await call("POST", "/acls/remove", dialog.rule);
        say("The rule is gone.");
        rules.reload();
        close();
      }}><p>${ruleText(dialog.rule)}</p><//>`}
    ${dialog?.kind === "user" && html`<${SetPassword} user=${dialog.user} close=${close} done=${users.reload} />`}
    ${dialog?.kind === "remove" && html`<${ConfirmDialog} title="Remove ${dialog.user}" name=${dialog.user} verb="Remove the password" close=${close}
      warning="The user can no longer log in with ${dialog.mechanism}."
      submit=${async () => {
        await call("DELETE", `/users${path(dialog.user)}${query({ confirmed: dialog.user, mechanism: dialog.mechanism })}`);
        say(`Removed ${dialog.user} for ${dialog.mechanism}.`);
        users.reload();
        close();
      }} />`}
  <//>`;
}

const ruleText = (rule) => `${rule.principal} ${rule.permission} ${rule.operation} ${rule.resource_type} ${rule.resource_name}`;

const ruleColumns = (remove) => [
  { name: "principal", head: "Principal", sort: (row) => row.principal, cell: (row) => html`<code>${row.principal}</code>` },
  { name: "permission", head: "May", sort: (row) => row.permission, cell: (row) => html`<${Badge} kind=${row.permission === "allow" ? "good" : "bad"}>${row.permission}<//>` },
  { name: "operation", head: "Operation", sort: (row) => row.operation, cell: (row) => row.operation },
  { name: "resource", head: "Resource", sort: (row) => row.resource_type + row.resource_name, cell: (row) => html`${row.resource_type} <code>${row.resource_name}${row.pattern_type === "prefixed" ? "…" : ""}</code>` },
  { name: "host", head: "From", cell: (row) => (row.host === "*" ? "anywhere" : row.host) },
  { name: "remove", number: true, head: html`<span class="unseen">Remove</span>`, cell: (row) => html`<${WriteButton} class="quiet small" aria-label="Remove: ${ruleText(row)}"
    onClick=${() => remove(row)}>Remove<//>` },
];

const userColumns = (setDialog) => [
  { name: "user", head: "User", sort: (row) => row.user, cell: (row) => row.user },
  { name: "how", head: "Logs in with", cell: (row) => row.credentials.map((each) => html`<${Badge}>${each.mechanism} · ${count(each.iterations)} rounds<//> `) },
  { name: "edit", number: true, head: html`<span class="unseen">Change</span>`, cell: (row) => html`<span class="row-actions">
    <${WriteButton} class="quiet small" aria-label="Change the password of ${row.user}" onClick=${() => setDialog({ kind: "user", user: row.user })}>Change password<//>
    ${row.credentials.map((each) => html`<${WriteButton} class="quiet small danger-text" aria-label="Remove ${row.user} for ${each.mechanism}"
      onClick=${() => setDialog({ kind: "remove", user: row.user, mechanism: each.mechanism })}>Remove<//>`)}</span>` },
];

function AddRule({ close, done }) {
  const [rule, setRule] = useState({ principal: "User:", permission: "allow", operation: "read", resource_type: "topic", resource_name: "", pattern_type: "literal", host: "*" });
  const set = (name) => (event) => setRule({ ...rule, [name]: event.target.value });
  const select = (name, choices) => (field) => html`<select ...${field} value=${rule[name]} onChange=${set(name)}>${choices.map((each) => html`<option value=${each}>${each}</option>`)}</select>`;
  const cluster = rule.resource_type === "cluster";
  const submit = async () => {
    await call("POST", "/acls", { ...rule, resource_name: cluster ? "kafka-cluster" : rule.resource_name, pattern_type: cluster ? "literal" : rule.pattern_type });
    say("The rule is in force.");
    done();
    close();
  };
  return html`<${FormDialog} title="Add a rule" submit=${submit} close=${close} verb="Add" wide>
    <div class="fields">
      <${Field} label="Principal" hint="User:alice, or User:* for everybody.">${(field) => html`<input ...${field} required autofocus pattern="User:.+" value=${rule.principal} onInput=${set("principal")} />`}<//>
      <${Field} label="May">${select("permission", ["allow", "deny"])}<//>
      <${Field} label="Operation">${select("operation", OPERATIONS)}<//>
    </div>
    <div class="fields">
      <${Field} label="Resource">${select("resource_type", RESOURCES)}<//>
      ${!cluster && html`<${Field} label="Name" hint="* for all.">${(field) => html`<input ...${field} required value=${rule.resource_name} onInput=${set("resource_name")} />`}<//>
      <${Field} label="The name is">${select("pattern_type", ["literal", "prefixed"])}<//>`}
      <${Field} label="From host" hint="* for anywhere.">${(field) => html`<input ...${field} required value=${rule.host} onInput=${set("host")} />`}<//>
    </div>
  <//>`;
}

function SetPassword({ user = "", close, done }) {
  const [name, setName] = useState(user);
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const [mechanism, setMechanism] = useState("SCRAM-SHA-512");
  const submit = async () => {
    if (password !== again) throw new Error("The two passwords differ.");
    await call("PUT", `/users${path(name)}`, { password, mechanism });
    say(`${name} can log in with ${mechanism}.`);
    done();
    close();
  };
  return html`<${FormDialog} title=${user ? `Password of ${user}` : "Add a user"} submit=${submit} close=${close} verb=${user ? "Change" : "Add"}>
    <${Field} label="User">${(field) => html`<input ...${field} required readonly=${Boolean(user)} autocomplete="off" value=${name} onInput=${(event) => setName(event.target.value)} />`}<//>
    <${Field} label="Password">${(field) => html`<input ...${field} type="password" required autocomplete="new-password" value=${password} onInput=${(event) => setPassword(event.target.value)} />`}<//>
    <${Field} label="Once more">${(field) => html`<input ...${field} type="password" required autocomplete="new-password" value=${again} onInput=${(event) => setAgain(event.target.value)} />`}<//>
    <${Field} label="Mechanism">${(field) => html`<select ...${field} value=${mechanism} onChange=${(event) => setMechanism(event.target.value)}><option>SCRAM-SHA-512</option><option>SCRAM-SHA-256</option></select>`}<//>
  <//>`;
}
