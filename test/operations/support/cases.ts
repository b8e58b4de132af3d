/**
 * Runs cases in parallel, each in its own pool, until nothing changes any more, and returns how
 * each ended.
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
import { heartbeat } from './agents.ts';
import type { Armed, FaultName, SeenStep } from './faults.ts';
import type { WatchedRun } from './runs.ts';
import type { Request, Site, Situation, View } from './situations.ts';
import { readViews } from './views.ts';
import { type Broken, openWorkshop, tickSeconds, type Workshop } from './workshop.ts';

/** A step of the n-th run of an operation after the request, and its fault. */
export interface Target {
  kind: string;
  ordinal: number;
  seen: SeenStep;
  fault: FaultName;
}

export interface Case {
  situation: Situation;
  request: Request;
  target?: Target;
}

export interface EndedCase extends Case {
  /** The request is not allowed in that situation. */
  refused: boolean;
  runs: { kind: string; ordinal: number; seen: SeenStep[] }[];
  reached: boolean;
  nodes: string[];
  allocations: string[];
  launches: number;
  /** Every transition, operation and task, with its count. */
  changes: string[];
  mistakes: string[];
}

const budgets = {
  ...{ queue_seconds: 40, provision_seconds: 40, start_seconds: 20, offline_seconds: 30 },
  ...{ drain_seconds: 20, release_seconds: 600, rescue_seconds: 40 },
};
const ownDocument = (name: string, pool: Partial<PoolDocument> = {}): PoolDocument => ({
  ...{ name, driver: 'yard', budgets, heartbeat },
  brake: { fraction: 1, min_nodes: 1_000_000 },
  release: { step_tries: 2, retry_base_seconds: 10, retry_max_seconds: 10 },
  ...pool,
});

const steadyRound = {
  ...{ advance_seconds: tickSeconds, racing: false, away: false, lagging: false },
  ...{ maintenance: null, endMaintenance: false, resumeBrake: false, turnMode: false },
};
const maxTicks = 350;
const ticksPerCheck = 15;

interface Stage extends EndedCase {
  pool: string;
  correlation_id: string;
  requested: boolean;
  /** The events in its pool before the request. */
  before: ReadonlySet<string>;
  /** The tick of its last action. */
  acted: number;
  view: View;
  waiting?: { condition: (view: View) => boolean; go: () => void } | undefined;
  armed?: Armed;
}

const nodesAtRest = ['ready', 'degraded', 'quarantined', 'retired'];
const isAtRest = ({ nodes, allocations, open }: View) =>
  open === 0 &&
  nodes.every(({ status }) => nodesAtRest.includes(status)) &&
  allocations.every(({ status, over }) => ['active', 'released'].includes(status) || (status === 'failed' && over));

const ownerSql = `
  select operation.correlation_id, coalesce(a.pool, n.pool, operation.params ->> 'pool') as pool
  from operations operation
  left join allocations a on a.allocation_id = operation.allocation_id
  left join nodes n on n.node_id = operation.node_id
  where operation.workflow_id = $1`;

/**
 * Everything that events in these pools, each event once. `changes` is a table of invariants.ts.
 */
