/** Decides which queries a live change makes stale, because the stream lacks their data. Pure. */

import type { Change } from '../api/cache/journal.ts';
import { keys } from '../api/cache/keys.ts';

type Key = readonly unknown[];

export interface Stale {
  /**
   * Ids of nodes and allocations whose explanation and actions may have changed. There may be
   * thousands, but only those on screen are read again.
   */
  explained: Set<string>;
  /** Queries to refetch at once, because they may be on screen. */
  now: Key[];
  /** Queries to refetch together after a pause, such as counts. */
  soon: Key[];
}

interface StaleByKind {
  kinds: RegExp;
  now: Key[];
  soon: Key[];
}

const brake = keys.brake();
const findings = keys.allFindings();
const residues = keys.allResidue();
const audits = keys.allAudits();
const countQueries: Key[] = [keys.pools(), keys.overview()];

/** Kinds of evidence that change the answer of other queries. */
const staleByKind: StaleByKind[] = [
  { kinds: /^boot\./, now: [keys.allBootStages()], soon: [] },
  { kinds: /^(brake|maintenance)\./, now: [brake], soon: [] },
  { kinds: /^token\./, now: [keys.tokens(), keys.sessions()], soon: [] },
  { kinds: /^session\./, now: [keys.sessions()], soon: [] },
  { kinds: /^(pool|budget)\./, now: [keys.pools(), keys.allBootStatistics()], soon: [] },
  { kinds: /^node\.(starting|ready|failed|cleaning)$/, now: [], soon: [keys.allBootStatistics()] },
  { kinds: /^finding\./, now: [], soon: [findings] },
  { kinds: /^residue\./, now: [], soon: [residues] },
  { kinds: /^node\.held(_over)?$/, now: [], soon: [brake] },
];

/** An explanation depends on the node or allocation, its operation and its evidence. */
const explainedBy = ({ value: { node_id, allocation_id } }: Change): string[] =>
  [node_id, allocation_id].filter((id) => typeof id === 'string');

export function staleAfter(changes: Change[]): Stale {
  const explained = new Set<string>();
  const now = new Set<Key>();
  const soon = new Set<Key>();
  for (const change of changes) {
    for (const id of explainedBy(change)) explained.add(id);
    if (change.topic === 'node' || change.topic === 'allocation') for (const key of countQueries) soon.add(key);
    if (change.topic !== 'evidence') continue;
    if (change.value.actor) soon.add(audits);
    for (const stale of staleByKind) {
      if (!stale.kinds.test(change.value.kind)) continue;
      for (const key of stale.now) now.add(key);
      for (const key of stale.soon) soon.add(key);
    }
  }
  return { explained, now: [...now], soon: [...soon] };
}
