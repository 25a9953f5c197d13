// Lines over time.  uPlot draws the large ones, on a canvas; a table of the last values is there for screen readers.
import { html, useEffect, useRef } from "./preact.js";
import { useTheme } from "./hooks.js";

// A canvas knows no variables: let an element find out what one is in this theme.
function colour(name, opacity = 1) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const [red, green, blue] = getComputedStyle(probe).color.match(/[\d.]+/g);
  probe.remove();
  return `rgb(${red} ${green} ${blue} / ${opacity})`;
}

export function LineChart({ label, times, values, format, stroke = "--accent" }) {
  const holder = useRef(null);
  const plot = useRef(null);
  const [theme] = useTheme();
  useEffect(() => {
    const place = holder.current;
    const line = colour(stroke);
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    axis.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const height = 150;
    const made = new uPlot(
      {
        width: place.clientWidth || 400,
        height,
        cursor: { y: false, points: { size: 7 } },
        padding: [8, 8, 0, 0],
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 10] } },
        series: [
          { value: (_, at) => (at === null ? "now" : hourAndMinute(at)) },
          {
            label,
            stroke: line,
            width: 1.75,
            fill: colour(stroke, 0.13),
            points: { show: false },
            value: (of, value) => format(value ?? of.data[1][of.data[1].length - 1] ?? 0),
          },
        ],
        axes: [
          { ...axis, size: 26, space: 70, values: (_, marks) => marks.map((each) => hourAndMinute(each)) },
          { ...axis, size: 58, gap: 6, values: (_, marks) => marks.map((each) => format(each)) },
        ],
      },
      [times, values],
      place,
    );
    plot.current = made;
    const watching = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height }));
    watching.observe(place);
    return () => {
      watching.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [theme]);
  useEffect(() => {
    if (plot.current) plot.current.setData([times, values]);
  }, [times, values]);
  const last = values.length ? format(values[values.length - 1]) : "nothing yet";
  return html`<div class="chart" ref=${holder} role="img" aria-label="${label}, now ${last}"></div>`;
}

function hourAndMinute(seconds) {
  const at = new Date(seconds * 1000);
  const text = `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
  return at.getSeconds() ? `${text}:${String(at.getSeconds()).padStart(2, "0")}` : text;
}

// A line in a table's cell.
export function Sparkline({ values, label }) {
  if (values.length < 2) return html`<span class="muted">–</span>`;
  const [width, height] = [88, 20];
  const most = Math.max(...values, 1);
  const step = width / (values.length - 1);
  const points = values.map((each, place) => `${(place * step).toFixed(1)},${(height - 2 - (each / most) * (height - 4)).toFixed(1)}`);
  const way = direction(values);
  return html`<span class="spark ${way}"><svg width=${width} height=${height} viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}: ${way}">
    <polyline points=${points.join(" ")} /></svg><span class="muted" aria-hidden="true">${way}</span></span>`;
}

// By thirds: what jumps up and down between two looks has no direction.
function direction(values) {
  const third = Math.max(1, Math.floor(values.length / 3));
  const mean = (some) => some.reduce((sum, each) => sum + each, 0) / some.length;
  const [before, now] = [mean(values.slice(0, third)), mean(values.slice(-third))];
  const much = Math.max(1, before * 0.2);
  return now > before + much ? "growing" : now < before - much ? "shrinking" : "steady";
}
