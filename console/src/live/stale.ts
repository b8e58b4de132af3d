/** What has to be read again after live changes, because the stream does not carry it. Pure. */
import { keys } from '../api/keys.ts';
import type { Change } from './journal.ts';

type Key = readonly unknown[];

export interface Stale {
  /** Nodes to be explained anew; there may be thousands, of which one is looked at. */
  explained: Set<string>;
  /** Somebody may be looking at the very thing that changed. */
  now: Key[];
  /** Counts: many changes are one recount. */
  soon: Key[];
}

interface Watched {
  kinds: RegExp;
  now: Key[];
  soon: Key[];
}

const brake = keys.brake();
const counted: Key[] = [keys.pools(), keys.overview()];

/** Facts that change what another read answers. */
const watched: Watched[] = [
  { kinds: /^boot\./, now: [keys.boots()], soon: [] },
  { kinds: /^(brake|maintenance)\./, now: [brake], soon: [] },
  { kinds: /^node\.held(_over)?$/, now: [], soon: [brake] },
];

/** A node's explanation rests on itself, on the operation that works on it, and on what was found out about it. */
const explainedBy = (change: Change): string | null => (change.topic === 'allocation' ? null : change.value.node_id);

export function staleAfter(changes: Change[]): Stale {
  const explained = new Set<string>();
  const now = new Set<Key>();
  const soon = new Set<Key>();
  for (const change of changes) {
    const node_id = explainedBy(change);
    if (node_id !== null) explained.add(node_id);
    if (change.topic === 'node' || change.topic === 'allocation') for (const key of counted) soon.add(key);
    if (change.topic !== 'evidence') continue;
    for (const stale of watched) {
      if (!stale.kinds.test(change.value.kind)) continue;
      for (const key of stale.now) now.add(key);
      for (const key of stale.soon) soon.add(key);
    }
  }
  return { explained, now: [...now], soon: [...soon] };
}
