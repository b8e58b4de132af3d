/**
 * The door for a rule's verdicts on many nodes at once. The rows are locked and the brake has been asked, so what is left is
 * the same for all of them, and one statement writes the rows, the facts and the boot samples. It says exactly what
 * `transition` would say of each; the test beside it holds the two against each other.
 */
import type { PoolDocument } from '../contract/pool.ts';
import { sampleOf } from '../lifecycle/boot-samples.ts';
import type { NodeRuleName } from '../lifecycle/rules.ts';
import type { NodeStatus } from '../lifecycle/states.ts';
import { causes, findEdge, nodeEdges, pairedWith } from '../lifecycle/transitions.ts';
import { imageOf, keptOnce, sampleColumns } from './boot-samples.ts';
import type { Transaction } from './database.ts';
import { type AllocationMove, moveAllocations, type ToldNode, tellAllocations } from './door-allocation.ts';
import { entering } from './door-entering.ts';
import { type DoorEnvironment, evidenceLayerOf } from './door-rules.ts';
import { expectBeats, expectedBeat, serving } from './expected-beats.ts';
import type { JudgedNode } from './judged.ts';
import { poolGenerations } from './pools.ts';
import { tellWouldHave, wouldHave } from './would-have.ts';

export interface NodeVerdict {
  /** Locked in this transaction. */
  node: JudgedNode;
  to: NodeStatus;
  reason: string;
  data: Record<string, unknown>;
}

export interface Written {
  moved: JudgedNode[];
  /** Those of pools that are only observed: told, not changed. */
  observed: number;
}

/** Where the fact that all nodes of one kind share leaves room for what is known of each. */
const hole = '\u0001';

/** Written out once and cut in two, a fact fits every node of its kind; building each anew cost as much as keeping it. */
function stencil(fact: object) {
  const [fact_head, fact_tail] = JSON.stringify(fact).split(JSON.stringify(hole));
  return { fact_head, fact_tail };
}

const writeSql = `
  with alike as materialized (
    select * from json_to_recordset($2::json) as alike(kind integer, was text, becomes text, deadline_at timestamptz, budget_seconds double precision,
      budget_source text, phase text, outcome text, runtime_class text, image text, had_seconds double precision, had_source text,
      verdict jsonb, summary text, fact_head text, fact_tail text)),
  moved as (
    update nodes node set status = becomes, status_since = $3, deadline_at = alike.deadline_at,
      budget_seconds = alike.budget_seconds, budget_source = alike.budget_source, held = null, would_have = null, drain_then = null,
      verdict = alike.verdict
    from json_to_recordset($1::json) as one(tid tid, kind integer, data text, holder text) join alike using (kind)
    where node.ctid = one.tid and node.status = was
    returning node.node_id, node.node_instance_id, node.correlation_id, node.workflow_id, node.pool, node.pool_generation, node.zone,
      node.registered_at, node.clock_from, data, holder, kind),
  told as (
    insert into evidence (at, layer, kind, summary, data, node_id, node_instance_id, correlation_id, allocation_id, workflow_id)
    select $3, $4, 'node.' || becomes, summary, (fact_head || data || fact_tail)::jsonb,
      node_id, node_instance_id, correlation_id, holder, workflow_id from moved join alike using (kind)),
  sampled as (
    insert into boot_samples (${sampleColumns})
    select node_instance_id, phase, node_id, pool, pool_generation, runtime_class, zone, image, started_at,
      extract(epoch from $3 - started_at), outcome, null, had_seconds, had_source, $3
    from (select *, case phase when 'start' then registered_at else clock_from end as started_at from moved join alike using (kind) where phase is not null) ended
    where started_at is not null and node_instance_id is not null ${keptOnce})
  select count(*)::int as written from moved`;

/** What tells the ways of two nodes apart; all that agree in it are written alike. */
const wayOf = ({ node, to, reason }: NodeVerdict) =>
  [
    node.pool,
    node.pool_generation,
    node.status,
    to,
    node.requested_provision_seconds,
    node.budget_seconds,
    node.budget_source,
    node.registered_at !== null,
    node.waiting_for,
    reason,
  ].join(' ');

