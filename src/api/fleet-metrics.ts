/**
 * The metrics that are read from the database for each scrape, so they cost nothing in between.
 * They are left out while the database is away, since old values would hide the outage.
 */
import type { Gauge } from 'prom-client';
import { type Clock, now, pause, secondsBetween } from '../base/clock.ts';
import { findingKinds } from '../lifecycle/findings/findings.ts';
import { type Queryable, StoreUnavailable } from '../store/pg/database.ts';
import { readBytesByUse } from '../store/retention/disk-use.ts';
import { countByStatus, countHeld } from '../store/rows/counts.ts';
import { type FencedAge, readFencedAges } from '../store/rows/fenced-ages.ts';
import { countOpenFindings } from '../store/rows/findings.ts';
import { listPools } from '../store/rows/pools.ts';
import { countOpenResidue } from '../store/rows/residue.ts';
import { readOpenHolds } from '../store/supervision/brake.ts';

/** Below the 10 s after which Prometheus gives up by default. */
const readTimeoutMs = 5_000;
const fencedLabels = ['pool', 'status'];

export function createFleetMetrics(
  db: Queryable,
  clock: Clock,
  newGauge: (name: string, help: string, labelNames: string[]) => Gauge,
): { read(): Promise<'read' | 'slow' | 'unavailable'>; clear(): void } {
  const gauges: Gauge[] = [];
  const gauge = (...parameters: Parameters<typeof newGauge>) => {
    const created = newGauge(...parameters);
    gauges.push(created);
    return created;
  };
  const nodes = gauge('slipway_nodes', 'Nodes by status', ['status']);
  const allocations = gauge('slipway_allocations', 'Allocations by status', ['status']);
  const operations = gauge('slipway_operations', 'Operations by status', ['status']);
  const held = gauge('slipway_nodes_held', 'Nodes whose verdict is held back', ['rule', 'kind']);
  const holds = gauge('slipway_brake_holds', 'Open brake holds that nobody resumed', ['rule']);
  const fencedNodes = gauge('slipway_fenced_nodes', 'Fenced nodes, by pool and status', fencedLabels);
  const fencedOldest = gauge(
    'slipway_fenced_oldest_seconds',
    'Time since the oldest fenced node got its status',
    fencedLabels,
  );
  const parked = gauge('slipway_parked_allocations', 'Allocations with a failed release, by pool', fencedLabels);
  const parkedOldest = gauge('slipway_parked_oldest_seconds', 'Age of the oldest failed release', fencedLabels);
  const findings = gauge('slipway_findings', 'Open findings by kind', ['kind']);
  const residue = gauge('slipway_residue_open', 'Open residue: resources at a provider without a live owner', [
    'driver',
  ]);
  const residueAge = gauge('slipway_residue_oldest_seconds', 'Age of the oldest open residue', ['driver']);
  const storeBytes = gauge('slipway_store_bytes', 'Bytes of the tables and indexes of each class of retention', ['of']);
  const poolNodes = gauge('slipway_pool_nodes', 'Nodes of a pool that are not retired, and those that are free', [
    'pool',
    'state',
  ]);
  const poolMax = gauge('slipway_pool_max_nodes', 'The largest number of nodes that the pool allows', ['pool']);
  const clear = () => {
    for (const each of gauges) each.reset();
  };

  const fillByStatus = (target: Gauge, counts: Record<string, number>) => {
    for (const [status, count] of Object.entries(counts)) target.set({ status }, count);
  };

  const fillAges = (fenced: FencedAge[]) => {
    const at = now(clock);
    for (const { of, pool, status, count, oldest_since } of fenced) {
      (of === 'node' ? fencedNodes : parked).set({ pool, status }, count);
      const seconds = Math.max(0, secondsBetween(oldest_since, at));
      (of === 'node' ? fencedOldest : parkedOldest).set({ pool, status }, seconds);
    }
  };

  const readAndFill = async () => {
    const [statusCounts, heldNodes, openBrakeHolds, ages, findingCounts, residueCounts, pools, uses] =
      await Promise.all([
        countByStatus(db),
        countHeld(db),
        readOpenHolds(db),
        readFencedAges(db),
        countOpenFindings(db),
        countOpenResidue(db),
        listPools(db),
        readBytesByUse(db),
      ]);
    clear();
    for (const { name, nodes: counted, max_nodes } of pools) {
      poolNodes.set({ pool: name, state: 'live' }, counted.live);
      poolNodes.set({ pool: name, state: 'free' }, counted.free);
      if (max_nodes !== undefined) poolMax.set({ pool: name }, max_nodes);
    }
    for (const [of, bytes] of uses) storeBytes.set({ of }, bytes);
    fillByStatus(nodes, statusCounts.nodes);
    fillByStatus(allocations, statusCounts.allocations);
    fillByStatus(operations, statusCounts.operations);
    fillAges(ages);
    for (const kind of findingKinds)
      findings.set({ kind }, findingCounts.find((each) => each.kind === kind)?.count ?? 0);
    for (const { rule, kind, count } of heldNodes) held.set({ rule, kind }, count);
    for (const { rule, resumed_at } of openBrakeHolds) holds.inc({ rule }, resumed_at ? 0 : 1);
    for (const each of residueCounts) {
      residue.set({ driver: each.driver }, each.open);
      residueAge.set({ driver: each.driver }, Math.max(0, secondsBetween(each.oldest_since, now(clock))));
    }
  };

  let reading: Promise<void> | undefined;
  return {
    clear,
    /** Later scrapes share a read that hangs instead of taking more connections. */
    async read() {
      reading ??= readAndFill().finally(() => {
        reading = undefined;
      });
      const stopWaiting = new AbortController();
      const late = pause(clock, readTimeoutMs, stopWaiting.signal).then(() => 'slow' as const);
      try {
        const outcome = await Promise.race([reading.then(() => 'read' as const), late]);
        if (outcome === 'slow') clear();
        return outcome;
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
        clear();
        return 'unavailable';
      } finally {
        stopWaiting.abort();
      }
    },
  };
}
