/**
 * Runs the same machines under several policies: replaying one policy predicts the verdicts of
 * another.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { History, RecordedBoot, ReplayPolicy } from '../../lifecycle/replay/history.ts';
import { replaySteps, replayTotal } from '../../lifecycle/replay/replay.ts';
import { recordReport } from '../../store/agents/reports.ts';
import { readHistory, replayPolicyOf } from '../../store/replay/replay-history.ts';
import { noteAdvance } from '../../store/transitions/advance.ts';
import type { NodeMove } from '../../store/transitions/node-move.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { liveness } from './liveness.ts';
import { provisionDeadline } from './provision-deadline.ts';

let stage: Stage;
beforeAll(async () => {
  stage = ruleStage(await testDatabase());
});
afterAll(() => stage.close());

const external = (document: Partial<PoolDocument>): PoolDocument => ({ driver: 'external', ...document });
/** Nothing is written any more when the first history is read. */
const histories = new Map<string, Promise<History>>();
function historyOf(pool: string): Promise<History> {
  const query = { pool, since: stage.at(-4000), until: stage.at(4000), max_rows: 1000 };
  const history = histories.get(pool) ?? readHistory(stage, query);
  histories.set(pool, history);
  return history;
}

const replay = (past: History, proposed: ReplayPolicy) => replayTotal(past, proposed, [...replaySteps(past, proposed)]);

const pairs = (names: string[]) => names.flatMap((one) => names.map((other) => [one, other] as const));

describe('boots', () => {
  const policies = {
    plain: { provision_seconds: 60, rescue_seconds: 60 },
    patient: { provision_seconds: 100, rescue_seconds: 60 },
    hasty: { provision_seconds: 40, rescue_seconds: 20 },
    minding: { provision_seconds: 60, rescue_seconds: 60, progress_aware: true, silence_seconds: 15 },
    lenient: { provision_seconds: 50, rescue_seconds: 100, progress_aware: true, silence_seconds: 40 },
  };
  /** Arrival time of each machine, and times of its signs of progress. */
  const machines: { arrives: number | null; signs: number[] }[] = [
    { arrives: 20, signs: [] },
    { arrives: 55, signs: [5, 30, 45] },
    { arrives: 60, signs: [20] },
    { arrives: 75, signs: [10, 25, 40, 55] },
    { arrives: 95, signs: [] },
    { arrives: 135, signs: [30, 35] },
    { arrives: null, signs: [] },
    { arrives: null, signs: [15, 30, 45] },
    { arrives: null, signs: [50, 55] },
  ];
  const step = 5;
  const until = 220;
  const booted = (seconds: number) => stage.at(seconds - 3600);

  async function arrive(ids: NodeId[], at: Date): Promise<void> {
    const moves = (await stage.rows(ids)).flatMap(({ node_id, status, deadline_at }): NodeMove[] => {
      const set = { registered_at: at };
      const common = { node_id, to: 'starting' as const, reason: 'it registered', set };
      if (status === 'provisioning') return [{ ...common, by: 'registration' }];
      return status === 'failed' && deadline_at && deadline_at >= at ? [{ ...common, by: 'late-registration' }] : [];
    });
    await stage.db.transaction((tx) => transition(tx, moves, at, stage.environment));
  }

  async function advance(ids: NodeId[], at: Date): Promise<void> {
    for (const node of await stage.rows(ids))
      await stage.db.transaction((tx) =>
        noteAdvance(tx, node, [{ kind: 'boot_stage', code: `${at.getTime()}` }], at, stage.environment),
      );
  }

  beforeAll(async () => {
    const placed: NodeId[][] = machines.map(() => []);
    for (const [pool, budgets] of Object.entries(policies)) {
      await stage.pool(pool, { budgets });
      const deadline_at = booted(budgets.provision_seconds);
      const ids = await stage.nodes({ pool, count: machines.length, status: 'provisioning', deadline_at });
      for (const [i, id] of ids.entries()) placed[i]?.push(id);
      await stage.db.query('update nodes set budget_seconds = $2 where pool = $1', [pool, budgets.provision_seconds]);
    }
    const rule = provisionDeadline(stage.services);
    for (let seconds = step; seconds <= until; seconds += step) {
      const at = booted(seconds);
      const whoever = (does: (machine: (typeof machines)[number]) => boolean) =>
        machines.flatMap((machine, i) => (does(machine) ? (placed[i] ?? []) : []));
      await advance(
        whoever(({ signs }) => signs.includes(seconds)),
        at,
      );
      await arrive(
        whoever(({ arrives }) => arrives === seconds),
        at,
      );
      await rule.run(at);
    }
  });

  /** When the machine was given up, or when it arrived. */
  const cameTo = ({ given_up, ended_at }: Pick<RecordedBoot, 'given_up' | 'ended_at'>) =>
    given_up ? { verdict: 'failed', at: given_up.at } : { verdict: 'starting', at: ended_at };
  const place = (node_id: string) => Number(node_id.split('_').at(-1));

  test.for(pairs(Object.keys(policies)))('under %s predict what %s would have done', async ([was, would]) => {
    const [past, other] = [await historyOf(was), await historyOf(would)];
    const proposed = replayPolicyOf(external({ budgets: policies[would as keyof typeof policies] }), stage.environment);
    const { differences, untold } = replay(past, proposed);
    expect(untold).toEqual([]);
    const provisions = ({ boots }: History) => boots.filter(({ phase }) => phase === 'provision');
    expect(provisions(past)).toHaveLength(machines.length);
    for (const boot of provisions(past)) {
      const truth = provisions(other).find(({ node_id }) => place(node_id) === place(boot.node_id));
      const difference = differences.find(({ node_id }) => node_id === boot.node_id);
      if (difference && !difference.sure) continue;
      const { verdict, at } = difference?.would_be ?? cameTo(boot);
      expect({ machine: machines[place(boot.node_id) - 1], verdict, at }).toEqual({
        machine: machines[place(boot.node_id) - 1],
        ...cameTo(truth ?? boot),
      });
    }
    if (was === would) expect(differences).toEqual([]);
    else expect(differences).not.toEqual([]);
  });
});

