/**
 * Checks a run by its evidence: false verdicts, undetected deaths, the lateness of verdicts, and
 * lost heartbeats.
 */
import { secondsBetween } from '../../src/base/clock.ts';
import type { Database } from '../../src/store/pg/database.ts';
import type { Agents } from './agents.ts';
import type { WriteResult } from './writer.ts';

export interface Judgement {
  /** Verdicts on healthy machines, or before the stale time was over. */
  false_verdicts: string[];
  /** Deaths that were not detected. */
  missed: string[];
  /** Seconds from the end of a dead machine's stale time to the evidence of its death. */
  lateness_seconds: number[];
  /** Verdicts that the brake held back. */
  held: string[];
  /** Times in which the control plane received no heartbeats. */
  gaps: { seconds: number; cause: string }[];
  /** Answered heartbeats missing from the table. */
  lost_beats: number;
}

/** Dead agents and their time of death. */
export type Deaths = ReadonlyMap<number, Date>;

export interface VerdictRow {
  name: string;
  kind: string;
  at: Date;
  summary: string;
  last_seen_at: Date | null;
  gap_end: Date | null;
  stale_seconds: number | null;
}

/** Reads all transitions to an unhealthy status. */
const verdicts = `
  select node.name, fact.kind, fact.at, fact.summary, (fact.data -> 'evidence' ->> 'last_seen_at')::timestamptz as last_seen_at,
    (fact.data -> 'evidence' ->> 'gap_end')::timestamptz as gap_end, (fact.data -> 'evidence' ->> 'stale_seconds')::double precision as stale_seconds
  from evidence fact join nodes node on node.node_id = fact.node_id
  where fact.at >= $1 and fact.kind in ('node.offline', 'node.degraded', 'node.failed', 'node.lost', 'node.quarantined')
  order by fact.at`;

const page = 50_000;
/**
 * A stored time is from the replica's clock, which follows the database's clock and may differ from
 * it by the database's response time. A lost heartbeat makes a larger difference, because the
 * previous heartbeat is many seconds older.
 */
const toleratedMs = 1_000;

/** Whether an agent's last answered heartbeat is newer than its stored one. */
export const isLost = (seenMs: number, answeredSentMs: number): boolean => seenMs < answeredSentMs - toleratedMs;

async function countLostBeats(db: Database, agents: Agents): Promise<number> {
  const numbers = new Map(Array.from({ length: agents.count() }, (_, agent) => [agents.nameOf(agent), agent]));
  let lost = 0;
  for (let after = ''; ; ) {
    const rows = await db.query<{ node_id: string; name: string; seen_ms: number }>(
      `select node.node_id, node.name, (extract(epoch from beat.last_seen_at) * 1000)::double precision as seen_ms
       from nodes node join heartbeats beat on beat.node_instance_id = node.node_instance_id
       where node.node_id > $1 order by node.node_id limit ${page}`,
      [after],
    );
    for (const { name, seen_ms } of rows) {
      const agent = numbers.get(name);
      if (agent !== undefined && isLost(seen_ms, agents.sentMs[agent] ?? 0)) lost++;
    }
    const last = rows.at(-1);
    if (!last || rows.length < page) return lost;
    after = last.node_id;
  }
}

/** The number of deaths detected so far. */
export async function countDetected(db: Database, agents: Agents, dead: Deaths, since: Date): Promise<number> {
  const rows = await db.query(
    `select distinct fact.node_id from evidence fact join nodes node on node.node_id = fact.node_id
     where fact.at >= $1 and fact.kind = 'node.offline' and node.name = any($2)`,
    [since, [...dead.keys()].map(agents.nameOf)],
  );
  return rows.length;
}

const later = (a: Date, b: Date | null) => (b && b > a ? b : a);

/** Seconds from the end of the stale time to the verdict; null if the evidence lacks them. */
const latenessOf = ({ at, last_seen_at, gap_end, stale_seconds }: VerdictRow): number | null =>
  last_seen_at && stale_seconds !== null ? secondsBetween(later(last_seen_at, gap_end), at) - stale_seconds : null;

/** Stored times are rounded to milliseconds, but stale times are not. */
const isEarly = (lateness: number | null) => lateness !== null && lateness <= -0.001;

/** `diedAt` is the time of each death, by name. */
export function judgeVerdicts(
  rows: readonly VerdictRow[],
  diedAt: ReadonlyMap<string, Date>,
): Pick<Judgement, 'false_verdicts' | 'missed' | 'lateness_seconds'> {
  const missed = new Set(diedAt.keys());
  const [false_verdicts, lateness_seconds]: [string[], number[]] = [[], []];
  for (const row of rows) {
    const { name, kind, at, summary } = row;
    const died_at = diedAt.get(name);
    const lateness = latenessOf(row);
    // The machine was alive at the verdict, or its stale time was not over.
    if (!died_at || at < died_at || isEarly(lateness)) false_verdicts.push(`${name} ${kind}: ${summary}`);
    else if (kind === 'node.offline' && lateness !== null) {
      missed.delete(name);
      lateness_seconds.push(lateness);
    }
  }
  return { false_verdicts, missed: [...missed], lateness_seconds };
}

/** Describes the failures of a run. A late verdict is no failure; its target is only printed. */
export const describeFailures = (
  { false_verdicts, held, missed }: Pick<Judgement, 'false_verdicts' | 'held' | 'missed'>,
  written: Pick<WriteResult, 'lost'> | undefined,
): string[] => [
  ...false_verdicts.map((each) => `a false verdict: ${each}`),
  ...held.map((each) => `a verdict was held back: ${each}`),
  ...missed.map((each) => `died without a verdict: ${each}`),
  ...(written?.lost ?? []).map((each) => `acknowledged and lost: ${each}`),
];

export async function judge(db: Database, agents: Agents, dead: Deaths, since: Date): Promise<Judgement> {
  const diedAt = new Map([...dead].map(([agent, at]) => [agents.nameOf(agent), at]));
  const judged = judgeVerdicts(await db.query<VerdictRow>(verdicts, [since]), diedAt);
  const held = await db.query<{ summary: string }>(
    `select summary from evidence where at >= $1 and kind = 'node.held' limit 1000`,
    [since],
  );
  const gaps = await db.query<Judgement['gaps'][number]>(
    `select extract(epoch from ended_at - started_at)::double precision as seconds, cause from ingest_gaps where ended_at >= $1 order by 1`,
    [since],
  );
  return {
    ...judged,
    held: held.map(({ summary }) => summary),
    gaps,
    lost_beats: await countLostBeats(db, agents),
  };
}
