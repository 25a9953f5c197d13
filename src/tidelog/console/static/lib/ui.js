// The parts that pages are made of.
import { html, useEffect, useRef, useState } from "./preact.js";
import { useSession } from "./hooks.js";

// A heading, what can be done here, and the rest.
export function Page({ title, crumbs = [], actions, children, lead }) {
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${title} · tidelog`;
  }, [title]);
  return html`
    <header class="page-head">
      <div>
        ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Where you are">
          ${crumbs.map(([text, where]) => html`<a href=${where}>${text}</a><span aria-hidden="true">/</span>`)}
        </nav>`}
        <h1 ref=${heading} tabindex="-1" id="page-title">${title}</h1>
        ${lead && html`<p class="lead">${lead}</p>`}
      </div>
      <div class="actions">${actions}</div>
    </header>
    ${children}`;
}

export function Panel({ title, actions, children, flush, id }) {
  return html`<section class="panel ${flush ? "flush" : ""}" aria-labelledby=${id}>
    ${title && html`<div class="panel-head"><h2 id=${id}>${title}</h2><div class="actions">${actions}</div></div>`}
    ${children}
  </section>`;
}

// What is shown while something is loaded, or when it cannot be.
export function Loaded({ state, children }) {
  if (state.data !== null && state.data !== undefined) {
    return html`${state.error && html`<${Notice} kind="bad" text=${state.error.message} />`}${children(state.data)}`;
  }
  if (state.error) {
    return html`<${Notice} kind="bad" text=${state.error.message}>
      <button class="quiet" onClick=${state.reload}>Try again</button>
    <//>`;
  }
  return html`<p class="loading" role="status">Loading …</p>`;
}

export function Notice({ kind = "info", text, children }) {
  return html`<div class="notice ${kind}" role=${kind === "bad" ? "alert" : "status"}>
    <span>${text}</span>${children}
  </div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p><div>${children}</div></div>`;
}

export const Badge = ({ kind = "", children }) => html`<span class="badge ${kind}">${children}</span>`;

// Columns: {name, head, cell(row), sort(row)?, number?}.  Sorted by a click on a head.
export function Table({ label, columns, rows, rowKey, empty, first }) {
  const [order, setOrder] = useState(null);
  const column = order && columns.find((each) => each.name === order.name);
  const shown = column ? [...rows].sort((a, b) => compare(column.sort(a), column.sort(b)) * order.way) : rows;
  if (rows.length === 0 && empty) return empty;
  const turn = (name) =>
    setOrder((before) => (before && before.name === name ? { name, way: -before.way } : { name, way: 1 }));
  return html`<div class="table-scroll"><table aria-label=${label}>
    <thead><tr>
      ${columns.map((each) => {
        const sorted = order && order.name === each.name ? (order.way > 0 ? "ascending" : "descending") : undefined;
        return html`<th scope="col" class=${each.number ? "number" : ""} aria-sort=${sorted}>
          ${each.sort
            ? html`<button class="head" onClick=${() => turn(each.name)}>${each.head}<span aria-hidden="true">${
                sorted === "ascending" ? " ↑" : sorted === "descending" ? " ↓" : ""
              }</span></button>`
            : each.head}
        </th>`;
      })}
    </tr></thead>
    <tbody>
      ${shown.map((row) => html`<tr key=${rowKey(row)}>
        ${columns.map((each, place) =>
          place === 0 && first !== false
            ? html`<th scope="row" class=${each.number ? "number" : ""}>${each.cell(row)}</th>`
            : html`<td class=${each.number ? "number" : ""}>${each.cell(row)}</td>`,
        )}
      </tr>`)}
    </tbody>
  </table></div>`;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
}

let fieldNumber = 0;

// A labelled control; the child is given the id that the label is for.
export function Field({ label, hint, children, wide }) {
  const id = useRef(null);
  if (id.current === null) id.current = `field-${++fieldNumber}`;
  return html`<div class="field ${wide ? "wide" : ""}">
    <label for=${id.current}>${label}</label>
    ${children({ id: id.current, "aria-describedby": hint ? `${id.current}-hint` : undefined })}
    ${hint && html`<small id="${id.current}-hint">${hint}</small>`}
  </div>`;
}

// A form in a modal dialog.  `submit` closes it, or throws, and what it says is shown; after a first step it just returns.
export function FormDialog({ title, children, submit, close, verb = "Save", danger, wide, ready = true }) {
  const dialog = useRef(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  const onSubmit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await submit();
    } catch (problem) {
      setError(problem.message);
    }
    setBusy(false);
  };
  return html`<dialog ref=${dialog} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onClose=${close}>
    <form onSubmit=${onSubmit}>
      <h2 id="dialog-title">${title}</h2>
      ${children}
      ${error && html`<${Notice} kind="bad" text=${error} />`}
      <div class="dialog-actions">
        <button type="button" class="quiet" onClick=${() => dialog.current.close()}>Cancel</button>
        <button type="submit" class=${danger ? "danger" : "primary"} disabled=${busy || !ready}>${verb}</button>
      </div>
    </form>
  </dialog>`;
}

// What cannot be undone wants its name typed.
export function ConfirmDialog({ title, name, verb, warning, submit, close }) {
  const [typed, setTyped] = useState("");
  return html`<${FormDialog} title=${title} verb=${verb} danger submit=${submit} close=${close} ready=${typed === name}>
    <p>${warning}</p>
    <${Field} label="Type ${name} to confirm">
      ${(field) => html`<input ...${field} autocomplete="off" spellcheck=${false} value=${typed}
        onInput=${(event) => setTyped(event.target.value)} />`}
    <//>
  <//>`;
}

// A button for something that changes the cluster; there is none in a read-only console.
export function WriteButton({ children, ...rest }) {
  return useSession().read_only ? null : html`<button ...${rest}>${children}</button>`;
}

// Messages at the edge of the page, read out by screen readers.
export function say(text, kind = "good") {
  dispatchEvent(new CustomEvent("say", { detail: { text, kind } }));
}

export function Sayings() {
  const [said, setSaid] = useState([]);
  useEffect(() => {
    let number = 0;
    const hear = (event) => {
      const one = { ...event.detail, key: ++number };
      setSaid((before) => [...before.slice(-2), one]);
      setTimeout(() => setSaid((before) => before.filter((each) => each !== one)), 6000);
    };
    addEventListener("say", hear);
    return () => removeEventListener("say", hear);
  }, []);
  return html`<div class="sayings" role="status" aria-live="polite">
    ${said.map((each) => html`<div key=${each.key} class="saying ${each.kind}">${each.text}</div>`)}
  </div>`;
}

export function Tabs({ label, tabs, chosen }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(([name, text, where]) => html`<a href=${where} aria-current=${name === chosen ? "page" : undefined}>${text}</a>`)}
  </nav>`;
}
