/**
 * A relay's batch of beats. Whoever is unknown is looked up together; a beat that changes nothing costs no question; what is
 * news is written a few at a time, each durable before the batch is answered. Beats of one instance keep their order.
 */
import { now } from '../base/clock.ts';
import type { HeartbeatBatch, HeartbeatResult } from '../contract/agent.ts';
import { ApiProblem, errorCatalogue } from '../contract/errors.ts';
import type { AgentSession } from '../store/agent-sessions.ts';
import type { ApiServices } from './services.ts';
import { takeAtOnce, takeBeat } from './take-beat.ts';

type BatchedBeat = HeartbeatBatch['beats'][number];

/** News of one batch that are written at the same time: the store's connections are there for everybody. */
const newsAtOnce = 4;

function refused(error: unknown): HeartbeatResult {
  if (!(error instanceof ApiProblem)) throw error;
  return { code: error.code, status: errorCatalogue[error.code].status, detail: error.message };
}

const sessionsOf = (beats: readonly BatchedBeat[], services: ApiServices): Promise<(AgentSession | undefined)[]> => {
  const at = now(services.clock);
  return Promise.all(
    beats.map(({ credential }) => services.sessions.known(credential) ?? services.sessions.find(credential, at)),
  );
};

function mustCount(session: AgentSession | undefined): AgentSession {
  if (!session) throw new ApiProblem('credential_unknown');
  if (session.fence.kind === 'fenced') throw new ApiProblem('instance_fenced', session.fence.reason);
  return session;
}

/** A beat without whose it is. */
const said = ({ credential: _, ...beat }: BatchedBeat) => beat;

export async function takeBatch(beats: readonly BatchedBeat[], services: ApiServices): Promise<HeartbeatResult[]> {
  const sessions = await sessionsOf(beats, services);
  const results: HeartbeatResult[] = [];
  const news = new Map<AgentSession, number[]>();
  for (const [index, beat] of beats.entries()) {
    try {
      const session = mustCount(sessions[index]);
      const before = news.get(session);
      const reply = before ? undefined : takeAtOnce(session, said(beat), services);
      if (reply) results[index] = reply;
      else if (before) before.push(index);
      else news.set(session, [index]);
    } catch (error) {
      results[index] = refused(error);
    }
  }
  // One list that all take from; each stops where the store fails it, and then the whole batch has failed and is sent again.
  const left = news.entries();
  const write = async () => {
    for (const [session, indexes] of left)
      for (const index of indexes)
        results[index] = await takeBeat(session, said(beats[index] as BatchedBeat), services).catch(refused);
  };
  await Promise.all(Array.from({ length: Math.min(newsAtOnce, news.size) }, write));
  return results;
}
