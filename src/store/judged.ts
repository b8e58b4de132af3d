/** What is read of a node to judge it: what rules decide by and the door writes by. The rest of the row stays where it is. */
import type { AllocationId } from '../base/ids.ts';
import { holderOf } from './allocations.ts';
import type { Row, Transaction } from './database.ts';
import type { NodeRow } from './nodes.ts';

/** In these, machines that fall due together mostly agree. */
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
  /** The allocation whose node it is. */
  holder: AllocationId | null;
  /** Whether the provider was asked since the node stands where it stands; what it said is `observed_state`. */
  observed_since: boolean | null;
  /** Where the row lies; as long as it is locked, nothing moves it, and no index need be asked again. */
  tid: string;
  /** The same for nodes of one reading that share all that is listed above as shared; where unknown, nothing is. */
  alike?: number;
};

const found = { holder: holderOf('node.node_id'), tid: 'node.ctid::text' };
const seen = { observed_since: 'node.observed_at >= node.status_since' };

const ofNode = (columns: readonly string[]) =>
  Object.fromEntries(columns.map((column) => [column, `node.${column}`] as const));

const named = (columns: Record<string, string>) =>
  Object.entries(columns)
    .map(([name, sql]) => `${sql} as ${name}`)
    .join(', ');

/** Expects `node`. */
export const judgedColumns = named({ ...ofNode(shared), ...seen, ...ofNode(own), ...found });

type Cell = string | null;

const momentOf = (cell: Cell | undefined) => (cell ? new Date(cell) : null);

interface Reading {
  /** What is known of each besides, and only moments. */
  moments: Record<string, string>;
  /** What most have in common besides. */
  alike: Record<string, string>;
  /** The statement, from its `from` on. */
  rest: string;
}

/**
 * Reads hundreds of nodes at once, as few long values: taking them over row by row and value by value took longer than finding
 * and locking them. What nodes agree in is taken apart once for all that do.
 */
export async function readJudged<N extends JudgedNode>(
  tx: Transaction,
  { moments, alike, rest }: Reading,
  values: unknown[],
): Promise<N[]> {
  const each = { ...ofNode(own), ...found, ...moments };
  const common = { ...ofNode(shared), ...seen, ...alike };
  const [columns = {}] = await tx.query<Record<string, Cell[] | null>>(
    `select ${[...Object.keys(each), 'alike'].map((name) => `json_agg(${name}) as ${name}`).join(', ')}
     from (select ${named(each)}, json_build_array(${Object.values(common).join(', ')})::text as alike ${rest}) judged`,
    values,
    { often: true },
  );
  const cellsOf = (name: string) => columns[name] ?? [];
  const commonOf = createCommonReader(Object.keys(common));
  const [ids, zones] = [cellsOf('node_id'), cellsOf('zone')];
  const [instances, workflows] = [cellsOf('node_instance_id'), cellsOf('workflow_id')];
  const [correlations, holders, tids] = [cellsOf('correlation_id'), cellsOf('holder'), cellsOf('tid')];
  const [since, registered] = [cellsOf('status_since'), cellsOf('registered_at')];
  const deadlines = cellsOf('deadline_at');
  const others = Object.keys(moments).map((name) => ({ name, cells: cellsOf(name) }));
  return cellsOf('alike').map((cell, place) => {
    const node: Record<string, unknown> = {
      ...commonOf(cell),
      node_id: ids[place],
      zone: zones[place],
      node_instance_id: instances[place],
      workflow_id: workflows[place],
      correlation_id: correlations[place],
      holder: holders[place],
      tid: tids[place],
      status_since: momentOf(since[place]),
      registered_at: momentOf(registered[place]),
      deadline_at: momentOf(deadlines[place]),
    };
    for (const { name, cells } of others) node[name] = momentOf(cells[place]);
    return node as N;
  });
}

/** The same object for the same text, so that whoever meets it again knows it. */
function createCommonReader(names: readonly string[]): (cell: Cell) => Row {
  const known = new Map<Cell, Row>();
  return (cell) => {
    const met = known.get(cell);
    if (met) return met;
    const values = JSON.parse(cell ?? '[]') as unknown[];
    const common = { ...Object.fromEntries(names.map((name, place) => [name, values[place]])), alike: known.size };
    known.set(cell, common);
    return common;
  };
}
