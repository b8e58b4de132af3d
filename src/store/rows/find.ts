/** What an id or a name stands for. Each way to look is a row of one table, and each sees only what its tenant may. */
import { type IdKind, kindOfId } from '../../base/ids.ts';
import type { FoundRequest } from '../../contract/find.ts';
import type { Queryable } from '../pg/database.ts';

/** The ids of what was meant; whether their rows may be seen is asked again when they are read. */
export interface Meant {
  nodes: string[];
  allocations: string[];
  operations: string[];
  residue: string[];
  findings: string[];
  node_instance_id: string | null;
  as_request: boolean;
}

const nothing: Meant = {
  nodes: [],
  allocations: [],
  operations: [],
  residue: [],
  findings: [],
  node_instance_id: null,
  as_request: false,
};

/** A request may have touched a whole fleet; so many of each are told. */
const most = 50;
/** So many facts of a request are looked through, newest first. */
const mostFacts = 2_000;

type Ids = Partial<Record<'node_id' | 'allocation_id' | 'workflow_id', string | null>>;

const distinct = (rows: Ids[], name: keyof Ids): string[] =>
  [...new Set(rows.flatMap((row) => row[name] ?? []))].slice(0, most);

const meantBy = (rows: Ids[]): Meant => ({
  ...nothing,
  nodes: distinct(rows, 'node_id'),
  allocations: distinct(rows, 'allocation_id'),
  operations: distinct(rows, 'workflow_id'),
});

/** $2 is the tenant; null sees all. What is looked through is few, so each is asked whose it is, and not all that a tenant ever had. */
const mine = (of: string, tenant: string | null) =>
  tenant === null
    ? '$2::text is null'
    : `exists (select 1 from allocations own where own.allocation_id = ${of}.allocation_id and own.tenant = $2)`;

type Look = (db: Queryable, id: string, tenant: string | null) => Promise<Meant>;

/** A machine that went to somebody else is to its former tenant what it had of it: its own allocations. */
const byNode: Look = async (db, id, tenant) => ({
  ...nothing,
  nodes: [id],
  allocations:
    tenant === null
      ? []
      : distinct(
          await db.query<Ids>(
            `select allocation_id from allocations where node_id = $1 and tenant = $2 order by allocation_id desc limit ${most}`,
            [id, tenant],
          ),
          'allocation_id',
        ),
});

const byInstance: Look = async (db, id, tenant) => {
  if (tenant === null) {
    const rows = await db.query<Ids>('select node_id from instances where node_instance_id = $1', [id]);
    return { ...meantBy(rows), node_instance_id: id };
  }
  const rows = await db.query<Ids>(
    `select distinct node_id, allocation_id from evidence where node_instance_id = $1 and layer <> 'rule' and ${mine('evidence', tenant)} limit ${most}`,
    [id, tenant],
  );
  return { ...meantBy(rows), node_instance_id: id };
};

const byTask: Look = async (db, id, tenant) =>
  meantBy(
    await db.query<Ids>(
      `select node_id, allocation_id, workflow_id from tasks where task_id = $1 and ${mine('tasks', tenant)}`,
      [id, tenant],
    ),
  );

const looks: Partial<Record<IdKind, Look>> = {
  node: byNode,
  instance: byInstance,
  allocation: async (_, id) => ({ ...nothing, allocations: [id] }),
  workflow: async (_, id) => ({ ...nothing, operations: [id] }),
  task: byTask,
  // What is left behind and what disagrees is the operators' business.
  residue: async (_, id, tenant) => ({ ...nothing, residue: tenant === null ? [id] : [] }),
  finding: async (_, id, tenant) => ({ ...nothing, findings: tenant === null ? [id] : [] }),
};

const byRequest: Look = async (db, id, tenant) => {
  const rows = await db.query<Ids>(
    `select node_id, allocation_id, workflow_id from evidence where correlation_id = $1 and ${mine('evidence', tenant)}
     order by evidence.xid desc, evidence.seq desc limit ${mostFacts}`,
    [id, tenant],
  );
  return { ...meantBy(rows), as_request: rows.length > 0 };
};

const byName: Look = async (db, name, tenant) => {
  const allocations = await db.query<Ids>(
    `select allocation_id from allocations where name = $1 and ($2::text is null or tenant = $2) order by allocation_id desc limit ${most}`,
    [name, tenant],
  );
  const nodes = await db.query<Ids>(
    `select node_id from (
       select node_id, status from pools place join nodes on nodes.pool = place.name and nodes.name = $1 and nodes.status <> 'retired'
       union all (select node_id, status from nodes where name = $1 and status = 'retired' order by node_id desc limit ${mostFacts})) named
     where ($2::text is null or exists (select 1 from allocations own where own.node_id = named.node_id and own.tenant = $2))
     order by status = 'retired', node_id desc limit ${most}`,
    [name, tenant],
  );
  return meantBy([...allocations, ...nodes]);
};

/** What carries none of our prefixes came from outside: a correlation id, or a name. */
const byAnythingElse: Look = async (db, word, tenant) => {
  const request = await byRequest(db, word, tenant);
  return request.as_request ? request : byName(db, word, tenant);
};

/** A machine may bear a name that looks like an id of ours. */
export async function whatIsMeant(db: Queryable, id: string, tenant: string | null): Promise<Meant> {
  const kind = kindOfId(id);
  const look = kind && looks[kind];
  return look ? look(db, id, tenant) : byAnythingElse(db, id, tenant);
}

/** Every request that touched an allocation, oldest first, each by its first fact. */
export async function requestsOf(db: Queryable, allocation_id: string): Promise<FoundRequest[]> {
  const rows = await db.query<Omit<FoundRequest, 'at'> & { at: Date }>(
    `select * from (
       select distinct on (correlation_id) correlation_id, at, summary, actor ->> 'name' as actor
       from evidence where allocation_id = $1 and correlation_id is not null order by correlation_id, evidence.xid, evidence.seq
     ) first order by at, correlation_id limit ${most}`,
    [allocation_id],
  );
  return rows.map((row) => ({ ...row, at: row.at.toISOString() }));
}
