/**
 * Which facts a stream reader gets, and their wire format. Text shared by readers is serialized
 * once.
 */

import type { Evidence } from '../../contract/evidence/evidence.ts';
import { canSee, type Visibility } from '../../lifecycle/visibility.ts';
import type { FeedBatch } from './feed-batch.ts';

export interface Wanted {
  topics: Set<string>;
  visibility: Visibility;
  node_id?: string;
  allocation_id?: string;
  workflow_id?: string;
  pool?: string;
}

/** Readers with the same key share the same bytes. */
export const filterKey = ({ topics, visibility, node_id, allocation_id, workflow_id, pool }: Wanted): string =>
  JSON.stringify([[...topics].toSorted(), visibility, node_id, allocation_id, workflow_id, pool]);

const isVisible = (allocation_id: string | null, batch: FeedBatch, { visibility }: Wanted): boolean =>
  canSee(visibility, (allocation_id !== null && batch.allocations.get(allocation_id)?.tenant) || null);

/** The ids that a fact or a row names. */
type About = Pick<Evidence, 'node_id' | 'allocation_id' | 'workflow_id'>;

function poolOf(fact: About, batch: FeedBatch): string | undefined {
  const node = fact.node_id ? batch.nodes.get(fact.node_id) : undefined;
  const allocation = fact.allocation_id ? batch.allocations.get(fact.allocation_id) : undefined;
  return node?.pool ?? allocation?.pool;
}

function isWanted(fact: About, batch: FeedBatch, wanted: Wanted): boolean {
  if (!isVisible(fact.allocation_id, batch, wanted)) return false;
  if (wanted.node_id && fact.node_id !== wanted.node_id) return false;
  if (wanted.allocation_id && fact.allocation_id !== wanted.allocation_id) return false;
  if (wanted.workflow_id && fact.workflow_id !== wanted.workflow_id) return false;
  return !wanted.pool || poolOf(fact, batch) === wanted.pool;
}

/**
 * The current state of what facts are about. Each names the allocation it belongs to now, and that
 * is checked too: a node may have gone to another tenant since the fact was recorded.
 */
const shapes = [
  { topic: 'nodes', name: 'node', key: 'node_id', of: (batch: FeedBatch) => batch.nodes },
  { topic: 'allocations', name: 'allocation', key: 'allocation_id', of: (batch: FeedBatch) => batch.allocations },
  { topic: 'operations', name: 'operation', key: 'workflow_id', of: (batch: FeedBatch) => batch.operations },
] as const;

const event = (name: string, data: unknown, id?: string) =>
  `${id ? `id: ${id}\n` : ''}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

export const position = (cursor: string) => event('position', {}, cursor);

/** Caches the text of each event of a batch. */
function writtenOnce() {
  const known = new Map<object, string>();
  return (name: string, thing: object, id?: string): string => {
    const written = known.get(thing) ?? event(name, thing, id);
    known.set(thing, written);
    return written;
  };
}

/**
 * Renders a batch for one reader; empty if it wants nothing of it. Current states come first, then
 * the facts with their cursors: a reader that disconnects in between gets the facts again.
 */
export function renderer(batch: FeedBatch): (wanted: Wanted) => string {
  const written = writtenOnce();
  const known = {
    node_id: new Set(batch.facts.map((fact) => fact.node_id)),
    allocation_id: new Set(batch.facts.map((fact) => fact.allocation_id)),
    workflow_id: new Set(batch.facts.map((fact) => fact.workflow_id)),
  };
  const last = batch.facts.at(-1);

  /** A cheap first test for readers that follow one node, allocation or operation. */
  const mayConcern = (wanted: Wanted) =>
    shapes.every(({ key }) => wanted[key] === undefined || known[key].has(wanted[key]));

  const renderFacts = (wanted: Wanted): string => {
    const facts = mayConcern(wanted) ? batch.facts.filter((fact) => isWanted(fact, batch, wanted)) : [];
    if (!last || facts.length === 0) return '';
    let text = '';
    for (const { topic, name, key, of } of shapes) {
      if (!wanted.topics.has(topic)) continue;
      for (const id of new Set(facts.flatMap((fact) => fact[key] ?? []))) {
        const shape = of(batch).get(id);
        if (shape && isVisible(shape.allocation_id, batch, wanted)) text += written(name, shape);
      }
    }
    if (wanted.topics.has('evidence')) for (const fact of facts) text += written('evidence', fact, fact.cursor);
    return text && text + position(last.cursor);
  };

  const renderMoved = (wanted: Wanted): string => {
    let text = '';
    if (!wanted.topics.has('operations')) return text;
    for (const id of batch.moved ?? []) {
      const operation = batch.operations.get(id);
      if (operation && isWanted(operation, batch, wanted)) text += written('operation', operation);
    }
    return text;
  };

  return (wanted) => (batch.moved ? renderMoved(wanted) : renderFacts(wanted));
}
