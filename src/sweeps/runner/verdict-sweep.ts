/**
 * The common path of rules on nodes. A pass finds and locks the due nodes, applies the brake, and
 * writes all verdicts that are not held as one batch. If the batch fails, each row is tried alone;
 * rows that fail are reported and skipped for a while.
 */
import { secondsBetween } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import { type NodeRuleName, nodeRules } from '../../lifecycle/model/rules.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { StoreUnavailable, type Transaction } from '../../store/pg/database.ts';
import type { JudgedNode } from '../../store/rows/judged.ts';
import { holdNodes, tallyVerdicts } from '../../store/supervision/brake.ts';
import type { ScopeCount } from '../../store/supervision/past-deadline.ts';
import type { NodeVerdict } from '../../store/transitions/bulk/node-verdict.ts';
import { writeVerdicts } from '../../store/transitions/bulk/verdicts.ts';
import { applyBrake, countByScope } from './apply-brake.ts';
import type { SweepServices } from './services.ts';
import type { Sweep, SweepReport } from './sweep.ts';

export interface Verdict extends NodeVerdict {
  /** When the verdict became due. */
  due_at: Date;
}

export interface VerdictRule {
  name: NodeRuleName;
  every_seconds: number;
  isWokenBy?: Sweep['isWokenBy'];
  dueTimeFrom?: Sweep['dueTimeFrom'];
  batch?: number;
  /** Does slow reads before the transaction, so that no locks are held meanwhile. */
  prepare?(now: Date): Promise<void>;
  /** Locks the rows and returns the rule's verdict on each. Skips rows in `except`. */
  find(tx: Transaction, now: Date, limit: number, except: readonly string[]): Promise<Verdict[]>;
  /**
   * Counts the due nodes besides those found, including rows locked by other replicas. The brake
   * needs the size of the whole failure, not of one batch.
   */
  countOthers?(tx: Transaction, now: Date, found: readonly NodeId[]): Promise<ScopeCount[]>;
  /** Writes the verdicts in place of a plain transition, and returns the nodes that changed. */
  apply?(tx: Transaction, verdicts: Verdict[], now: Date): Promise<JudgedNode[]>;
  /** Returns when the next node is due. */
  findNextDue?(now: Date): Promise<Date | null>;
}

const defaultBatch = 500;
const skipBadRowMs = 60_000;
/** The pause before the next try if this replica may be missing heartbeats. */
const unsteadyRetrySeconds = 0.25;

export function verdictSweep(services: SweepServices, rule: VerdictRule): Sweep {
  const { db, environment, clock, ingest } = services;
  const batch = rule.batch ?? defaultBatch;
  const { negative, en_masse } = nodeRules[rule.name];
  /** Bad rows, and since when they are skipped. */
  const skippedSinceMs = new Map<string, number>();

  /** The rows are locked and due, so an unchanged node must belong to an observe-only pool. */
  const applyAll = async (
    apply: NonNullable<VerdictRule['apply']>,
    tx: Transaction,
    verdicts: Verdict[],
    now: Date,
  ) => {
    const moved = await apply(tx, verdicts, now);
    if (negative) await tallyVerdicts(tx, rule.name, countByScope(moved), now);
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
      const { allowed, held } = await applyBrake(tx, services, rule.name, found, others ?? [], now);
      await holdNodes(tx, held, now);
      const applied = rule.apply
        ? await applyAll(rule.apply, tx, allowed, now)
        : await writeVerdicts(tx, rule.name, allowed, now, environment, { tallied: negative });
      const decided = applied.moved.length;
      return {
        decided,
        held: held.length,
        would_have: applied.observed,
        lateness_seconds: allowed.map(({ due_at }) => secondsBetween(due_at, now)),
        more: found.length === limit && decided + held.length + applied.observed > 0,
      };
    });

  /** Tries each row alone, and reports those that fail. */
  const tryEachRow = async (now: Date, cause: unknown): Promise<SweepReport> => {
    const total = { decided: 0, held: 0, would_have: 0, lateness_seconds: [] as number[] };
    const tried = [...skippedSinceMs.keys()];
    let badRows = 0;
    for (let remaining = batch; remaining > 0; remaining--) {
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
        badRows++;
        skippedSinceMs.set(node_id, clock.monotonicMs());
        await reportUnwritable(node_id, error, now);
      }
      tried.push(node_id);
    }
    // Each row can be written alone, so the error is about the batch.
    if (badRows === 0) throw cause;
    return total;
  };

  const reportUnwritable = (node_id: string, error: unknown, now: Date) =>
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
    get every_seconds() {
      return rule.every_seconds;
    },
    ...(rule.isWokenBy && { isWokenBy: rule.isWokenBy }),
    ...(rule.dueTimeFrom && { dueTimeFrom: rule.dueTimeFrom }),
    async run(now) {
      if (negative && !ingest.isSteady()) return { decided: 0, waiting: true, next_in_seconds: unsteadyRetrySeconds };
      for (const [id, sinceMs] of skippedSinceMs)
        if (clock.monotonicMs() - sinceMs > skipBadRowMs) skippedSinceMs.delete(id);
      await rule.prepare?.(now);
      let report: SweepReport;
      try {
        report = await pass(now, batch, [...skippedSinceMs.keys()]);
      } catch (error) {
        if (error instanceof StoreUnavailable) throw error;
        report = await tryEachRow(now, error);
      }
      if (report.more) return report;
      const next = await rule.findNextDue?.(now);
      return { ...report, ...(next && { next_in_seconds: secondsBetween(now, next) }) };
    },
  };
}
