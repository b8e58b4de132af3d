/**
 * How much evidence and how many requests each caller may cause. Each replica counts for itself. An
 * allowance for evidence starts with `rows` and `bytes`, and refills by `rows_per_second` and
 * `bytes_per_second`. `limits:` in `slipway.yaml` overrides single numbers.
 */

export interface WriteQuota {
  rows: number;
  rows_per_second: number;
  bytes: number;
  bytes_per_second: number;
}

/**
 * - instance: one instance of a machine, and each name that joins with a join token
 * - join_token: all machines that join with one token
 * - tenant: all tokens of a tenant together
 * - relay: facts about machines whose relay is refused
 * - address: a source address (IPv6: its /64) without a valid credential
 * - anonymous: all source addresses together
 * - everybody: all of the above together
 */
export const quotaKinds = ['instance', 'join_token', 'tenant', 'relay', 'address', 'anonymous', 'everybody'] as const;
export type QuotaKind = (typeof quotaKinds)[number];

/**
 * - instance: requests of one machine, except plain heartbeats and log lines
 * - tenant: requests of all tokens of a tenant. For both, a request that starts an operation or has
 *   a long reply counts as several
 * - address: requests that need no credential
 * - rotation: credential rotations of one machine; its signed requests for a new credential are
 *   counted separately, at the same rate. The workload could use up the rate of the machine's other
 *   requests, and without a rate of its own the machine would then lose its credential
 * - sign_in: console sessions opened with one token
 * - unknown_credential: unknown credentials in heartbeat batches, by address or relay, and refused
 *   requests for a new credential, by address
 * - join_token: calls of foreign protocols with one join token that name no machine
 *   which the token admitted
 * - refused: refused requests of one caller; beyond this, each refusal is delayed by 1 to 2 s
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
  /** One fact per writer and window counts what was dropped or refused. */
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
  /** A tenth of `anonymous`, so that one address cannot use up the allowance of all. */
  address: { rows: 1_000, rows_per_second: 0.1, bytes: 1 * mb, bytes_per_second: 100 },
  anonymous: { rows: 10_000, rows_per_second: 1, bytes: 10 * mb, bytes_per_second: 1 * kb },
  everybody: { rows: 2_000_000, rows_per_second: 1_000, bytes: 2_048 * mb, bytes_per_second: 512 * kb },
};

/**
 * The number of concurrent writes per writer. The cost of a request is known only after its write.
 * This limit and the reservation for the request's body bound how far concurrent requests can
 * overdraw an allowance.
 */
export const maxWritesInProgress: Partial<Record<QuotaKind, number>> = { instance: 16, tenant: 100 };

/** The size of a row in the store besides its text: header, ids and index entries. */
export const rowOverheadBytes = 512;

/** The kind of the fact that counts dropped evidence. */
export const droppedKind = 'evidence.dropped';
