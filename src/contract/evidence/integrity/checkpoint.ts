/**
 * A checkpoint: a signed statement of which evidence rows exist, linked to the previous checkpoint.
 */
import { createHash, type KeyObject, sign, verify } from 'node:crypto';
import { canonicalJson } from '../../canonical-json.ts';

export const checkpointKinds = [
  /** Rows in commit order: everything between `after` and `through`. */
  'rows',
  /** Snapshots that retention inserted at an older position. */
  'late',
  /** Retention dropped a partition. */
  'cut',
  /** A new signing key takes effect. */
  'key',
] as const;
export type CheckpointKind = (typeof checkpointKinds)[number];

export interface Segment {
  partition: string;
  /** Rows of the partition sealed by earlier checkpoints. */
  before: number;
  rows: number;
  first: string;
  last: string;
  /** Heads of the partition's chain before and after these rows. */
  from: string;
  head: string;
}

export interface CheckpointBody {
  type: 'slipway.checkpoint.1';
  installation: string;
  position: number;
  /** Hash of the previous body; null for the first. */
  previous: string | null;
  at: string;
  kind: CheckpointKind;
  kid: string;
  after: string;
  through: string;
  segments: Segment[];
  cut?: { partition: string; piece: string; before: string; rows: number };
  key?: { kid: string; public_key: string };
  /** A checkpoint that the sealer has read before, but that the database no longer holds. */
  lost?: { position: number; hash: string };
}

export interface Checkpoint {
  /** The exact signed text. */
  body: string;
  /** Base64. */
  signature: string;
}

export const encodeCheckpoint = (body: CheckpointBody): string => canonicalJson(body);

export const checkpointHash = (body: string): string => createHash('sha256').update(body).digest('hex');

/** The prefix distinguishes checkpoints from other texts that are signed with the same key. */
const signedText = (body: string): Buffer => Buffer.from(`slipway checkpoint\n${body}`);

export const signCheckpoint = (body: string, key: KeyObject): Buffer => sign(null, signedText(body), key);

export const isSignedBy = ({ body, signature }: Checkpoint, key: KeyObject): boolean =>
  verify(null, signedText(body), key, Buffer.from(signature, 'base64'));

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isSegment = (value: unknown): value is Segment =>
  isObject(value) &&
  ['partition', 'first', 'last', 'from', 'head'].every((name) => typeof value[name] === 'string') &&
  Number.isSafeInteger(value.before) &&
  Number.isSafeInteger(value.rows);

/**
 * Returns undefined if the text is not a checkpoint. A tampered body may hold anything, so every
 * field is checked.
 */
export function readCheckpoint(text: string): CheckpointBody | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value) || value.type !== 'slipway.checkpoint.1') return undefined;
  const isComplete =
    ['installation', 'at', 'kid', 'after', 'through'].every((name) => typeof value[name] === 'string') &&
    Number.isSafeInteger(value.position) &&
    (value.previous === null || typeof value.previous === 'string') &&
    checkpointKinds.includes(value.kind as CheckpointKind) &&
    Array.isArray(value.segments) &&
    value.segments.every(isSegment) &&
    (value.kind !== 'cut' || isObject(value.cut)) &&
    (value.kind !== 'key' || isObject(value.key));
  return isComplete ? (value as unknown as CheckpointBody) : undefined;
}
