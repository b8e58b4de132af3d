/** Renders evidence and log lines, oldest first, in UTC. */
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import type { LogLine } from '../../../contract/node.ts';
import { originLabel } from '../../../lifecycle/explain/evidence-origins.ts';
import type { Tone } from '../text/palette.ts';
import type { Fit } from '../text/table.ts';
import { displayWidth, pad, printable, wrap } from '../text/text.ts';

const dayOf = (at: string) => at.slice(0, 10);
const timeColumns = 12;
const timeOf = (at: string) => at.slice(11, 23).replace('Z', '').padEnd(timeColumns);

const layerTones: Partial<Record<Evidence['layer'], Tone>> = { rule: 'warn', operator: 'strong', transport: 'bad' };

/** The last printed heading, to print the next one only if it changes. */
export interface Heading {
  day: string;
  instance: string;
}
export const noHeading: Heading = { day: '', instance: '' };

const ruler = (text: string, { paint }: Fit) => paint('quiet', `── ${text} ──`);

/** Facts arrive in commit order, which may differ from their time. */
export const sortByTime = (items: Evidence[]): Evidence[] =>
  items.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));

/** Marks statements of machines and outside programs, to separate them from our own. */
export function statementOf(item: Pick<Evidence, 'summary' | 'origin' | 'layer' | 'actor'>): string {
  const label = originLabel(item);
  const by = item.actor && item.origin !== 'person' ? ` — by ${item.actor.name}` : '';
  return printable(`${label === null ? '' : `[${label}] `}${item.summary}${by}`);
}

/** In a narrower window, the summary runs over the edge instead of wrapping further. */
const minSummaryColumns = 20;

export function timelineLines(items: Evidence[], fit: Fit): string[] {
  const kindWidth = Math.max(0, ...items.map(({ kind }) => displayWidth(kind)));
  const layerWidth = Math.max(0, ...items.map(({ layer }) => layer.length));
  const indentWidth = timeColumns + 2 + layerWidth + 2 + kindWidth + 2;
  let heading = noHeading;
  return items.flatMap((item) => {
    const text = statementOf(item);
    const [first = '', ...rest] = wrap(text, Math.max(minSummaryColumns, fit.width - indentWidth));
    const prefix = `${fit.paint('quiet', timeOf(item.at))}  ${fit.paint(layerTones[item.layer], pad(item.layer, layerWidth))}`;
    const lines = [
      `${prefix}  ${pad(item.kind, kindWidth)}  ${first}`,
      ...rest.map((line) => ' '.repeat(indentWidth) + line),
    ];
    const headingLines = dayOf(item.at) === heading.day ? [] : [ruler(`${dayOf(item.at)} (UTC)`, fit)];
    heading = { ...heading, day: dayOf(item.at) };
    return [...headingLines, ...lines];
  });
}

const streamTones: Record<string, Tone> = { stderr: 'warn', agent: 'quiet', setup: 'busy', clean: 'busy' };

/** The heading and the columns already show these fields. */
const shownElsewhere = new Set([
  'at',
  'msg',
  'level',
  'node_id',
  'node_instance_id',
  'correlation_id',
  'allocation_id',
  'workflow_id',
]);

/** Renders a JSON line of the agent as its message and fields. */
function agentText(line: string): string {
  if (!line.startsWith('{')) return line;
  let record: Record<string, unknown>;
  try {
    record = JSON.parse(line);
  } catch {
    // The line is not from the agent, or it is cut off, so show it as it is.
    return line;
  }
  if (typeof record.msg !== 'string') return line;
  const level = record.level === 'info' || typeof record.level !== 'string' ? '' : `${record.level}: `;
  const details = Object.entries(record)
    .filter(([key]) => !shownElsewhere.has(key))
    .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return [`${level}${record.msg}`, ...details].join('  ');
}

/** Prints a heading when the day or the instance changes. */
export function logLines(items: LogLine[], heading: Heading, fit: Fit): { lines: string[]; heading: Heading } {
  let current = heading;
  const lines = items.flatMap((item) => {
    const next = { day: dayOf(item.at), instance: item.node_instance_id };
    const changed = next.day !== current.day || next.instance !== current.instance;
    current = next;
    const stream = fit.paint(streamTones[item.stream], pad(item.stream, 6));
    const line = `${fit.paint('quiet', timeOf(item.at))} ${stream}  ${printable(item.stream === 'agent' ? agentText(item.line) : item.line)}`;
    return changed ? [ruler(`${next.day} (UTC) · ${next.instance}`, fit), line] : [line];
  });
  return { lines, heading: current };
}
