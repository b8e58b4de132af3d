/** The relay's promise to its agents: the result of their own heartbeat, in order, or a refusal. */
import { describe, expect, test } from 'vitest';
import { virtualClock } from '../base/virtual-clock.ts';
import type { BatchBeat, Heartbeat, HeartbeatResult } from '../contract/agent/agent.ts';
import {
  type BatcherLimits,
  type BeatOutcome,
  createHeartbeatBatcher,
  defaultLimits,
  NotForwarded,
} from './batcher.ts';
import { refusalOf } from './replies.ts';

interface Sent {
  beats: BatchBeat[];
  answer(results?: HeartbeatResult[]): void;
  fail(error?: NotForwarded): void;
}

const reply = (node_status = 'ready'): HeartbeatResult =>
  ({ node_status, heartbeat_interval_seconds: 10, tasks_waiting: 0 }) as HeartbeatResult;
const refusal = { code: 'invalid_request', status: 400, detail: 'no' };

function rack(limits: Partial<BatcherLimits> = {}) {
  const clock = virtualClock();
  const sent: Sent[] = [];
  const events: string[] = [];
  const batcher = createHeartbeatBatcher({
    clock,
    limits: { ...defaultLimits, ...limits },
    forward: (beats) =>
      new Promise((resolve, reject) => {
        sent.push({
          beats,
          answer: (results = beats.map(() => reply())) => resolve(results),
          fail: (error = new NotForwarded('nobody is there')) => reject(error),
        });
      }),
    onAway: ({ message }) => events.push(`away: ${message}`),
    onBack: () => events.push('back'),
    onRefused: ({ code }) => events.push(`refused: ${code}`),
  });
  /** Outcomes with the credential of the agent, in the order they came. */
  const outcomes: [string, BeatOutcome][] = [];
  const beat = (credential: string, said: Heartbeat = {}) =>
    void batcher.take(credential, said).then((outcome) => outcomes.push([credential, outcome]));
  return { clock, sent, events, batcher, outcomes, beat };
}

const credentialsOf = (batch: Sent | undefined) => batch?.beats.map(({ credential }) => credential);

test('sends heartbeats that arrive together as one batch, and answers each with its own result', async () => {
  const { clock, sent, outcomes, beat, events } = rack();
  for (const name of ['a', 'b', 'c']) beat(name);
  await clock.advance(99);
  expect(sent).toHaveLength(0);
  await clock.advance(1);
  expect(credentialsOf(sent[0])).toEqual(['a', 'b', 'c']);
  expect(outcomes, 'nobody is answered before').toEqual([]);
  sent[0]?.answer([reply('ready'), refusal, reply('starting')]);
  await clock.advance(0);
  expect(outcomes).toEqual([
    ['a', reply('ready')],
    ['b', refusal],
    ['c', reply('starting')],
  ]);
  expect(events, 'and that one was refused').toEqual([`refused: ${refusal.code}`]);
});

test('joins equal waiting heartbeats of one instance; different ones stay separate and in order', async () => {
  const { clock, sent, outcomes, beat } = rack();
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
  expect(credentialsOf(sent[1]), 'the next of that instance waits for the answer').toEqual(['b']);
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
])('does not join heartbeats that differ in %s', async (_, said) => {
  const { clock, sent, outcomes, beat } = rack();
  beat('a', said);
  beat('a');
  await clock.advance(100);
  expect(sent[0]?.beats).toEqual([{ credential: 'a', ...said }, { credential: 'a' }]);
  sent[0]?.answer([reply('degraded'), reply('ready')]);
  await clock.advance(0);
  expect(outcomes).toEqual([
    ['a', reply('degraded')],
    ['a', reply('ready')],
  ]);
});

test('sends a full batch at once, by count or by size', async () => {
  const many = rack({ beats_a_batch: 3 });
  for (const name of ['a', 'b', 'c', 'd']) many.beat(name);
  await many.clock.advance(0);
  expect(credentialsOf(many.sent[0])).toEqual(['a', 'b', 'c']);
  await many.clock.advance(100);
  expect(credentialsOf(many.sent[1])).toEqual(['d']);

  const large = rack({ bytes_a_batch: 2_000 });
  for (const name of ['a', 'b', 'c']) large.beat(name, { message: 'x'.repeat(900) });
  await large.clock.advance(100);
  expect(large.sent.map(credentialsOf)).toEqual([['a', 'b'], ['c']]);
});

