/**
 * Writes a rule's verdicts on many nodes. The caller has locked the rows and applied the brake, so
 * one statement can write the rows, the facts and the boot samples. verdicts.test.ts shows that the
 * result equals that of `transition`.
 */
import type { PoolDocument } from '../../../contract/pool.ts';
import { sampleOf } from '../../../lifecycle/boots/boot-samples.ts';
import type { NodeRuleName } from '../../../lifecycle/model/rules.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import { causes, findEdge, nodeEdges, pairedWith } from '../../../lifecycle/model/transitions.ts';
import { imageOf, onSampleConflict, sampleColumns } from '../../boots/boot-samples.ts';
import { expectBeats, servingStatuses, toExpectedBeat } from '../../heartbeats/expected-heartbeats.ts';
import type { Transaction } from '../../pg/database.ts';
import type { JudgedNode } from '../../rows/judged.ts';
import { readGenerationDocuments } from '../../rows/pools.ts';
import { type AllocationMove, moveAllocations, noticeOf, notifyAllocations } from '../allocation-transition.ts';
import { computeStatusColumns, resolveRequestedSeconds } from '../entering-status.ts';
import { evidenceLayerOf, requireMoved, type TransitionEnvironment, toArrayLiteral } from '../transition-rules.ts';
import { recordWouldHave, toObservedMove } from '../would-have.ts';
import { evidenceOf, type NodeVerdict, renderIndividualEvidence } from './node-verdict.ts';
import { isUniform, movePaired } from './verdict-pairs.ts';

export interface WrittenVerdicts {
  moved: JudgedNode[];
  /** The number of verdicts that were only recorded, because their pool is observe-only. */
  observed: number;
}

const writeSql = `
  with shared as materialized (
    select *
    from json_to_recordset($5::json) as shared(
      group_index integer, was text, becomes text, deadline_at timestamptz, budget_seconds double precision,
      budget_source text, phase text, outcome text, runtime_class text, image text,
      had_seconds double precision, had_source text, verdict jsonb, summary text, evidence jsonb, fact jsonb)),
  moved as (
    update nodes node set
      status = becomes,
      status_since = $6,
      deadline_at = shared.deadline_at,
      budget_seconds = shared.budget_seconds,
      budget_source = shared.budget_source,
      held = null,
      would_have = null,
      drain_then = null,
      verdict = shared.verdict
    from rows from (
      unnest($1::text[]),
      unnest($2::integer[]),
      jsonb_array_elements($3::jsonb),
      unnest($4::text[])
    ) as item(node_id, group_index, data, holder)
    join shared using (group_index)
    where node.node_id = item.node_id
      and node.status = was
    returning
      node.node_id, node.node_instance_id, node.correlation_id, node.workflow_id, node.pool,
      node.pool_generation, node.zone, node.registered_at, node.clock_from, data, holder, group_index),
  recorded as (
    insert into evidence (
      at, layer, kind, summary, data, node_id, node_instance_id, correlation_id, allocation_id, workflow_id, origin)
    select
      $6, $7, 'node.' || becomes, summary, jsonb_set(fact, '{evidence}', evidence || data),
      node_id, node_instance_id, correlation_id, holder, workflow_id, 'internal'
    from moved
    join shared using (group_index)),
  sampled as (
    insert into boot_samples (${sampleColumns})
    select
      node_instance_id, phase, node_id, pool, pool_generation, runtime_class, zone, image, started_at,
      extract(epoch from $6 - started_at), outcome, null, had_seconds, had_source, $6
    from (
      select *, case phase when 'start' then registered_at else clock_from end as started_at
      from moved
      join shared using (group_index)
      -- A move that ends no boot phase leaves no sample.
      where phase is not null) ended
    where started_at is not null
      and node_instance_id is not null
    ${onSampleConflict}),
  tallied as (
    insert into brake_tally (at, rule, pool, zone, verdicts)
    select $6, $8::text, pool, zone, count(*)
    from moved
    where $8 is not null
    group by pool, zone)
  select count(*)::int as moved
  from moved`;

interface Counting {
  /** Whether the verdicts count for the mass-failure brake. */
  tallied: boolean;
}

/** Verdicts with the same key share all written columns. */
const groupKeyOf = ({ node, to, reason, data, moments }: NodeVerdict): string =>
  JSON.stringify([
    node.pool,
    node.pool_generation,
    node.status,
    node.requested_provision_seconds,
    node.budget_seconds,
    node.budget_source,
    node.waiting_for,
    node.registered_at !== null,
    to,
    reason,
    data,
    moments === undefined,
  ]);

