/** Handles the sweeps, the brake and maintenance windows. */
import { iso, moment, now, secondsBetween } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Brake, Maintenance } from '../../contract/supervision/supervision.ts';
import { isNodeRule, nodeRules } from '../../lifecycle/model/rules.ts';
import { countHeld } from '../../store/rows/counts.ts';
import { endWindow, listWindows, type MaintenanceRow, putWindow } from '../../store/rows/maintenance.ts';
import { currentPool } from '../../store/rows/pools.ts';
import { type HoldRow, readNewestHolds, resumeHolds } from '../../store/supervision/brake.ts';
import { readNewestGaps, readStoredThrough } from '../../store/supervision/ingest-gaps.ts';
import { actorOf } from '../http/callers.ts';
import type { ApiServices, Handlers } from '../services.ts';

const maxHolds = 50;
const maxGaps = 20;

const holdWire = (hold: HoldRow): Brake['holds'][number] => ({
  ...hold,
  effect: (isNodeRule(hold.rule) && nodeRules[hold.rule].en_masse) || 'hold',
  since: hold.since.toISOString(),
  held_until: hold.held_until.toISOString(),
  resumed_at: iso(hold.resumed_at),
  ended_at: iso(hold.ended_at),
});

const windowWire = ({ created_at: _, ...window }: MaintenanceRow): Maintenance => ({
  ...window,
  starts_at: window.starts_at.toISOString(),
  ends_at: window.ends_at.toISOString(),
});

async function readBrake({ db, clock }: ApiServices): Promise<Brake> {
  const at = now(clock);
  // Run one query after the other: after a resume, they share the connection of its transaction.
  const held = await countHeld(db);
  const holds = await readNewestHolds(db, maxHolds);
  const gaps = await readNewestGaps(db, maxGaps);
  const storedThrough = await readStoredThrough(db, at);
  const windows = await listWindows(db, at);
  return {
    at: at.toISOString(),
    holding: held.length > 0 || holds.some((hold) => hold.ended_at === null && hold.resumed_at === null),
    held: held.map(({ rule, kind, count }) => ({ rule, kind, nodes: count })),
    holds: holds.map(holdWire),
    gaps: gaps.map((gap) => ({
      started_at: gap.started_at.toISOString(),
      ended_at: gap.ended_at.toISOString(),
      seconds: secondsBetween(gap.started_at, gap.ended_at),
      cause: gap.cause,
      deadlines_moved: gap.nodes_moved + gap.allocations_moved,
    })),
    heard_through: iso(storedThrough),
    maintenance: windows.map(windowWire),
  };
}

type SupervisionRoutes =
  | 'sweep-list'
  | 'brake-get'
  | 'brake-resume'
  | 'maintenance-list'
  | 'maintenance-put'
  | 'maintenance-delete';

export const supervisionHandlers: Pick<Handlers, SupervisionRoutes> = {
  'sweep-list': async (_, services) => ({
    replica_id: services.executor.replica_id,
    items: services.sweeps().map((sweep) => ({
      ...sweep,
      last_run_at: iso(sweep.last_run_at),
      failed_at: iso(sweep.failed_at),
    })),
  }),
  'brake-get': (_, services) => readBrake(services),
  async 'brake-resume'({ body, person }, services) {
    const at = now(services.clock);
    const resumed = await services.db.transaction((tx) => resumeHolds(tx, { ...body, actor: actorOf(person()) }, at));
    if (body.hold_id !== undefined && resumed.length === 0) throw new ApiProblem('hold_not_found');
    return readBrake(services);
  },
  'maintenance-list': async (_, { db, clock }) => ({
    items: (await listWindows(db, now(clock))).map(windowWire),
    next_cursor: null,
  }),
  async 'maintenance-put'({ params, body, person }, services) {
    const at = now(services.clock);
    const window: MaintenanceRow = {
      name: params.name,
      pool: body.pool ?? null,
      zone: body.zone ?? null,
      labels: body.labels ?? {},
      starts_at: body.starts_at ? moment(Date.parse(body.starts_at)) : at,
      ends_at: moment(Date.parse(body.ends_at)),
      reason: body.reason,
      actor: actorOf(person()),
      created_at: at,
    };
    if (window.ends_at <= window.starts_at || window.ends_at <= at)
      throw new ApiProblem('invalid_request', {
        detail: 'The window must end in the future, and after it starts.',
        errors: [{ path: '/body/ends_at', message: 'must be later than now and than starts_at' }],
      });
    if (!window.pool && !window.zone && Object.keys(window.labels).length === 0)
      throw new ApiProblem('invalid_request', {
        detail: 'Name a pool, a zone or labels: a window over the whole fleet would hide every failure.',
        errors: [{ path: '/body', message: 'must name pool, zone or labels' }],
      });
    if (window.pool !== null && !(await currentPool(services.db, window.pool)))
      throw new ApiProblem('pool_not_found', `There is no pool named ${window.pool}.`);
    return windowWire(await services.db.transaction((tx) => putWindow(tx, window)));
  },
  async 'maintenance-delete'({ params, person }, services) {
    const ended = await services.db.transaction((tx) =>
      endWindow(tx, params.name, actorOf(person()), now(services.clock)),
    );
    if (!ended) throw new ApiProblem('maintenance_not_found');
    return undefined;
  },
};
