/**
 * Records what the limits dropped or refused. Each window gets one fact per machine, join token,
 * tenant and relay, and one for all source addresses together, since a caller can have many
 * addresses.
 */
import { type Clock, now } from '../../../base/clock.ts';
import type { NodeInstanceId } from '../../../base/ids.ts';
import { droppedKind } from '../../../lifecycle/limits/limits.ts';
import { type Fact, recordEvidence } from '../../../store/evidence/evidence.ts';
import type { Database } from '../../../store/pg/database.ts';
import { fillAllocationIds } from '../../../store/transitions/amend-node.ts';
import type { Writer } from './writers.ts';

/** Facts not recorded; requests answered 429; status reports deferred until the quota allows. */
export type Loss = 'facts_dropped' | 'requests_refused' | 'reports_coalesced';
export type Losses = Record<Loss, number>;

export interface DropReports {
  count(writer: Writer, loss: Loss, times?: number): void;
  totals(): ReadonlyMap<Writer['kind'], Losses>;
  stop(): Promise<void>;
}

/** Writers with a fact of their own per window. Further writers share a fact. */
const maxNamed = 1_000;
const maxSources = 10;

const noLosses = (): Losses => ({ facts_dropped: 0, requests_refused: 0, reports_coalesced: 0 });
const lossLabels: readonly [Loss, string][] = [
  ['facts_dropped', 'facts dropped'],
  ['requests_refused', 'requests refused'],
  ['reports_coalesced', 'status reports coalesced'],
];
const describeLosses = (losses: Losses) =>
  lossLabels
    .filter(([loss]) => losses[loss] > 0)
    .map(([loss, label]) => `${losses[loss]} ${label}`)
    .join(', ');

export function createDropReports(options: {
  db: Database;
  clock: Clock;
  window_seconds: number;
  onError: (error: unknown) => void;
}): DropReports {
  const { db, clock, window_seconds, onError } = options;
  const totals = new Map<Writer['kind'], Losses>();
  /** Writers with a fact of their own. All addresses and further writers are in `shared`. */
  let named = new Map<string, { writer: Writer; losses: Losses }>();
  let shared = { losses: noLosses(), sources: new Map<string, number>() };
  let cancel: (() => void) | undefined;
  let writing: Promise<void> = Promise.resolve();

  const factOf = (losses: Losses, details: Partial<Fact>): Fact => ({
    at: now(clock),
    layer: 'store',
    kind: droppedKind,
    summary: `over its write limit in the last ${window_seconds} s: ${describeLosses(losses)}`,
    ...details,
  });
  const sharedFact = (): Fact[] => {
    const { losses, sources } = shared;
    if (describeLosses(losses) === '') return [];
    const busiest = [...sources].toSorted(([, a], [, b]) => b - a).slice(0, maxSources);
    return [
      factOf(losses, {
        summary: `callers over their write limit in the last ${window_seconds} s: ${describeLosses(losses)}`,
        data: {
          ...losses,
          window_seconds,
          of: 'address',
          sources: busiest.map(([source, times]) => ({ source, times })),
        },
      }),
    ];
  };
  const write = async (facts: Fact[]) => {
    await db.transaction(async (tx) => {
      await fillAllocationIds(tx, facts);
      await recordEvidence(tx, facts);
    });
  };
  const flush = () => {
    cancel?.();
    cancel = undefined;
    const facts = [...named.values()].map(({ writer, losses }) =>
      factOf(losses, {
        data: { ...losses, window_seconds, of: writer.kind, writer: writer.id },
        actor: writer.actor ?? null,
        node_id: writer.node_id ?? null,
        node_instance_id: (writer.node_instance_id ?? null) as NodeInstanceId | null,
      }),
    );
    facts.push(...sharedFact());
    named = new Map();
    shared = { losses: noLosses(), sources: new Map() };
    if (facts.length > 0) writing = writing.then(() => write(facts)).catch(onError);
  };

  function lossesOf(writer: Writer): Losses {
    const key = `${writer.kind} ${writer.id}`;
    const entry = named.get(key);
    if (entry) return entry.losses;
    if (writer.kind !== 'address' && named.size < maxNamed) {
      const losses = noLosses();
      named.set(key, { writer, losses });
      return losses;
    }
    if (shared.sources.has(writer.id) || shared.sources.size < maxNamed)
      shared.sources.set(writer.id, (shared.sources.get(writer.id) ?? 0) + 1);
    return shared.losses;
  }

  return {
    count(writer, loss, times = 1) {
      lossesOf(writer)[loss] += times;
      const total = totals.get(writer.kind) ?? noLosses();
      total[loss] += times;
      totals.set(writer.kind, total);
      cancel ??= clock.after(1000 * window_seconds, flush);
    },
    totals: () => totals,
    async stop() {
      flush();
      await writing;
    },
  };
}
