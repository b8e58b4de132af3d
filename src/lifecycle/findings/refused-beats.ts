/**
 * Explains heartbeats that arrive but are refused because of a token or credential, and what to do
 * about it.
 */

export const refusedBeatKind = 'beat.refused';

export interface RefusingRelay {
  /** The name and the pool of the relay's token. */
  relay: string;
  relay_pool: string;
}

const newTokenCommand = (pool: string) => `slipway tokens create --name NAME --role relay --pool ${pool}`;
const adviseRelayRestart = (_: RefusingRelay, pool: string) =>
  `start the relay with another token (${newTokenCommand(pool)})`;

/** `pool` is the machine's pool; `relay_pool` is that of the relay's token. */
interface Refusal {
  /** The text for callers who may see the machine, but not other tokens and pools. */
  in_short: string;
  why(refusing: RefusingRelay, pool: string): string;
  way_out(refusing: RefusingRelay, pool: string): string;
}

/** Keyed by the code with which a heartbeat or its batch was refused. */
export const beatRefusals = {
  scope_insufficient: {
    in_short: 'the token of its relay is for another pool',
    why: ({ relay, relay_pool }, pool) =>
      `relay token ${relay} is for pool ${relay_pool}, but the machine is in pool ${pool}`,
    way_out: (_, pool) =>
      `connect it through a relay with a token for pool ${pool} (${newTokenCommand(pool)}), or through a relay without a token`,
  },
  token_unknown: {
    in_short: 'the token of its relay was revoked',
    why: ({ relay }) => `relay token ${relay} was revoked`,
    way_out: adviseRelayRestart,
  },
  token_expired: {
    in_short: 'the token of its relay has expired',
    why: ({ relay }) => `relay token ${relay} has expired`,
    way_out: adviseRelayRestart,
  },
  credential_expired: {
    in_short: 'its credential has expired',
    why: () => 'its credential has expired',
    way_out: () =>
      'its agent rotates the credential by itself within the grace period; after that, let it enrol again (slipway act NODE re-enroll)',
  },
} as const satisfies Record<string, Refusal>;

export type BeatRefusal = keyof typeof beatRefusals;

const adviseNewJoinToken = (pool: string) =>
  `create another join token (slipway join-token create ${pool}) and start the machine with it`;

/** Refusals of machines that authenticate with a join token, as clients of foreign protocols do. */
export const joinRefusals = {
  join_token_expired: {
    in_short: 'its join token has expired',
    why: (token_id: string) => `join token ${token_id} has expired`,
    way_out: adviseNewJoinToken,
  },
  join_token_invalid: {
    in_short: 'its join token was revoked',
    why: (token_id: string) => `join token ${token_id} was revoked`,
    way_out: adviseNewJoinToken,
  },
} as const;

export type JoinRefusal = keyof typeof joinRefusals;

const isJoinRefusal = (code: string): code is JoinRefusal => Object.hasOwn(joinRefusals, code);

export const isBeatRefusal = (code: string): code is BeatRefusal => Object.hasOwn(beatRefusals, code);

/**
 * How often an ongoing refusal is recorded. After twice this time without a record, the refusal is
 * over or the machine sends no heartbeats any more.
 */
export const refusalRecordedEverySeconds = 3600;

export interface RefusedBeats {
  at: Date;
  /** When the join token ended; null if none is involved, or for facts of earlier versions. */
  token_ended_at: Date | null;
  in_short: string;
  why: string;
  way_out: string;
}

/** The texts for a code that a newer version of the server recorded. */
const unknownRefusal: Refusal = {
  in_short: 'the reason is a code that this version does not know',
  why: () => 'the reason is a code that this version does not know',
  way_out: () => 'upgrade this replica, then explain the machine again',
};

const findRefusal = (code: string): Refusal => (isBeatRefusal(code) ? beatRefusals[code] : unknownRefusal);

/**
 * Reads refused heartbeats from a fact. Counts only facts of the control plane, and only heartbeats
 * with the machine's own credential or join token. The sentences come from the tables above; only
 * names and ids come from the fact.
 */
export function readRefusedBeats(
  fact: { kind: string; origin: string; at: string; data: Record<string, unknown> },
  pool: string,
): RefusedBeats | null {
  // `shown` is the kind of secret that the heartbeat carried.
  const { shown } = fact.data;
  const isOwnSecret = shown === 'credential' || shown === 'join_token';
  if (fact.kind !== refusedBeatKind || fact.origin !== 'internal' || !isOwnSecret) return null;
  const code = String(fact.data.code);
  if (shown === 'join_token' && isJoinRefusal(code)) {
    const { in_short, why, way_out } = joinRefusals[code];
    const { ended_at } = fact.data;
    const token_ended_at = typeof ended_at === 'string' ? new Date(ended_at) : null;
    const texts = { in_short, why: why(String(fact.data.join_token_id)), way_out: way_out(pool) };
    return { at: new Date(fact.at), token_ended_at, ...texts };
  }
  const refusing = { relay: String(fact.data.relay), relay_pool: String(fact.data.relay_pool) };
  const { in_short, why, way_out } = findRefusal(code);
  const texts = { in_short, why: why(refusing, pool), way_out: way_out(refusing, pool) };
  return { at: new Date(fact.at), token_ended_at: null, ...texts };
}

/** Longer than the lease that clients renew, which is the longest usual interval. */
const maxSilenceBeforeEndSeconds = 600;

/**
 * All machines of a pool may share a join token, so anyone with an ended token can send a refused
 * heartbeat in a machine's name. The refusal explains the machine's silence only if the machine was
 * heard from until the token ended.
 */
const wasHeardUntilEnd = ({ token_ended_at }: RefusedBeats, last_seen_at: Date | null): boolean =>
  token_ended_at === null ||
  (last_seen_at !== null && last_seen_at.getTime() >= token_ended_at.getTime() - 1000 * maxSilenceBeforeEndSeconds);

/**
 * Whether a recent refusal explains the machine's silence, and no heartbeat was accepted since the
 * refusal was recorded.
 */
export const isStillRefused = (refused: RefusedBeats, last_seen_at: Date | null, now: Date): boolean =>
  (last_seen_at === null || refused.at > last_seen_at) &&
  now.getTime() - refused.at.getTime() < 2000 * refusalRecordedEverySeconds &&
  wasHeardUntilEnd(refused, last_seen_at);

/** The text for `waiting_for`: completes "waiting for". */
export const refusedBeatsWords = ({ why, way_out }: RefusedBeats): string =>
  `its heartbeats to be accepted: they arrive but are refused, because ${why}. What to do: ${way_out}`;
