/** Which facts a reader of the stream gets, and how they look on the wire. */
import type { Evidence } from '../contract/evidence.ts';
import type { FeedBatch } from './live-feed.ts';

export interface Wanted {
  topics: Set<string>;
  /** Null: everybody's. */
  tenant: string | null;
  node_id?: string;
  allocation_id?: string;
  workflow_id?: string;
  pool?: string;
}

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

/** Current shapes first, then the facts with their cursors: whoever breaks off in between gets the facts again. */
export function render(batch: FeedBatch, wanted: Wanted): string {
  const facts = batch.facts.filter((fact) => isWanted(fact, batch, wanted));
  const last = batch.facts.at(-1);
  let text = '';
  for (const { topic, name, key, of } of shapes) {
    if (!wanted.topics.has(topic)) continue;
    for (const id of new Set(facts.flatMap((fact) => fact[key] ?? []))) {
      const shape = of(batch).get(id);
      if (shape && isOwn(shape.allocation_id, batch, wanted)) text += event(name, shape);
    }
  }
  if (wanted.topics.has('operations'))
    for (const id of batch.moved ?? []) {
      const operation = batch.operations.get(id);
      if (operation && isWanted(operation, batch, wanted)) text += event('operation', operation);
    }
  if (wanted.topics.has('evidence')) for (const fact of facts) text += event('evidence', fact, fact.cursor);
  // The position moves on even past facts that were not wanted, so that a resume does not read them again.
  return last ? text + position(last.cursor) : text;
}
