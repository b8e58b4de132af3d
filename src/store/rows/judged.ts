/** Reads, for many nodes at once, the columns that rules and transitions need. */
import type { AllocationId } from '../../base/ids.ts';
import type { AllocationStatus } from '../../lifecycle/model/states.ts';
import type { Transaction } from '../pg/database.ts';
import { holderOf } from './allocations.ts';
import type { NodeRow } from './nodes.ts';

/** Nodes that fall due together mostly agree in these columns, so equal values are parsed once. */
const sharedColumns = [
  'pool',
  'pool_generation',
  'status',
  'budget_seconds',
  'budget_source',
  'requested_provision_seconds',
  'waiting_for',
  'prerequisites',
  'reported_status',
  'observed_state',
  'drain_then',
  'held',
] as const satisfies (keyof NodeRow)[];

const ownColumns = [
  'node_id',
  'zone',
  'node_instance_id',
  'workflow_id',
  'correlation_id',
  'status_since',
  'registered_at',
  'deadline_at',
] as const satisfies (keyof NodeRow)[];

export type JudgedNode = Pick<NodeRow, (typeof sharedColumns)[number] | (typeof ownColumns)[number]> & {
  /** The allocation that the node belongs to; see `holderOf`. */
  holder: AllocationId | null;
  /** The holder's status, if it was read. It changes only under the node's row lock. */
  holder_status?: AllocationStatus;
  /** Whether `observed_state` was read from the provider since the last change of status. */
  observed_since: boolean | null;
  /** Equal for nodes of one read that agree in all `sharedColumns`; undefined if unknown. */
  alike?: number;
};

/** Returns status and id in one value, because each value of each row costs time. */
const holderWithStatus = holderOf('node.node_id', `last.status || ' ' || last.allocation_id`);
const observation = { observed_since: 'node.observed_at >= node.status_since' };

const nodeColumns = (columns: readonly string[]) =>
  Object.fromEntries(columns.map((column) => [column, `node.${column}`] as const));

const selectList = (columns: Record<string, string>) =>
  Object.entries(columns)
    .map(([name, sql]) => `${sql} as ${name}`)
    .join(', ');

/** The same columns for a plain select. Expects the alias `node`. */
export const judgedColumns = selectList({
  ...nodeColumns(sharedColumns),
  ...observation,
  ...nodeColumns(ownColumns),
  holder: holderOf('node.node_id'),
});

type Cell = string | null;

/** Parses times. Adjacent nodes often have the same time, so the last parsed one is reused. */
function timeReader(cells: readonly Cell[]): (place: number) => Date | null {
  let last: Cell = null;
  let moment: Date | null = null;
  return (place) => {
    const cell = cells[place] ?? null;
    if (cell !== last) {
      last = cell;
      moment = cell === null ? null : new Date(cell);
    }
    return moment;
  };
}

const parseHolder = (cell: Cell) => {
  if (cell === null) return null;
  const [status, id] = cell.split(' ');
  return { status, id };
};

interface JudgedQuery {
  /** Further columns that differ between nodes. All must be times. */
  times: Record<string, string>;
  /** Further columns in which most nodes agree. */
  shared: Record<string, string>;
  /** Expressions that are evaluated once for all nodes. All must be times. */
  once?: Record<string, string>;
  /** The statement from its `from` clause on. */
  from: string;
}

type Common = Pick<JudgedNode, (typeof sharedColumns)[number] | 'observed_since'> & {
  alike: number;
  extras: [string, unknown][];
};

/** Returns the same object for the same text, so that each distinct text is parsed once. */
function commonReader(names: readonly string[], extraNames: readonly string[]): (cell: Cell) => Common {
  const cache = new Map<Cell, Common>();
  return (cell) => {
    const cached = cache.get(cell);
    if (cached) return cached;
    const values = JSON.parse(cell ?? '[]') as unknown[];
    const byName = Object.fromEntries(names.map((name, place) => [name, values[place]]));
    const extras = extraNames.map((name): [string, unknown] => [name, byName[name]]);
    const common = { ...byName, alike: cache.size, extras } as Common;
    cache.set(cell, common);
    return common;
  };
}

/**
 * Reads hundreds of nodes as one row of aggregated columns, because transferring single rows took
 * longer than finding and locking them.
 */
export async function readJudged<N extends JudgedNode>(
  tx: Transaction,
  { times, shared, once = {}, from }: JudgedQuery,
  values: unknown[],
): Promise<N[]> {
  const each = { ...nodeColumns(ownColumns), holder: holderWithStatus, ...times };
  const common = { ...nodeColumns(sharedColumns), ...observation, ...shared };
  const aggregates = [...Object.keys(each), 'alike'].map((name) => `json_agg(${name}) as ${name}`);
  const [columns = {}] = await tx.query<Record<string, Cell[] | Date | null>>(
    `select ${[...aggregates, ...Object.entries(once).map(([name, sql]) => `${sql} as ${name}`)].join(', ')}
     from (
       select ${selectList(each)}, json_build_array(${Object.values(common).join(', ')})::text as alike
       ${from}
     ) judged`,
    values,
    { prepared: true },
  );
  const cellsOf = (name: string) => (columns[name] ?? []) as Cell[];
  const onceValues = Object.keys(once).map((name): [string, unknown] => [name, columns[name]]);
  const commonOf = commonReader(Object.keys(common), Object.keys(shared));
  const [ids, zones] = [cellsOf('node_id'), cellsOf('zone')] as [JudgedNode['node_id'][], Cell[]];
  const instances = cellsOf('node_instance_id') as JudgedNode['node_instance_id'][];
  const workflows = cellsOf('workflow_id') as JudgedNode['workflow_id'][];
  const correlations = cellsOf('correlation_id') as JudgedNode['correlation_id'][];
  const holders = cellsOf('holder').map(parseHolder);
  const [since, registered] = [timeReader(cellsOf('status_since')), timeReader(cellsOf('registered_at'))];
  const deadline = timeReader(cellsOf('deadline_at'));
  const extraTimes = Object.keys(times).map((name) => ({ name, at: timeReader(cellsOf(name)) }));
  // One object literal: adding fields one by one, or spreading, takes several times as long.
  return cellsOf('alike').map((cell, place) => {
    const group = commonOf(cell);
    const node = {
      node_id: ids[place],
      zone: zones[place],
      node_instance_id: instances[place],
      workflow_id: workflows[place],
      correlation_id: correlations[place],
      holder: holders[place]?.id ?? null,
      status_since: since(place),
      registered_at: registered(place),
      deadline_at: deadline(place),
      pool: group.pool,
      pool_generation: group.pool_generation,
      status: group.status,
      budget_seconds: group.budget_seconds,
      budget_source: group.budget_source,
      requested_provision_seconds: group.requested_provision_seconds,
      waiting_for: group.waiting_for,
      prerequisites: group.prerequisites,
      reported_status: group.reported_status,
      observed_state: group.observed_state,
      observed_since: group.observed_since,
      drain_then: group.drain_then,
      held: group.held,
      alike: group.alike,
    };
    const fields: Record<string, unknown> = node;
    const holder = holders[place];
    if (holder) fields.holder_status = holder.status;
    for (const [name, value] of group.extras) fields[name] = value;
    for (const [name, value] of onceValues) fields[name] = value;
    for (const { name, at } of extraTimes) fields[name] = at(place);
    return node as unknown as N;
  });
}
