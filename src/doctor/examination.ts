/**
 * The types of an examination: its target, the outcome of each layer, and the results that earlier
 * layers pass to later ones.
 */
import type { Clock } from '../base/clock.ts';
import type { Checkup, Ping } from '../contract/supervision/checkup.ts';

export const layerNames = [
  'dns',
  'tcp',
  'tls',
  'ca',
  'ingress',
  'credential',
  'fence',
  'heartbeat',
  'claim',
  'result',
] as const;
export type LayerName = (typeof layerNames)[number];

export type Caller =
  | { kind: 'person'; token: string | null; node_id: string | null }
  | { kind: 'agent'; credential: string | null };

export interface DoctorTarget {
  url: URL;
  /** PEM, trusted in addition to the system's authorities. */
  ca: string | null;
  /** The public keys of the expected installation; null if the caller knows none. */
  known_keys: readonly string[] | null;
  caller: Caller;
  correlation_id: string;
  clock: Clock;
  signal: AbortSignal;
  /** Time limit for each layer, and for the agent to answer a ping. */
  timeout_seconds: number;
}

/** Results that earlier layers pass to later ones. */
export interface ExaminationState {
  addresses: string[];
  /** The address that accepted a connection. */
  address: string | null;
  /** Why the certificate is not trusted, in the words of the TLS library. */
  distrust: string | null;
  checkup: Checkup | null;
  ping: Ping | null;
}

export type Outcome =
  | { state: 'ok' | 'skipped'; says: string }
  /**
   * `code` is a code of the error catalogue. The catalogue also names the owner, unless the answer
   * of the server does.
   */
  | { state: 'failed'; code: string; says: string; owner_layer?: string; detail_layer?: string };

export const pass = (says: string): Outcome => ({ state: 'ok', says });
export const skip = (says: string): Outcome => ({ state: 'skipped', says });
export const fail = (code: string, says: string): Outcome => ({ state: 'failed', code, says });

export interface LayerReport {
  /** The layer that failed, which the server may name; or else the layer that was examined. */
  layer: string;
  state: Outcome['state'];
  says: string;
  code: string | null;
  title: string | null;
  owner_layer: string | null;
  detail_layer: string | null;
  remedy: string | null;
  seconds: number;
}
