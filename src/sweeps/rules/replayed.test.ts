/**
 * The same machines run under several policies. A replay of the history under one policy must
 * predict the verdicts that another policy really produced.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { History, RecordedBoot, ReplayPolicy } from '../../lifecycle/replay/history.ts';
import { replaySteps, replayTotal } from '../../lifecycle/replay/replay.ts';
import { recordReport } from '../../store/agents/reports.ts';
import { readHistory, toReplayPolicy } from '../../store/replay/replay-history.ts';
import { noteAdvance } from '../../store/transitions/advance.ts';
import type { NodeMove } from '../../store/transitions/node-move.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { liveness } from './liveness.ts';
import { provisionDeadline } from './provision-deadline.ts';

let fixture: RuleFixture;
beforeAll(async () => {
  fixture = ruleFixture(await testDatabase());
});
afterAll(() => fixture.close());

const external = (document: Partial<PoolDocument>): PoolDocument => ({ driver: 'external', ...document });
/** Histories are cached: nothing is written to a pool after its history was first read. */
const histories = new Map<string, Promise<History>>();
function historyOf(pool: string): Promise<History> {
  const query = { pool, since: fixture.at(-4000), until: fixture.at(4000), max_rows: 1000 };
  const history = histories.get(pool) ?? readHistory(fixture, query);
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
    progressAware: { provision_seconds: 60, rescue_seconds: 60, progress_aware: true, silence_seconds: 15 },
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
  const bootTime = (seconds: number) => fixture.at(seconds - 3600);

  async function arrive(ids: NodeId[], at: Date): Promise<void> {
    const moves = (await fixture.readNodes(ids)).flatMap(({ node_id, status, deadline_at }): NodeMove[] => {
      const set = { registered_at: at };
      const common = { node_id, to: 'starting' as const, reason: 'it registered', set };
      if (status === 'provisioning') return [{ ...common, by: 'registration' }];
      return status === 'failed' && deadline_at && deadline_at >= at ? [{ ...common, by: 'late-registration' }] : [];
    });
    await fixture.db.transaction((tx) => transition(tx, moves, at, fixture.environment));
  }

  async function advance(ids: NodeId[], at: Date): Promise<void> {
    for (const node of await fixture.readNodes(ids))
      await fixture.db.transaction((tx) =>
        noteAdvance(tx, node, [{ kind: 'boot_stage', code: `${at.getTime()}` }], at, fixture.environment),
      );
  }

  beforeAll(async () => {
    const idsByMachine: NodeId[][] = machines.map(() => []);
    for (const [pool, budgets] of Object.entries(policies)) {
      await fixture.declarePool(pool, { budgets });
      const deadline_at = bootTime(budgets.provision_seconds);
      const ids = await fixture.addNodes({ pool, count: machines.length, status: 'provisioning', deadline_at });
      for (const [i, id] of ids.entries()) idsByMachine[i]?.push(id);
      await fixture.db.query('update nodes set budget_seconds = $2 where pool = $1', [pool, budgets.provision_seconds]);
    }
    const rule = provisionDeadline(fixture.services);
    for (let seconds = step; seconds <= until; seconds += step) {
      const at = bootTime(seconds);
      const idsWhere = (matches: (machine: (typeof machines)[number]) => boolean) =>
        machines.flatMap((machine, i) => (matches(machine) ? (idsByMachine[i] ?? []) : []));
      await advance(
        idsWhere(({ signs }) => signs.includes(seconds)),
        at,
      );
      await arrive(
        idsWhere(({ arrives }) => arrives === seconds),
        at,
      );
      await rule.run(at);
    }
  });

  /** Whether the machine was given up or arrived, and when. */
  const outcomeOf = ({ given_up, ended_at }: Pick<RecordedBoot, 'given_up' | 'ended_at'>) =>
    given_up ? { verdict: 'failed', at: given_up.at } : { verdict: 'starting', at: ended_at };
  const machineNumber = (node_id: string) => Number(node_id.split('_').at(-1));

  test.for(pairs(Object.keys(policies)))('recorded under %s predict the verdicts of %s', async ([was, would]) => {
    const [past, other] = [await historyOf(was), await historyOf(would)];
    const proposed = toReplayPolicy(
      external({ budgets: policies[would as keyof typeof policies] }),
      fixture.environment,
    );
    const { differences, unknowns } = replay(past, proposed);
    expect(unknowns).toEqual([]);
    const provisions = ({ boots }: History) => boots.filter(({ phase }) => phase === 'provision');
    expect(provisions(past)).toHaveLength(machines.length);
    for (const boot of provisions(past)) {
      const truth = provisions(other).find(({ node_id }) => machineNumber(node_id) === machineNumber(boot.node_id));
      const difference = differences.find(({ node_id }) => node_id === boot.node_id);
      if (difference && !difference.sure) continue;
      const { verdict, at } = difference?.would_be ?? outcomeOf(boot);
      expect({ machine: machines[machineNumber(boot.node_id) - 1], verdict, at }).toEqual({
        machine: machines[machineNumber(boot.node_id) - 1],
        ...outcomeOf(truth ?? boot),
      });
    }
    if (was === would) expect(differences).toEqual([]);
    else expect(differences).not.toEqual([]);
  });
});

