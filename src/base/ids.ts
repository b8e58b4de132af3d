/**
 * Creates the identifiers of the model: branded strings with a prefix per kind, sortable by
 * creation time.
 */
import { randomBytes } from 'node:crypto';
import { type Clock, moment } from './clock.ts';
import { randomHex } from './random-hex.ts';

declare const brand: unique symbol;
type Id<Name extends string> = string & { readonly [brand]: Name };

export type NodeId = Id<'node_id'>;
export type NodeInstanceId = Id<'node_instance_id'>;
export type AllocationId = Id<'allocation_id'>;
export type WorkflowId = Id<'workflow_id'>;
export type TaskId = Id<'task_id'>;
export type TokenId = Id<'token_id'>;
export type ReplicaId = Id<'replica_id'>;
export type CorrelationId = Id<'correlation_id'>;
export type ResidueId = Id<'residue_id'>;

const prefixes = {
  node: 'node',
  instance: 'inst',
  allocation: 'alloc',
  workflow: 'op',
  task: 'task',
  token: 'tok',
  replica: 'rep',
  hold: 'hold',
  finding: 'find',
  residue: 'res',
  session: 'sess',
} as const;

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const timeLength = 9;
const randomLength = 11;

function sortableTime(nowMs: number): string {
  let time = '';
  for (let remaining = nowMs, i = 0; i < timeLength; i++) {
    time = alphabet.charAt(remaining % 32) + time;
    remaining = Math.floor(remaining / 32);
  }
  return time;
}

function sortableBody(nowMs: number): string {
  let random = '';
  for (const byte of randomBytes(randomLength)) random += alphabet.charAt(byte % 32);
  return sortableTime(nowMs) + random;
}

/**
 * Reads the creation time from one of our ids. Pass only ids with a prefix: a correlation id gives
 * a meaningless time.
 */
export function creationTimeOf(id: string): Date | undefined {
  const time = id.slice(id.indexOf('_') + 1).slice(0, timeLength);
  const digits = [...time].map((letter) => alphabet.indexOf(letter));
  if (digits.length < timeLength || digits.includes(-1)) return undefined;
  return moment(digits.reduce((ms, digit) => ms * 32 + digit, 0));
}

/** A bound for ids of this kind: ids that were created before `at` sort before it. */
export const firstIdAt = (kind: IdKind, at: Date): string => `${prefixes[kind]}_${sortableTime(at.getTime())}`;

export type IdKind = keyof typeof prefixes;
const kinds = new Map(Object.entries(prefixes).map(([kind, prefix]) => [prefix as string, kind as IdKind]));

/** Returns the kind that the id's prefix names, or undefined. Checks only the prefix. */
export function kindOfId(id: string): IdKind | undefined {
  const end = id.indexOf('_');
  return end < 0 ? undefined : kinds.get(id.slice(0, end));
}

const newId = (prefix: string, clock: Clock) => `${prefix}_${sortableBody(clock.nowMs())}`;

export const newNodeId = (clock: Clock) => newId(prefixes.node, clock) as NodeId;
export const newNodeInstanceId = (clock: Clock) => newId(prefixes.instance, clock) as NodeInstanceId;
export const newAllocationId = (clock: Clock) => newId(prefixes.allocation, clock) as AllocationId;
export const newWorkflowId = (clock: Clock) => newId(prefixes.workflow, clock) as WorkflowId;
export const newTaskId = (clock: Clock) => newId(prefixes.task, clock) as TaskId;
export const newTokenId = (clock: Clock) => newId(prefixes.token, clock) as TokenId;
export const newReplicaId = (clock: Clock) => newId(prefixes.replica, clock) as ReplicaId;
export const newResidueId = (clock: Clock) => newId(prefixes.residue, clock) as ResidueId;
export const newHoldId = (clock: Clock) => newId(prefixes.hold, clock);
export const newSessionId = (clock: Clock) => newId(prefixes.session, clock);
export const newFindingId = (clock: Clock) => newId(prefixes.finding, clock);

/** A generated correlation id is a W3C trace id, so traces and evidence share one id. */
export const newCorrelationId = () => randomHex(16) as CorrelationId;

/**
 * The five identifiers of evidence, as far as they are known. Columns, JSON and logs use the same
 * names.
 */
export interface KnownIds {
  node_id?: NodeId | null;
  node_instance_id?: NodeInstanceId | null;
  correlation_id?: CorrelationId | null;
  allocation_id?: AllocationId | null;
  workflow_id?: WorkflowId | null;
}

const idFields: Partial<Record<IdKind, keyof KnownIds>> = {
  node: 'node_id',
  instance: 'node_instance_id',
  allocation: 'allocation_id',
  workflow: 'workflow_id',
};

/** Returns the field for ids with the prefix of this id, or undefined. */
export function idFieldOf(id: string): keyof KnownIds | undefined {
  const kind = kindOfId(id);
  return kind && idFields[kind];
}
