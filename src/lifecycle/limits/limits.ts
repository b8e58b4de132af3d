/**
 * How much evidence callers may cause. Each writer has an allowance that refills: `rows` and `bytes` at once, then
 * `rows_per_second` and `bytes_per_second`. Pure data; `slipway.yaml` replaces single numbers under `limits:`.
 */

export interface WriteQuota {
  rows: number;
  rows_per_second: number;
  bytes: number;
  bytes_per_second: number;
}

/**
 * - instance: one life of a machine, and each name that joins with a join token
 * - join_token: all that join with one token
 * - tenant: all tokens of a tenant together
 * - relay: what is recorded about machines because a relay is refused
 * - address: a source address (IPv6: its /64) that shows no valid credential
 * - anonymous: all source addresses together
 * - everybody: all of the above together, on one replica
 */
export const quotaKinds = ['instance', 'join_token', 'tenant', 'relay', 'address', 'anonymous', 'everybody'] as const;
export type QuotaKind = (typeof quotaKinds)[number];

/**
 * - instance, tenant: requests of one machine (its plain beats apart) and of all tokens of a tenant; one that starts an
 *   operation or has a long reply counts as several
 * - address: requests that need no credential
 * - rotation: credential rotations of one machine. They are never refused for what the machine wrote: its tenant may have
 *   written that, and the machine would lose its credential
 * - join_token: calls of the foreign protocols that show one join token and name no machine that it let in
 * - sign_in: console sessions that one token opens
 * - unknown_credential: credentials in batches of beats that no machine has, by one address or relay
 * - refused: requests of one caller that were refused; beyond it each refusal is sent a second late
 */
export const requestKinds = [
  'instance',
  'tenant',
  'address',
  'rotation',
  'sign_in',
  'unknown_credential',
  'join_token',
  'refused',
] as const;

export interface RequestRate {
  burst: number;
  per_second: number;
}
export type RateSettings = Record<(typeof requestKinds)[number], RequestRate>;

export type LimitSettings = { window_seconds: number; requests: RateSettings } & Record<QuotaKind, WriteQuota>;

const kb = 1024;
const mb = 1024 * kb;

export const defaultLimits: LimitSettings = {
  /** One fact per writer and window says how much was dropped or refused. */
  window_seconds: 60,
  requests: {
    instance: { burst: 1_000, per_second: 20 },
    tenant: { burst: 2_000, per_second: 50 },
    address: { burst: 2_000, per_second: 100 },
    rotation: { burst: 60, per_second: 0.05 },
    sign_in: { burst: 100, per_second: 0.1 },
    unknown_credential: { burst: 10_000, per_second: 50 },
    join_token: { burst: 5_000, per_second: 100 },
    refused: { burst: 1_000, per_second: 10 },
  },
  instance: { rows: 2_000, rows_per_second: 0.2, bytes: 2 * mb, bytes_per_second: 100 },
  join_token: { rows: 200_000, rows_per_second: 20, bytes: 200 * mb, bytes_per_second: 16 * kb },
  tenant: { rows: 50_000, rows_per_second: 10, bytes: 64 * mb, bytes_per_second: 8 * kb },
  relay: { rows: 50_000, rows_per_second: 5, bytes: 64 * mb, bytes_per_second: 4 * kb },
  /** A tenth of what all addresses have together, so that one does not take the room of the others. */
  address: { rows: 1_000, rows_per_second: 0.1, bytes: 1 * mb, bytes_per_second: 100 },
  anonymous: { rows: 10_000, rows_per_second: 1, bytes: 10 * mb, bytes_per_second: 1 * kb },
  everybody: { rows: 2_000_000, rows_per_second: 1_000, bytes: 2_048 * mb, bytes_per_second: 512 * kb },
};

/**
 * Writes that one writer may have in progress at once. The cost of a request is known only after it has written, so this
 * and the reservation for its body bound how far concurrent requests overdraw an allowance.
 */
export const maxWritesInProgress: Partial<Record<QuotaKind, number>> = { instance: 16, tenant: 100 };

/** What a row takes in the store besides its own text: its header, its ids and its place in each index. */
export const rowOverheadBytes = 512;

/** The kind of the fact that says how much was dropped. */
export const droppedKind = 'evidence.dropped';
