/** Decides which queries a live change makes stale, because the stream lacks their data. Pure. */

import type { Change } from '../api/cache/journal.ts';
import { keys } from '../api/cache/keys.ts';

type Key = readonly unknown[];

export interface Stale {
  /**
   * Ids of nodes and allocations whose explanation and actions may have changed. There may be
   * thousands, but only those on screen are read again.
   */
  explainedIds: Set<string>;
  /** Queries to refetch at once, because they may be on screen. */
  immediate: Key[];
  /** Queries to refetch together after a pause, such as counts. */
  delayed: Key[];
}

interface StaleByKind {
  kinds: RegExp;
  immediate: Key[];
  delayed: Key[];
}

const brake = keys.brake();
const findings = keys.allFindings();
const residues = keys.allResidue();
const audits = keys.allAudits();
const countQueries: Key[] = [keys.pools(), keys.overview()];

/** Kinds of evidence that change the answer of other queries. */
const staleByKind: StaleByKind[] = [
  { kinds: /^boot\./, immediate: [keys.allBootStages()], delayed: [] },
  { kinds: /^(brake|maintenance)\./, immediate: [brake], delayed: [] },
  {
    kinds: /^(restoration\.ended|evidence\.restored)$/,
    immediate: [keys.allRestorations(), keys.serverStatus()],
    delayed: [],
  },
  { kinds: /^token\./, immediate: [keys.tokens(), keys.sessions()], delayed: [] },
  { kinds: /^session\./, immediate: [keys.sessions()], delayed: [] },
  { kinds: /^(pool|budget)\./, immediate: [keys.pools(), keys.allBootStatistics()], delayed: [] },
  { kinds: /^node\.(starting|ready|failed|cleaning)$/, immediate: [], delayed: [keys.allBootStatistics()] },
  { kinds: /^finding\./, immediate: [], delayed: [findings] },
  { kinds: /^residue\./, immediate: [], delayed: [residues] },
  { kinds: /^node\.held(_over)?$/, immediate: [], delayed: [brake] },
];

/** An explanation depends on the node or allocation, its operation and its evidence. */
const explainedBy = ({ value: { node_id, allocation_id } }: Change): string[] =>
  [node_id, allocation_id].filter((id) => typeof id === 'string');

export function staleAfter(changes: Change[]): Stale {
  const explainedIds = new Set<string>();
  const immediate = new Set<Key>();
  const delayed = new Set<Key>();
  for (const change of changes) {
    for (const id of explainedBy(change)) explainedIds.add(id);
    if (change.topic === 'node' || change.topic === 'allocation') for (const key of countQueries) delayed.add(key);
    if (change.topic !== 'evidence') continue;
    if (change.value.actor) delayed.add(audits);
    for (const stale of staleByKind) {
      if (!stale.kinds.test(change.value.kind)) continue;
      for (const key of stale.immediate) immediate.add(key);
      for (const key of stale.delayed) delayed.add(key);
    }
  }
  return { explainedIds, immediate: [...immediate], delayed: [...delayed] };
}
