/**
 * The door for a rule's verdicts on many nodes at once. The rows are locked and the brake has been asked, so what is left is
 * the same for all of them, and one statement writes the rows, the facts and the boot samples. It says exactly what
 * `transition` would say of each; the test beside it holds the two against each other.
 */
import type { PoolDocument } from '../../../contract/pool.ts';
import { sampleOf } from '../../../lifecycle/boots/boot-samples.ts';
import type { NodeRuleName } from '../../../lifecycle/model/rules.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import { causes, findEdge, nodeEdges, pairedWith } from '../../../lifecycle/model/transitions.ts';
import { imageOf, onSampleConflict, sampleColumns } from '../../boots/boot-samples.ts';
import { expectBeats, expectedBeat, serving } from '../../heartbeats/expected-heartbeats.ts';
import type { Transaction } from '../../pg/database.ts';
import type { JudgedNode } from '../../rows/judged.ts';
import { poolGenerations } from '../../rows/pools.ts';
import { type AllocationMove, moveAllocations, notifyAllocations, wordOf } from '../allocation-transition.ts';
import { entering, givenToBoot } from '../entering-status.ts';
import { evidenceLayerOf, listOf, requireMoved, type TransitionEnvironment } from '../transition-rules.ts';
import { recordWouldHave, wouldHave } from '../would-have.ts';
import { evidenceOf, type NodeVerdict, ownEvidence } from './node-verdict.ts';
import { isWrittenTogether, movePaired } from './verdict-pairs.ts';

export interface Written {
  moved: JudgedNode[];
  /** Those of pools that are only observed: told, not changed. */
  observed: number;
}

const writeSql = `
  with alike as materialized (
    select * from json_to_recordset($5::json) as alike(kind integer, was text, becomes text, deadline_at timestamptz, budget_seconds double precision,
      budget_source text, phase text, outcome text, runtime_class text, image text, had_seconds double precision, had_source text,
      verdict jsonb, summary text, evidence jsonb, fact jsonb)),
  moved as (
    update nodes node set status = becomes, status_since = $6, deadline_at = alike.deadline_at,
      budget_seconds = alike.budget_seconds, budget_source = alike.budget_source, held = null, would_have = null, drain_then = null,
      verdict = alike.verdict
    from rows from (unnest($1::tid[]), unnest($2::integer[]), jsonb_array_elements($3::jsonb), unnest($4::text[])) as one(tid, kind, data, holder)
      join alike using (kind)
    where node.ctid = one.tid and node.status = was
    returning node.node_id, node.node_instance_id, node.correlation_id, node.workflow_id, node.pool, node.pool_generation, node.zone,
      node.registered_at, node.clock_from, data, holder, kind),
  told as (
    insert into evidence (at, layer, kind, summary, data, node_id, node_instance_id, correlation_id, allocation_id, workflow_id, origin)
    select $6, $7, 'node.' || becomes, summary, jsonb_set(fact, '{evidence}', evidence || data),
      node_id, node_instance_id, correlation_id, holder, workflow_id, 'internal' from moved join alike using (kind)),
  sampled as (
    insert into boot_samples (${sampleColumns})
    select node_instance_id, phase, node_id, pool, pool_generation, runtime_class, zone, image, started_at,
      extract(epoch from $6 - started_at), outcome, null, had_seconds, had_source, $6
    from (select *, case phase when 'start' then registered_at else clock_from end as started_at from moved join alike using (kind) where phase is not null) ended
    where started_at is not null and node_instance_id is not null ${onSampleConflict}),
  tallied as (
    insert into brake_tally (at, rule, pool, zone, verdicts) select $6, $8::text, pool, zone, count(*) from moved where $8 is not null group by pool, zone)
  select count(*)::int as moved from moved`;

interface Counting {
  /** Whether what is written counts where the brake looks for a mass failure. */
  tallied: boolean;
}

/** What tells the ways of two nodes apart; all that agree in it are written alike. */
const wayOf = ({ node, to, reason, data, moments }: NodeVerdict): string => {
  const known = node.alike ?? `${detailsOf(node)} ${JSON.stringify(data)}`;
  return `${known} ${moments === undefined} ${node.registered_at !== null} ${to} ${reason}`;
};

/** Of a node that was read by itself. */
const detailsOf = (node: JudgedNode): string =>
  [
    node.pool,
    node.pool_generation,
    node.status,
    node.requested_provision_seconds,
    node.budget_seconds,
    node.budget_source,
    node.waiting_for,
  ].join();

function alikeFor(
  { node, to, reason, data, moments }: NodeVerdict,
  by: NodeRuleName,
  pool: PoolDocument,
  now: Date,
  environment: TransitionEnvironment,
) {
  const { status, registered_at, waiting_for } = node;
  const evidence = moments ? data : {};
  const set = entering(status, to, { by, reason, data }, pool, givenToBoot(node, to), now, environment);
  return {
    was: status,
    set,
    evidence,
    pairs: pairedWith(status, to),
    isObserved: environment.decide.isObserveOnly(by, causes[by].trigger, pool.mode),
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
      evidence,
      fact: { from: status, to, by, reason, set },
    },
  };
}

