import { describe, expect, test } from 'vitest';
import { isNodeRule } from '../model/rules.ts';
import { type NodeStatus, nodeStatusNames } from '../model/states.ts';
import { type Cause, causes, findEdge, nodeEdges } from '../model/transitions.ts';
import { explain } from './explain.ts';
import type { ExplainedNode, ExplainFacts, Explanation, Holder, NextStep } from './explanation.ts';
import { describeNodeStatus } from './node-means.ts';

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
const deadline = at(600);
const silent = at(30);

const holder = (status: Holder['status'], overrides: Partial<Holder> = {}): Holder => ({
  allocation_id: 'alloc_1',
  name: null,
  status,
  reason: null,
  release_tries: 0,
  retry_at: null,
  ...overrides,
});

const facts = (
  status: NodeStatus,
  node: Partial<ExplainedNode> = {},
  overrides: Partial<Omit<ExplainFacts, 'node'>> = {},
): ExplainFacts => ({
  node: {
    status,
    status_since: at(-1000),
    deadline_at: deadline,
    budget_seconds: 720,
    budget_source: 'pool',
    waiting_for: null,
    prerequisites: null,
    last_seen_at: at(0),
    stale_seconds: 30,
    verdict: null,
    held: null,
    would_have: null,
    ...node,
  },
  observe_only: false,
  agentless: false,
  reuse: true,
  anew: false,
  holder: holder('releasing'),
  residue: [],
  gap_end: null,
  operation: null,
  repeated: null,
  refused_beats: null,
  ...overrides,
});

const when = ({ at: moment }: NextStep) => {
  if (moment === null) return '';
  return (
    { [deadline.getTime()]: ' [deadline]', [silent.getTime()]: ' [silence]' }[moment.getTime()] ??
    ` [${moment.toISOString()}]`
  );
};
/** The displayed lines: first the reason for waiting, then each step. */
const linesOf = ({ waiting_for, next }: Explanation) => [
  `waits for ${waiting_for}`,
  ...next.map((step) => `if ${step.if}: ${step.leads_to}${when(step)}`),
];
const explained = (...args: Parameters<typeof facts>) => linesOf(explain(facts(...args)));

test('explains an agentless machine by its provider alone', () => {
  for (const status of ['provisioning', 'ready', 'degraded'] as const) {
    const words = explained(status, {}, { agentless: true }).join('; ');
    expect(words).toMatch(/its provider/);
    expect(words).not.toMatch(/agent|work|beat|registers/);
    expect(describeNodeStatus({ status, verdict: null }, { agentless: true })).not.toMatch(/agent|probes/);
  }
  expect(explained('degraded', {}, { agentless: true })).toEqual([
    'waits for its provider to show it as healthy again',
    'if its provider shows it as healthy again: ready',
    'if its provider answers but does not show it until then: offline, by liveness [silence]',
  ]);
});

