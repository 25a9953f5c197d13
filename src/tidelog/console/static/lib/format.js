// Numbers, sizes and times for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const some = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export const short = (value) => (value === null || value === undefined ? "–" : compact.format(value));

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(size) : some.format(size)} ${units[unit]}`;
}

export const rate = (value) => (value === null || value === undefined ? "–" : `${compact.format(value)}/s`);

export const byteRate = (value) => (value === null || value === undefined ? "–" : `${bytes(value)}/s`);

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return seconds === 0 ? "0 s" : "< 1 s";
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const words = [];
  let left = Math.round(seconds);
  for (const [name, size] of units) {
    const number = Math.floor(left / size);
    left -= number * size;
    if (number || words.length) words.push(number ? `${number} ${name}` : "");
    if (words.length === 2) break;
  }
  return words.filter(Boolean).join(" ");
}

const pad = (number, width = 2) => String(number).padStart(width, "0");

export function time(ms, { day = true, millis = true } = {}) {
  if (ms < 0) return "no time";
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  let clock = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  if (millis) clock += `.${pad(at.getMilliseconds(), 3)}`;
  return day ? `${date} ${clock}` : clock;
}

export const clock = (ms) => {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}`;
};

export function iso(ms) {
  const at = new Date(ms);
  return ms < 0 || Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