/** The words of machines may be in the reason; written out for all of a kind, they are struck out before that. */
const told = (tx: Transaction, verdict: NodeVerdict): NodeVerdict => ({
  ...verdict,
  reason: tx.redact.text(verdict.reason),
  data: tx.redact.value(verdict.data),
});

/** Whoever has a verdict by a rule was brought up before: none begins a new life here, and none is drained. */
const isWrittenHere = (to: NodeStatus) => to !== 'provisioning' && to !== 'draining';

type Way = ReturnType<typeof alikeFor> & { to: NodeStatus; reason: string; pool: PoolDocument; members: NodeVerdict[] };

/** Those that go the same way, together; whoever has no such way is left out. */
async function waysOf(
  tx: Transaction,
  by: NodeRuleName,
  verdicts: readonly NodeVerdict[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<Way[]> {
  const together = new Map<string, NodeVerdict[]>();
  for (const each of verdicts) {
    const way = wayOf(each);
    const members = together.get(way);
    if (members) members.push(each);
    else together.set(way, [each]);
  }
  const groups = [...together.values()].flatMap((members) => (members[0] ? [{ first: members[0], members }] : []));
  const pools = await poolGenerations(
    tx,
    groups.map(({ first }) => first.node),
  );
  return groups.flatMap(({ first, members }) => {
    const { node, to } = first;
    const pool = pools.get(`${node.pool} ${node.pool_generation}`);
    if (!pool || !findEdge(nodeEdges, node.status, to, by)) return [];
    if (!isWrittenHere(to)) throw new Error(`${by} does not bring a node to ${to}`);
    const said = told(tx, first);
    return [{ ...alikeFor(said, by, pool, now, environment), to, reason: said.reason, pool, members }];
  });
}

/** One statement for all of them; what each adds to what its kind has in common goes as columns. */
async function writeWays(
  tx: Transaction,
  by: NodeRuleName,
  ways: readonly Way[],
  now: Date,
  { tallied }: Counting,
): Promise<void> {
  const all = ways.flatMap(({ members }) => members);
  if (all.length === 0) return;
  const values = [
    listOf(all.map(({ node }) => node.tid)),
    listOf(ways.flatMap(({ members }, kind) => members.map(() => kind))),
    ownEvidence(all, tx.redact),
    listOf(all.map(({ node }) => node.holder)),
    JSON.stringify(ways.map(({ columns }, kind) => ({ kind, ...columns }))),
    now,
    evidenceLayerOf(by),
    tallied ? by : null,
  ];
  const [{ moved } = { moved: 0 }] = await tx.query<{ moved: number }>(writeSql, values, { often: true });
  if (moved !== all.length) throw new Error(`${by} meant ${all.length} nodes, and ${moved} were as it had read them`);
  tx.evidenceWritten();
}

async function writeAllocations(
  tx: Transaction,
  ways: readonly Way[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<void> {
  const held = ways.flatMap(({ members, ...way }) => {
    const occupied = members.filter(({ node }) => node.holder !== null);
    return occupied.length > 0 ? [{ ...way, members: occupied }] : [];
  });
  if (held.length === 0) return;
  await notifyAllocations(
    tx,
    held.flatMap(({ was, set, members }) => {
      const word = wordOf(was, set);
      return word ? members.map(({ node: { node_id } }) => ({ node_id, word })) : [];
    }),
    now,
  );
  const paired = held.flatMap(({ pairs, set, ...way }) => pairs.map((pair) => ({ ...way, pair, node: set })));
  await movePaired(tx, paired.filter(isWrittenTogether), now);
  const alone = paired.filter((way) => !isWrittenTogether(way));
  const moves = alone.flatMap(({ pair: { from, to, by }, node: set, members }) =>
    members.map((verdict): AllocationMove => {
      const { node, reason } = verdict;
      return {
        reason,
        data: evidenceOf(verdict),
        node_id: node.node_id,
        from: [from],
        to,
        by,
        node: { ...node, ...set },
      };
    }),
  );
  requireMoved(await moveAllocations(tx, moves, now, environment), 'not_found', 'status_moved_on');
}

export async function writeVerdicts(
  tx: Transaction,
  by: NodeRuleName,
  verdicts: readonly NodeVerdict[],
  now: Date,
  environment: TransitionEnvironment,
  counting: Counting = { tallied: false },
): Promise<Written> {
  if (verdicts.length === 0) return { moved: [], observed: 0 };
  const open = await waysOf(tx, by, verdicts, now, environment);
  const ways = open.filter((way) => !way.isObserved);
  await writeWays(tx, by, ways, now, counting);
  const beating = ways.filter(({ to }) => serving.includes(to));
  const beats = beating.flatMap(({ to, pool, members }) =>
    members.map(({ node }) => expectedBeat({ ...node, status: to, pool_document: pool })),
  );
  await expectBeats(tx, beats);
  await writeAllocations(tx, ways, now, environment);
  const watched = open.flatMap(({ isObserved, members }) => (isObserved ? members : []));
  await recordWouldHave(
    tx,
    watched.map((verdict) => {
      const { node, to, reason } = verdict;
      return wouldHave(node, { node_id: node.node_id, to, by, reason, data: evidenceOf(verdict) }, now);
    }),
    now,
  );
  return { moved: ways.flatMap(({ members }) => members.map(({ node }) => node)), observed: watched.length };
}
