/**
 * Tests that an assigned interval never exceeds what the stored one allows, since the store gets
 * the assigned interval only after the answer. Also tests the text of the refusal that a just
 * fenced instance gets.
 */
import { expect, test } from 'vitest';
import type { ApiProblem } from '../../contract/errors/errors.ts';
import { effectiveStaleSeconds } from '../../lifecycle/deadlines/heartbeat-policy.ts';
import type { AgentSession } from '../../store/agents/sessions/agent-sessions.ts';
import type { ApiServices } from '../services.ts';
import { acceptBatch } from './accept-batch.ts';
import { acceptBeat, acceptUnchanged } from './accept-beat.ts';

const staleAfterSeconds = 30;
const poolSeconds = 10;
/** An agent's heartbeat is at most a tenth of the interval late. */
const maxLateness = 1.1;

function replica() {
  let nowMs = 1_000_000;
  let flushedMs = nowMs;
  const services = {
    clock: { nowMs: () => nowMs },
    beats: { add: () => {}, flushedThroughMs: () => flushedMs },
    overload: { shedding: () => ({ stretch: 1 }) },
    deferred: { size: 0, forget: () => {} },
    writeLimits: { tryReserve: () => () => {}, database: (db: unknown) => db },
    // The fleet is so large that the assigned interval would be an hour.
    fleetLoad: () => ({ nodes: 1_000_000, replicas: 1, beat_rate: 1 }),
  } as unknown as ApiServices;
  return {
    services,
    advance(seconds: number, { stored = true } = {}) {
      nowMs += seconds * 1000;
      if (stored) flushedMs = nowMs;
    },
  };
}

const agent = (): AgentSession =>
  ({
    node_instance_id: 'inst_a',
    node_status: 'ready',
    reported_status: 'ready',
    interval_seconds: poolSeconds,
    stale_after_seconds: staleAfterSeconds,
    stored_interval_ms: poolSeconds * 1000,
    assigned_interval_ms: poolSeconds * 1000,
    assigned_at_seconds: 0,
    tasks_waiting: 0,
    protocol_client: null,
  }) as unknown as AgentSession;

test('lengthens an interval only as far as the stored stale time allows', () => {
  const { services, advance } = replica();
  const session = agent();
  const assignInterval = () =>
    acceptUnchanged(session, { status: 'ready' }, services)?.heartbeat_interval_seconds ?? Number.NaN;
  let storedSeconds = poolSeconds;
  for (let beat = 0; beat < 6; beat++) {
    const next = assignInterval();
    expect(next).toBeGreaterThan(storedSeconds);
    expect(maxLateness * (storedSeconds + next), 'after one lost heartbeat the next one is still in time').toBeLessThan(
      effectiveStaleSeconds(staleAfterSeconds, storedSeconds),
    );
    advance(1, { stored: false });
    expect(assignInterval(), 'no longer interval before this one is stored').toBeLessThanOrEqual(next);
    advance(next);
    storedSeconds = next;
  }
});

test('refuses a fenced instance with the same text before and after the fence is in the session cache', async () => {
  const { services } = replica();
  const reason = 'it joined again';
  const cachedSession = agent();
  const justFenced = {
    ...services,
    // The store has the fence; the session cache does not have it yet.
    db: { transaction: async () => ({ fenced: true }) },
    sessions: {
      getCached: () => ({ ...cachedSession, fence: { kind: 'fenced', reason } }),
      forgetFenced: async (id: string) =>
        id === cachedSession.node_instance_id ? reason : 'the reason of another instance',
    },
    beats: { ...services.beats, waitForRoom: async () => {} },
  } as unknown as ApiServices;
  const beat = { status: 'stopping' } as const;
  const first = await acceptBeat(cachedSession, beat, justFenced).catch((problem: ApiProblem) => problem);
  const [later] = await acceptBatch(
    [{ credential: 'its own', ...beat }],
    { relay: undefined, source: { kind: 'address', id: '' } },
    justFenced,
  );
  expect(first).toMatchObject({ code: 'instance_fenced', message: `This instance no longer counts: ${reason}.` });
  expect(later).toMatchObject({ code: 'instance_fenced', detail: (first as ApiProblem).message });
});