function alikeFor(
  { node, to, reason }: NodeVerdict,
  by: NodeRuleName,
  pool: PoolDocument,
  now: Date,
  environment: DoorEnvironment,
) {
  const { status, requested_provision_seconds, registered_at, waiting_for } = node;
  const set = entering(status, to, { by, reason }, pool, requested_provision_seconds, now, environment);
  return {
    set,
    pairs: pairedWith(status, to),
    isEdge: findEdge(nodeEdges, status, to, by) !== undefined,
    isObserved: environment.decide.isObserved(by, causes[by].trigger, pool.mode),
    columns: {
      was: status,
      becomes: to,
      deadline_at: set.deadline_at?.toISOString() ?? null,
      budget_seconds: set.budget_seconds,
      budget_source: set.budget_source,
      ...(waiting_for !== 'capacity' && sampleOf(status, to, by, registered_at !== null)),
      runtime_class: pool.runtime_class ?? null,
      image: imageOf(pool),
      had_seconds: node.budget_seconds,
      had_source: node.budget_source,
      verdict: set.verdict,
      summary: `${status} → ${to}: ${reason}`,
      ...stencil({ from: status, to, by, reason, evidence: hole, set }),
    },
  };
}

/** The words of machines may be in the reason; written out for all of a kind, they are struck out before that. */
const told = (tx: Transaction, verdict: NodeVerdict) => ({ ...verdict, reason: tx.redact.text(verdict.reason) });

/** Whoever has a verdict by a rule was brought up before: none begins a new life here, and none is drained. */
const isWrittenHere = (to: NodeStatus) => to !== 'provisioning' && to !== 'draining';

export async function writeVerdicts(
  tx: Transaction,
  by: NodeRuleName,
  verdicts: readonly NodeVerdict[],
  now: Date,
  environment: DoorEnvironment,
): Promise<Written> {
  if (verdicts.length === 0) return { moved: [], observed: 0 };
  const pools = await poolGenerations(
    tx,
    verdicts.map(({ node }) => node),
  );
  const ways = new Map<string, ReturnType<typeof alikeFor> & { kind: number }>();
  const rows: object[] = [];
  const moved: JudgedNode[] = [];
  const occupied: { moved: true; from: NodeStatus; node: ToldNode }[] = [];
  const paired: AllocationMove[] = [];
  const beats: ReturnType<typeof expectedBeat>[] = [];
  const watched: ReturnType<typeof wouldHave>[] = [];

  for (const each of verdicts) {
    const { node, to, reason, data } = each;
    const pool = pools.get(`${node.pool} ${node.pool_generation}`);
    if (!pool) continue;
    const way = wayOf(each);
    const alike = ways.get(way) ?? { kind: ways.size, ...alikeFor(told(tx, each), by, pool, now, environment) };
    ways.set(way, alike);
    if (!alike.isEdge) continue;
    if (!isWrittenHere(to)) throw new Error(`${by} does not bring a node to ${to}`);
    if (alike.isObserved) {
      watched.push(wouldHave(node, { node_id: node.node_id, to, by, reason, data }, now));
      continue;
    }
    const { holder } = node;
    rows.push({ tid: node.tid, kind: alike.kind, data, ...(holder && { holder }) });
    moved.push(node);
    if (serving.includes(to)) beats.push(expectedBeat({ ...node, status: to, pool_document: pool }));
    if (holder === null) continue;
    const changed = { ...node, ...alike.set };
    occupied.push({ moved: true, from: node.status, node: changed });
    for (const pair of alike.pairs)
      paired.push({ reason, data, node_id: node.node_id, from: [pair.from], to: pair.to, by: pair.by, node: changed });
  }

  if (rows.length > 0) {
    const kinds = [...ways.values()].map(({ kind, columns }) => ({ kind, ...columns }));
    const values = [tx.redact.json(JSON.stringify(rows)), JSON.stringify(kinds), now, evidenceLayerOf(by)];
    const [{ written } = { written: 0 }] = await tx.query<{ written: number }>(writeSql, values);
    if (written !== rows.length)
      throw new Error(`${by} meant ${rows.length} nodes, and ${written} were as it had read them`);
    tx.evidenceWritten();
  }
  await expectBeats(tx, beats);
  await tellAllocations(tx, occupied, now);
  await moveAllocations(tx, paired, now, environment);
  await tellWouldHave(tx, watched, now);
  return { moved, observed: watched.length };
}