describe('explains a node that is', () => {
  test('provisioning', () => {
    expect(explained('provisioning')).toEqual([
      'waits for its agent to register',
      'if its agent registers: starting',
      'if it has not registered by then: failed, by provision-deadline [deadline]',
    ]);
    expect(explained('provisioning', {}, { operation: 'the image to be pulled' })[0]).toBe(
      'waits for the image to be pulled',
    );
  });

  test('provisioning, while the provider has no capacity', () => {
    const expected = [
      'waits for the provider to grant capacity; its boot budget is paused',
      'if the provider grants capacity: its boot budget starts',
      'if the provider grants none by then: failed, by provision-deadline [deadline]',
    ];
    expect(explained('provisioning', { waiting_for: 'capacity' })).toEqual(expected);
    expect(explained('provisioning', { waiting_for: 'capacity' }, { operation: 'launching' })).toEqual(expected);
  });

  test.for([null, 'met'] as const)('starting, with prerequisites %s', (prerequisites) => {
    expect(explained('starting', { prerequisites })).toEqual([
      'waits for the machine to report ready',
      'if it reports ready or answers a probe: ready',
      'if it still sends heartbeats then: ready, by stuck-starting [deadline]',
      'if it is silent then: failed, by start-deadline [deadline]',
    ]);
  });

  test.for(['unchecked', 'missing'] as const)(
    'starting, with prerequisites %s: no heartbeat makes it ready',
    (prerequisites) => {
      expect(explained('starting', { prerequisites })).toEqual([
        'waits for its prerequisites to be checked and met',
        'if they are met and it reports ready or answers a probe: ready',
        'if one is missing: failed, by prerequisite-missing',
        'if they are not met by then: failed, by start-deadline [deadline]',
      ]);
    },
  );

  test('ready', () => {
    expect(explained('ready')).toEqual([
      'waits for null',
      'if 50 % of its work fails: degraded',
      'if no heartbeat arrives by then: offline, by liveness (degraded if it answers a probe) [silence]',
    ]);
  });

  test('ready, after a time in which no replica received heartbeats', () => {
    for (const agentless of [false, true])
      expect(explain(facts('ready', {}, { gap_end: at(20), agentless })).next.at(-1)?.at).toEqual(at(50));
    expect(explain(facts('ready', {}, { gap_end: at(-20) })).next.at(-1)?.at).toEqual(silent);
  });

  test('degraded by its errors', () => {
    expect(explained('degraded', { verdict: { rule: 'degraded' } })).toEqual([
      'waits for its error rate to drop',
      'if it reports ready, or less than 10 % of its work fails: ready',
      'if no heartbeat arrives by then: offline, by liveness (degraded if it answers a probe) [silence]',
    ]);
  });

  test('degraded by its silence', () => {
    expect(explained('degraded', { verdict: { rule: 'liveness' } })).toEqual([
      'waits for its heartbeat; it answers only probes',
      'if its heartbeats resume: ready',
      'if no heartbeat arrives by then: offline, by liveness (degraded if it answers a probe) [silence]',
    ]);
  });

  test('offline', () => {
    expect(explained('offline')).toEqual([
      'waits for a heartbeat',
      'if its heartbeats resume: its former status',
      'if it stays silent until then: failed, by offline-deadline [deadline]',
    ]);
  });

  test('offline by its silence, with new heartbeats, and says when it returns', () => {
    const silenced = { verdict: { rule: 'liveness' }, status_since: at(0) };
    expect(explained('offline', { ...silenced, last_seen_at: at(1) })).toEqual([
      'waits for its stale time to pass: its heartbeats have resumed, and it returns after that',
      'if it still sends heartbeats then: its former status [silence]',
      'if it falls silent again until then: failed, by offline-deadline [deadline]',
    ]);
    for (const change of [{ last_seen_at: at(0) }, { last_seen_at: null }, { verdict: { rule: 'goodbye' } }])
      expect(explained('offline', { ...silenced, last_seen_at: at(1), ...change })).toEqual(explained('offline'));
  });

  test('failed', () => {
    expect(explained('failed')).toEqual([
      'waits for the end of its rescue window, or a sign of life',
      'if it registers or sends a heartbeat before then: starting, rescued by late-registration',
      'if it does not: cleaning, by rescue-over: destroyed, with proof [deadline]',
    ]);
  });

  test('failed, and known to have ended', () => {
    const verdict = { rule: 'provision-error', certain: true };
    expect(explained('failed', { verdict })).toEqual([
      'waits for a person to retry it, or the end of its rescue window; its launch failed for good, so waiting does not help',
      'if it is not retried before then: cleaning, by rescue-over: destroyed, with proof [deadline]',
    ]);
    expect(explained('failed', { verdict }, { holder: null })).toEqual([
      'waits for a person, or the end of its rescue window; its launch failed for good, so waiting does not help',
      'if no action is taken before then: cleaning, by rescue-over: destroyed, with proof [deadline]',
    ]);
  });

  test('draining', () => {
    expect(explained('draining')).toEqual([
      'waits for running work to end',
      'if it is empty: quarantined or retired, as requested',
      'if it is not empty by then: quarantined or retired, by drain-deadline [deadline]',
    ]);
  });

  test('cleaning, with or without an allocation', () => {
    expect(explained('cleaning')).toEqual([
      'waits for the proof that nothing is left',
      'if the proof is complete: ready and free',
      'if it takes longer than that: its allocation is release_failed and its release is retried [deadline]',
    ]);
    expect(explained('cleaning', {}, { holder: null, reuse: false, operation: 'the disk to be wiped' })).toEqual([
      'waits for the disk to be wiped',
      'if the proof is complete: retired',
      'if it takes longer than that: quarantined, by clean-deadline [deadline]',
    ]);
    expect(explained('cleaning', {}, { holder: null, anew: true })[1]).toBe(
      'if the proof is complete: provisioning, as a new instance',
    );
  });

  test.for(['failed', 'active'] as const)('cleaning, with an allocation that is %s', (status) => {
    expect(explained('cleaning', {}, { holder: holder(status) })[2]).toBe(
      'if it takes longer than that: quarantined, by clean-deadline [deadline]',
    );
  });

  test('cleaning, after a failed release, and says what failed and when the release is retried', () => {
    const reason = 'release failed at step clean (owner node): clean exited with code 1';
    const stuck = holder('release_failed', { reason, release_tries: 1, retry_at: at(30) });
    expect(explained('cleaning', {}, { holder: stuck, operation: 'Cleaning' })).toEqual([
      `waits for try 2 of its release: ${reason}`,
      'if its release is not retried before then: its release is retried (try 2) [silence]',
      'if a try ends with proof: ready and free',
    ]);
    expect(explained('cleaning', {}, { holder: { ...stuck, reason: null }, reuse: false, observe_only: true })).toEqual(
      [
        'waits for try 2 of its release: the last one failed',
        'if its release is not retried before then: its release is retried (try 2) [silence]',
        'if a try ends with proof: retired',
      ],
    );
  });

  test('offline, after a failed release', () => {
    const stuck = holder('release_failed', { release_tries: 2, retry_at: deadline });
    expect(explained('offline', {}, { holder: stuck })).toEqual([
      'waits for a heartbeat',
      'if its release is not retried before then: its release is retried (try 3) [deadline]',
      ...explained('offline').slice(1),
    ]);
  });

  test('quarantined, and names its allocation and its residue', () => {
    expect(explained('quarantined', {}, { holder: null })).toEqual(['waits for a person to decide']);
    for (const status of ['failed', 'released'] as const)
      expect(explained('quarantined', {}, { holder: holder(status) })).toEqual(['waits for a person to decide']);
    expect(explained('quarantined', {}, { holder: holder('active') })).toEqual([
      'waits for a person to decide; alloc_1 still uses it: reactivate the machine to serve the allocation again, or release the allocation before you reimage or retire the machine',
    ]);
    expect(explained('quarantined', {}, { holder: holder('releasing') })).toEqual([
      'waits for a person to decide; alloc_1 still uses it and must be released first',
    ]);
    expect(
      explained('quarantined', {}, { holder: holder('active', { name: 'demo' }), residue: ['residue_1', 'residue_2'] }),
    ).toEqual([
      'waits for a person to decide; alloc_1 (demo) still uses it: reactivate the machine to serve the allocation again, or release the allocation before you reimage or retire the machine; on the residue ledger: residue_1, residue_2',
    ]);
    const forced = { verdict: { rule: 'force-release' } };
    expect(explained('quarantined', forced, { holder: null, residue: ['residue_1'] })[0]).not.toContain('settled');
    expect(explained('quarantined', forced, { holder: null })).toEqual([
      'waits for a person to decide; released by force; its residue is settled, so you can reactivate or retire it',
    ]);
  });

  test('retired', () => {
    expect(explain(facts('retired'))).toEqual({ waiting_for: null, next: [] });
  });
});