const eventsSql = `
  select pool, key, what
  from (
    select pool, xid || '-' || seq as key,
      entity || ' ' || "from" || ' → ' || "to" || ' by ' || by as what
    from changes
    where "to" is not null
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
  what: string;
}

/** Only events since the request are compared, not how the situation came about. */
function changesOf({ pool, before }: Stage, events: readonly CaseEvent[]): string[] {
  const since = events.filter((each) => each.pool === pool && !before.has(each.key));
  return [...Map.groupBy(since, ({ what }) => what)].map(([what, all]) => `${all.length} × ${what}`).sort();
}

const joinSecret = (pool: string) => `swj_${pool}`;

function siteOf(stage: Stage, { services, agents }: Workshop): Site {
  const { pool } = stage;
  const caller = {
    actor: { kind: 'token' as const, id: 'tok_test', name: 'tester' },
    ...{ visibility: wholeFleet, correlation_id: stage.correlation_id as never, reason: 'for a test' },
  };
  return {
    ...{ pool, services, caller, view: () => stage.view },
    until: (condition) =>
      new Promise<void>((go) => {
        stage.waiting = { condition, go };
      }),
    arrive: () => agents.arrive(pool, joinSecret(pool), `m-${pool}`),
    killAgents: () => agents.kill(pool),
    repair: () => agents.repair(pool),
  };
}

async function play(stage: Stage, site: Site): Promise<void> {
  await stage.situation.bring(site);
  const events = await site.services.db.query<CaseEvent>(eventsSql, [[stage.pool]]);
  stage.before = new Set(events.map(({ key }) => key));
  stage.requested = true;
  try {
    stage.refused = !(await stage.request.send(site, { dry_run: false }));
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    stage.refused = true;
  }
  stage.situation.meanwhile?.(site);
}

async function prepare(workshop: Workshop, stages: Stage[]): Promise<void> {
  const at = now(workshop.clock);
  await workshop.db.transaction(async (tx) => {
    for (const { pool, situation } of stages) {
      const document = ownDocument(pool, situation.pool);
      await declarePool(tx, pool, document, at);
      if (situation.machines) workshop.upstream.behaviours.set(pool, [...situation.machines]);
      if (document.driver !== 'external') continue;
      const token = { token_id: newTokenId(workshop.clock), pool, expires_at: null, max_uses: null, created_at: at };
      await createJoinToken(tx, token, joinSecret(pool));
    }
  });
}

/** Every machine that exists upstream must belong to a live node. */
function findLeaks(stage: Stage, { upstream }: Workshop): string[] {
  const owned = new Set(
    stage.view.nodes.filter(({ status }) => status !== 'retired').map((node) => node.node_instance_id),
  );
  return [...upstream.machines.values()]
    .filter(
      (machine) => machine.pool === stage.pool && upstream.exists(machine) && !owned.has(machine.node_instance_id),
    )
    .map(({ node_instance_id, state }) => `machine ${node_instance_id} is ${state} upstream without an owner`);
}

export async function runCases(cases: readonly Case[], broken: Broken = {}): Promise<EndedCase[]> {
  const stages = cases.map(
    (each, index): Stage => ({
      ...each,
      before: new Set<string>(),
      ...{
        pool: `own-${index}`,
        correlation_id: newCorrelationId(),
        acted: 0,
        requested: false,
        refused: false,
        reached: false,
      },
      ...{ view: { nodes: [], allocations: [], open: 0 }, runs: [], mistakes: [], launches: 0 },
      ...{ nodes: [], allocations: [], changes: [] },
    }),
  );
  const byPool = new Map(stages.map((stage) => [stage.pool, stage]));
  const byCorrelation = new Map(stages.map((stage) => [stage.correlation_id, stage]));
  const owners = new Map<string, Stage>();

  const armedFor = async (run: OperationRun): Promise<Armed | undefined> => {
    const [row] = await workshop.db.query<{ correlation_id: string; pool: string | null }>(ownerSql, [run.workflow_id]);
    const stage = byCorrelation.get(row?.correlation_id ?? '') ?? byPool.get(row?.pool ?? '');
    if (!stage) throw new Error(`operation ${run.kind} belongs to no case: pass on the caller's correlation_id`);
    owners.set(run.workflow_id, stage);
    if (!stage.requested || stage.target?.kind !== run.kind) return undefined;
    const ordinal = stage.runs.filter(({ kind }) => kind === run.kind).length;
    if (ordinal !== stage.target.ordinal) return undefined;
    stage.armed = { ...stage.target.seen, fault: stage.target.fault, reached: false };
    return stage.armed;
  };
  const begun = ({ workflow_id, kind, seen }: WatchedRun) => {
    const stage = owners.get(workflow_id);
    if (stage?.requested)
      stage.runs.push({ kind, ordinal: stage.runs.filter((each) => each.kind === kind).length, seen });
  };
  const workshop = await openWorkshop({ ...broken, watch: armedFor, begun });
  const violations: Violation[] = [];
  try {
    await prepare(workshop, stages);
    const checks = await openInvariantChecks(workshop.db);
    const check = async () => {
      violations.push(...(await checks.check(now(workshop.clock), steadyRound)));
    };
    const pools = stages.map(({ pool }) => pool);
    const refresh = async () => {
      const views = await readViews(workshop, pools);
      for (const stage of stages) stage.view = views.get(stage.pool) ?? stage.view;
    };
    let failure: unknown;
    const plays = stages.map((stage) =>
      play(stage, siteOf(stage, workshop)).catch((error) => {
        failure ??= error;
      }),
    );
    await workshop.quiet();
    for (let tick = 1; tick <= (broken.max_ticks ?? maxTicks); tick++) {
      await workshop.tick();
      await refresh();
      for (const stage of stages) {
        const { waiting } = stage;
        if (!waiting?.condition(stage.view)) continue;
        stage.waiting = undefined;
        stage.acted = tick;
        waiting.go();
      }
      await workshop.quiet();
      if (failure) throw failure;
      if (stages.every(({ requested, acted, view }) => requested && acted < tick && isAtRest(view))) break;
      if (tick % ticksPerCheck === 0) await check();
    }
    await Promise.race([Promise.all(plays), workshop.quiet()]);
    await check();
    violations.push(...(await checks.checkHistory()));
    const events = await workshop.db.query<CaseEvent>(eventsSql, [pools]);
    for (const stage of stages) {
      stage.reached = stage.armed?.reached ?? false;
      stage.nodes = stage.view.nodes.map(({ status }) => status);
      stage.allocations = stage.view.allocations.map(({ status }) => status);
      stage.changes = changesOf(stage, events);
      const machines = [...workshop.upstream.machines.values()].filter(({ pool }) => pool === stage.pool);
      stage.launches = machines.reduce((sum, { launches }) => sum + launches, 0);
      if (!stage.requested) stage.mistakes.push('its situation was never reached');
      else if (!isAtRest(stage.view)) stage.mistakes.push(`still moves: ${JSON.stringify(stage.view)}`);
      stage.mistakes.push(
        ...workshop.upstream.mistakes.filter(({ pool }) => pool === stage.pool).map(({ what }) => what),
        ...findLeaks(stage, workshop),
        ...violations
          .filter(({ sequence }) => `own-${sequence}` === stage.pool)
          .map(({ invariant, id, what }) => `${invariant}: ${id} ${what}`),
      );
    }
    const elsewhere = violations.filter(({ sequence }) => !byPool.has(`own-${sequence}`));
    if (elsewhere.length > 0) throw new Error(`an invariant is broken: ${JSON.stringify(elsewhere)}`);
    return stages;
  } finally {
    await workshop.close();
  }
}
