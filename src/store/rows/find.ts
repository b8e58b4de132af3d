/** Resolves an id or a name to the ids of the objects that it stands for. */
import { type IdKind, kindOfId } from '../../base/ids.ts';
import type { FoundRequest } from '../../contract/fleet/find.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../pg/database.ts';
import { parameters } from '../pg/walk.ts';
import { andAll, everHeldNodes, ofOwnAllocation, ownRows } from '../visibility.ts';

/**
 * The ids to read. An id of a node, an allocation or an operation may be the caller's text without
 * a check of visibility, so the reads of these rows must check it.
 */
export interface ResolvedIds {
  nodes: string[];
  allocations: string[];
  operations: string[];
  residue: string[];
  findings: string[];
  node_instance_id: string | null;
  /** Whether the id is a correlation id. */
  as_request: boolean;
}

const noIds: ResolvedIds = {
  nodes: [],
  allocations: [],
  operations: [],
  residue: [],
  findings: [],
  node_instance_id: null,
  as_request: false,
};

/** Limits the ids of each kind, because one request may have touched a whole fleet. */
const maxOfEach = 50;
/** Reads at most this many facts of a request, or retired nodes of a name, newest first. */
const maxRead = 2_000;

type Ids = Partial<Record<'node_id' | 'allocation_id' | 'workflow_id', string | null>>;

const distinctIds = (rows: Ids[], name: keyof Ids): string[] =>
  [...new Set(rows.flatMap((row) => row[name] ?? []))].slice(0, maxOfEach);

const idsOf = (rows: Ids[]): ResolvedIds => ({
  ...noIds,
  nodes: distinctIds(rows, 'node_id'),
  allocations: distinctIds(rows, 'allocation_id'),
  operations: distinctIds(rows, 'workflow_id'),
});

type Resolve = (db: Queryable, id: string, visibility: Visibility) => Promise<ResolvedIds>;

/** A former tenant of a node finds its own allocations on it. */
const resolveNode: Resolve = async (db, id, visibility) => {
  if (visibility.kind === 'fleet') return { ...noIds, nodes: [id] };
  const { values, bind } = parameters();
  const rows = await db.query<Ids>(
    `select allocation_id from allocations
     where node_id = ${bind(id)} ${andAll(ownRows(visibility, 'allocations', bind))}
     order by allocation_id desc
     limit ${maxOfEach}`,
    values,
  );
  return { ...noIds, nodes: [id], allocations: distinctIds(rows, 'allocation_id') };
};

const resolveInstance: Resolve = async (db, id, visibility) => {
  if (visibility.kind === 'fleet') {
    const rows = await db.query<Ids>('select node_id from instances where node_instance_id = $1', [id]);
    return { ...idsOf(rows), node_instance_id: id };
  }
  const { values, bind } = parameters();
  const rows = await db.query<Ids>(
    `select distinct node_id, allocation_id from evidence
     where node_instance_id = ${bind(id)}
       and layer <> 'rule'
       ${andAll(ofOwnAllocation(visibility, 'evidence', bind))}
     limit ${maxOfEach}`,
    values,
  );
  return { ...idsOf(rows), node_instance_id: id };
};

const resolveTask: Resolve = async (db, id, visibility) => {
  const { values, bind } = parameters();
  const rows = await db.query<Ids>(
    `select node_id, allocation_id, workflow_id from tasks
     where task_id = ${bind(id)} ${andAll(ofOwnAllocation(visibility, 'tasks', bind))}`,
    values,
  );
  return idsOf(rows);
};

/** Residue and findings are for operators of the whole fleet. */
const visibleToFleet = (id: string, visibility: Visibility): string[] => (visibility.kind === 'fleet' ? [id] : []);

const resolvers: Partial<Record<IdKind, Resolve>> = {
  node: resolveNode,
  instance: resolveInstance,
  allocation: async (_, id) => ({ ...noIds, allocations: [id] }),
  workflow: async (_, id) => ({ ...noIds, operations: [id] }),
  task: resolveTask,
  residue: async (_, id, visibility) => ({ ...noIds, residue: visibleToFleet(id, visibility) }),
  finding: async (_, id, visibility) => ({ ...noIds, findings: visibleToFleet(id, visibility) }),
};

const resolveRequest: Resolve = async (db, id, visibility) => {
  const { values, bind } = parameters();
  const rows = await db.query<Ids>(
    `select node_id, allocation_id, workflow_id from evidence
     where correlation_id = ${bind(id)} ${andAll(ofOwnAllocation(visibility, 'evidence', bind))}
     order by evidence.xid desc, evidence.seq desc
     limit ${maxRead}`,
    values,
  );
  return { ...idsOf(rows), as_request: rows.length > 0 };
};

function findAllocationsByName(db: Queryable, name: string, visibility: Visibility): Promise<Ids[]> {
  const { values, bind } = parameters();
  return db.query<Ids>(
    `select allocation_id from allocations
     where name = ${bind(name)} ${andAll(ownRows(visibility, 'allocations', bind))}
     order by allocation_id desc
     limit ${maxOfEach}`,
    values,
  );
}

/** Finds live nodes by the index on (pool, name), and retired nodes by another index. */
function findNodesByName(db: Queryable, text: string, visibility: Visibility): Promise<Ids[]> {
  const { values, bind } = parameters();
  const name = bind(text);
  return db.query<Ids>(
    `select node_id from (
       select node_id, status
       from pools pool
       join nodes on nodes.pool = pool.name and nodes.name = ${name} and nodes.status <> 'retired'
       union all (
         select node_id, status from nodes
         where name = ${name} and status = 'retired'
         order by node_id desc
         limit ${maxRead}
       )
     ) named
     where true ${andAll(everHeldNodes(visibility, 'named.node_id', bind))}
     order by status = 'retired', node_id desc
     limit ${maxOfEach}`,
    values,
  );
}

const resolveName: Resolve = async (db, name, visibility) => {
  const allocations = await findAllocationsByName(db, name, visibility);
  return idsOf([...allocations, ...(await findNodesByName(db, name, visibility))]);
};

/** Text without one of our prefixes is a correlation id from outside, or a name. */
const resolveOtherText: Resolve = async (db, text, visibility) => {
  const request = await resolveRequest(db, text, visibility);
  return request.as_request ? request : resolveName(db, text, visibility);
};

export async function resolveId(db: Queryable, id: string, visibility: Visibility): Promise<ResolvedIds> {
  const kind = kindOfId(id);
  const resolve = kind && resolvers[kind];
  return resolve ? resolve(db, id, visibility) : resolveOtherText(db, id, visibility);
}

/** Reads the requests that touched an allocation, oldest first, each with its first fact. */
export async function readRequests(db: Queryable, allocation_id: string): Promise<FoundRequest[]> {
  const rows = await db.query<Omit<FoundRequest, 'at'> & { at: Date }>(
    `select * from (
       select distinct on (correlation_id) correlation_id, at, summary, actor ->> 'name' as actor
       from evidence
       where allocation_id = $1
         and correlation_id is not null
       order by correlation_id, evidence.xid, evidence.seq
     ) first
     order by at, correlation_id
     limit ${maxOfEach}`,
    [allocation_id],
  );
  return rows.map((row) => ({ ...row, at: row.at.toISOString() }));
}