describe('the end of the stale time', () => {
  const shownEnd = (node: Partial<ExplainedNode>) => explain(facts('ready', node)).next.at(-1)?.at;

  test('counts from the last heartbeat or the last change', () => {
    expect(shownEnd({})).toEqual(silent);
    expect(shownEnd({ status_since: at(20) })).toEqual(at(50));
  });

  test('is not shown if it is unknown', () => {
    expect(shownEnd({ last_seen_at: null })).toBeNull();
    expect(shownEnd({ stale_seconds: null })).toBeNull();
  });
});

/** The status and the rule that a step names. */
const ruleIn = ({ leads_to }: NextStep) => /^(\w+),.* by ([a-z-]+)/.exec(leads_to)?.slice(1);

test('names only rules that can lead to the named status', () => {
  const variants = nodeStatusNames.flatMap((status) => [
    facts(status),
    facts(status, { prerequisites: 'unchecked' }, { holder: null }),
    facts(status, { waiting_for: 'capacity' }),
  ]);
  const named = variants.flatMap(({ node, ...rest }) =>
    explain({ node, ...rest }).next.flatMap((step) => {
      const [to, by] = ruleIn(step) ?? [];
      return to && by ? [{ from: node.status, to: to as NodeStatus, by: by as Cause }] : [];
    }),
  );
  expect(new Set(named.map(({ by }) => by)).size).toBeGreaterThan(8);
  for (const { from, to, by } of named)
    expect(findEdge(nodeEdges, from, to, by), `${from} → ${to} by ${by}`).toBeDefined();
});

