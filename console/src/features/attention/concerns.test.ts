import { describe, expect, it } from 'vitest';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { ServerProblem } from '../../../../src/contract/fleet/server-status.ts';
import type { Node } from '../../../../src/contract/node.ts';
import type { Operation } from '../../../../src/contract/operation.ts';
import type { Pool } from '../../../../src/contract/pool.ts';
import type { Finding } from '../../../../src/contract/supervision/finding.ts';
import type { Residue } from '../../../../src/contract/supervision/residue.ts';
import type { Brake } from '../../../../src/contract/supervision/supervision.ts';
import {
  attentionHeadline,
  attentionMark,
  concernSince,
  countOf,
  hasGivenUp,
  type Known,
  type Sweep,
  sectionsOf,
} from './concerns.ts';

const nothing: Known = {
  server: undefined,
  brake: undefined,
  sweeps: undefined,
  pools: undefined,
  release_failed: undefined,
  offline: undefined,
  quarantined: undefined,
  failed: undefined,
  failed_allocations: undefined,
  degraded: undefined,
  cleaning: undefined,
  running: undefined,
  residue: undefined,
  findings: undefined,
};
const at = (minute: number) => `2026-01-01T00:${String(minute).padStart(2, '0')}:00Z`;
const nowMs = Date.parse(at(30));
const failedRelease = (pool: string, release_tries: number, minute = 0) =>
  ({ allocation_id: `${pool}${minute}`, pool, release_tries, status_since: at(minute) }) as Allocation;
const node = (name: string, minute: number) => ({ name, status_since: at(minute) }) as Node;
const hold = (ended_at: string | null) => ({ hold_id: 'h', since: at(1), ended_at, resumed_at: null });

