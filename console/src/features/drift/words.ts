/** Describes a finding: its subject, and the facts of each side. Pure. */

import type { Finding } from '../../../../src/contract/supervision/finding.ts';
import { humanize } from '../../ui/text.ts';
import { formatPrecise, formatRoughly } from '../../ui/time/durations.ts';
import { withLocalTimes } from '../../ui/time/times.ts';
import { tidySeconds } from '../boots/chart-geometry.ts';

/** Names the subject: a machine, an allocation, a token, a pool or the boots of a pool. */
export function aboutWords({ kind, subject, node_id, allocation_id, pool }: About): string {
  if (kind === 'boot-shift') return `boots of ${pool}`;
  if (kind === 'token') return `token ${subject}`;
  return node_id ?? allocation_id ?? (pool !== null && subject.startsWith(pool) ? `pool ${subject}` : subject);
}

type About = Pick<Finding, 'kind' | 'subject' | 'node_id' | 'allocation_id' | 'pool'>;

/** Headings of the two sides. */
export const sideNames: Record<Finding['kind'], [ours: string, theirs: string]> = {
  drift: ['Our record', 'Found'],
  'repeat-failure': ['Our record', 'Found'],
  'boot-shift': ['Before', 'Since then'],
  identity: ['The machine', 'The other caller'],
  'join-token': ['Join token', 'Machines'],
  token: ['Token', 'Use'],
};

/** Slower boots began before they could be detected. */
export const findingSince = ({ kind, theirs, opened_at, first_seen_at }: Finding): string =>
  kind === 'boot-shift' && typeof theirs.since === 'string' ? theirs.since : (opened_at ?? first_seen_at);

/**
 * Suggests one and a half times the slowest boot, as learned budgets do. Null if the budget is
 * already larger.
 */
export function suggestedBudget({ ours, theirs }: Pick<Finding, 'ours' | 'theirs'>): number | null {
  const { budget_seconds } = ours;
  const { slowest_seconds } = theirs;
  if (typeof budget_seconds !== 'number' || typeof slowest_seconds !== 'number') return null;
  const seconds = tidySeconds(slowest_seconds * 1.5);
  return seconds > budget_seconds ? seconds : null;
}

function valueWords(value: unknown): string {
  if (typeof value === 'string') return withLocalTimes(value);
  if (Array.isArray(value)) return value.map(valueWords).join('; ');
  return typeof value === 'object' && value !== null ? partWords(value) : String(value);
}

/** Fields that are shown without their name. */
const fieldsWithoutName: ReadonlySet<string> = new Set(['at', 'reason']);

const partWords = (value: object): string =>
  Object.entries(value)
    .filter(([, part]) => part !== null && part !== undefined)
    .map(([name, part]) => {
      const [label, words] = withUnit(name, part) ?? [name, valueWords(part)];
      return fieldsWithoutName.has(name) ? words : `${humanize(label).toLowerCase()} ${words}`;
    })
    .join(', ');

const secondsSuffix = /_seconds$/;
const shareSuffix = /_share$/;

/** Shows seconds below one hour, where they matter for boots. */
const durationWords = (seconds: number) => (seconds < 3600 ? formatPrecise(seconds) : formatRoughly(seconds));

/** Formats numbers by the unit in their name. */
function withUnit(name: string, value: unknown): [name: string, words: string] | undefined {
  if (typeof value !== 'number') return undefined;
  if (name === 'seconds') return ['took', durationWords(value)];
  if (secondsSuffix.test(name)) return [name.replace(secondsSuffix, ''), durationWords(value)];
  return shareSuffix.test(name) ? [name.replace(shareSuffix, ''), `${Number((value * 100).toFixed(1))} %`] : undefined;
}

function factOf(name: string, value: unknown): SideFact {
  const [label, words] = withUnit(name, value) ?? [];
  if (label !== undefined && words !== undefined) return [humanize(label), words];
  const hasObjects = Array.isArray(value) && value.some((each) => typeof each === 'object');
  return [humanize(name), hasObjects ? value.map(valueWords) : valueWords(value)];
}

/** A list of objects shows one object per line. */
export type SideFact = [name: string, words: string | string[]];

/** Stored objects have no order, so these fields are shown first. */
const firstFields = [
  'since',
  'boots',
  'median_seconds',
  'times_as_long',
  'slowest_seconds',
  'past_budget_share',
  'stages',
];
const placeOf = ([name]: [string, unknown]) => {
  const place = firstFields.indexOf(name);
  return place < 0 ? firstFields.length : place;
};

/** The facts of one side, without unknown values. */
export const sideFacts = (side: Finding['ours']): SideFact[] =>
  Object.entries(side)
    .toSorted((one, other) => placeOf(one) - placeOf(other))
    .filter(([, value]) => value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => factOf(name, value));

/** Short text for a link; null if nothing is open. A `+` means that there is a further page. */
export const openCount = (page: { items: unknown[]; next_cursor: string | null } | undefined): string | null =>
  page && page.items.length > 0 ? `${page.items.length}${page.next_cursor ? '+' : ''} open` : null;
