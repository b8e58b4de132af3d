/**
 * Draws a recording as an animated SVG: one text element for each line that was ever visible, shown
 * and hidden by CSS. A reader who prefers reduced motion sees only the last picture, which shows
 * all steps.
 */
import type { Line, Span } from './screen.ts';

export interface Frame {
  atMs: number;
  /** The lines of each pane, from the top. */
  panes: Line[][];
  caption: string;
}

export interface Pane {
  title: string;
  rows: number;
}

export interface Film {
  title: string;
  panes: Pane[];
  frames: Frame[];
  /** How long the last picture stays before the film starts again. */
  holdMs: number;
}

const columns = 80;
const characterWidth = 8.43;
const fontSize = 14;
const lineHeight = 20;
const padding = 16;
const captionHeight = 48;
const titleHeight = 30;
const gap = 12;
const width = Math.ceil(columns * characterWidth) + 2 * padding;

const classOf: Record<number, string> = { 1: 'b', 2: 'd', 31: 'red', 32: 'green', 33: 'yellow', 36: 'cyan' };

const escapeXml = (text: string) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

function spanOf({ text, codes }: Span): string {
  const classes = codes.map((code) => {
    const name = classOf[code];
    if (!name) throw new Error(`no colour for SGR code ${code}`);
    return name;
  });
  return classes.length > 0 ? `<tspan class="${classes.join(' ')}">${escapeXml(text)}</tspan>` : escapeXml(text);
}

interface Element {
  y: number;
  className: string;
  content: string;
}

/** Returns the elements of a frame. An element keeps its key until its place or text changes. */
function elementsOf(film: Film, { panes, caption }: Frame): Map<string, Element> {
  const elements = new Map<string, Element>();
  const add = (element: Element) => elements.set(`${element.y} ${element.content}`, element);
  add({ y: captionHeight - 18, className: 'caption', content: escapeXml(caption) });
  let top = captionHeight;
  for (const [index, { title, rows }] of film.panes.entries()) {
    const lines = panes[index] ?? [];
    if (lines.length > rows) throw new Error(`${title} shows ${lines.length} lines, but has room for ${rows}`);
    for (const [row, line] of lines.entries()) {
      const length = line.reduce((sum, { text }) => sum + text.length, 0);
      if (length > columns) throw new Error(`a line of ${title} has ${length} columns`);
      const y = top + titleHeight + padding + row * lineHeight;
      if (length > 0) add({ y, className: 't', content: line.map(spanOf).join('') });
    }
    top += titleHeight + rows * lineHeight + padding + gap;
  }
  return elements;
}

interface TimedElement extends Element {
  /** The milliseconds at which the element appears, disappears, appears again, and so on. */
  changes: number[];
}

function timeElements(film: Film): TimedElement[] {
  const all = new Map<string, TimedElement>();
  for (const frame of film.frames) {
    const visible = elementsOf(film, frame);
    for (const [key, element] of visible) {
      const timedElement = all.get(key) ?? { ...element, changes: [] };
      all.set(key, timedElement);
      if (timedElement.changes.length % 2 === 0) timedElement.changes.push(frame.atMs);
    }
    for (const [key, { changes }] of all) if (!visible.has(key) && changes.length % 2 === 1) changes.push(frame.atMs);
  }
  return [...all.values()];
}

const isVisibleAtEnd = ({ changes }: TimedElement) => changes.length % 2 === 1;

function keyframes(name: string, { changes }: TimedElement, lengthMs: number): string {
  const steps = changes.map((atMs, index) => {
    const percent = ((100 * atMs) / lengthMs).toFixed(3).replace(/\.?0+$/, '');
    return `${percent}%{opacity:${index % 2 === 0 ? 1 : 0}}`;
  });
  const start = changes[0] === 0 ? '' : '0%{opacity:0}';
  return `@keyframes ${name}{${start}${steps.join('')}}`;
}

const style = `
svg { --page: #ffffff; --pane: #f6f8fa; --line: #d1d9e0; --text: #1f2328; --dim: #59636e;
  --red: #b3261e; --green: #116329; --yellow: #7d4e00; --cyan: #0a5c8a; }
@media (prefers-color-scheme: dark) {
  svg { --page: #0d1117; --pane: #151b23; --line: #3d444d; --text: #f0f6fc; --dim: #9198a1;
    --red: #ff7b72; --green: #56d364; --yellow: #e3b341; --cyan: #79c0ff; }
}
.page { fill: var(--page) }
.pane { fill: var(--pane); stroke: var(--line) }
.title { font: 13px system-ui, sans-serif; fill: var(--dim) }
.caption { font: 600 17px system-ui, sans-serif; fill: var(--text) }
.t { font: ${fontSize}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--text); white-space: pre }
.b { font-weight: 600 } .d { fill: var(--dim) }
.red { fill: var(--red) } .green { fill: var(--green) } .yellow { fill: var(--yellow) } .cyan { fill: var(--cyan) }
.past { opacity: 0 }`.trim();

export function drawFilm(film: Film): string {
  const lengthMs = (film.frames.at(-1)?.atMs ?? 0) + film.holdMs;
  const elements = timeElements(film);
  let top = captionHeight;
  const boxes = film.panes.map(({ title, rows }) => {
    const height = titleHeight + rows * lineHeight;
    const box = `<rect class="pane" x="0.5" y="${top + 0.5}" width="${width - 1}" height="${height}" rx="8"/>
<text class="title" x="${padding}" y="${top + 20}">${escapeXml(title)}</text>`;
    top += height + padding + gap;
    return box;
  });
  const height = top - gap - padding + 1;
  const moving = elements.filter(({ changes }) => changes.length > 1 || changes[0] !== 0);
  const texts = elements.map((element) => {
    const at = moving.indexOf(element);
    const past = isVisibleAtEnd(element) ? '' : ' past';
    const id = at < 0 ? '' : ` id="k${at}"`;
    return `<text class="${element.className}${past}"${id} x="${padding}" y="${element.y}">${element.content}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${escapeXml(film.title)}</title>
<style>
${style}
@media (prefers-reduced-motion: no-preference) {
${moving.map((element, at) => keyframes(`k${at}`, element, lengthMs)).join('\n')}
${moving.map((_, at) => `#k${at}{animation:k${at} ${(lengthMs / 1000).toFixed(2)}s step-end infinite}`).join('\n')}
}
</style>
<rect class="page" width="${width}" height="${height}" rx="8"/>
${boxes.join('\n')}
${texts.join('\n')}
</svg>
`;
}