describe('what needs a person', () => {
  it('is empty before anything is read', () => {
    expect(sectionsOf(nothing, nowMs)).toEqual([]);
    expect(attentionHeadline(0, true, null)).toBe('Nothing needs you');
  });
  it('is reported as unknown, not empty, if a query failed', () => {
    const busy = { reason: 'Server overloaded', retry_seconds: 5 };
    expect(attentionHeadline(0, true, busy)).toBe(
      'Unknown whether anything needs you: Server overloaded; retrying every 5 s',
    );
    expect(attentionHeadline(1, true, { ...busy, retry_seconds: null })).toBe(
      '1 or more things need you, worst first. Not everything could be read: Server overloaded',
    );
    const marks = [attentionMark(0, true, true), attentionMark(0, true, false), attentionMark(2, true, false)];
    expect([...marks, attentionMark(2, true, true)]).toEqual([null, '?', '2+', '2']);
  });
  it('lists a release as given up after the number of tries that its pool allows', () => {
    const pools = [{ name: 'p', release: { max_retries: 0 } }] as Pool[];
    expect(hasGivenUp(failedRelease('p', 1), pools)).toBe(true);
    expect(hasGivenUp(failedRelease('q', 8), pools)).toBe(false);
    expect(hasGivenUp(failedRelease('q', 9), undefined)).toBe(true);
  });
  it('lists a failed allocation unless its machine is already listed or a retry is running', () => {
    const allocation = (allocation_id: string, status?: string) =>
      ({ allocation_id, status: 'failed', status_since: at(1), progress: status ? { status } : null }) as Allocation;
    const known = {
      ...nothing,
      failed_allocations: [
        allocation('gone', 'failed'),
        allocation('standing', 'failed'),
        allocation('retried', 'running'),
      ],
    };
    const standing = { ...node('n', 1), allocation_id: 'standing' };
    for (const where of ['failed', 'quarantined'])
      expect(
        sectionsOf({ ...known, [where]: [standing] }, nowMs).map(({ name, concerns }) => [name, concerns.length]),
      ).toEqual([
        [where, 1],
        ['unserved', 1],
      ]);
    expect(sectionsOf(known, nowMs)).toMatchObject([
      {
        name: 'unserved',
        concerns: [{ allocation: { allocation_id: 'gone' } }, { allocation: { allocation_id: 'standing' } }],
      },
    ]);
  });
  it('lists slower boots separately, over budget first, dated from when they became slower', () => {
    const slower = {
      finding_id: 's',
      kind: 'boot-shift',
      theirs: { since: at(2) },
      opened_at: at(20),
    } as unknown as Finding;
    const given_up = {
      ...slower,
      finding_id: 'g',
      theirs: { since: at(9), past_budget_share: 0.1 },
    } as unknown as Finding;
    const other = { finding_id: 'd', kind: 'drift', theirs: {}, opened_at: at(1) } as unknown as Finding;
    const sections = sectionsOf({ ...nothing, findings: [other, slower, given_up] }, nowMs);
    expect(sections.map(({ name, concerns }) => [name, concerns.map(concernSince)])).toEqual([
      ['slower', [at(9), at(2)]],
      ['drift', [at(1)]],
    ]);
  });
  it('lists every silent machine, those with an allocation first, above quarantined ones', () => {
    const silent = (name: string, minute: number, allocation_id: string | null) => ({
      ...node(name, minute),
      allocation_id,
    });
    const offline = [silent('free', 1, null), silent('serving', 9, 'a'), silent('serving-longer', 3, 'b')];
    expect(sectionsOf({ ...nothing, offline, quarantined: [node('aside', 1)] }, nowMs)).toMatchObject([
      {
        name: 'silent',
        concerns: [{ node: { name: 'serving-longer' } }, { node: { name: 'serving' } }, { node: { name: 'free' } }],
      },
      { name: 'quarantined' },
    ]);
  });
  it('lists a machine that stays degraded, but not one that is degraded for a moment', () => {
    const [section, ...others] = sectionsOf({ ...nothing, degraded: [node('lasting', 28), node('brief', 29)] }, nowMs);
    expect(section).toMatchObject({ name: 'degraded', concerns: [{ node: { name: 'lasting' } }] });
    expect([section?.concerns.length, others]).toEqual([1, []]);
  });
  it('lists a teardown only if a try failed, with the error', () => {
    const step = (error: object | null) => ({
      name: 'clean',
      status: 'waiting',
      error,
      retry_at: at(31),
      finished_at: at(29),
    });
    const running = [
      { workflow_id: 'failing', allocation_id: null, steps: [step({ message: 'exited with code 3' })] },
      { workflow_id: 'well', allocation_id: null, steps: [step(null)] },
      { workflow_id: 'release', allocation_id: 'a', steps: [step({ message: 'exited with code 3' })] },
    ] as unknown as Operation[];
    const cleaning = running.map(({ workflow_id }) => ({ ...node(workflow_id, 1), workflow_id }));
    expect(sectionsOf({ ...nothing, cleaning, running }, nowMs)).toMatchObject([
      {
        name: 'teardowns',
        concerns: [{ node: { name: 'failing' }, step: { error: { message: 'exited with code 3' } } }],
      },
    ]);
  });
  it('orders sections from problems of the server down to automatic retries', () => {
    const sections = sectionsOf(
      {
        ...nothing,
        server: [
          { code: 'sweep_failing', facts: { sweep: 'liveness' }, since: at(3) },
          { code: 'disk_low', facts: {}, since: at(2) },
        ] as unknown as ServerProblem[],
        brake: { holds: [hold(null), hold(at(2))] } as unknown as Brake,
        sweeps: [{ name: 'liveness', error: 'no such column' } as Sweep, { name: 'drift', error: null } as Sweep],
        pools: [],
        release_failed: [failedRelease('p', 1), failedRelease('p', 9, 1)],
        quarantined: [node('young', 9), node('old', 3)],
        failed: [node('f', 1)],
        residue: [
          { cost_per_hour: null, since: at(0) },
          { cost_per_hour: 2, since: at(5) },
        ] as Residue[],
        findings: [],
      },
      nowMs,
    );
    expect(sections.map(({ name, concerns }) => [name, concerns.length])).toEqual([
      ['server', 1],
      ['held', 1],
      ['sweeps', 1],
      ['given_up', 1],
      ['quarantined', 2],
      ['failed', 1],
      ['residue', 2],
      ['retried', 1],
    ]);
    expect(sections[4]?.concerns).toMatchObject([{ node: { name: 'old' } }, { node: { name: 'young' } }]);
    expect(sections[6]?.concerns).toMatchObject([{ residue: { cost_per_hour: 2 } }, { residue: {} }]);
    expect(attentionHeadline(countOf(sections), true, null)).toBe('10 things need you, worst first');
  });
});