test('a small heartbeat does not overtake a large one of the same instance', async () => {
  const { clock, sent, beat } = rack({ bytes_a_batch: 1_500 });
  beat('a', { message: 'x'.repeat(900) });
  beat('b', { status: 'ready', message: 'x'.repeat(900) });
  beat('b', { status: 'stopping' });
  beat('c');
  await clock.advance(100);
  expect(credentialsOf(sent[0]), 'others go ahead').toEqual(['a', 'c']);
  expect(sent[1]?.beats.map(({ status }) => status)).toEqual(['ready', 'stopping']);
});

describe('while the control plane is unreachable', () => {
  test('retries the same heartbeats after a short outage', async () => {
    const { clock, sent, outcomes, events, beat } = rack();
    beat('a', { status: 'degraded' });
    await clock.advance(100);
    sent[0]?.fail();
    await clock.advance(1_000);
    expect(sent[1]?.beats).toEqual([{ credential: 'a', status: 'degraded' }]);
    expect(outcomes).toEqual([]);
    sent[1]?.answer([reply('degraded')]);
    await clock.advance(0);
    expect(outcomes).toEqual([['a', reply('degraded')]]);
    expect(events).toEqual(['away: nobody is there', 'back']);
  });

  test('answers a heartbeat that waited too long as not delivered, with a time to retry', async () => {
    const { clock, sent, outcomes, batcher, beat } = rack();
    beat('a');
    for (let seconds = 0; seconds < 9; seconds++) {
      await clock.advance(1_000);
      for (const each of sent) each.fail();
    }
    expect(outcomes).toMatchObject([['a', { code: 'relay_upstream_away', status: 503 }]]);
    const [, outcome] = outcomes[0] ?? [];
    expect(outcome?.retry_after_seconds).toBeGreaterThanOrEqual(1);
    expect(batcher.figures()).toMatchObject({ held: 0, unheard: 1 });
  });

  test('reports a refused token as such, not as an outage', async () => {
    const { clock, sent, outcomes, events, beat } = rack();
    const refused = () => refusalOf({ code: 'token_unknown', status: 401, detail: 'The token was revoked.' });
    beat('a');
    await clock.advance(100);
    sent[0]?.fail(new NotForwarded('the stream ended: closed with 4401 (token_unknown)'));
    for (let seconds = 0; seconds < 9; seconds++) {
      await clock.advance(1_000);
      for (const each of sent) each.fail(refused());
    }
    const detail = 'Not passed on: token_unknown: The token was revoked.';
    expect(outcomes).toMatchObject([['a', { code: 'relay_token_refused', status: 503, detail }]]);
    expect(events, 'once each').toEqual([
      'away: the stream ended: closed with 4401 (token_unknown)',
      'away: token_unknown: The token was revoked.',
    ]);
  });

  test('probes with one batch at a time', async () => {
    const { clock, sent, beat } = rack({ beats_a_batch: 1 });
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

test('finds the one heartbeat that makes a batch fail, and delivers the others', async () => {
  const { clock, sent, outcomes, beat } = rack();
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

test('refuses heartbeats beyond its limit', async () => {
  const { outcomes, batcher, clock, beat } = rack({ held_beats: 2 });
  for (const name of ['a', 'b', 'c']) beat(name);
  await clock.advance(0);
  expect(outcomes).toMatchObject([['c', { code: 'rate_limited', status: 429 }]]);
  expect(batcher.figures().held).toBe(2);
});

test('on stop, delivers what it holds and answers the rest as not delivered', async () => {
  const { clock, sent, outcomes, batcher, beat } = rack();
  beat('a');
  const stopped = batcher.stop();
  expect(credentialsOf(sent[0])).toEqual(['a']);
  sent[0]?.fail();
  await clock.advance(500);
  await stopped;
  expect(outcomes).toMatchObject([['a', { code: 'relay_upstream_away' }]]);
});
