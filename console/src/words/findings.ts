/** The words of a finding: what it is about, and what each side says. Pure. */
import type { Finding } from '../../../src/contract/finding.ts';
import { roughly } from './durations.ts';
import { asWords } from './progress.ts';
import { withLocalTimes } from './times.ts';

/** Its own id, or the pool where it is about no one machine. */
export const aboutWords = ({ subject, node_id, allocation_id, pool }: About): string =>
  node_id ?? allocation_id ?? (subject.startsWith(pool) ? `pool ${subject}` : subject);

type About = Pick<Finding, 'subject' | 'node_id' | 'allocation_id' | 'pool'>;

function valueWords(value: unknown): string {
  if (typeof value === 'string') return withLocalTimes(value);
  if (Array.isArray(value)) return value.map(valueWords).join('; ');
  return typeof value === 'object' && value !== null ? partWords(value) : String(value);
}

/** They read as they are; every other part is named. */
const unnamed: ReadonlySet<string> = new Set(['at', 'reason']);

const partWords = (value: object): string =>
  Object.entries(value)
    .filter(([, part]) => part !== null && part !== undefined)
    .map(([name, part]) =>
      unnamed.has(name) ? valueWords(part) : `${asWords(name).toLowerCase()} ${valueWords(part)}`,
    )
    .join(', ');

const inSeconds = /_seconds$/;

function factOf(name: string, value: unknown): SideFact {
  if (typeof value === 'number' && inSeconds.test(name)) return [asWords(name.replace(inSeconds, '')), roughly(value)];
  const isLong = Array.isArray(value) && value.some((each) => typeof each === 'object');
  return [asWords(name), isLong ? value.map(valueWords) : valueWords(value)];
}

/** Several things that each take a line are told one by one. */
export type SideFact = [name: string, words: string | string[]];

/** What is not known is left out. */
export const sideFacts = (side: Finding['ours']): SideFact[] =>
  Object.entries(side)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => factOf(name, value));

/** As few words as fit beside a link; null while there is nothing. A page that is full may not be all. */
export const openCount = (page: { items: unknown[]; next_cursor: string | null } | undefined): string | null =>
  page && page.items.length > 0 ? `${page.items.length}${page.next_cursor ? '+' : ''} open` : null;
