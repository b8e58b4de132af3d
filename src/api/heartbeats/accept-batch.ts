/**
 * Accepts a relay's batch of heartbeats. Unknown credentials are looked up together; a heartbeat
 * that changes nothing costs no query; news are written a few at a time, each durable before the
 * batch is answered. Heartbeats of one instance keep their order.
 */
import { now } from '../../base/clock.ts';
import type { BatchBeat, HeartbeatResult } from '../../contract/agent/agent.ts';
import { ApiProblem, errorCatalogue } from '../../contract/errors/errors.ts';
import type { BeatRefusal } from '../../lifecycle/findings/refused-beats.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import { fencedProblem, refuseExpired } from '../http/auth.ts';
import type { Relay } from '../http/callers.ts';
import type { LookupSource } from '../limits/quotas/request-rates.ts';
import type { ApiServices } from '../services.ts';
import { acceptBeat, acceptUnchanged } from './accept-beat.ts';

/** Concurrent writes per batch, to leave database connections to others. */
const newsAtOnce = 4;

function refused(error: unknown): HeartbeatResult {
  if (!(error instanceof ApiProblem)) throw error;
  return { code: error.code, status: errorCatalogue[error.code].status, detail: error.message };
}

/** The relay may not speak for this machine, which the machine itself cannot know. */
const isForeignRelay = (error: unknown): error is ApiProblem & { code: 'scope_insufficient' } =>
  error instanceof ApiProblem && error.code === 'scope_insufficient';

function reportRefused(
  sessions: readonly (AgentSession | undefined)[],
  why: { relay: Relay; code: BeatRefusal },
  { reportRefusedBeat }: ApiServices,
): void {
  for (const session of sessions) if (session) reportRefusedBeat({ ...why, session });
}

interface Found {
  sessions: (AgentSession | undefined)[];
  /** Why some heartbeats have no session. */
  missing: 'credential_unknown' | 'rate_limited';
}

/**
 * Only a machine's own credential identifies it: a relay token proves nothing about the machines
 * behind it. A source that showed too many unknown credentials gets no further look-ups for a
 * while; machines known here are still served.
 */
async function findSessions(
  beats: readonly BatchBeat[],
  source: LookupSource,
  { sessions, clock, rates }: ApiServices,
): Promise<Found> {
  const found = beats.map(({ credential }) => (credential === undefined ? undefined : sessions.known(credential)));
  const open = beats.flatMap(({ credential }, index) =>
    credential !== undefined && !found[index] ? [{ credential, index }] : [],
  );
  if (open.length === 0) return { sessions: found, missing: 'credential_unknown' };
  const end = rates.beginLookup(source, open.length);
  if (!end) return { sessions: found, missing: 'rate_limited' };
  let unknown = 0;
  try {
    const at = now(clock);
    const looked = await Promise.all(open.map(({ credential }) => sessions.find(credential, at)));
    for (const [place, { index }] of open.entries()) found[index] = looked[place];
    unknown = looked.filter((session) => !session).length;
  } finally {
    end(unknown);
  }
  return { sessions: found, missing: 'credential_unknown' };
}

function mustCount(
  { sessions, missing }: Found,
  index: number,
  { beat, relay }: { beat: BatchBeat; relay: Relay | undefined },
  services: ApiServices,
): AgentSession {
  if (beat.credential === undefined) throw new ApiProblem('beat_credential_missing');
  const session = sessions[index];
  if (!session) throw new ApiProblem(missing);
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
 * Reports the machines of a batch whose relay token was refused; their own credentials identify
 * them.
 */
export async function reportRefusedBatch(
  beats: readonly BatchBeat[],
  { source, ...why }: { relay: Relay; code: BeatRefusal; source: LookupSource },
  services: ApiServices,
): Promise<void> {
  reportRefused((await findSessions(beats, source, services)).sessions, why, services);
}

export const relaySource = ({ token_id }: Relay): LookupSource => ({ kind: 'relay', id: token_id });

/** The heartbeat without its credential. */
const withoutCredential = ({ credential: _, ...beat }: BatchBeat) => beat;

/** `relay`: undefined if the batch came without a relay token. */
export async function acceptBatch(
  beats: readonly BatchBeat[],
  { relay, source }: { relay: Relay | undefined; source: LookupSource },
  services: ApiServices,
): Promise<HeartbeatResult[]> {
  const found = await findSessions(beats, source, services);
  const results: HeartbeatResult[] = [];
  const news = new Map<AgentSession, number[]>();
  for (const [index, beat] of beats.entries()) {
    try {
      const session = mustCount(found, index, { beat, relay }, services);
      const before = news.get(session);
      const reply = before ? undefined : acceptUnchanged(session, withoutCredential(beat), services);
      if (reply) results[index] = reply;
      else if (before) before.push(index);
      else news.set(session, [index]);
    } catch (error) {
      results[index] = refused(error);
      if (relay && isForeignRelay(error)) reportRefused([found.sessions[index]], { relay, code: error.code }, services);
    }
  }
  // Workers share one iterator. If the store fails, the whole batch fails and is sent again.
  const left = news.entries();
  const write = async () => {
    for (const [session, indexes] of left)
      for (const index of indexes)
        results[index] = await acceptBeat(session, withoutCredential(beats[index] as BatchBeat), services).catch(
          refused,
        );
  };
  await Promise.all(Array.from({ length: Math.min(newsAtOnce, news.size) }, write));
  await services.beats.waitForRoom();
  return results;
}
