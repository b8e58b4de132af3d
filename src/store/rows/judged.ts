/**
 * Reads the columns of nodes that rules judge by and that transitions need, for many nodes at once.
 */
import type { AllocationId } from '../../base/ids.ts';
import type { AllocationStatus } from '../../lifecycle/model/states.ts';
import type { Transaction } from '../pg/database.ts';
import { holderOf } from './allocations.ts';
import type { NodeRow } from './nodes.ts';

/** Nodes that fall due together mostly agree in these columns. */
const shared = [
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

const own = [
  'node_id',
  'zone',
  'node_instance_id',
  'workflow_id',
  'correlation_id',
  'status_since',
  'registered_at',
  'deadline_at',
] as const satisfies (keyof NodeRow)[];

export type JudgedNode = Pick<NodeRow, (typeof shared)[number] | (typeof own)[number]> & {
  /** The allocation that it belongs to; see `holderOf`. */
  holder: AllocationId | null;
  /** Its status, if it was read. It changes only under the node's row lock. */
  holder_status?: AllocationStatus;
  /** Whether `observed_state` was read from the provider since the last change of status. */
  observed_since: boolean | null;
  /** The row's ctid. It is stable while the row is locked, so an update needs no index lookup. */
  tid: string;
  /** Equal for nodes of one read that agree in all `shared` columns; undefined if unknown. */
  alike?: number;
};

const found = { holder: holderOf('node.node_id'), tid: 'node.ctid::text' };
/** Status and id in one value, since each value of each row has a cost. */
const holderWithStatus = holderOf('node.node_id', `last.status || ' ' || last.allocation_id`);
const observed = { observed_since: 'node.observed_at >= node.status_since' };

const ofNode = (columns: readonly string[]) =>
  Object.fromEntries(columns.map((column) => [column, `node.${column}`] as const));

const named = (columns: Record<string, string>) =>
  Object.entries(columns)
    .map(([name, sql]) => `${sql} as ${name}`)
    .join(', ');

/** Expects `node`. */
export const judgedColumns = named({ ...ofNode(shared), ...observed, ...ofNode(own), ...found });

type Cell = string | null;

/** Parses times. Adjacent nodes often share a time, so the last one is cached. */
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

interface Reading {
  /** Further columns of each node, all of them times. */
  moments: Record<string, string>;
  /** Further columns in which most nodes agree. */
  alike: Record<string, string>;
  /** Aggregates over all rows, which must be times. */
  once?: Record<string, string>;
  /** The statement from `from` on. */
  rest: string;
}

type Common = Pick<JudgedNode, (typeof shared)[number] | 'observed_since'> & {
  alike: number;
  others: [string, unknown][];
};

/** Returns the same object for the same text, so that it is parsed once. */
function commonReader(names: readonly string[], besides: readonly string[]): (cell: Cell) => Common {
  const known = new Map<Cell, Common>();
  return (cell) => {
    const met = known.get(cell);
    if (met) return met;
    const values = JSON.parse(cell ?? '[]') as unknown[];
    const read = Object.fromEntries(names.map((name, place) => [name, values[place]]));
    const others = besides.map((name): [string, unknown] => [name, read[name]]);
    const common = { ...read, alike: known.size, others } as Common;
    known.set(cell, common);
    return common;
  };
}

/**
 * Reads hundreds of nodes as a few aggregated columns: transferring single rows took longer than
 * finding and locking them. Columns in which nodes agree are parsed once.
 */
export async function readJudged<N extends JudgedNode>(
  tx: Transaction,
  { moments, alike, once = {}, rest }: Reading,
  values: unknown[],
): Promise<N[]> {
  const each = { ...ofNode(own), ...found, holder: holderWithStatus, ...moments };
  const common = { ...ofNode(shared), ...observed, ...alike };
  const aggregates = [...Object.keys(each), 'alike'].map((name) => `json_agg(${name}) as ${name}`);
  const [columns = {}] = await tx.query<Record<string, Cell[] | Date | null>>(
    `select ${[...aggregates, ...Object.entries(once).map(([name, sql]) => `${sql} as ${name}`)].join(', ')}
     from (
       select ${named(each)}, json_build_array(${Object.values(common).join(', ')})::text as alike
       ${rest}
     ) judged`,
    values,
    { often: true },
  );
  const cellsOf = (name: string) => (columns[name] ?? []) as Cell[];
  const same = Object.keys(once).map((name): [string, unknown] => [name, columns[name]]);
  const commonOf = commonReader(Object.keys(common), Object.keys(alike));
  const [ids, zones] = [cellsOf('node_id'), cellsOf('zone')] as [JudgedNode['node_id'][], Cell[]];
  const instances = cellsOf('node_instance_id') as JudgedNode['node_instance_id'][];
  const workflows = cellsOf('workflow_id') as JudgedNode['workflow_id'][];
  const correlations = cellsOf('correlation_id') as JudgedNode['correlation_id'][];
  const holders = cellsOf('holder').map(parseHolder);
  const tids = cellsOf('tid') as string[];
  const [since, registered] = [timeReader(cellsOf('status_since')), timeReader(cellsOf('registered_at'))];
  const deadline = timeReader(cellsOf('deadline_at'));
  const others = Object.keys(moments).map((name) => ({ name, at: timeReader(cellsOf(name)) }));
  // One object literal: adding fields one by one, or spreading, takes several times as long.
  return cellsOf('alike').map((cell, place) => {
    const kind = commonOf(cell);
    const node = {
      node_id: ids[place],
      zone: zones[place],
      node_instance_id: instances[place],
      workflow_id: workflows[place],
      correlation_id: correlations[place],
      holder: holders[place]?.id ?? null,
      tid: tids[place],
      status_since: since(place),
      registered_at: registered(place),
      deadline_at: deadline(place),
      pool: kind.pool,
      pool_generation: kind.pool_generation,
      status: kind.status,
      budget_seconds: kind.budget_seconds,
      budget_source: kind.budget_source,
      requested_provision_seconds: kind.requested_provision_seconds,
      waiting_for: kind.waiting_for,
      prerequisites: kind.prerequisites,
      reported_status: kind.reported_status,
      observed_state: kind.observed_state,
      observed_since: kind.observed_since,
      drain_then: kind.drain_then,
      held: kind.held,
      alike: kind.alike,
    };
    const besides: Record<string, unknown> = node;
    const holder = holders[place];
    if (holder) besides.holder_status = holder.status;
    for (const [name, value] of kind.others) besides[name] = value;
    for (const [name, value] of same) besides[name] = value;
    for (const { name, at } of others) besides[name] = at(place);
    return node as unknown as N;
  });
}