function computeSharedColumns(
  { node, to, reason, data, moments }: NodeVerdict,
  by: NodeRuleName,
  pool: PoolDocument,
  now: Date,
  environment: TransitionEnvironment,
) {
  const { status, registered_at, waiting_for } = node;
  const evidence = moments ? data : {};
  const set = computeStatusColumns(
    status,
    to,
    { by, reason, data },
    pool,
    resolveRequestedSeconds(node, to),
    now,
    environment,
  );
  return {
    was: status,
    set,
    evidence,
    pairs: pairedWith(status, to),
    isObserveOnly: environment.decide.isObserveOnly(by, causes[by].trigger, pool.mode),
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

/** The reason may quote text from a machine, so it is redacted before it enters the statement. */
const redactVerdict = (tx: Transaction, verdict: NodeVerdict): NodeVerdict => ({
  ...verdict,
  reason: tx.redact.text(verdict.reason),
  data: tx.redact.value(verdict.data),
});

/** Entering `provisioning` or `draining` sets columns that the statement does not write. */
const isSupported = (to: NodeStatus) => to !== 'provisioning' && to !== 'draining';

type Group = ReturnType<typeof computeSharedColumns> & {
  to: NodeStatus;
  reason: string;
  pool: PoolDocument;
  members: NodeVerdict[];
};

/** Groups verdicts that share all columns. Verdicts without an edge in the table are dropped. */
async function groupVerdicts(
  tx: Transaction,
  by: NodeRuleName,
  verdicts: readonly NodeVerdict[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<Group[]> {
  const byKey = new Map<string, NodeVerdict[]>();
  for (const each of verdicts) {
    const key = groupKeyOf(each);
    const members = byKey.get(key);
    if (members) members.push(each);
    else byKey.set(key, [each]);
  }
  const groups = [...byKey.values()].flatMap((members) => (members[0] ? [{ first: members[0], members }] : []));
  const pools = await readGenerationDocuments(
    tx,
    groups.map(({ first }) => first.node),
  );
  return groups.flatMap(({ first, members }) => {
    const { node, to } = first;
    const pool = pools.get(`${node.pool} ${node.pool_generation}`);
    if (!pool || !findEdge(nodeEdges, node.status, to, by)) return [];
    if (!isSupported(to)) throw new Error(`${by} does not bring a node to ${to}`);
    const verdict = redactVerdict(tx, first);
    return [
      { ...computeSharedColumns(verdict, by, pool, now, environment), to, reason: verdict.reason, pool, members },
    ];
  });
}

/** Writes all groups in one statement. Shared columns are sent once per group, others as arrays. */
async function writeNodes(
  tx: Transaction,
  by: NodeRuleName,
  groups: readonly Group[],
  now: Date,
  { tallied }: Counting,
): Promise<void> {
  const all = groups.flatMap(({ members }) => members);
  if (all.length === 0) return;
  const values = [
    toArrayLiteral(all.map(({ node }) => node.node_id)),
    toArrayLiteral(groups.flatMap(({ members }, group_index) => members.map(() => group_index))),
    renderIndividualEvidence(all, tx.redact),
    toArrayLiteral(all.map(({ node }) => node.holder)),
    JSON.stringify(groups.map(({ columns }, group_index) => ({ group_index, ...columns }))),
    now,
    evidenceLayerOf(by),
    tallied ? by : null,
  ];
  const [{ moved } = { moved: 0 }] = await tx.query<{ moved: number }>(writeSql, values, { prepared: true });
  if (moved !== all.length)
    throw new Error(`${by} read ${all.length} nodes, but ${moved} still had the status that it read`);
  tx.markEvidenceWritten();
}

async function writeAllocations(
  tx: Transaction,
  groups: readonly Group[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<void> {
  const heldGroups = groups.flatMap(({ members, ...group }) => {
    const heldMembers = members.filter(({ node }) => node.holder !== null);
    return heldMembers.length > 0 ? [{ ...group, members: heldMembers }] : [];
  });
  if (heldGroups.length === 0) return;
  await notifyAllocations(
    tx,
    heldGroups.flatMap(({ was, set, members }) => {
      const reason = noticeOf(was, set);
      return reason ? members.map(({ node: { node_id } }) => ({ node_id, reason })) : [];
    }),
    now,
  );
  const paired = heldGroups.flatMap(({ pairs, set, ...group }) => pairs.map((pair) => ({ ...group, pair, node: set })));
  await movePaired(tx, paired.filter(isUniform), now);
  const others = paired.filter((group) => !isUniform(group));
  const moves = others.flatMap(({ pair: { from, to, by }, node: set, members }) =>
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
): Promise<WrittenVerdicts> {
  if (verdicts.length === 0) return { moved: [], observed: 0 };
  const grouped = await groupVerdicts(tx, by, verdicts, now, environment);
  const groups = grouped.filter((group) => !group.isObserveOnly);
  await writeNodes(tx, by, groups, now, counting);
  const servingGroups = groups.filter(({ to }) => servingStatuses.includes(to));
  const beats = servingGroups.flatMap(({ to, pool, members }) =>
    members.map(({ node }) => toExpectedBeat({ ...node, status: to, pool_document: pool })),
  );
  await expectBeats(tx, beats);
  await writeAllocations(tx, groups, now, environment);
  const observed = grouped.flatMap(({ isObserveOnly, members }) => (isObserveOnly ? members : []));
  await recordWouldHave(
    tx,
    observed.map((verdict) => {
      const { node, to, reason } = verdict;
      return toObservedMove(node, { node_id: node.node_id, to, by, reason, data: evidenceOf(verdict) }, now);
    }),
    now,
  );
  return { moved: groups.flatMap(({ members }) => members.map(({ node }) => node)), observed: observed.length };
}
