/** What a relay promises its agents: the real answer to their own beat, in order, or that they were not heard. */
import { describe, expect, test } from 'vitest';
import { virtualClock } from '../base/virtual-clock.ts';
import type { BatchBeat, Heartbeat, HeartbeatResult } from '../contract/agent/agent.ts';
import { type BeatOutcome, createGatherer, defaultLimits, type GathererLimits, NotForwarded } from './gatherer.ts';
import { refusalOf } from './replies.ts';

interface Sent {
  beats: BatchBeat[];
  answer(results?: HeartbeatResult[]): void;
  fail(error?: NotForwarded): void;
}

const reply = (node_status = 'ready'): HeartbeatResult =>
  ({ node_status, heartbeat_interval_seconds: 10, tasks_waiting: 0 }) as HeartbeatResult;
const refusal = { code: 'invalid_request', status: 400, detail: 'no' };

function rack(limits: Partial<GathererLimits> = {}) {
  const clock = virtualClock();
  const sent: Sent[] = [];
  const told: string[] = [];
  const gatherer = createGatherer({
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
    onAway: ({ message }) => told.push(`away: ${message}`),
    onBack: () => told.push('back'),
    onRefused: ({ code }) => told.push(`refused: ${code}`),
  });
  /** What each agent was told, by its credential and in its order. */
  const heard: [string, BeatOutcome][] = [];
  const beat = (credential: string, said: Heartbeat = {}) =>
    void gatherer.take(credential, said).then((outcome) => heard.push([credential, outcome]));
  return { clock, sent, told, gatherer, heard, beat };
}

const credentialsOf = (batch: Sent | undefined) => batch?.beats.map(({ credential }) => credential);

test('beats that come together travel together, and each is answered with its own result', async () => {
  const { clock, sent, heard, beat, told } = rack();
  for (const name of ['a', 'b', 'c']) beat(name);
  await clock.advance(99);
  expect(sent).toHaveLength(0);
  await clock.advance(1);
  expect(credentialsOf(sent[0])).toEqual(['a', 'b', 'c']);
  expect(heard, 'nobody is answered before').toEqual([]);
  sent[0]?.answer([reply('ready'), refusal, reply('starting')]);
  await clock.advance(0);
  expect(heard).toEqual([
    ['a', reply('ready')],
    ['b', refusal],
    ['c', reply('starting')],
  ]);
  expect(told, 'and that one was refused').toEqual([`refused: ${refusal.code}`]);
});

test('equal beats of one instance that wait are one; another claim is another beat, and none overtakes', async () => {
  const { clock, sent, heard, beat } = rack();
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
  expect(heard.map(([, outcome]) => (outcome as { node_status: string }).node_status)).toEqual([
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
])('a beat that says another %s is not answered for by a later one', async (_, said) => {
  const { clock, sent, heard, beat } = rack();
  beat('a', said);
  beat('a');
  await clock.advance(100);
  expect(sent[0]?.beats).toEqual([{ credential: 'a', ...said }, { credential: 'a' }]);
  sent[0]?.answer([reply('degraded'), reply('ready')]);
  await clock.advance(0);
  expect(heard).toEqual([
    ['a', reply('degraded')],
    ['a', reply('ready')],
  ]);
});

test('a full batch leaves at once, by number or by size', async () => {
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

test('a small beat does not pass a large one of its instance that found no room', async () => {
  const { clock, sent, beat } = rack({ bytes_a_batch: 1_500 });
  beat('a', { message: 'x'.repeat(900) });
  beat('b', { status: 'ready', message: 'x'.repeat(900) });
  beat('b', { status: 'stopping' });
  beat('c');
  await clock.advance(100);
  expect(credentialsOf(sent[0]), 'others go ahead').toEqual(['a', 'c']);
  expect(sent[1]?.beats.map(({ status }) => status)).toEqual(['ready', 'stopping']);
});

describe('while the control plane is away', () => {
  test('a short absence costs nobody an answer: the same beats are sent again', async () => {
    const { clock, sent, heard, told, beat } = rack();
    beat('a', { status: 'degraded' });
    await clock.advance(100);
    sent[0]?.fail();
    await clock.advance(1_000);
    expect(sent[1]?.beats).toEqual([{ credential: 'a', status: 'degraded' }]);
    expect(heard).toEqual([]);
    sent[1]?.answer([reply('degraded')]);
    await clock.advance(0);
    expect(heard).toEqual([['a', reply('degraded')]]);
    expect(told).toEqual(['away: nobody is there', 'back']);
  });

  test('whoever waited for as long as it may is told that it was not heard, and when to come again', async () => {
    const { clock, sent, heard, gatherer, beat } = rack();
    beat('a');
    for (let seconds = 0; seconds < 9; seconds++) {
      await clock.advance(1_000);
      for (const each of sent) each.fail();
    }
    expect(heard).toMatchObject([['a', { code: 'relay_upstream_away', status: 503 }]]);
    const [, outcome] = heard[0] ?? [];
    expect(outcome?.retry_after_seconds).toBeGreaterThanOrEqual(1);
    expect(gatherer.figures()).toMatchObject({ held: 0, unheard: 1 });
  });

  test('one that refuses the token is not said to be away, and its words end once', async () => {
    const { clock, sent, heard, told, beat } = rack();
    const refused = () => refusalOf({ code: 'token_unknown', status: 401, detail: 'The token was revoked.' });
    beat('a');
    await clock.advance(100);
    sent[0]?.fail(new NotForwarded('the stream ended: closed with 4401 (token_unknown)'));
    for (let seconds = 0; seconds < 9; seconds++) {
      await clock.advance(1_000);
      for (const each of sent) each.fail(refused());
    }
    const detail = 'Not passed on: token_unknown: The token was revoked.';
    expect(heard).toMatchObject([['a', { code: 'relay_token_refused', status: 503, detail }]]);
    expect(told, 'once each').toEqual([
      'away: the stream ended: closed with 4401 (token_unknown)',
      'away: token_unknown: The token was revoked.',
    ]);
  });

  test('one batch at a time finds out whether somebody is back', async () => {
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

test('a beat that makes a whole batch refuse is found, and takes nothing from the others', async () => {
  const { clock, sent, heard, beat } = rack();
  for (const name of ['a', 'b', 'bad', 'c', 'd']) beat(name);
  await clock.advance(100);
  for (let index = 0; index < 12; index++) {
    const batch = sent[index];
    if (credentialsOf(batch)?.includes('bad')) batch?.fail(new NotForwarded('no', refusal));
    else batch?.answer();
    await clock.advance(0);
  }
  expect(new Map(heard)).toEqual(
    new Map<string, HeartbeatResult>([
      ['a', reply()],
      ['b', reply()],
      ['bad', refusal],
      ['c', reply()],
      ['d', reply()],
    ]),
  );
});

test('what it holds is bounded', async () => {
  const { heard, gatherer, clock, beat } = rack({ held_beats: 2 });
  for (const name of ['a', 'b', 'c']) beat(name);
  await clock.advance(0);
  expect(heard).toMatchObject([['c', { code: 'rate_limited', status: 429 }]]);
  expect(gatherer.figures().held).toBe(2);
});

test('when it stops, what was held is passed on, and what cannot be is told', async () => {
  const { clock, sent, heard, gatherer, beat } = rack();
  beat('a');
  const stopped = gatherer.stop();
  expect(credentialsOf(sent[0])).toEqual(['a']);
  sent[0]?.fail();
  await clock.advance(500);
  await stopped;
  expect(heard).toMatchObject([['a', { code: 'relay_upstream_away' }]]);
});
