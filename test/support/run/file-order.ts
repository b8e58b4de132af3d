/**
 * Decides the order in which test files start. All suites share the workers. Files that mostly wait
 * (for deadlines, for booting machines) are interleaved with files that mostly compute, so that the
 * CPUs stay busy. The slowest files start first, so that none of them runs alone at the end.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * The ends of the paths of the slowest files. A missing entry only makes the end of a run a little
 * longer.
 */
export const slowestFiles = [
  'chaos/killed-server-aks.test.ts',
  'operations/every-step.test.ts',
  'chaos/killed-server.test.ts',
  'browser/usable.test.ts',
  'packages/archives.test.ts',
  'scenarios/allocations/50-at-once.test.ts',
  'scenarios/machines/cloud-accounts.test.ts',
  'scenarios/boots/03-same-instant.test.ts',
  'outsiders/failover.test.ts',
  'chaos/two-replicas.test.ts',
  'scenarios/machines/containers.test.ts',
  'packages/npm-package.test.ts',
  'scenarios/outages/32-store-down.test.ts',
  'scenarios/releases/23-bulk-recovery-of-many.test.ts',
  'browser/recovery.test.ts',
  'scenarios/outages/31-restart-of-everything.test.ts',
  'scenarios/machines/19-reimage.test.ts',
  'properties/invariants.test.ts',
  'browser/fleet-at-scale.test.ts',
  'api/stream/stream.test.ts',
  'local/local-driver.crash.test.ts',
  'scenarios/machines/22-drift.test.ts',
  'browser/first-machine.test.ts',
  'api/actions/offered-actions.test.ts',
  'scenarios/readiness/agentless.test.ts',
  'browser/supervision.test.ts',
  'scenarios/releases/reuse.test.ts',
  'browser/reconnect.test.ts',
  'browser/screenshots.test.ts',
  'api/input/generated-bad-input.test.ts',
  'scenarios/outages/35-observe-mode.test.ts',
  'scenarios/releases/release-that-fails.test.ts',
  'scenarios/boots/prerequisites.test.ts',
  'browser/progress.test.ts',
  'scenarios/boots/attempts.test.ts',
  'scenarios/releases/hard-endings.test.ts',
  'scenarios/outages/maintenance.test.ts',
  'engine/dbos-engine.test.ts',
  'agent/agent.tasks.test.ts',
  'embedded/embedded-root.test.ts',
  'scenarios/progress/aks-going-wrong.test.ts',
  'scenarios/outages/33-zone-outage.test.ts',
];

const rank = ({ moduleId }: TestSpecification): number => {
  const place = slowestFiles.findIndex((end) => moduleId.endsWith(end));
  return place === -1 ? slowestFiles.length : place;
};

/** Merges two lists evenly and keeps the order of each. */
export function interleave<T>(some: readonly T[], others: readonly T[]): T[] {
  const items = [some, others].flatMap((list) => list.map((item, i) => ({ item, at: i / list.length })));
  return items.sort((a, b) => a.at - b.at).map(({ item }) => item);
}

export class FileOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
    const waits = ({ moduleId }: TestSpecification) => /\/test\/(scenarios|chaos|browser)\//.test(moduleId);
    return interleave(
      sorted.filter(waits),
      sorted.filter((file) => !waits(file)),
    );
  }
}
