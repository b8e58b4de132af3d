/**
 * The common part of rules on nodes: find and lock the due nodes, apply the brake, write the other
 * verdicts in one batch, and count. If the batch fails, it is retried row by row; the bad row is
 * reported and skipped for a while.
 */
import { secondsBetween } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { type NodeRuleName, nodeRules } from '../../lifecycle/model/rules.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { StoreUnavailable, type Transaction } from '../../store/pg/database.ts';
import type { JudgedNode } from '../../store/rows/judged.ts';
import { holdNodes, tallyVerdicts } from '../../store/supervision/brake.ts';
import type { ScopeCount } from '../../store/supervision/due-rows.ts';
import type { NodeVerdict } from '../../store/transitions/bulk/node-verdict.ts';
import { writeVerdicts } from '../../store/transitions/bulk/verdicts.ts';
import { applyBrake, crowdsOf } from './apply-brake.ts';
import type { SweepServices } from './services.ts';
import type { Sweep, SweepReport } from './sweep.ts';

export interface Verdict extends NodeVerdict {
  /** When it became due. */
  due_at: Date;
}

export interface VerdictRule {
  name: NodeRuleName;
  every_seconds: number;
  woken_by?: Sweep['woken_by'];
  due_by?: Sweep['due_by'];
  batch?: number;
  /** Slow reads before the transaction, so that no lock waits for them. */
  prepare?(now: Date): Promise<void>;
  /** Locks the rows and returns the rule's verdict on each. Skips rows in `except`. */
  find(tx: Transaction, now: Date, limit: number, except: readonly string[]): Promise<Verdict[]>;
  /**
   * Counts the due nodes besides those found, including rows locked by others: a batch is not the
   * whole failure.
   */
  countOthers?(tx: Transaction, now: Date, found: readonly NodeId[]): Promise<ScopeCount[]>;
  /** Replaces the plain transition; returns the nodes that were changed. */
  apply?(tx: Transaction, verdicts: Verdict[], now: Date): Promise<JudgedNode[]>;
  /** When the next node is due. */
  next?(now: Date): Promise<Date | null>;
}

const defaultBatch = 500;
const leftOutForMs = 60_000;
/** If the ingest watch is behind, try again this soon. */
const againSeconds = 0.25;

export function verdictSweep(services: SweepServices, rule: VerdictRule): Sweep {
  const { db, environment, clock, ingest } = services;
  const batch = rule.batch ?? defaultBatch;
  const { negative, en_masse } = nodeRules[rule.name];
  const leftOut = new Map<string, number>();

  /**
   * The rows are locked and due, so only an observe-only pool keeps a verdict from being written.
   */
  const applyAll = async (
    apply: NonNullable<VerdictRule['apply']>,
    tx: Transaction,
    verdicts: Verdict[],
    now: Date,
  ) => {
    const moved = await apply(tx, verdicts, now);
    if (negative) await tallyVerdicts(tx, rule.name, crowdsOf(moved), now);
    return { moved, observed: verdicts.length - moved.length };
  };

  const pass = (
    now: Date,
    limit: number,
    except: readonly string[],
    onFound: (found: Verdict[]) => void = () => {},
  ): Promise<SweepReport> =>
    db.transaction(async (tx) => {
      const found = await rule.find(tx, now, limit, except);
      onFound(found);
      const others =
        en_masse === 'hold' && found.length > 0
          ? await rule.countOthers?.(
              tx,
              now,
              found.map(({ node }) => node.node_id),
            )
          : undefined;
      const { go, held } = await applyBrake(tx, services, rule.name, found, others ?? [], now);
      await holdNodes(tx, held, now);
      const applied = rule.apply
        ? await applyAll(rule.apply, tx, go, now)
        : await writeVerdicts(tx, rule.name, go, now, environment, { tallied: negative });
      const decided = applied.moved.length;
      return {
        decided,
        held: held.length,
        would_have: applied.observed,
        lateness_seconds: go.map(({ due_at }) => secondsBetween(due_at, now)),
        more: found.length === limit && decided + held.length + applied.observed > 0,
      };
    });

  /** Finds the bad row by trying each alone. */
  const rowByRow = async (now: Date, cause: unknown): Promise<SweepReport> => {
    const total = { decided: 0, held: 0, would_have: 0, lateness_seconds: [] as number[] };
    const tried = [...leftOut.keys()];
    let culprits = 0;
    for (let left = batch; left > 0; left--) {
      let node_id: string | undefined;
      try {
        const one = await pass(now, 1, tried, ([found]) => {
          node_id = found?.node.node_id;
        });
        if (node_id === undefined) break;
        total.decided += one.decided;
        total.held += one.held ?? 0;
        total.would_have += one.would_have ?? 0;
        total.lateness_seconds.push(...(one.lateness_seconds ?? []));
      } catch (error) {
        if (node_id === undefined || error instanceof StoreUnavailable) throw error;
        culprits++;
        leftOut.set(node_id, clock.monotonicMs());
        await tellUnwritable(node_id, error, now);
      }
      tried.push(node_id);
    }
    // Each row alone can be written, so the batch itself failed: report it.
    if (culprits === 0) throw cause;
    return total;
  };

  const tellUnwritable = (node_id: string, error: unknown, now: Date) =>
    recordEvidence(db, [
      {
        at: now,
        layer: 'store',
        kind: 'verdict.unwritable',
        summary: `${rule.name} could not be written: ${error instanceof Error ? error.message : error}`,
        data: { rule: rule.name },
        node_id: node_id as never,
      },
    ]);

  return {
    name: rule.name,
    every_seconds: rule.every_seconds,
    ...(rule.woken_by && { woken_by: rule.woken_by }),
    ...(rule.due_by && { due_by: rule.due_by }),
    async run(now) {
      if (negative && !ingest.isSteady()) return { decided: 0, waiting: true, next_in_seconds: againSeconds };
      for (const [id, sinceMs] of leftOut) if (clock.monotonicMs() - sinceMs > leftOutForMs) leftOut.delete(id);
      await rule.prepare?.(now);
      let report: SweepReport;
      try {
        report = await pass(now, batch, [...leftOut.keys()]);
      } catch (error) {
        if (error instanceof StoreUnavailable) throw error;
        report = await rowByRow(now, error);
      }
      if (report.more) return report;
      const next = await rule.next?.(now);
      return { ...report, ...(next && { next_in_seconds: secondsBetween(now, next) }) };
    },
  };
}
