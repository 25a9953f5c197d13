// Writing one message.
import { html, useState } from "../lib/preact.js";
import { call, path } from "../lib/api.js";
import { useSession } from "../lib/hooks.js";
import { Field, FormDialog, say } from "../lib/ui.js";

export function Produce({ topic, partitions, close, done }) {
  const session = useSession();
  const [key, setKey] = useState("");
  const [keyFormat, setKeyFormat] = useState("text");
  const [value, setValue] = useState("");
  const [valueFormat, setValueFormat] = useState("json");
  const [headers, setHeaders] = useState("");
  const [partition, setPartition] = useState("");
  const formats = ["text", "json", ...(session.has_registry ? ["avro"] : []), "base64", "hex", "null"];
  const submit = async () => {
    const given = headers.split("\n").map((each) => each.trim()).filter(Boolean).map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`“${line}”: write a header as name=value`);
      return { name: line.slice(0, at).trim(), value: line.slice(at + 1).trim() };
    });
    const written = await call("POST", `/topics${path(topic)}/messages`, {
      key,
      key_format: key === "" && keyFormat === "text" ? "null" : keyFormat,
      value,
      value_format: valueFormat,
      headers: given,
      partition: partition === "" ? null : Number(partition),
    });
    say(`Written to partition ${written.partition} at offset ${written.offset}.`);
    done();
    close();
  };
  const select = (chosen, choose) => (field) => html`<select ...${field} value=${chosen} onChange=${(event) => choose(event.target.value)}>
    ${formats.map((each) => html`<option value=${each}>${each}</option>`)}</select>`;
  return html`<${FormDialog} title="Produce to ${topic}" verb="Produce" submit=${submit} close=${close} wide>
    <div class="fields">
      <${Field} label="Key" wide hint="Empty: no key.">${(field) => html`<input ...${field} class="code" autofocus spellcheck=${false} autocomplete="off" value=${key}
        onInput=${(event) => setKey(event.target.value)} />`}<//>
      <${Field} label="Key as">${select(keyFormat, setKeyFormat)}<//>
      <${Field} label="Partition">${(field) => html`<select ...${field} value=${partition} onChange=${(event) => setPartition(event.target.value)}>
        <option value="">by key</option>${Array.from({ length: partitions }, (_, each) => html`<option value=${each}>${each}</option>`)}</select>`}<//>
    </div>
    <${Field} label="Value as" hint=${valueFormat === "avro" ? `Checked against the last version of ${topic}-value.` : undefined}>${select(valueFormat, setValueFormat)}<//>
    <${Field} label="Value" wide>${(field) => html`<textarea ...${field} class="code" rows="9" spellcheck=${false} value=${value} disabled=${valueFormat === "null"}
      onInput=${(event) => setValue(event.target.value)}></textarea>`}<//>
    <${Field} label="Headers" wide hint="One a line, as name=value.">${(field) => html`<textarea ...${field} class="code" rows="2" spellcheck=${false} value=${headers}
      onInput=${(event) => setHeaders(event.target.value)}></textarea>`}<//>
  <//>`;
}
