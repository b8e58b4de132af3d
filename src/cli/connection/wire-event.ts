/** What an event of the stream is about. */
import type { Allocation } from '../../contract/allocation.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import type { ServerEvent } from './event-stream.ts';

export type WireEvent =
  | { kind: 'allocation'; allocation: Allocation }
  | { kind: 'node'; node: Node }
  | { kind: 'operation'; operation: Operation };

/** The server checks what it sends against the contract; here it only has to be the kind of object that is meant. */
const names = <T>(data: unknown, key: keyof T & string): data is T =>
  typeof data === 'object' && data !== null && key in data && 'status' in data;

/** Null for what this version knows nothing about. */
export function readWireEvent(event: ServerEvent): WireEvent | null {
  const data: unknown = JSON.parse(event.data);
  if (event.event === 'allocation' && names<Allocation>(data, 'allocation_id'))
    return { kind: 'allocation', allocation: data };
  if (event.event === 'node' && names<Node>(data, 'node_id')) return { kind: 'node', node: data };
  if (event.event === 'operation' && names<Operation>(data, 'workflow_id'))
    return { kind: 'operation', operation: data };
  return null;
}
