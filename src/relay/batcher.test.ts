/** Tests that each agent gets the result of its own heartbeat, in order, or a refusal. */
import { describe, expect, test } from 'vitest';
import { defaultTiming } from '../agent/timing.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import type { BatchBeat, Heartbeat, HeartbeatResult } from '../contract/agent/agent.ts';
import {
  type BatcherLimits,
  type BeatOutcome,
  createHeartbeatBatcher,
  defaultBatcherLimits,
  NotForwarded,
} from './batcher.ts';
import { refusalOf } from './replies.ts';

interface SentBatch {
  beats: BatchBeat[];
  answer(results?: HeartbeatResult[]): void;
  fail(error?: NotForwarded): void;
}

const reply = (node_status = 'ready'): HeartbeatResult =>
  ({ node_status, heartbeat_interval_seconds: 10, tasks_waiting: 0 }) as HeartbeatResult;
const refusal = { code: 'invalid_request', status: 400, detail: 'no' };

function startBatcher(limits: Partial<BatcherLimits> = {}) {
  const clock = virtualClock();
  const sent: SentBatch[] = [];
  const events: string[] = [];
  const batcher = createHeartbeatBatcher({
    clock,
    limits: { ...defaultBatcherLimits, ...limits },
    forward: (beats) =>
      new Promise((resolve, reject) => {
        sent.push({
          beats,
          answer: (results = beats.map(() => reply())) => resolve(results),
          fail: (error = new NotForwarded('the server is unreachable')) => reject(error),
        });
      }),
    onOutage: ({ message }) => events.push(`outage: ${message}`),
    onRecovery: () => events.push('recovery'),
    onRefused: ({ code }) => events.push(`refused: ${code}`),
  });
  /** The credential of the agent and the outcome, in the order of the answers. */
  const outcomes: [string, BeatOutcome][] = [];
  const beat = (credential: string, heartbeat: Heartbeat = {}) =>
    void batcher.take(credential, heartbeat).then((outcome) => outcomes.push([credential, outcome]));
  return { clock, sent, events, batcher, outcomes, beat };
}

const credentialsOf = (batch: SentBatch | undefined) => batch?.beats.map(({ credential }) => credential);

test('sends heartbeats that arrive together as one batch, and answers each with its own result', async () => {
  const { clock, sent, outcomes, beat, events } = startBatcher();
  for (const name of ['a', 'b', 'c']) beat(name);
  await clock.advance(99);
  expect(sent).toHaveLength(0);
  await clock.advance(1);
  expect(credentialsOf(sent[0])).toEqual(['a', 'b', 'c']);
  expect(outcomes, 'no agent is answered before the control plane has answered').toEqual([]);
  sent[0]?.answer([reply('ready'), refusal, reply('starting')]);
  await clock.advance(0);
  expect(outcomes).toEqual([
    ['a', reply('ready')],
    ['b', refusal],
    ['c', reply('starting')],
  ]);
  expect(events, 'the refused heartbeat is reported').toEqual([`refused: ${refusal.code}`]);
});

test('merges equal waiting heartbeats of one instance, and sends different ones in order', async () => {
  const { clock, sent, outcomes, beat } = startBatcher();
  beat('a', { status: 'ready', active_tasks: 2 });
  beat('a', { status: 'ready', active_tasks: 2 });
  beat('a', { status: 'stopping' });
  await clock.advance(100);
  expect(sent[0]?.beats).toEqual([
    { credential: 'a', status: 'ready', active_tasks: 2 },
    { credential: 'a', status: 'stopping' },
  ]);
  beat('a', { status: 'ready' });
  beat('b');
  await clock.advance(100);
  expect(credentialsOf(sent[1]), 'the next heartbeat of an instance waits for the answer to the last one').toEqual([
    'b',
  ]);
  sent[0]?.answer([reply('ready'), reply('offline')]);
  await clock.advance(100);
  expect(outcomes.map(([, outcome]) => (outcome as { node_status: string }).node_status)).toEqual([
    'ready',
    'ready',
    'offline',
  ]);
  expect(sent[2]?.beats).toEqual([{ credential: 'a', status: 'ready' }]);
});

