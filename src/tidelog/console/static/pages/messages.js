// Messages of a topic: newest first, from somewhere, searched for, or as they come.
import { html, useEffect, useMemo, useRef, useState } from "../lib/preact.js";
import { get, path, query, url } from "../lib/api.js";
import { count, plural } from "../lib/format.js";
import { Empty, Field, Notice, Panel, WriteButton } from "../lib/ui.js";
import { MessageTable } from "./message_table.js";
import { Produce } from "./produce.js";

const LIMIT = 50;
const KEPT = 500; // rows of a live tail

export function Messages({ topic, partitions, search }) {
  const [where, setWhere] = useState(search.get("from") ? "time" : "newest");
  const [at, setAt] = useState(search.get("from") || "");
  const [partition, setPartition] = useState(search.get("partition") || "");
  const [text, setText] = useState(search.get("q") || "");
  const [test, setTest] = useState("");
  const [committed, setCommitted] = useState(false);
  const [live, setLive] = useState(false);
  const [producing, setProducing] = useState(false);
  const asked = useRef(null);
  const [page, setPage] = useState({ messages: null, error: null, busy: false, info: null });
  const tail = useTail(topic, live, { partition, q: text, where: test, committed });

  const question = () => ({ partition, q: text, where: test, committed });
  const load = async (values, join) => {
    asked.current?.abort();
    const control = (asked.current = new AbortController());
    setPage((before) => ({ ...before, busy: true, error: null }));
    try {
      const found = await get(`/topics${path(topic)}/messages${query({ limit: LIMIT, ...question(), ...values })}`, control.signal);
      setPage((before) => ({ messages: join(before.messages || [], found.messages), info: join.keeps ? keepEnds(before.info, found, join) : found, error: null, busy: false }));
    } catch (error) {
      if (error.name !== "AbortError") setPage((before) => ({ ...before, error: error.message, busy: false }));
    }
  };
  const begin = () => (where === "newest" ? `-${LIMIT}` : where === "start" ? "start" : at.trim() || "start");
  const show = () => {
    setLive(false);
    load({ from: begin() }, (_, found) => found);
  };
  useEffect(() => {
    if (!live) show();
  }, [where, partition, committed, live]);
  useEffect(() => () => asked.current?.abort(), []);

  const older = () => load({ from: `-${LIMIT}`, before: page.info.previous }, Object.assign((before, found) => unique([...found, ...before]), { keeps: "next" }));
  const newer = () => load({ from: page.info.next }, Object.assign((before, found) => unique([...before, ...found]), { keeps: "previous" }));
  const rows = live ? tail.messages : page.messages || [];
  const newestFirst = live || where === "newest";
  const ends = page.info && rows.length > 0 && !live
    ? [html`<${More} info=${page.info} way="previous" busy=${page.busy} act=${older} text="Older" />`,
       html`<${More} info=${page.info} way="next" busy=${page.busy} act=${newer} text="Newer" />`]
    : [null, null];
  const submit = (event) => {
    event.preventDefault();
    if (live) tail.restart();
    else show();
  };
  const exported = (format) => url(`/topics${path(topic)}/export${query({ format, rows: 10000, from: live ? "-1000" : begin() === `-${LIMIT}` ? "-1000" : begin(), ...question() })}`);
  return html`
    <form class="toolbar messages" onSubmit=${submit} role="search" aria-label="Messages">
      <${Field} label="Show">${(field) => html`<select ...${field} value=${where} disabled=${live} onChange=${(event) => setWhere(event.target.value)}>
        <option value="newest">newest ${LIMIT}</option><option value="start">from the start</option>
        <option value="offset">from an offset</option><option value="time">from a time</option></select>`}<//>
      ${(where === "offset" || where === "time") && html`<${Field} label=${where === "offset" ? "Offset" : "Time"}>${(field) => html`<input ...${field} value=${at}
        disabled=${live} placeholder=${where === "offset" ? "500" : "10m, 2026-01-31T12:00"} size="16" onInput=${(event) => setAt(event.target.value)} />`}<//>`}
      <${Field} label="Partition">${(field) => html`<select ...${field} value=${partition} onChange=${(event) => setPartition(event.target.value)}>
        <option value="">all</option>${Array.from({ length: partitions }, (_, each) => html`<option value=${each}>${each}</option>`)}</select>`}<//>
      <${Field} label="Search" wide>${(field) => html`<input ...${field} type="search" value=${text} placeholder="text in key, value or headers"
        onInput=${(event) => setText(event.target.value)} />`}<//>
      <${Field} label="Where">${(field) => html`<input ...${field} value=${test} placeholder="value.customer=42" size="18" spellcheck=${false}
        title="key=a, value.user.id=7, header.source!=shop, offset<100" onInput=${(event) => setTest(event.target.value)} />`}<//>
      <button class="primary" type="submit">Show</button>
      <button type="button" class=${live ? "live on" : "live"} aria-pressed=${live} onClick=${() => setLive(!live)}>
        <span class="dot" aria-hidden="true"></span>${live ? "Stop" : "Live tail"}</button>
    </form>
    <div class="toolbar second">
      <span class="muted" role="status">${status(live, tail, page)}</span>
      <span class="grow"></span>
      <label class="check"><input type="checkbox" checked=${committed} onChange=${(event) => setCommitted(event.target.checked)} /> Committed only</label>
      <a class="button quiet" href=${exported("ndjson")} download>Export JSON</a>
      <a class="button quiet" href=${exported("csv")} download>Export CSV</a>
      <${WriteButton} class="quiet" onClick=${() => setProducing(true)}>Produce a message<//>
    </div>
    ${page.error && !live && html`<${Notice} kind="bad" text=${page.error} />`}
    ${live && tail.error && html`<${Notice} kind="bad" text=${tail.error} />`}
    <${Panel} flush>
      ${ends[newestFirst ? 1 : 0]}
      ${rows.length > 0
        ? html`<${MessageTable} messages=${rows} newestFirst=${newestFirst} />`
        : html`<${Nothing} topic=${topic} live=${live} searched=${text || test} busy=${page.busy || page.messages === null} info=${page.info} older=${older} />`}
      ${ends[newestFirst ? 0 : 1]}
    <//>
    ${producing && html`<${Produce} topic=${topic} partitions=${partitions} close=${() => setProducing(false)} done=${() => !live && show()} />`}`;
}

// Pages are joined: the one end is the new page's, the other stays.
const keepEnds = (before, found, join) => ({ ...found, [join.keeps]: before[join.keeps], scanned: before.scanned + found.scanned });

function unique(messages) {
  const seen = new Set();
  return messages.filter((each) => {
    const key = `${each.partition}:${each.offset}`;
    return seen.has(key) ? false : seen.add(key);
  });
}

function status(live, tail, page) {
  if (live) {
    const skipped = tail.skipped ? ` · ${plural(tail.skipped, "message")} passed over, there were too many` : "";
    return `${tail.open ? "Live" : "Connecting …"} · ${plural(tail.messages.length, "message")}${skipped}`;
  }
  if (page.busy) return "Reading …";
  if (!page.info) return "";
  const found = (page.messages || []).length;
  const looked = page.info.scanned > found ? ` · ${count(page.info.scanned)} looked at` : "";
  const more = page.info.complete ? "" : " · not everything was looked at, the search was bounded";
  return `${plural(found, "message")}${looked}${more}`;
}

function More({ info, way, busy, act, text }) {
  const places = Object.fromEntries(info[way].split(",").filter(Boolean).map((each) => each.split(":").map(Number)));
  const bound = way === "previous" ? info.begin : info.end;
  const left = Object.entries(places).some(([partition, offset]) => (way === "previous" ? offset > bound[partition] : offset < bound[partition]));
  if (!left && way === "previous") return html`<p class="edge muted">The beginning of the topic</p>`;
  return html`<p class="edge"><button class="quiet small" disabled=${busy} onClick=${act}>${left ? text : "Look for newer"}</button></p>`;
}

function Nothing({ topic, live, searched, busy, info, older }) {
  if (live) return html`<${Empty} title="Waiting for messages.">They appear here as they are written.<//>`;
  if (busy) return html`<p class="loading">Reading …</p>`;
  if (searched) {
    return html`<${Empty} title="Nothing fits.">${info && !info.complete
      ? html`The search was bounded. <button class="quiet small" onClick=${older}>Search further back</button>`
      : "Search for something else, or in another partition."}<//>`;
  }
  return html`<${Empty} title="There are no messages here.">Produce one with the button above, or:
    <pre>echo hi | tidelog produce ${topic}</pre><//>`;
}

