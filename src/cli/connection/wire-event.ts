/** Parses an event of the stream into the object that it contains. */
import type { Allocation } from '../../contract/allocation.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import type { ServerEvent } from './event-stream.ts';

export type WireEvent =
  | { kind: 'allocation'; allocation: Allocation }
  | { kind: 'node'; node: Node }
  | { kind: 'operation'; operation: Operation };

/** The server builds events with the types of the contract, so checking the key is enough. */
const isObjectWith = <T>(data: unknown, key: keyof T & string): data is T =>
  typeof data === 'object' && data !== null && key in data && 'status' in data;

/** Returns null for an event of another kind, which a newer server may send. */
export function readWireEvent(event: ServerEvent): WireEvent | null {
  const data: unknown = JSON.parse(event.data);
  if (event.event === 'allocation' && isObjectWith<Allocation>(data, 'allocation_id'))
    return { kind: 'allocation', allocation: data };
  if (event.event === 'node' && isObjectWith<Node>(data, 'node_id')) return { kind: 'node', node: data };
  if (event.event === 'operation' && isObjectWith<Operation>(data, 'workflow_id'))
    return { kind: 'operation', operation: data };
  return null;
}
