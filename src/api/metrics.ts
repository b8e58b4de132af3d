/** Prometheus metrics with bounded labels. Counts come from the store when they are asked for, so that idling costs nothing. */
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { countAllocations } from '../store/allocations.ts';
import type { Queryable } from '../store/database.ts';
import { countNodes } from '../store/nodes.ts';
import { countOperations } from '../store/operations.ts';

export interface SweepFigures {
  name: string;
  runs: number;
  decided: number;
  last_seconds: number | null;
}

export function createMetrics(db: Queryable, sweeps: () => SweepFigures[]): () => Promise<string> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const gauge = (name: string, help: string, labelNames: string[]) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const nodes = gauge('slipway_nodes', 'Nodes by status', ['status']);
  const allocations = gauge('slipway_allocations', 'Allocations by status', ['status']);
  const operations = gauge('slipway_operations', 'Operations by status', ['status']);
  const sweepRuns = gauge('slipway_sweep_runs_total', 'Runs of a sweep on this replica', ['sweep']);
  const sweepDecided = gauge('slipway_sweep_decided_total', 'Decisions of a sweep on this replica', ['sweep']);
  const sweepSeconds = gauge('slipway_sweep_last_seconds', 'How long the last run of a sweep took', ['sweep']);

  const fill = (target: Gauge, counts: Record<string, number>) => {
    target.reset();
    for (const [status, count] of Object.entries(counts)) target.set({ status }, count);
  };

  return async () => {
    const [byNode, byAllocation, byOperation] = await Promise.all([
      countNodes(db),
      countAllocations(db),
      countOperations(db),
    ]);
    fill(nodes, byNode);
    fill(allocations, byAllocation);
    fill(operations, byOperation);
    for (const sweep of sweeps()) {
      sweepRuns.set({ sweep: sweep.name }, sweep.runs);
      sweepDecided.set({ sweep: sweep.name }, sweep.decided);
      sweepSeconds.set({ sweep: sweep.name }, sweep.last_seconds ?? 0);
    }
    return registry.metrics();
  };
}
