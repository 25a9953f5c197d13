// Schemas of the registry: subjects on the left, a version on the right.
import { html, useState } from "../lib/preact.js";
import { call, get, path, query } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { go, link, useLoad, useSession } from "../lib/hooks.js";
import { Badge, ConfirmDialog, Empty, Field, FormDialog, Loaded, Notice, Page, Panel, say, WriteButton } from "../lib/ui.js";

const LEVELS = ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"];

export function Schemas({ place }) {
  const session = useSession();
  const [, subject, version] = place.parts;
  const [making, setMaking] = useState(false);
  const [wanted, setWanted] = useState("");
  if (!session.has_registry) {
    return html`<${Page} title="Schemas"><${Empty} title="This console knows no schema registry.">
      Start one beside the broker, or tell the console where it is:
      <pre>tidelog serve --registry${"\n"}tidelog console --registry http://127.0.0.1:8081</pre><//><//>`;
  }
  const state = useLoad((signal) => get("/schemas", signal), [], 15000);
  const make = html`<${WriteButton} class="primary" onClick=${() => setMaking(true)}>Register a schema<//>`;
  return html`<${Page} title="Schemas" actions=${make}>
    <${Loaded} state=${state}>${(subjects) => {
      if (subjects.length === 0) {
        return html`<${Empty} title="No schema is registered yet.">Register one here, or let a serializer do it when it writes its first message.<//>`;
      }
      const shown = subjects.filter((each) => each.toLowerCase().includes(wanted.toLowerCase()));
      const chosen = subject || subjects[0];
      return html`<div class="split">
        <nav class="panel list" aria-label="Subjects">
          <input type="search" aria-label="Filter subjects" placeholder="Filter subjects" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
          <ul>${shown.map((each) => html`<li><a href=${link("schemas", each)} aria-current=${each === chosen ? "page" : undefined}>${each}</a></li>`)}</ul>
        </nav>
        <${Subject} key=${chosen} subject=${chosen} version=${version} changed=${state.reload} />
      </div>`;
    }}<//>
    ${making && html`<${Register} subject=${subject || ""} close=${() => setMaking(false)} done=${state.reload} />`}
  <//>`;
}

function Subject({ subject, version, changed }) {
  const session = useSession();
  const [dialog, setDialog] = useState(null);
  const state = useLoad((signal) => get(`/schemas${path(subject)}`, signal), [subject]);
  const setLevel = async (level) => {
    try {
      await call("PUT", `/schemas${path(subject)}/compatibility`, { level });
      say(`${subject}: compatibility is ${level}.`);
    } catch (error) {
      say(error.message, "bad");
    }
    state.reload();
  };
  return html`<div class="stack"><${Loaded} state=${state}>${(data) => {
    const chosen = Number(version) || data.versions[data.versions.length - 1];
    const actions = html`
      <${WriteButton} class="quiet small" onClick=${() => setDialog("register")}>New version<//>
      <${WriteButton} class="quiet small danger-text" onClick=${() => setDialog("delete")}>Delete<//>`;
    return html`<${Panel} title=${subject} id="subject" actions=${actions}>
      <div class="fields tight">
        <${Field} label="Version">${(field) => html`<select ...${field} value=${chosen} onChange=${(event) => go(link("schemas", subject, event.target.value))}>
          ${data.versions.map((each) => html`<option value=${each}>${each}</option>`)}</select>`}<//>
        <${Field} label="Compatibility">${(field) => html`<select ...${field} value=${data.compatibility} disabled=${session.read_only}
          onChange=${(event) => setLevel(event.target.value)}>${LEVELS.map((each) => html`<option value=${each}>${each}</option>`)}</select>`}<//>
      </div>
      <${Version} subject=${subject} version=${chosen} />
      ${dialog === "register" && html`<${Register} subject=${subject} close=${() => setDialog(null)} done=${() => { state.reload(); changed(); }} />`}
      ${dialog === "delete" && html`<${ConfirmDialog} title="Delete subject ${subject}" name=${subject} verb="Delete the subject" close=${() => setDialog(null)}
        warning="${plural(data.versions.length, "version")} will be hidden. Messages that were written with them can still be read."
        submit=${async () => {
          await call("DELETE", `/schemas${path(subject)}${query({ confirmed: subject })}`);
          say(`Deleted subject ${subject}.`);
          setDialog(null);
          changed();
          go(link("schemas"));
        }} />`}
    <//>`;
  }}<//></div>`;
}

function Version({ subject, version }) {
  const state = useLoad((signal) => get(`/schemas${path(subject)}/versions${path(version)}`, signal), [subject, version]);
  return html`<${Loaded} state=${state}>${(data) => html`<p><${Badge}>${data.type}<//> <span class="muted">schema id ${data.id}</span></p>
    <pre class="schema" tabindex="0" aria-label="Text of the schema">${pretty(data)}</pre>`}<//>`;
}

function pretty(data) {
  try {
    return data.type === "PROTOBUF" ? data.text : JSON.stringify(JSON.parse(data.text), null, 2);
  } catch {
    return data.text;
  }
}

function Register({ subject, close, done }) {
  const [name, setName] = useState(subject);
  const [type, setType] = useState("AVRO");
  const [text, setText] = useState("");
  const [checked, setChecked] = useState(null);
  const body = (dry) => ({ text, type, dry_run: dry });
  const where = () => `/schemas${path(name)}`;
  const submit = async () => {
    if (checked === null) {
      setChecked((await call("POST", where(), body(true))).incompatibilities);
      return;
    }
    const { id } = await call("POST", where(), body(false));
    say(`Registered under id ${id}.`);
    done();
    close();
  };
  const change = (set) => (event) => {
    setChecked(null);
    set(event.target.value);
  };
  return html`<${FormDialog} title="Register a schema" submit=${submit} close=${close} wide verb=${checked === null ? "Check" : "Register"} ready=${!checked || checked.length === 0}>
    <div class="fields">
      <${Field} label="Subject" wide hint="A topic's name with -value or -key.">${(field) => html`<input ...${field} required autofocus value=${name} autocomplete="off"
        spellcheck=${false} onInput=${change(setName)} />`}<//>
      <${Field} label="Language">${(field) => html`<select ...${field} value=${type} onChange=${change(setType)}><option>AVRO</option><option>JSON</option><option>PROTOBUF</option></select>`}<//>
    </div>
    <${Field} label="Schema" wide>${(field) => html`<textarea ...${field} class="code" rows="12" required spellcheck=${false} value=${text} onInput=${change(setText)}></textarea>`}<//>
    ${checked && checked.length === 0 && html`<${Notice} kind="good" text="It can be registered." />`}
    ${checked && checked.length > 0 && html`<${Notice} kind="bad" text="It cannot follow the last version: ${checked.join("; ")}" />`}
  <//>`;
}
