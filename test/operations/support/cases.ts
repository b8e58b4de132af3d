/**
 * Runs cases in parallel, each in its own pool, until all are settled or `maxTicks` have passed,
 * and returns the outcome of each.
 */
import { now } from '../../../src/base/clock.ts';
import { newCorrelationId, newTokenId } from '../../../src/base/ids.ts';
import { ApiProblem } from '../../../src/contract/errors/errors.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import type { OperationRun } from '../../../src/engine/engine.ts';
import { wholeFleet } from '../../../src/lifecycle/visibility.ts';
import { declarePool } from '../../../src/store/rows/pools.ts';
import { createJoinToken } from '../../../src/store/rows/tokens.ts';
import { openInvariantChecks, type Violation } from '../../properties/support/invariants.ts';
import { privatePoolName } from '../../properties/support/pools.ts';
import { heartbeat } from './agents.ts';
import type { ArmedFault, FaultName, StepRecord } from './faults.ts';
import { type BrokenParts, type OperationFixture, openOperationFixture, tickSeconds } from './operation-fixture.ts';
import type { WatchedRun } from './runs.ts';
import type { CasePool, Request, Situation, View } from './situations.ts';
import { readViews } from './views.ts';

/** A fault and the step to inject it into. */
export interface FaultTarget {
  kind: string;
  /** Selects a run among the runs of this kind after the request, from 0. */
  ordinal: number;
  record: StepRecord;
  fault: FaultName;
}

export interface Case {
  situation: Situation;
  request: Request;
  target?: FaultTarget;
}

export interface EndedCase extends Case {
  /** Whether the product refused the request. */
  refused: boolean;
  runs: { kind: string; ordinal: number; records: StepRecord[] }[];
  faultHappened: boolean;
  nodes: string[];
  allocations: string[];
  launches: number;
  /** Every transition, operation, task and instance since the request, with its count. */
  eventCounts: string[];
  problems: string[];
}

const budgets = {
  ...{ queue_seconds: 40, provision_seconds: 40, start_seconds: 20, offline_seconds: 30 },
  ...{ drain_seconds: 20, release_seconds: 600, rescue_seconds: 40 },
};
const casePoolDocument = (name: string, pool: Partial<PoolDocument> = {}): PoolDocument => ({
  ...{ name, driver: 'yard', budgets, heartbeat },
  brake: { fraction: 1, min_nodes: 1_000_000 },
  release: { step_tries: 2, retry_base_seconds: 10, retry_max_seconds: 10 },
  ...pool,
});

/** A round without outages, races or maintenance. */
const undisturbedRound = {
  ...{ advance_seconds: tickSeconds, racesSweeps: false, isServerAway: false, isLagging: false },
  ...{ maintenance: null, endsMaintenance: false, resumesBrake: false, togglesMode: false },
};
const maxTicks = 350;
const ticksPerCheck = 15;

interface CaseRun extends EndedCase {
  pool: string;
  correlation_id: string;
  requested: boolean;
  /** The keys of the events in the pool before the request. */
  earlierEvents: ReadonlySet<string>;
  /** The tick in which the situation last continued after a wait. */
  resumedAtTick: number;
  view: View;
  waiting?: { condition: (view: View) => boolean; resolve: () => void } | undefined;
  armed?: ArmedFault;
}

const settledNodeStatuses = ['ready', 'degraded', 'quarantined', 'retired'];
const isSettled = ({ nodes, allocations, openOperations }: View) =>
  openOperations === 0 &&
  nodes.every(({ status }) => settledNodeStatuses.includes(status)) &&
  allocations.every(
    ({ status, isPastDeadline }) => ['active', 'released'].includes(status) || (status === 'failed' && isPastDeadline),
  );

const ownerSql = `
  select operation.correlation_id, coalesce(a.pool, n.pool, operation.params ->> 'pool') as pool
  from operations operation
  left join allocations a on a.allocation_id = operation.allocation_id
  left join nodes n on n.node_id = operation.node_id
  where operation.workflow_id = $1`;

