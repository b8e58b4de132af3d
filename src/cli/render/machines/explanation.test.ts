/** Checks the text of an explanation. */
import { describe, expect, test } from 'vitest';
import type { Explanation } from '../../../contract/supervision/explanation.ts';
import { sampleEvidence, sampleIds, sampleNode, sampleProgress } from '../../testing/samples.ts';
import { sampleExplanation, sampleFinding, sampleHeld, sampleNext } from '../../testing/supervision-samples.ts';
import type { RenderContext } from '../text/hints.ts';
import { plain } from '../text/palette.ts';
import { explanationLines } from './explanation.ts';

const now = '2026-01-01T12:10:00.000Z';
const context = (width: number): RenderContext => ({
  paint: plain,
  width,
  nowMs: Date.parse(now),
  commandLine: (...words) => ['slipway', ...words].join(' '),
});
const id = sampleIds.node_id;

const render = (fields: Partial<Explanation> = {}, width = 80): string => {
  const explanation = sampleExplanation(fields);
  const node = sampleNode({ status: explanation.status, held: explanation.held, name: 'gpu-3' });
  return explanationLines(explanation, node, context(width)).join('\n');
};

test('shows status, reason, deadline, next steps, evidence and commands', () => {
  expect(render()).toBe(
    [
      `${id}  gpu-3  offline for 8m`,
      '  Silent; it can return until its deadline. It became offline 8m ago: no',
      '  heartbeat arrived for 42 s (allowed: 30 s) [liveness, owner: node]. It waits',
      '  for a heartbeat. It has 40m left, until 2026-01-01 12:50:00Z. Its budget is 1h',
      '  00m, set by its pool. Its last heartbeat was 10m ago.',
      '',
      '  What happens next',
      '    any time  if its heartbeats resume → its former status',
      '    in 40m    if it stays silent until then → failed, by offline-deadline',
      '',
      '  Evidence',
      '    8m ago  ready → offline: silent',
      '',
      '  What you can do',
      '    Gives it more time:',
      `      slipway act ${id} extend-deadline --seconds 10m --reason "…"`,
      `    See its history:  slipway timeline ${id}`,
      `    Read its logs:    slipway logs ${id}`,
    ].join('\n'),
  );
});

test('shows the operation in progress', () => {
  const expected = { p50_seconds: 300, p90_seconds: 600, samples: 40 };
  const work = { step: 3, total_steps: 5, label: 'Creating', percent: 42, step_elapsed_seconds: 252, expected };
  const text = render(
    { progress: sampleProgress({ ...work, message: 'AKS state: Creating', slower_than: 0.62 }) },
    100,
  );
  expect(text).toContain('  In progress\n  Step 3/5 · Creating (usually 5–10 min) · 4m 12s\n');
  expect(text).toMatch(/━+╸?─+ +42 % .*slower than 62 % of earlier runs of this step\n {2}AKS state: Creating\n/);
});

describe('starts with a verdict that did not take effect', () => {
  const ready = {
    status: 'ready',
    means: 'Up and serving.',
    waiting_for: 'the end of a hold',
    deadline_at: null,
  } as const;
  const due = [
    sampleNext('the hold ends', 'liveness decides again', '2026-01-01T12:54:00.000Z'),
    sampleNext('no heartbeat arrives by then', 'offline, by liveness', '2026-01-01T12:03:00.000Z'),
    sampleNext('50 % of its work fails', 'degraded', null),
  ];

  test.each([
    ['mass-failure', 'because too many machines failed at once: 8 of 12 machines'],
    ['self-fault', 'because the control plane may have missed heartbeats: 8 of 12'],
    ['maintenance', 'because a maintenance window is open: 8 of 12 machines'],
  ] as const)('held by %s', (kind, because) => {
    const text = render({ ...ready, next: due, held: sampleHeld({ kind }) }, Number.POSITIVE_INFINITY);
    expect(text).toContain('! It is still ready only because a verdict is held back: liveness would make it offline.');
    expect(text).toContain(`Held for 6m, ${because}`);
    expect(text).toContain('until 2026-01-01 12:54:00Z (in 44m); then liveness decides again.');
    expect(text).toContain('See all held verdicts:  slipway brake\n');
    // Leaves out the meaning of `ready`, and a step that is already due.
    expect(text).not.toContain('Up and serving');
    expect(text.split('What happens next')[1]?.split('Evidence')[0]?.trim()).toBe(
      'any time  if 50 % of its work fails → degraded',
    );
  });

  test('recorded by an observe-only pool', () => {
    const would_have = { rule: 'liveness', to: 'offline', reason: 'it is silent', at: '2026-01-01T12:05:00.000Z' };
    const text = render({ ...ready, waiting_for: null, would_have, next: due }, Number.POSITIVE_INFINITY);
    expect(text).toContain(
      '! Its pool is observe-only, so nothing was changed: 5m ago liveness would have made it offline, because it is silent.',
    );
    expect(text).not.toContain('Up and serving');
    expect(text).not.toContain('no heartbeat arrives by then');
  });
});