describe('in an observe-only pool', () => {
  test('shows the decision of a rule as hypothetical', () => {
    expect(explained('starting', {}, { observe_only: true })).toEqual([
      'waits for the machine to report ready',
      'if it reports ready or answers a probe: ready',
      'if it still sends heartbeats then: would be ready, by stuck-starting; the pool is observe-only [deadline]',
      'if it is silent then: would be failed, by start-deadline; the pool is observe-only [deadline]',
    ]);
  });

  test('shows a decision as hypothetical even if the text does not name the rule', () => {
    const [, errors] = explained('ready', {}, { observe_only: true });
    expect(errors).toBe('if 50 % of its work fails: would be degraded; the pool is observe-only');
    const [, fewer] = explained('degraded', { verdict: { rule: 'degraded' } }, { observe_only: true });
    expect(fewer).toBe(
      'if it reports ready, or less than 10 % of its work fails: would be ready; the pool is observe-only',
    );
  });

  test('does not show the end of a requested cleanup as hypothetical', () => {
    const [, , overdue] = explained('cleaning', {}, { holder: null, observe_only: true });
    expect(overdue).toBe('if it takes longer than that: quarantined, by clean-deadline [deadline]');
  });

  test.for(nodeStatusNames)('no step of %s shows an unenforced verdict as certain', (status) => {
    for (const step of explain(facts(status, {}, { observe_only: true, holder: null })).next) {
      const [, rule] = ruleIn(step) ?? [];
      if (rule && (isNodeRule(rule) || causes[rule as Cause].trigger === 'rule')) expect(rule).toBe('clean-deadline');
    }
  });
});

describe('a held verdict', () => {
  const held = { rule: 'liveness', reason: '60 % of zone a fell silent', held_until: at(90).toISOString() };

  test('is what the node waits for, and its end is the next step', () => {
    const [waiting, first, ...rest] = explained('ready', { held });
    expect(waiting).toBe('waits for the end of a hold: 60 % of zone a fell silent');
    expect(first).toBe(`if the hold ends (60 % of zone a fell silent): liveness decides again [${held.held_until}]`);
    expect(rest).toEqual(explained('ready').slice(1));
  });
});

test('describes every status in one sentence', () => {
  for (const status of nodeStatusNames)
    for (const verdict of [null, { rule: 'x', certain: true }])
      expect(describeNodeStatus({ status, verdict })).toMatch(/^[A-Z].+\.$/);
  const means = (certain?: boolean) =>
    describeNodeStatus({ status: 'failed', verdict: { rule: 'provision-error', certain } });
  expect(means()).toMatch(/can return within its rescue window/);
  expect(means(true)).toMatch(/waiting does not help/);
});

test('says that a machine waits for a change of its pool after repeated failures', () => {
  const repeated = { failures: 3, same_way: true, pool: 'render' };
  expect(
    explain(facts('failed', { verdict: { rule: 'provision-error', certain: true } }, { repeated })).waiting_for,
  ).toBe(
    'a change of pool render: the machine failed to start 3 times in the same way, and a retry would most likely fail too. Fix its set-up, image or budget, apply the pool, then retry',
  );
});

describe('a machine whose heartbeats are refused', () => {
  const refused_beats = {
    token_ended_at: null,
    at: at(10),
    why: 'relay token rack-7 was revoked',
    way_out: 'make another',
    in_short: 'its token was revoked',
  };
  const waits = (status: NodeStatus, node: Partial<ExplainedNode> = {}) =>
    explain(facts(status, node, { refused_beats })).waiting_for;

  test.each<NodeStatus>(['starting', 'ready', 'degraded', 'offline', 'draining', 'failed'])(
    '%s: waits for its heartbeats to be accepted',
    (status) => {
      expect(waits(status)).toBe(
        'its heartbeats to be accepted: they arrive but are refused, because relay token rack-7 was revoked. What to do: make another',
      );
    },
  );
  test('is not described as silent', () => {
    expect(describeNodeStatus({ status: 'offline', verdict: null }, { refused: true })).toMatch(
      /^Its heartbeats arrive/,
    );
    expect(describeNodeStatus({ status: 'offline', verdict: null })).toMatch(/^Silent/);
  });
  test('does not wait for its heartbeats if none would help', () => {
    for (const status of ['cleaning', 'quarantined', 'retired'] as const)
      expect(waits(status)).toBe(explain(facts(status)).waiting_for);
    const verdict = { rule: 'provision-error', certain: true };
    expect(waits('failed', { verdict })).toContain('waiting does not help');
  });
});
