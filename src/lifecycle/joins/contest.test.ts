import { expect, test } from 'vitest';
import { judgeProbeAnswer, judgeRegistration, type ReturnFacts } from './contest.ts';

const knownAddress = 'http://10.0.0.1:8001';
const otherAddress = 'http://10.0.0.2:8001';
const facts = (more: Partial<ReturnFacts> = {}): ReturnFacts => ({
  endpoint: knownAddress,
  claimed_endpoint: knownAddress,
  is_other_process: true,
  is_beating: true,
  serves_tenant: true,
  lacks_credential: false,
  re_enrolled: false,
  allow_takeover: false,
  ...more,
});

test('a registration at the same address is a restart if it shows its credential or the protocol issues none', () => {
  for (const is_other_process of [true, false])
    for (const is_beating of [true, false])
      for (const serves_tenant of [true, false])
        expect(judgeRegistration(facts({ is_other_process, is_beating, serves_tenant }))).toBe('restart');
});

test('by default, another address does not take the name of a machine that serves a tenant', () => {
  for (const [endpoint, claimed_endpoint] of [
    [knownAddress, otherAddress],
    [knownAddress, null],
    [null, otherAddress],
  ])
    for (const is_beating of [true, false])
      expect(judgeRegistration(facts({ endpoint, claimed_endpoint, is_beating }))).toBe('other_endpoint');
});

test('a machine that serves a tenant must show its credential at any address', () => {
  for (const claimed_endpoint of [knownAddress, otherAddress, null])
    for (const is_beating of [true, false])
      expect(judgeRegistration(facts({ claimed_endpoint, is_beating, lacks_credential: true }))).toBe('key_unproven');
  expect(judgeRegistration(facts({ serves_tenant: false, lacks_credential: true }))).toBe('restart');
  expect(judgeRegistration(facts({ lacks_credential: true, re_enrolled: true }))).toBe('restart');
});

test("the pool's policy or a re-enrolment allows another address", () => {
  expect(judgeRegistration(facts({ claimed_endpoint: otherAddress, allow_takeover: true }))).toBe('restart');
  expect(judgeRegistration(facts({ claimed_endpoint: otherAddress, re_enrolled: true }))).toBe('restart');
});

test('if the machine serves no tenant, a probe of its former address decides', () => {
  const moved = facts({ claimed_endpoint: otherAddress, serves_tenant: false });
  expect(judgeRegistration(moved)).toBe('ask_former');
  expect(judgeProbeAnswer('yes', { is_beating: false })).toBe('second_process');
  expect(judgeProbeAnswer('no', { is_beating: true })).toBe('restart');
});

test('if the former address is unknown or cannot be probed, the heartbeats decide', () => {
  expect(judgeProbeAnswer('unknown', { is_beating: true })).toBe('second_process');
  expect(judgeProbeAnswer('unknown', { is_beating: false })).toBe('restart');
  const nowhere = facts({ endpoint: null, claimed_endpoint: null });
  expect(judgeRegistration(nowhere)).toBe('second_process');
  expect(judgeRegistration({ ...nowhere, is_beating: false })).toBe('restart');
  expect(judgeRegistration({ ...nowhere, is_other_process: false }), 'a registration without a process id').toBe(
    'restart',
  );
  expect(judgeRegistration(facts({ endpoint: null, claimed_endpoint: otherAddress, serves_tenant: false }))).toBe(
    'second_process',
  );
});
