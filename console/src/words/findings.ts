/** The words of a finding: what it is about, and what each side says. Pure. */
import type { Finding } from '../../../src/contract/finding.ts';
import { asWords } from './progress.ts';
import { withLocalTimes } from './times.ts';

/** Its own id, or the pool where it is about no one machine. */
export const aboutWords = ({ subject, node_id, allocation_id, pool }: About): string =>
  node_id ?? allocation_id ?? (subject.startsWith(pool) ? `pool ${subject}` : subject);

type About = Pick<Finding, 'subject' | 'node_id' | 'allocation_id' | 'pool'>;

function valueWords(value: unknown): string {
  if (typeof value === 'string') return withLocalTimes(value);
  if (Array.isArray(value)) return value.map(valueWords).join('; ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

export type SideFact = [name: string, words: string];

/** What is not known is left out. */
export const sideFacts = (side: Finding['ours']): SideFact[] =>
  Object.entries(side)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => [asWords(name), valueWords(value)]);

/** As few words as fit beside a link; null while there is nothing. A page that is full may not be all. */
export const openCount = (page: { items: unknown[]; next_cursor: string | null } | undefined): string | null =>
  page && page.items.length > 0 ? `${page.items.length}${page.next_cursor ? '+' : ''} open` : null;
