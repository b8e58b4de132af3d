/**
 * A relay's batch of beats. Whoever is unknown is looked up together; a beat that changes nothing costs no question; what is
 * news is written a few at a time, each durable before the batch is answered. Beats of one instance keep their order.
 */
import { now } from '../base/clock.ts';
import type { BatchBeat, HeartbeatResult } from '../contract/agent.ts';
import { ApiProblem, errorCatalogue } from '../contract/errors.ts';
import type { BeatRefusal } from '../lifecycle/refused-beats.ts';
import type { AgentSession } from '../store/agent-sessions.ts';
import { fencedProblem, refuseExpired } from './auth.ts';
import type { ApiServices, Relay } from './services.ts';
import { takeAtOnce, takeBeat } from './take-beat.ts';

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

/** Only a machine's own credential identifies it: a relay token proves nothing about the machines behind it. */
const sessionsOf = (
  beats: readonly BatchBeat[],
  { sessions, clock }: ApiServices,
): Promise<(AgentSession | undefined)[]> => {
  const at = now(clock);
  return Promise.all(
    beats.map(({ credential }) =>
      credential === undefined ? undefined : (sessions.known(credential) ?? sessions.find(credential, at)),
    ),
  );
};

function mustCount(
  session: AgentSession | undefined,
  { credential }: BatchBeat,
  relay: Relay | undefined,
  services: ApiServices,
): AgentSession {
  if (credential === undefined) throw new ApiProblem('beat_credential_missing');
  if (!session) throw new ApiProblem('credential_unknown');
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
  why: { relay: Relay; code: BeatRefusal },
  services: ApiServices,
): Promise<void> {
  tellRefused(await sessionsOf(beats, services), why, services);
}

/** A beat without whose it is. */
const said = ({ credential: _, ...beat }: BatchBeat) => beat;

/** `relay`: undefined where the batch came without the token of one. */
export async function takeBatch(
  beats: readonly BatchBeat[],
  relay: Relay | undefined,
  services: ApiServices,
): Promise<HeartbeatResult[]> {
  const sessions = await sessionsOf(beats, services);
  const results: HeartbeatResult[] = [];
  const news = new Map<AgentSession, number[]>();
  for (const [index, beat] of beats.entries()) {
    try {
      const session = mustCount(sessions[index], beat, relay, services);
      const before = news.get(session);
      const reply = before ? undefined : takeAtOnce(session, said(beat), services);
      if (reply) results[index] = reply;
      else if (before) before.push(index);
      else news.set(session, [index]);
    } catch (error) {
      results[index] = refused(error);
      if (relay && isNotIts(error)) tellRefused([sessions[index]], { relay, code: error.code }, services);
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
  await services.beats.room();
  return results;
}
