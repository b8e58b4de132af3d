/** Which facts a reader of the stream gets, and how they look on the wire. What several readers get is written once. */
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { FeedBatch } from './feed-batch.ts';

export interface Wanted {
  topics: Set<string>;
  /** Null: everybody's. */
  tenant: string | null;
  node_id?: string;
  allocation_id?: string;
  workflow_id?: string;
  pool?: string;
}

/** Two readers for whom this is the same are sent the same. */
export const questionOf = ({ topics, tenant, node_id, allocation_id, workflow_id, pool }: Wanted): string =>
  JSON.stringify([[...topics].toSorted(), tenant, node_id, allocation_id, workflow_id, pool]);

const isOwn = (allocation_id: string | null, batch: FeedBatch, { tenant }: Wanted): boolean =>
  tenant === null || (allocation_id !== null && batch.allocations.get(allocation_id)?.tenant === tenant);

/** What a fact, or a thing itself, is about. */
type About = Pick<Evidence, 'node_id' | 'allocation_id' | 'workflow_id'>;

function poolOf(fact: About, batch: FeedBatch): string | undefined {
  const node = fact.node_id ? batch.nodes.get(fact.node_id) : undefined;
  const allocation = fact.allocation_id ? batch.allocations.get(fact.allocation_id) : undefined;
  return node?.pool ?? allocation?.pool;
}

function isWanted(fact: About, batch: FeedBatch, wanted: Wanted): boolean {
  if (!isOwn(fact.allocation_id, batch, wanted)) return false;
  if (wanted.node_id && fact.node_id !== wanted.node_id) return false;
  if (wanted.allocation_id && fact.allocation_id !== wanted.allocation_id) return false;
  if (wanted.workflow_id && fact.workflow_id !== wanted.workflow_id) return false;
  return !wanted.pool || poolOf(fact, batch) === wanted.pool;
}

/**
 * The current shapes of what facts are about. Each names the allocation it belongs to now, which is judged again: a node
 * may have gone to somebody else since the fact was written.
 */
const shapes = [
  { topic: 'nodes', name: 'node', key: 'node_id', of: (batch: FeedBatch) => batch.nodes },
  { topic: 'allocations', name: 'allocation', key: 'allocation_id', of: (batch: FeedBatch) => batch.allocations },
  { topic: 'operations', name: 'operation', key: 'workflow_id', of: (batch: FeedBatch) => batch.operations },
] as const;

const event = (name: string, data: unknown, id?: string) =>
  `${id ? `id: ${id}\n` : ''}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

export const position = (cursor: string) => event('position', {}, cursor);

/** Remembers what was written for each thing of a batch. */
function writtenOnce() {
  const known = new Map<object, string>();
  return (name: string, thing: object, id?: string): string => {
    const written = known.get(thing) ?? event(name, thing, id);
    known.set(thing, written);
    return written;
  };
}

/**
 * Writes one batch for whoever wants what. Current shapes first, then the facts with their cursors: whoever breaks off in between
 * gets the facts again. Nothing is written where nothing is wanted.
 */
export function renderer(batch: FeedBatch): (wanted: Wanted) => string {
  const written = writtenOnce();
  const known = {
    node_id: new Set(batch.facts.map((fact) => fact.node_id)),
    allocation_id: new Set(batch.facts.map((fact) => fact.allocation_id)),
    workflow_id: new Set(batch.facts.map((fact) => fact.workflow_id)),
  };
  const last = batch.facts.at(-1);

  /** Most of those who follow one thing among many are done with this. */
  const mayConcern = (wanted: Wanted) =>
    shapes.every(({ key }) => wanted[key] === undefined || known[key].has(wanted[key]));

  const told = (wanted: Wanted): string => {
    const facts = mayConcern(wanted) ? batch.facts.filter((fact) => isWanted(fact, batch, wanted)) : [];
    if (!last || facts.length === 0) return '';
    let text = '';
    for (const { topic, name, key, of } of shapes) {
      if (!wanted.topics.has(topic)) continue;
      for (const id of new Set(facts.flatMap((fact) => fact[key] ?? []))) {
        const shape = of(batch).get(id);
        if (shape && isOwn(shape.allocation_id, batch, wanted)) text += written(name, shape);
      }
    }
    if (wanted.topics.has('evidence')) for (const fact of facts) text += written('evidence', fact, fact.cursor);
    return text && text + position(last.cursor);
  };

  const moved = (wanted: Wanted): string => {
    let text = '';
    if (!wanted.topics.has('operations')) return text;
    for (const id of batch.moved ?? []) {
      const operation = batch.operations.get(id);
      if (operation && isWanted(operation, batch, wanted)) text += written('operation', operation);
    }
    return text;
  };

  return (wanted) => (batch.moved ? moved(wanted) : told(wanted));
}
