/**
 * Accepts a relay's batch of heartbeats. Looks up all uncached credentials together. A heartbeat
 * that changes nothing costs no query. Changes are written a few at a time, in order for each
 * instance, and are durable before the batch is answered, unless a write quota defers them.
 */
import { now } from '../../base/clock.ts';
import type { BatchBeat, HeartbeatResult } from '../../contract/agent/agent.ts';
import { ApiProblem, errorCatalogue } from '../../contract/errors/errors.ts';
import { fencedProblem } from '../../contract/errors/fenced-problem.ts';
import type { BeatRefusal } from '../../lifecycle/findings/refused-beats.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { refuseExpired } from '../http/auth.ts';
import type { Relay } from '../http/callers.ts';
import type { LookupSource } from '../limits/quotas/request-rates.ts';
import type { ApiServices } from '../services.ts';
import { acceptBeat, acceptUnchanged } from './accept-beat.ts';

/** Concurrent writes per batch, to leave database connections to others. */
const maxConcurrentWrites = 4;

function toRefusalResult(error: unknown): HeartbeatResult {
  if (!(error instanceof ApiProblem)) throw error;
  return { code: error.code, status: errorCatalogue[error.code].status, detail: error.message };
}

/** The relay serves another pool than the machine's, which the machine itself cannot detect. */
const isForeignRelay = (error: unknown): error is ApiProblem & { code: 'scope_insufficient' } =>
  error instanceof ApiProblem && error.code === 'scope_insufficient';

function reportRefused(
  sessions: readonly (AgentSession | undefined)[],
  refusal: { relay: Relay; code: BeatRefusal },
  { reportRefusedBeat }: ApiServices,
): void {
  for (const session of sessions) if (session) reportRefusedBeat({ ...refusal, session });
}

interface SessionLookup {
  /** By the index of the heartbeat. */
  sessions: (AgentSession | undefined)[];
  /** Why some heartbeats have no session. */
  missingCode: 'credential_unknown' | 'rate_limited';
}

/**
 * Only a machine's own credential identifies the machine: a relay token proves nothing about the
 * machines behind the relay. A source that sent too many unknown credentials gets no further
 * look-ups for a while; machines whose session is cached are still served.
 */
async function findSessions(
  beats: readonly BatchBeat[],
  source: LookupSource,
  { sessions, clock, rates }: ApiServices,
): Promise<SessionLookup> {
  const byIndex = beats.map(({ credential }) =>
    credential === undefined ? undefined : sessions.getCached(credential),
  );
  const uncached = beats.flatMap(({ credential }, index) =>
    credential !== undefined && !byIndex[index] ? [{ credential, index }] : [],
  );
  if (uncached.length === 0) return { sessions: byIndex, missingCode: 'credential_unknown' };
  const endLookup = rates.beginLookup(source, uncached.length);
  if (!endLookup) return { sessions: byIndex, missingCode: 'rate_limited' };
  let unknownCount = 0;
  try {
    const at = now(clock);
    const storedSessions = await Promise.all(uncached.map(({ credential }) => sessions.find(credential, at)));
    for (const [place, { index }] of uncached.entries()) byIndex[index] = storedSessions[place];
    unknownCount = storedSessions.filter((session) => !session).length;
  } finally {
    endLookup(unknownCount);
  }
  return { sessions: byIndex, missingCode: 'credential_unknown' };
}

function requireSession(
  { sessions, missingCode }: SessionLookup,
  index: number,
  { beat, relay }: { beat: BatchBeat; relay: Relay | undefined },
  services: ApiServices,
): AgentSession {
  if (beat.credential === undefined) throw new ApiProblem('beat_credential_missing');
  const session = sessions[index];
  if (!session) throw new ApiProblem(missingCode);
  if (relay && session.pool !== relay.pool)
    throw new ApiProblem(
      'scope_insufficient',
      `The relay ${relay.name} serves the pool ${relay.pool}; this machine belongs to ${session.pool}.`,
    );
  if (session.fence.kind === 'fenced') throw fencedProblem(session.fence.reason);
  if (session.expires_seconds !== 0) refuseExpired(session, relay ?? null, services);
  return session;
}

/**
 * Reports the machines of a batch whose relay token was refused. Their own credentials identify
 * them.
 */
export async function reportRefusedBatch(
  beats: readonly BatchBeat[],
  { source, ...refusal }: { relay: Relay; code: BeatRefusal; source: LookupSource },
  services: ApiServices,
): Promise<void> {
  reportRefused((await findSessions(beats, source, services)).sessions, refusal, services);
}

export const relaySource = ({ token_id }: Relay): LookupSource => ({ kind: 'relay', id: token_id });

const withoutCredential = ({ credential: _, ...beat }: BatchBeat) => beat;

/** `relay`: undefined if the batch came without a relay token. */
export async function acceptBatch(
  beats: readonly BatchBeat[],
  { relay, source }: { relay: Relay | undefined; source: LookupSource },
  services: ApiServices,
): Promise<HeartbeatResult[]> {
  const lookup = await findSessions(beats, source, services);
  const results: HeartbeatResult[] = [];
  /** The indexes of heartbeats to write. An instance's later heartbeats wait for its first. */
  const changes = new Map<AgentSession, number[]>();
  for (const [index, beat] of beats.entries()) {
    try {
      const session = requireSession(lookup, index, { beat, relay }, services);
      const earlier = changes.get(session);
      const reply = earlier ? undefined : acceptUnchanged(session, withoutCredential(beat), services);
      if (reply) results[index] = reply;
      else if (earlier) earlier.push(index);
      else changes.set(session, [index]);
    } catch (error) {
      results[index] = toRefusalResult(error);
      if (relay && isForeignRelay(error))
        reportRefused([lookup.sessions[index]], { relay, code: error.code }, services);
    }
  }
  // Workers share one iterator. If the store fails, the whole batch fails and is sent again.
  const remaining = changes.entries();
  const write = async () => {
    for (const [session, indexes] of remaining)
      for (const index of indexes)
        results[index] = await acceptBeat(session, withoutCredential(beats[index] as BatchBeat), services).catch(
          toRefusalResult,
        );
  };
  await Promise.all(Array.from({ length: Math.min(maxConcurrentWrites, changes.size) }, write));
  await services.beats.waitForRoom();
  return results;
}