// Server-sent events, as long as it is on.
function useTail(topic, on, { partition, q, where, committed }) {
  const fresh = { messages: [], skipped: 0, open: false, error: null };
  const [state, setState] = useState(fresh);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!on) return undefined;
    setState(fresh);
    const source = new EventSource(url(`/topics${path(topic)}/tail${query({ from: "end", partition, q, where, committed })}`));
    source.onopen = () => setState((before) => ({ ...before, open: true }));
    source.onerror = () => {
      const over = source.readyState === EventSource.CLOSED;
      setState((before) => ({ ...before, open: false, error: over ? "The live tail was refused. Is what you search for right?" : null }));
    };
    source.addEventListener("messages", (event) => {
      const more = JSON.parse(event.data);
      setState((before) => ({ ...before, messages: [...before.messages, ...more].slice(-KEPT) }));
    });
    source.addEventListener("skipped", (event) => {
      setState((before) => ({ ...before, skipped: before.skipped + Number(event.data) }));
    });
    source.addEventListener("failed", (event) => {
      source.close();
      setState((before) => ({ ...before, open: false, error: JSON.parse(event.data).error.message }));
    });
    return () => source.close();
  }, [topic, on, partition, committed, turn]);
  return useMemo(() => ({ ...state, restart: () => setTurn((before) => before + 1) }), [state]);
}
