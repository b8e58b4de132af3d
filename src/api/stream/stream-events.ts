/**
 * Selects the facts that a stream reader gets, and writes them in the wire format. Text that
 * readers share is serialized once.
 */

import type { Evidence } from '../../contract/evidence/evidence.ts';
import { canSee, type Visibility } from '../../lifecycle/visibility.ts';
import type { FeedBatch } from './feed-batch.ts';

export interface StreamFilter {
  topics: Set<string>;
  visibility: Visibility;
  node_id?: string;
  allocation_id?: string;
  workflow_id?: string;
  pool?: string;
}

/** Readers with the same key share the same bytes. */
export const filterKey = ({ topics, visibility, node_id, allocation_id, workflow_id, pool }: StreamFilter): string =>
  JSON.stringify([[...topics].toSorted(), visibility, node_id, allocation_id, workflow_id, pool]);

const isVisible = (allocation_id: string | null, batch: FeedBatch, { visibility }: StreamFilter): boolean =>
  canSee(visibility, (allocation_id !== null && batch.allocations.get(allocation_id)?.tenant) || null);

/** The ids of the resources that a fact or a row is about. */
type Subject = Pick<Evidence, 'node_id' | 'allocation_id' | 'workflow_id'>;

function poolOf(fact: Subject, batch: FeedBatch): string | undefined {
  const node = fact.node_id ? batch.nodes.get(fact.node_id) : undefined;
  const allocation = fact.allocation_id ? batch.allocations.get(fact.allocation_id) : undefined;
  return node?.pool ?? allocation?.pool;
}

function matchesFilter(fact: Subject, batch: FeedBatch, filter: StreamFilter): boolean {
  if (!isVisible(fact.allocation_id, batch, filter)) return false;
  if (filter.node_id && fact.node_id !== filter.node_id) return false;
  if (filter.allocation_id && fact.allocation_id !== filter.allocation_id) return false;
  if (filter.workflow_id && fact.workflow_id !== filter.workflow_id) return false;
  return !filter.pool || poolOf(fact, batch) === filter.pool;
}

/** The kinds of rows that facts are about. */
const rowKinds = [
  { topic: 'nodes', name: 'node', key: 'node_id', rowsIn: (batch: FeedBatch) => batch.nodes },
  { topic: 'allocations', name: 'allocation', key: 'allocation_id', rowsIn: (batch: FeedBatch) => batch.allocations },
  { topic: 'operations', name: 'operation', key: 'workflow_id', rowsIn: (batch: FeedBatch) => batch.operations },
] as const;

const formatEvent = (name: string, data: unknown, id?: string) =>
  `${id ? `id: ${id}\n` : ''}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

export const positionEvent = (cursor: string) => formatEvent('position', {}, cursor);

/**
 * Sent if the database no longer has facts that the reader has read, as after a restore. The reader
 * must read the current state again.
 */
export const resetEvent = () => formatEvent('reset', { reason: 'history_lost' });

/** Caches the text of each event of a batch. */
function createEventCache() {
  const texts = new Map<object, string>();
  return (name: string, data: object, id?: string): string => {
    const text = texts.get(data) ?? formatEvent(name, data, id);
    texts.set(data, text);
    return text;
  };
}

/**
 * Returns a function that renders the batch for a filter; the text is empty if nothing matches.
 * Current rows come first, then the facts with their cursors. A reader that disconnects in between
 * gets the facts again.
 */
export function createRenderer(batch: FeedBatch): (filter: StreamFilter) => string {
  const eventText = createEventCache();
  const idsInFacts = {
    node_id: new Set(batch.facts.map((fact) => fact.node_id)),
    allocation_id: new Set(batch.facts.map((fact) => fact.allocation_id)),
    workflow_id: new Set(batch.facts.map((fact) => fact.workflow_id)),
  };
  const last = batch.facts.at(-1);

  /** A cheap first check for readers that follow one node, allocation or operation. */
  const mayMatch = (filter: StreamFilter) =>
    rowKinds.every(({ key }) => filter[key] === undefined || idsInFacts[key].has(filter[key]));

  const renderFacts = (filter: StreamFilter): string => {
    const facts = mayMatch(filter) ? batch.facts.filter((fact) => matchesFilter(fact, batch, filter)) : [];
    if (!last || facts.length === 0) return '';
    let text = '';
    for (const { topic, name, key, rowsIn } of rowKinds) {
      if (!filter.topics.has(topic)) continue;
      for (const id of new Set(facts.flatMap((fact) => fact[key] ?? []))) {
        const row = rowsIn(batch).get(id);
        // A node may have gone to another tenant since the fact was recorded.
        if (row && isVisible(row.allocation_id, batch, filter)) text += eventText(name, row);
      }
    }
    if (filter.topics.has('evidence')) for (const fact of facts) text += eventText('evidence', fact, fact.cursor);
    return text && text + positionEvent(last.cursor);
  };

  const renderProgress = (filter: StreamFilter): string => {
    let text = '';
    if (!filter.topics.has('operations')) return text;
    for (const id of batch.progressedIds ?? []) {
      const operation = batch.operations.get(id);
      if (operation && matchesFilter(operation, batch, filter)) text += eventText('operation', operation);
    }
    return text;
  };

  return (filter) => (batch.progressedIds ? renderProgress(filter) : renderFacts(filter));
}
