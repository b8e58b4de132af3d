/**
 * A relay's batch of beats. Whoever is unknown is looked up together; a beat that changes nothing costs no question; what is
 * news is written a few at a time, each durable before the batch is answered. Beats of one instance keep their order.
 */
import { now } from '../../base/clock.ts';
import type { BatchBeat, HeartbeatResult } from '../../contract/agent/agent.ts';
import { ApiProblem, errorCatalogue } from '../../contract/errors/errors.ts';
import type { BeatRefusal } from '../../lifecycle/findings/refused-beats.ts';
import type { AgentSession } from '../../store/agents/agent-sessions.ts';
import { fencedProblem, refuseExpired } from '../http/auth.ts';
import type { Relay } from '../http/callers.ts';
import type { LookupSource } from '../limits/quotas/request-rates.ts';
import type { ApiServices } from '../services.ts';
import { takeAtOnce, takeBeat } from './accept-beat.ts';

/** News of one batch that are written at the same time: the store's connections are there for everybody. */
const newsAtOnce = 4;

function refused(error: unknown): HeartbeatResult {
  if (!(error instanceof ApiProblem)) throw error;
  return { code: error.code, status: errorCatalogue[error.code].status, detail: error.message };
}

/** That a relay may not speak for it is nothing that its machine can know of. */
const isNotIts = (error: unknown): error is ApiProblem & { code: 'scope_insufficient' } =>
  error instanceof ApiProblem && error.code === 'scope_insufficient';

function tellRefused(
  sessions: readonly (AgentSession | undefined)[],
  why: { relay: Relay; code: BeatRefusal },
  { tellRefusedBeat }: ApiServices,
): void {
  for (const session of sessions) if (session) tellRefusedBeat({ ...why, session });
}

interface Found {
  sessions: (AgentSession | undefined)[];
  /** Why some have no session. */
  missing: 'credential_unknown' | 'rate_limited';
}

/**
 * Only a machine's own credential identifies it: a relay token proves nothing about the machines behind it. A source that
 * showed too many unknown credentials gets no further look-ups for a while; the machines that are known here are still heard.
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
      `The relay ${relay.name} speaks for the pool ${relay.pool} alone, and this machine is of ${session.pool}.`,
    );
  if (session.fence.kind === 'fenced') throw fencedProblem(session.fence.reason);
  if (session.expires_seconds !== 0) refuseExpired(session, relay ?? null, services);
  return session;
}

/** Of a batch that was refused with the token of its relay: whose beats they are, their own credentials say as ever. */
export async function tellRefusedBatch(
  beats: readonly BatchBeat[],
  { source, ...why }: { relay: Relay; code: BeatRefusal; source: LookupSource },
  services: ApiServices,
): Promise<void> {
  tellRefused((await findSessions(beats, source, services)).sessions, why, services);
}

export const relaySource = ({ token_id }: Relay): LookupSource => ({ kind: 'relay', id: token_id });

/** A beat without whose it is. */
const said = ({ credential: _, ...beat }: BatchBeat) => beat;

/** `relay`: undefined where the batch came without the token of one. */
export async function takeBatch(
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
      const reply = before ? undefined : takeAtOnce(session, said(beat), services);
      if (reply) results[index] = reply;
      else if (before) before.push(index);
      else news.set(session, [index]);
    } catch (error) {
      results[index] = refused(error);
      if (relay && isNotIts(error)) tellRefused([found.sessions[index]], { relay, code: error.code }, services);
    }
  }
  // One list that all take from; each stops where the store fails it, and then the whole batch has failed and is sent again.
  const left = news.entries();
  const write = async () => {
    for (const [session, indexes] of left)
      for (const index of indexes)
        results[index] = await takeBeat(session, said(beats[index] as BatchBeat), services).catch(refused);
  };
  await Promise.all(Array.from({ length: Math.min(newsAtOnce, news.size) }, write));
  await services.beats.waitForRoom();
  return results;
}