describe('silences', () => {
  const policies = { sharp: 30, calm: 70, deaf: 200 };
  /** No mass failure: each machine is judged by itself. */
  const brake = { fraction: 1, min_nodes: 1000 };
  const from = 1000;
  /** Length of each silence. */
  const silences = [10, 45, 60, 110, 250, null];

  const farAhead = 9000;

  beforeAll(async () => {
    const placed: { id: NodeId; silence: number; stale_seconds: number }[] = [];
    for (const [pool, stale_seconds] of Object.entries(policies)) {
      await stage.pool(pool, { brake, heartbeat: { interval_seconds: 5, stale_after_seconds: stale_seconds } });
      const ids = await stage.nodes({ pool, count: silences.length, last_seen_at: stage.at(from) });
      await stage.db.query(
        `update heartbeats set stale_seconds = $2 where node_instance_id like 'inst_' || $1::text || '_%'`,
        [pool, stale_seconds],
      );
      placed.push(...ids.map((id, i) => ({ id, silence: silences[i] ?? farAhead, stale_seconds })));
    }
    const rule = liveness(stage.services);
    for (let seconds = 10; seconds <= 400; seconds += 5) {
      const at = stage.at(from + seconds);
      const back = placed.filter(({ silence }) => silence === seconds).map(({ id }) => id);
      if (back.length > 0) await stage.beat(back, stage.at(farAhead));
      const beating = placed.filter(({ silence }) => silence <= seconds);
      const rows = await stage.rows(beating.map(({ id }) => id));
      for (const { node_id, node_instance_id, status } of rows) {
        if (status !== 'offline' || !node_instance_id) continue;
        const stale_seconds = beating.find(({ id }) => id === node_id)?.stale_seconds ?? 0;
        const claiming = { node_id, node_instance_id, stale_seconds };
        await recordReport(stage.db, claiming, { status: 'ready' }, at, stage.environment);
      }
      await stage.hear(at);
      await rule.run(secondsLater(at, 0.001));
    }
  });

  const place = (node_id: string) => Number(node_id.split('_').at(-1));
  const offlineAt = (history: History, machine: number) =>
    history.absences.find(({ node_id }) => place(node_id) === machine)?.at.getTime();

  test.for(pairs(Object.keys(policies)))('under %s predict what %s would have called offline', async ([was, would]) => {
    const [past, other] = [await historyOf(was), await historyOf(would)];
    const heartbeat = { interval_seconds: 5, stale_after_seconds: policies[would as keyof typeof policies] };
    const { differences, untold } = replay(past, replayPolicyOf(external({ heartbeat, brake }), stage.environment));
    const open = new Set(untold.flatMap(({ node_ids }) => node_ids));
    for (const { node_id, at } of past.absences) {
      if (open.has(node_id)) continue;
      const found = differences.find((each) => each.node_id === node_id);
      const predicted = found ? found.would_be.at?.getTime() : at.getTime();
      expect([silences[place(node_id) - 1], predicted]).toEqual([
        silences[place(node_id) - 1],
        offlineAt(other, place(node_id)),
      ]);
    }
    const lower = policies[would as keyof typeof policies] < policies[was as keyof typeof policies];
    expect(untold.some(({ kind }) => kind === 'short_silences')).toBe(lower);
    if (was === would) expect([differences, untold]).toEqual([[], []]);
  });
});
