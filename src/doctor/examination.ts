/** The words of an examination: whom it is about, what each layer came to, and what is known by then. */
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

export interface Patient {
  url: URL;
  /** PEM, trusted besides the usual authorities. */
  ca: string | null;
  /** Public keys that the installation is known by; null where none is known. */
  known_keys: readonly string[] | null;
  caller: Caller;
  correlation_id: string;
  clock: Clock;
  signal: AbortSignal;
  /** How long each layer may take, and how long the agent may take over a ping. */
  patience_seconds: number;
}

/** What the layers that were well have found, for those after them. */
export interface Found {
  addresses: string[];
  /** The address that took a connection. */
  address: string | null;
  /** Why the certificate is not trusted, as the TLS library names it. */
  distrust: string | null;
  checkup: Checkup | null;
  ping: Ping | null;
}

export type Outcome =
  | { state: 'ok' | 'skipped'; says: string }
  /** A code of the catalogue; whose it is stands there, unless an answer of the server said so itself. */
  | { state: 'failed'; code: string; says: string; owner_layer?: string; detail_layer?: string };

export const well = (says: string): Outcome => ({ state: 'ok', says });
export const skipped = (says: string): Outcome => ({ state: 'skipped', says });
export const failed = (code: string, says: string): Outcome => ({ state: 'failed', code, says });

export interface LayerReport {
  /** As doctor and `detail_layer` name it. */
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