describe('silences', () => {
  const policies = { sharp: 30, calm: 70, deaf: 200 };
  /** Turns the brake off, so that each machine is judged by itself. */
  const brake = { fraction: 1, min_nodes: 1000 };
  const from = 1000;
  /** Seconds until each machine sends heartbeats again; null if it never does. */
  const silences = [10, 45, 60, 110, 250, null];
  /** The last heartbeat of a machine that returned. It is so late that the machine stays live. */
  const stillBeatingAt = 9000;

  beforeAll(async () => {
    const machines: { id: NodeId; silence: number; stale_seconds: number }[] = [];
    for (const [pool, stale_seconds] of Object.entries(policies)) {
      await fixture.declarePool(pool, {
        brake,
        heartbeat: { interval_seconds: 5, stale_after_seconds: stale_seconds },
      });
      const ids = await fixture.addNodes({ pool, count: silences.length, last_seen_at: fixture.at(from) });
      await fixture.db.query(
        `update heartbeats set stale_seconds = $2 where node_instance_id like 'inst_' || $1::text || '_%'`,
        [pool, stale_seconds],
      );
      machines.push(...ids.map((id, i) => ({ id, silence: silences[i] ?? Number.POSITIVE_INFINITY, stale_seconds })));
    }
    const rule = liveness(fixture.services);
    for (let seconds = 10; seconds <= 400; seconds += 5) {
      const at = fixture.at(from + seconds);
      const back = machines.filter(({ silence }) => silence === seconds).map(({ id }) => id);
      if (back.length > 0) await fixture.beat(back, fixture.at(stillBeatingAt));
      const beating = machines.filter(({ silence }) => silence <= seconds);
      const rows = await fixture.readNodes(beating.map(({ id }) => id));
      for (const { node_id, node_instance_id, status } of rows) {
        if (status !== 'offline' || !node_instance_id) continue;
        const stale_seconds = beating.find(({ id }) => id === node_id)?.stale_seconds ?? 0;
        const reporter = { node_id, node_instance_id, stale_seconds };
        await recordReport(fixture.db, reporter, { status: 'ready' }, at, fixture.environment);
      }
      await fixture.markStored(at);
      // A node is stale only after its stale time has passed, so run 1 ms later.
      await rule.run(secondsLater(at, 0.001));
    }
  });

  const machineNumber = (node_id: string) => Number(node_id.split('_').at(-1));
  const offlineAt = (history: History, machine: number) =>
    history.absences.find(({ node_id }) => machineNumber(node_id) === machine)?.at.getTime();

  test.for(pairs(Object.keys(policies)))(
    'recorded under %s predict when %s marks nodes offline',
    async ([was, would]) => {
      const [past, other] = [await historyOf(was), await historyOf(would)];
      const heartbeat = { interval_seconds: 5, stale_after_seconds: policies[would as keyof typeof policies] };
      const proposed = toReplayPolicy(external({ heartbeat, brake }), fixture.environment);
      const { differences, unknowns } = replay(past, proposed);
      const undecided = new Set(unknowns.flatMap(({ node_ids }) => node_ids));
      for (const { node_id, at } of past.absences) {
        if (undecided.has(node_id)) continue;
        const difference = differences.find((each) => each.node_id === node_id);
        const predicted = difference ? difference.would_be.at?.getTime() : at.getTime();
        expect([silences[machineNumber(node_id) - 1], predicted]).toEqual([
          silences[machineNumber(node_id) - 1],
          offlineAt(other, machineNumber(node_id)),
        ]);
      }
      const isStricter = policies[would as keyof typeof policies] < policies[was as keyof typeof policies];
      expect(unknowns.some(({ kind }) => kind === 'short_silences')).toBe(isStricter);
      if (was === would) expect([differences, unknowns]).toEqual([[], []]);
    },
  );
});
