/**
 * Supervises agentless machines. An inspection in which the provider shows the machine counts as a
 * heartbeat, and the machine's state at the provider counts as its report. Verdicts are held while
 * the provider does not answer.
 */
import { secondsLater } from '../../base/clock.ts';
import type { Held } from '../../contract/node.ts';
import {
  defaultIntervalSeconds,
  effectiveStaleSeconds,
  heartbeatPolicy,
} from '../../lifecycle/deadlines/heartbeat-policy.ts';
import type { Beat } from '../heartbeats/heartbeat-columns.ts';
import { storeBeats } from '../heartbeats/store-heartbeats.ts';
import type { Database, Queryable, Transaction } from '../pg/database.ts';
import { lockNode, type NodeRow } from '../rows/nodes.ts';
import { listPoolsOfDrivers } from '../rows/pools.ts';
import { amendNodes } from '../transitions/amend-node.ts';
import type { NodeMove } from '../transitions/node-move.ts';
import { transition } from '../transitions/node-transition.ts';
import type { TransitionEnvironment } from '../transitions/transition-rules.ts';
import { holdNodes } from './brake.ts';
import type { ExpectedMachine } from './machine-inspections.ts';

export interface AgentlessMachine extends ExpectedMachine {
  heartbeat: Parameters<typeof heartbeatPolicy>[0] | null;
}

const intervalSeconds = `coalesce((generation.document -> 'heartbeat' ->> 'interval_seconds')::real, ${defaultIntervalSeconds})`;

/** Returns machines of these drivers that were not seen for an interval, longest unseen first. */
export async function findAgentlessMachinesToInspect(
  db: Queryable,
  drivers: readonly string[],
  except: readonly string[],
  now: Date,
  limit: number,
): Promise<AgentlessMachine[]> {
  // Passes the names of the pools to the planner, which would otherwise scan the fleet.
  const pools = await listPoolsOfDrivers(db, drivers);
  if (pools.length === 0) return [];
  return db.query<AgentlessMachine>(
    `select
       node.node_id, node.node_instance_id, node.pool, node.name, node.zone, node.status, node.status_since,
       node.workflow_id, node.correlation_id, pool.driver, instance.driver_state,
       coalesce(generation.document -> 'spec', '{}') as spec,
       generation.document -> 'heartbeat' as heartbeat
     from nodes node
     join pools pool on pool.name = node.pool
     join instances instance on instance.node_instance_id = node.node_instance_id
     join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
     left join heartbeats beat on beat.node_instance_id = node.node_instance_id
     where node.pool = any($1)
       and node.status in ('ready', 'degraded', 'offline')
       and node.node_id <> all($2)
       and coalesce(beat.last_seen_at, '-infinity') <= $3::timestamptz - make_interval(secs => ${intervalSeconds})
     order by beat.last_seen_at nulls first, node.node_id
     limit $4`,
    [pools, except, now, limit],
  );
}

/** A machine and the provider's answer about it. */
export interface Sighting {
  machine: AgentlessMachine;
  seen: { state: string; present: boolean; ready: boolean; detail: string | null };
}

/** The interval between inspections, and the time without an answer until the machine is stale. */
export function inspectionPace({ heartbeat }: Pick<AgentlessMachine, 'heartbeat'>) {
  const { interval_seconds, stale_after_seconds } = heartbeatPolicy(heartbeat ?? {});
  return { interval_seconds, stale_seconds: effectiveStaleSeconds(stale_after_seconds, interval_seconds) };
}

const beatOf = ({ machine }: Sighting, now: Date): Beat => ({
  node_instance_id: machine.node_instance_id,
  received_ms: now.getTime(),
  ...inspectionPace(machine),
  has_assigned_interval: false,
  reported: null,
});

/** Locks the nodes that still have the inspected instance. */
const lockInspected = (
  tx: Transaction,
  machines: readonly AgentlessMachine[],
): Promise<(NodeRow & { last_seen_at: Date | null })[]> =>
  tx.query(
    `select
       node.*,
       (select last_seen_at from heartbeats beat where beat.node_instance_id = node.node_instance_id) as last_seen_at
     from nodes node
     join unnest($1::text[], $2::text[]) as inspected(node_id, node_instance_id)
       on inspected.node_id = node.node_id
       and inspected.node_instance_id = node.node_instance_id
     where node.status in ('ready', 'degraded', 'offline')
     order by node.node_id
     for no key update of node`,
    [machines.map(({ node_id }) => node_id), machines.map(({ node_instance_id }) => node_instance_id)],
  );

const summaryOf = ({ state, detail }: Sighting['seen']) =>
  `its provider shows it as ${state}${detail ? ` (${detail})` : ''}`;

/** Decides which move a sighting causes, by the same rules as for an agent's report. */
function moveOf(node: NodeRow, { machine, seen }: Sighting, now: Date, { decide }: TransitionEnvironment): NodeMove[] {
  const status = seen.ready ? ('ready' as const) : ('degraded' as const);
  const { stale_seconds } = inspectionPace(machine);
  const change = decide.effectOfBeat({ ...node, stale_seconds }, { status }, now);
  if (!change) return [];
  const { node_id, node_instance_id } = machine;
  const move = { ...change, reason: summaryOf(seen), node_id, node_instance_id, from: [node.status] };
  return [{ ...move, set: { reported_status: status }, data: { observed: seen.state } }];
}

