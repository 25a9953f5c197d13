// Messages as rows; a row opens to show all of it.
import { html, useState } from "../lib/preact.js";
import { bytes, count, iso, time } from "../lib/format.js";
import { Badge } from "../lib/ui.js";

export function MessageTable({ messages, newestFirst }) {
  const [open, setOpen] = useState(() => new Set());
  const toggle = (key) =>
    setOpen((before) => {
      const after = new Set(before);
      if (!after.delete(key)) after.add(key);
      return after;
    });
  const rows = newestFirst ? [...messages].reverse() : messages;
  return html`<div class="table-scroll"><table class="messages" aria-label="Messages">
    <thead><tr>
      <th scope="col"><span class="unseen">Open</span></th><th scope="col">Time</th><th scope="col" class="number">Partition</th>
      <th scope="col" class="number">Offset</th><th scope="col">Key</th><th scope="col">Value</th><th scope="col" class="number">Size</th>
    </tr></thead>
    <tbody>${rows.map((each) => {
      const key = `${each.partition}:${each.offset}`;
      return html`<${Row} key=${key} message=${each} open=${open.has(key)} toggle=${() => toggle(key)} />`;
    })}</tbody>
  </table></div>`;
}

function Row({ message, open, toggle }) {
  const name = `Message ${message.offset} of partition ${message.partition}`;
  return html`
    <tr class=${open ? "open" : ""} onClick=${(event) => !event.target.closest("button, a") && !getSelection().toString() && toggle()}>
      <td><button class="twist" aria-expanded=${open} aria-label=${name} onClick=${toggle}>${open ? "▾" : "▸"}</button></td>
      <td class="nowrap" title=${iso(message.timestamp)}>${time(message.timestamp)}</td>
      <td class="number">${message.partition}</td>
      <td class="number">${message.offset}</td>
      <td><${Brief} shown=${message.key} length=${40} /></td>
      <td class="brief"><${Brief} shown=${message.value} length=${240} /></td>
      <td class="number nowrap">${bytes(message.value.size)}</td>
    </tr>
    ${open && html`<tr class="detail"><td colspan="7"><${Detail} message=${message} /></td></tr>`}`;
}

function Brief({ shown, length }) {
  if (shown.format === "null") return html`<span class="muted">null</span>`;
  const text = shown.text.length > length ? `${shown.text.slice(0, length)}…` : shown.text;
  return html`<code>${text}</code>`;
}

function Detail({ message }) {
  return html`<div class="message-detail">
    ${message.headers.length > 0 && html`<section><h3>Headers</h3><dl class="pairs">
      ${message.headers.map((each) => html`<dt><code>${each.name}</code></dt><dd><code>${each.value.format === "null" ? "null" : each.value.text}</code></dd>`)}
    </dl></section>`}
    ${message.key.format !== "null" && html`<${Whole} title="Key" shown=${message.key} />`}
    <${Whole} title="Value" shown=${message.value} />
  </div>`;
}

function Whole({ title, shown }) {
  const [copied, setCopied] = useState(false);
  const text = pretty(shown);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<section>
    <h3>${title} <${Badge}>${shown.format}${shown.schema_id === null ? "" : ` · schema ${shown.schema_id}`}<//>
      <span class="muted">${count(shown.size)} bytes${shown.truncated ? ", cut off here" : ""}</span>
      ${shown.format !== "null" && navigator.clipboard && html`<button class="quiet small" aria-label="Copy the ${title.toLowerCase()}" onClick=${copy}>${copied ? "Copied" : "Copy"}</button>`}
    </h3>
    <pre class=${shown.format}>${shown.format === "null" ? "null" : text}</pre>
  </section>`;
}

function pretty(shown) {
  if ((shown.format === "json" || shown.format === "avro") && !shown.truncated) {
    try {
      return JSON.stringify(JSON.parse(shown.text), null, 2);
    } catch {
      return shown.text;
    }
  }
  if (shown.format === "hex") return lines(shown.text);
  return shown.text;
}

// Sixteen bytes a line, with their place and what they are as characters.
function lines(hex) {
  const all = hex.split(" ").filter(Boolean);
  const made = [];
  for (let place = 0; place < all.length; place += 16) {
    const some = all.slice(place, place + 16);
    const plain = some.map((each) => {
      const code = parseInt(each, 16);
      return code > 31 && code < 127 ? String.fromCharCode(code) : "·";
    });
    made.push(`${place.toString(16).padStart(6, "0")}  ${some.join(" ").padEnd(47)}  ${plain.join("")}`);
  }
  return made.join("\n");
}