/** Selects one row per event in the pools. The checks of invariants.ts fill the table `changes`. */
const eventsSql = `
  select pool, key, name
  from (
    select pool, xid || '-' || seq as key,
      entity || ' ' || "from" || ' → ' || "to" || ' by ' || by as name
    from changes
    where "to" is not null
      -- only changes of status
      and sets ? 'status'
    union all
    select coalesce(a.pool, n.pool), operation.workflow_id, 'operation ' || kind || ' ' || operation.status
    from operations operation
    left join allocations a on a.allocation_id = operation.allocation_id
    left join nodes n on n.node_id = operation.node_id
    union all
    select node.pool, task.task_id, 'task ' || type || ' ' || task.status
    from tasks task
    join nodes node on node.node_id = task.node_id
    union all
    select node.pool, instance.node_instance_id, 'instance of a node'
    from instances instance
    join nodes node on node.node_id = instance.node_id
  ) events
  where pool = any($1)`;

interface CaseEvent {
  pool: string;
  key: string;
  name: string;
}

/** Counts the events since the request. Events from preparing the situation do not count. */
function countEvents({ pool, earlierEvents }: CaseRun, events: readonly CaseEvent[]): string[] {
  const newEvents = events.filter((event) => event.pool === pool && !earlierEvents.has(event.key));
  return [...Map.groupBy(newEvents, ({ name }) => name)].map(([name, { length }]) => `${length} × ${name}`).sort();
}

const joinSecret = (pool: string) => `swj_${pool}`;

function casePoolOf(caseRun: CaseRun, { services, agents }: OperationFixture): CasePool {
  const { pool } = caseRun;
  const caller = {
    actor: { kind: 'token' as const, id: 'tok_test', name: 'tester' },
    ...{ visibility: wholeFleet, correlation_id: caseRun.correlation_id as never, reason: 'for a test' },
  };
  return {
    ...{ pool, services, caller, view: () => caseRun.view },
    until: (condition) =>
      new Promise<void>((resolve) => {
        caseRun.waiting = { condition, resolve };
      }),
    join: () => agents.join(pool, joinSecret(pool), `m-${pool}`),
    killAgents: () => agents.kill(pool),
    repair: () => agents.repair(pool),
  };
}

async function runCase(caseRun: CaseRun, casePool: CasePool): Promise<void> {
  await caseRun.situation.prepare(casePool);
  const events = await casePool.services.db.query<CaseEvent>(eventsSql, [[caseRun.pool]]);
  caseRun.earlierEvents = new Set(events.map(({ key }) => key));
  caseRun.requested = true;
  try {
    caseRun.refused = !(await caseRun.request.send(casePool, { dry_run: false }));
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    caseRun.refused = true;
  }
  caseRun.situation.afterRequest?.(casePool);
}

async function declareCasePools(fixture: OperationFixture, caseRuns: CaseRun[]): Promise<void> {
  const at = now(fixture.clock);
  await fixture.db.transaction(async (tx) => {
    for (const { pool, situation } of caseRuns) {
      const document = casePoolDocument(pool, situation.pool);
      await declarePool(tx, pool, document, at);
      if (situation.machines) fixture.upstream.behaviours.set(pool, [...situation.machines]);
      if (document.driver !== 'external') continue;
      const token = { token_id: newTokenId(fixture.clock), pool, expires_at: null, max_uses: null, created_at: at };
      await createJoinToken(tx, token, joinSecret(pool));
    }
  });
}

/** Finds machines that exist upstream and belong to no live node. */
function findLeaks(caseRun: CaseRun, { upstream }: OperationFixture): string[] {
  const ownedInstances = new Set(
    caseRun.view.nodes.filter(({ status }) => status !== 'retired').map((node) => node.node_instance_id),
  );
  return [...upstream.machines.values()]
    .filter(
      (machine) =>
        machine.pool === caseRun.pool && upstream.exists(machine) && !ownedInstances.has(machine.node_instance_id),
    )
    .map(({ node_instance_id, state }) => `machine ${node_instance_id} is ${state} upstream without an owner`);
}