test('shows a passed deadline as overdue', () => {
  const past = '2026-01-01T12:09:30.000Z';
  const text = render(
    { deadline_at: past, next: [sampleNext('it does not', 'cleaning', past)] },
    Number.POSITIVE_INFINITY,
  );
  expect(text).toContain('It is 30s overdue');
  expect(text).toContain('due 30s ago  if it does not → cleaning');
});

test('names the step that the machine waits for, and shows no reason without a verdict', () => {
  const because = { rule: null, verdict: null, owner: null, at: '2026-01-01T12:02:00.000Z', evidence: [] };
  const wide = (fields: Partial<Explanation>) => render({ because, ...fields }, Number.POSITIVE_INFINITY);
  expect(wide({ waiting_for: 'the step “Launching”: 2 of 3 disks' })).toContain(
    'It waits for the step “Launching”: 2 of 3 disks.',
  );
  expect(wide({})).toContain('It became offline 8m ago. It waits');
  expect(render({ because })).not.toContain('Evidence');
});

test('shows evidence oldest first, with actors, and groups facts of one kind', () => {
  const fact = (minute: string, kind: string, summary: string) =>
    sampleEvidence({ at: `2026-01-01T12:0${minute}:00.000Z`, kind, summary });
  const movedDeadline = (minute: string) =>
    fact(minute, 'node.deadline_moved', `until 2026-01-01T12:5${minute}:00.000Z`);
  const by = { ...fact('8', 'node.quarantined', 'set aside'), actor: { kind: 'token', id: 't', name: 'ops' } };
  const evidence = [
    by,
    movedDeadline('7'),
    movedDeadline('6'),
    movedDeadline('5'),
    fact('2', 'node.offline', 'went silent'),
  ];
  const text = render({ because: { rule: 'liveness', verdict: 'silent', owner: 'node', at: now, evidence } });
  expect(text).toContain(
    [
      '    8m ago  went silent',
      '    3m ago  until 2026-01-01 12:57:00Z  (the last of 3)',
      '    2m ago  set aside — by ops',
    ].join('\n'),
  );
});

test('names slow boot stages, without control sequences', () => {
  const slow_stages = [
    { name: 'pull', seconds: 107, usual_seconds: 20, says: 'pull took 107 s, usually 20 s' },
    { name: 'evil', seconds: 9, usual_seconds: null, says: '\u001b[2Jevil took 9 s' },
  ];
  const text = render({ slow_stages });
  expect(text).toContain('  Slow boot stages\n    pull took 107 s, usually 20 s; evil took 9 s\n');
  expect(text).not.toContain('\u001b');
});

test('suggests to change the pool after repeated failures, and no repair', () => {
  const theirs = { failures: 3, newest: [] };
  const ours = { failures_allowed: 2, window_seconds: 86_400 };
  const failing = sampleFinding({ kind: 'repeat-failure', what: 'node_provisions', ours, theirs });
  const text = render({ findings: [failing] });
  expect(text).toMatch(/What you can do\n +Change its pool first, then retry: +slipway apply -f pools.yaml\n/);
  expect(text).toContain('slipway drift accept find_1 --reason "…"');
  expect(text).not.toContain('drift repair');
  expect(render({ findings: [sampleFinding()] })).toContain('slipway drift repair find_1');
});