/** Records sightings in one transaction. Returns how many nodes changed their status. */
export function recordSightings(
  db: Database,
  sightings: readonly Sighting[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<number> {
  const sightingOf = new Map(sightings.map((sighting) => [sighting.machine.node_id, sighting]));
  return db.transaction(async (tx) => {
    const nodes = await lockInspected(
      tx,
      sightings.map(({ machine }) => machine),
    );
    const pairs = nodes.flatMap((node) => {
      const sighting = sightingOf.get(node.node_id);
      return sighting ? [{ node, sighting }] : [];
    });
    const present = pairs.filter(({ sighting }) => sighting.seen.present);
    await storeBeats(
      tx,
      present.map(({ sighting }) => beatOf(sighting, now)),
    );
    await amendNodes(
      tx,
      pairs
        .filter(({ node, sighting }) => node.observed_state !== sighting.seen.state)
        .map(({ node, sighting: { seen } }) => ({
          node,
          set: { observed_state: seen.state, observed_at: now },
          fact: { at: now, layer: 'provider', kind: 'node.observed', summary: summaryOf(seen) },
        })),
    );
    await liftHolds(
      tx,
      pairs.map(({ node }) => node),
      now,
    );
    const moves = present.flatMap(({ node, sighting }) => moveOf(node, sighting, now, environment));
    const outcomes = await transition(tx, moves, now, environment);
    return outcomes.filter(({ moved }) => moved).length;
  });
}

const isHeldForProvider = ({ held }: Pick<NodeRow, 'held'>) => held?.kind === 'provider-away';

/** Lifts holds because the provider answers again, even if it does not show the machine. */
const liftHolds = (tx: Transaction, nodes: NodeRow[], now: Date) =>
  amendNodes(
    tx,
    nodes.filter(isHeldForProvider).map((node) => ({
      node,
      set: { held: null },
      fact: { at: now, layer: 'rule', kind: 'node.held_over', summary: 'the provider answers again' },
    })),
  );

/** A single failed inspection is normal, so only a machine that is nearly stale needs a hold. */
const isNearlySilent = (last_seen_at: Date | null, machine: AgentlessMachine, now: Date): boolean => {
  const { interval_seconds, stale_seconds } = inspectionPace(machine);
  return last_seen_at === null || secondsLater(last_seen_at, stale_seconds - 1.5 * interval_seconds) <= now;
};

/** Renewed long before it ends, so that a late inspection still renews a hold in time. */
const holdIntervals = 6;
const renewIntervals = 3;

const expiresSoon = ({ held }: Pick<NodeRow, 'held'>, interval_seconds: number, now: Date) =>
  Date.parse(held?.held_until ?? '') < secondsLater(now, renewIntervals * interval_seconds).getTime();

/** Holds liveness verdicts while the provider itself does not answer. */
export function holdUnseen(
  db: Database,
  unseen: readonly { machine: AgentlessMachine; because: string }[],
  now: Date,
): Promise<void> {
  const byNode = new Map(unseen.map((each) => [each.machine.node_id, each]));
  return db.transaction(async (tx) => {
    const nodes = await lockInspected(
      tx,
      unseen.map(({ machine }) => machine),
    );
    const held = nodes.flatMap((node) => {
      const inspection = byNode.get(node.node_id);
      if (!inspection || node.status === 'offline') return [];
      const { machine, because } = inspection;
      if (!isNearlySilent(node.last_seen_at, machine, now)) return [];
      const { interval_seconds } = inspectionPace(machine);
      if (node.held && !(isHeldForProvider(node) && expiresSoon(node, interval_seconds, now))) return [];
      const hold: Held = {
        ...{ rule: 'liveness', to: 'offline', kind: 'provider-away', hold: 'provider-away' },
        reason: `the provider did not answer about this machine: ${because}`,
        since: node.held?.since ?? now.toISOString(),
        held_until: secondsLater(now, holdIntervals * interval_seconds).toISOString(),
      };
      return [{ node, held: hold }];
    });
    await holdNodes(tx, held, now);
  });
}

/** Assumed interval, with some margin, between the inspections of a starting machine. */
const startInspectionSeconds = 10;

/** Holds the start deadline of a machine while its provider does not answer. */
export function holdStarting(
  db: Database,
  { node_id, node_instance_id }: Pick<NodeRow, 'node_id' | 'node_instance_id'>,
  because: string,
  now: Date,
): Promise<void> {
  return db.transaction(async (tx) => {
    const node = await lockNode(tx, node_id);
    if (node?.status !== 'starting' || node.node_instance_id !== node_instance_id) return;
    if (node.held && !(isHeldForProvider(node) && expiresSoon(node, startInspectionSeconds, now))) return;
    const held: Held = {
      ...{ rule: 'start-deadline', to: 'failed', kind: 'provider-away', hold: 'provider-away' },
      reason: `the provider did not answer about this machine: ${because}`,
      since: node.held?.since ?? now.toISOString(),
      held_until: secondsLater(now, holdIntervals * startInspectionSeconds).toISOString(),
    };
    await holdNodes(tx, [{ node, held }], now);
  });
}

/** Lifts the hold of `holdStarting` once the provider answers. */
export const liftStartingHold = (db: Database, node: Pick<NodeRow, 'node_id' | 'held'>, now: Date): Promise<void> =>
  isHeldForProvider(node)
    ? db.transaction(async (tx) => {
        const locked = await lockNode(tx, node.node_id);
        if (locked) await liftHolds(tx, [locked], now);
      })
    : Promise.resolve();