test.each<[keyof Heartbeat, Heartbeat]>([
  ['status', { status: 'degraded' }],
  ['health_score', { health_score: 10 }],
  ['error_rate', { error_rate: 0.9 }],
  ['active_tasks', { active_tasks: 3 }],
  ['message', { message: 'hot' }],
  ['boot_stage', { boot_stage: 'bios' }],
])('does not merge heartbeats that differ in %s', async (_, heartbeat) => {
  const { clock, sent, outcomes, beat } = startBatcher();
  beat('a', heartbeat);
  beat('a');
  await clock.advance(100);
  expect(sent[0]?.beats).toEqual([{ credential: 'a', ...heartbeat }, { credential: 'a' }]);
  sent[0]?.answer([reply('degraded'), reply('ready')]);
  await clock.advance(0);
  expect(outcomes).toEqual([
    ['a', reply('degraded')],
    ['a', reply('ready')],
  ]);
});

test('sends a full batch at once, by count or by size', async () => {
  const many = startBatcher({ max_beats_per_batch: 3 });
  for (const name of ['a', 'b', 'c', 'd']) many.beat(name);
  await many.clock.advance(0);
  expect(credentialsOf(many.sent[0])).toEqual(['a', 'b', 'c']);
  await many.clock.advance(100);
  expect(credentialsOf(many.sent[1])).toEqual(['d']);

  const large = startBatcher({ max_bytes_per_batch: 2_000 });
  for (const name of ['a', 'b', 'c']) large.beat(name, { message: 'x'.repeat(900) });
  await large.clock.advance(100);
  expect(large.sent.map(credentialsOf)).toEqual([['a', 'b'], ['c']]);
});

test('sends a small heartbeat after an earlier large one of the same instance', async () => {
  const { clock, sent, beat } = startBatcher({ max_bytes_per_batch: 1_500 });
  beat('a', { message: 'x'.repeat(900) });
  beat('b', { status: 'ready', message: 'x'.repeat(900) });
  beat('b', { status: 'stopping' });
  beat('c');
  await clock.advance(100);
  expect(credentialsOf(sent[0]), 'heartbeats of other instances go first').toEqual(['a', 'c']);
  expect(sent[1]?.beats.map(({ status }) => status)).toEqual(['ready', 'stopping']);
});