export async function runCases(cases: readonly Case[], brokenParts: BrokenParts = {}): Promise<EndedCase[]> {
  const caseRuns = cases.map(
    (testCase, index): CaseRun => ({
      ...testCase,
      earlierEvents: new Set<string>(),
      ...{
        pool: privatePoolName(index),
        correlation_id: newCorrelationId(),
        resumedAtTick: 0,
        requested: false,
        refused: false,
        faultHappened: false,
      },
      ...{ view: { nodes: [], allocations: [], openOperations: 0 }, runs: [], problems: [], launches: 0 },
      ...{ nodes: [], allocations: [], eventCounts: [] },
    }),
  );
  const byPool = new Map(caseRuns.map((caseRun) => [caseRun.pool, caseRun]));
  const byCorrelation = new Map(caseRuns.map((caseRun) => [caseRun.correlation_id, caseRun]));
  const owners = new Map<string, CaseRun>();

  const findFault = async (run: OperationRun): Promise<ArmedFault | undefined> => {
    const [row] = await fixture.db.query<{ correlation_id: string; pool: string | null }>(ownerSql, [run.workflow_id]);
    const caseRun = byCorrelation.get(row?.correlation_id ?? '') ?? byPool.get(row?.pool ?? '');
    if (!caseRun)
      throw new Error(`operation ${run.kind} belongs to no case: queue it with the caller's correlation_id`);
    owners.set(run.workflow_id, caseRun);
    if (!caseRun.requested || caseRun.target?.kind !== run.kind) return undefined;
    const ordinal = caseRun.runs.filter(({ kind }) => kind === run.kind).length;
    if (ordinal !== caseRun.target.ordinal) return undefined;
    caseRun.armed = { ...caseRun.target.record, fault: caseRun.target.fault, faultHappened: false };
    return caseRun.armed;
  };
  const onRun = ({ workflow_id, kind, records }: WatchedRun) => {
    const caseRun = owners.get(workflow_id);
    if (caseRun?.requested)
      caseRun.runs.push({ kind, ordinal: caseRun.runs.filter((earlier) => earlier.kind === kind).length, records });
  };
  const fixture = await openOperationFixture({ ...brokenParts, findFault, onRun });
  const violations: Violation[] = [];
  try {
    await declareCasePools(fixture, caseRuns);
    const checks = await openInvariantChecks(fixture.db);
    const check = async () => {
      violations.push(...(await checks.check(now(fixture.clock), undisturbedRound)));
    };
    const pools = caseRuns.map(({ pool }) => pool);
    const refresh = async () => {
      const views = await readViews(fixture, pools);
      for (const caseRun of caseRuns) caseRun.view = views.get(caseRun.pool) ?? caseRun.view;
    };
    let failure: unknown;
    const running = caseRuns.map((caseRun) =>
      runCase(caseRun, casePoolOf(caseRun, fixture)).catch((error) => {
        failure ??= error;
      }),
    );
    await fixture.waitUntilIdle();
    for (let tick = 1; tick <= (brokenParts.max_ticks ?? maxTicks); tick++) {
      await fixture.tick();
      await refresh();
      for (const caseRun of caseRuns) {
        const { waiting } = caseRun;
        if (!waiting?.condition(caseRun.view)) continue;
        caseRun.waiting = undefined;
        caseRun.resumedAtTick = tick;
        waiting.resolve();
      }
      await fixture.waitUntilIdle();
      if (failure) throw failure;
      if (caseRuns.every(({ requested, resumedAtTick, view }) => requested && resumedAtTick < tick && isSettled(view)))
        break;
      if (tick % ticksPerCheck === 0) await check();
    }
    await Promise.race([Promise.all(running), fixture.waitUntilIdle()]);
    await check();
    violations.push(...(await checks.checkHistory()));
    const events = await fixture.db.query<CaseEvent>(eventsSql, [pools]);
    for (const caseRun of caseRuns) {
      caseRun.faultHappened = caseRun.armed?.faultHappened ?? false;
      caseRun.nodes = caseRun.view.nodes.map(({ status }) => status);
      caseRun.allocations = caseRun.view.allocations.map(({ status }) => status);
      caseRun.eventCounts = countEvents(caseRun, events);
      const machines = [...fixture.upstream.machines.values()].filter(({ pool }) => pool === caseRun.pool);
      caseRun.launches = machines.reduce((sum, { launches }) => sum + launches, 0);
      if (!caseRun.requested) caseRun.problems.push('the situation was never reached');
      else if (!isSettled(caseRun.view)) caseRun.problems.push(`does not settle: ${JSON.stringify(caseRun.view)}`);
      caseRun.problems.push(
        ...fixture.upstream.problems.filter(({ pool }) => pool === caseRun.pool).map(({ description }) => description),
        ...findLeaks(caseRun, fixture),
        ...violations
          .filter(({ sequence }) => privatePoolName(sequence) === caseRun.pool)
          .map(({ invariant, id, detail }) => `${invariant}: ${id} ${detail}`),
      );
    }
    const otherViolations = violations.filter(({ sequence }) => !byPool.has(privatePoolName(sequence)));
    if (otherViolations.length > 0)
      throw new Error(`an invariant is broken outside the cases: ${JSON.stringify(otherViolations)}`);
    return caseRuns;
  } finally {
    await fixture.close();
  }
}