describe('while the control plane is unreachable', () => {
  test('retries the same heartbeats after a short outage', async () => {
    const { clock, sent, outcomes, events, beat } = startBatcher();
    beat('a', { status: 'degraded' });
    await clock.advance(100);
    sent[0]?.fail();
    await clock.advance(1_000);
    expect(sent[1]?.beats).toEqual([{ credential: 'a', status: 'degraded' }]);
    expect(outcomes).toEqual([]);
    sent[1]?.answer([reply('degraded')]);
    await clock.advance(0);
    expect(outcomes).toEqual([['a', reply('degraded')]]);
    expect(events).toEqual(['outage: the server is unreachable', 'recovery']);
  });

  test('answers a heartbeat that waited too long as not delivered, with a time to retry', async () => {
    const { clock, sent, outcomes, batcher, beat } = startBatcher();
    beat('a');
    for (let seconds = 0; seconds < 9; seconds++) {
      await clock.advance(1_000);
      for (const each of sent) each.fail();
    }
    expect(outcomes).toMatchObject([['a', { code: 'relay_upstream_away', status: 503 }]]);
    const [, outcome] = outcomes[0] ?? [];
    expect(outcome?.retry_after_seconds).toBeGreaterThanOrEqual(1);
    expect(batcher.figures()).toMatchObject({ held: 0, undelivered: 1 });
  });

  test('answers before agents stop waiting, even while the batch is in flight', async () => {
    const { clock, sent, outcomes, batcher, beat } = startBatcher();
    const networkMs = 500;
    beat('a');
    await clock.advance(defaultTiming.beat_answer_ms - networkMs);
    const detail = 'Not forwarded: the control plane did not answer in time.';
    expect(outcomes).toMatchObject([['a', { code: 'relay_upstream_away', status: 503, detail }]]);
    expect(batcher.figures()).toMatchObject({ held: 0, undelivered: 1 });

    beat('a', { status: 'stopping' });
    await clock.advance(1_000);
    expect(sent, 'the next heartbeat still waits for the batch, to keep the order').toHaveLength(1);
    sent[0]?.answer();
    await clock.advance(100);
    expect(sent[1]?.beats).toEqual([{ credential: 'a', status: 'stopping' }]);
    sent[1]?.answer([reply('offline')]);
    await clock.advance(0);
    expect(outcomes.slice(1), 'the late result is dropped').toEqual([['a', reply('offline')]]);
    expect(batcher.figures().held).toBe(0);
  });

  test('reports a refused token as such, not as an outage', async () => {
    const { clock, sent, outcomes, events, beat } = startBatcher();
    const refused = () => refusalOf({ code: 'token_unknown', status: 401, detail: 'The token was revoked.' });
    beat('a');
    await clock.advance(100);
    sent[0]?.fail(new NotForwarded('the stream ended: closed with 4401 (token_unknown)'));
    for (let seconds = 0; seconds < 9; seconds++) {
      await clock.advance(1_000);
      for (const each of sent) each.fail(refused());
    }
    const detail = 'Not forwarded: token_unknown: The token was revoked.';
    expect(outcomes).toMatchObject([['a', { code: 'relay_token_refused', status: 503, detail }]]);
    expect(events, 'each cause is reported once').toEqual([
      'outage: the stream ended: closed with 4401 (token_unknown)',
      'outage: token_unknown: The token was revoked.',
    ]);
  });

  test('sends one batch at a time until one is answered', async () => {
    const { clock, sent, beat } = startBatcher({ max_beats_per_batch: 1 });
    beat('a');
    await clock.advance(100);
    sent[0]?.fail();
    await clock.advance(0);
    for (const name of ['b', 'c', 'd']) beat(name);
    await clock.advance(2_000);
    expect(sent).toHaveLength(2);
    sent[1]?.answer();
    await clock.advance(100);
    expect(sent.length).toBeGreaterThan(3);
  });
});

test('refuses only the heartbeat that makes a batch fail, and delivers the others', async () => {
  const { clock, sent, outcomes, beat } = startBatcher();
  for (const name of ['a', 'b', 'bad', 'c', 'd']) beat(name);
  await clock.advance(100);
  for (let index = 0; index < 12; index++) {
    const batch = sent[index];
    if (credentialsOf(batch)?.includes('bad')) batch?.fail(new NotForwarded('no', refusal));
    else batch?.answer();
    await clock.advance(0);
  }
  expect(new Map(outcomes)).toEqual(
    new Map<string, HeartbeatResult>([
      ['a', reply()],
      ['b', reply()],
      ['bad', refusal],
      ['c', reply()],
      ['d', reply()],
    ]),
  );
});

test('refuses a heartbeat if too many others wait for their results', async () => {
  const { outcomes, batcher, clock, beat } = startBatcher({ max_waiting_beats: 2 });
  for (const name of ['a', 'b', 'c']) beat(name);
  await clock.advance(0);
  expect(outcomes).toMatchObject([
    ['c', { code: 'rate_limited', status: 429, detail: 'The relay holds too many heartbeats.' }],
  ]);
  expect(batcher.figures().held).toBe(2);
});

test('sends the waiting heartbeats when it stops, and answers those that fail as not delivered', async () => {
  const { clock, sent, outcomes, batcher, beat } = startBatcher();
  beat('a');
  const stopped = batcher.stop();
  expect(credentialsOf(sent[0])).toEqual(['a']);
  sent[0]?.fail();
  await clock.advance(500);
  await stopped;
  expect(outcomes).toMatchObject([['a', { code: 'relay_upstream_away' }]]);
});

test('refuses new heartbeats while it stops, and says why', async () => {
  const { clock, outcomes, batcher, beat } = startBatcher();
  await batcher.stop();
  beat('a');
  await clock.advance(0);
  expect(outcomes).toMatchObject([['a', { code: 'rate_limited', status: 429, detail: 'The relay is stopping.' }]]);
});
